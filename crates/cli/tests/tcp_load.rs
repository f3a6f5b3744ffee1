//! `load tcp` against sockets of the test, with the generator as a process on loopback.

use crate::common::{refused, run};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Handles each connection, with its number, in its own thread.
fn server(attend: impl Fn(u64, TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let attend = Arc::new(attend);
    thread::spawn(move || {
        for (number, connection) in listener.incoming().map_while(Result::ok).enumerate() {
            let attend = Arc::clone(&attend);
            thread::spawn(move || attend(number as u64, connection));
        }
    });
    address
}

fn load(address: SocketAddr, arguments: &[&str]) -> Value {
    let output = run(&[&["load", "tcp", &address.to_string(), "--json"], arguments].concat());
    let error = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|wrong| panic!("{wrong}: {error}"))
}

fn read_all(mut connection: TcpStream, count: &AtomicU64) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = connection.read(&mut buffer) {
        count.fetch_add(length as u64, Ordering::SeqCst);
    }
}

#[test]
fn a_sink_receives_what_was_written_on_every_connection() {
    let received = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&received);
    let address = server(move |_, connection| read_all(connection, &count));
    let loaded = load(
        address,
        &["--connections", "8", "--duration", "300ms", "--workers", "1"],
    );
    let total = &loaded["total"];
    assert_eq!(
        (&total["opened"], &total["open_at_end"], &total["stalls"]),
        (&8.into(), &8.into(), &0.into())
    );
    let sent = total["sent_bytes"].as_u64().unwrap();
    assert!(sent > 0 && loaded["sent_gbit_per_second"].as_f64().unwrap() > 0.0);
    // Data that the kernel accepted may still be in transit when the process ends; the sink reads it all the same.
    assert!(received.load(Ordering::SeqCst) <= sent + (8 << 20));
    assert_eq!(loaded["rates"]["connections"], 8);
}

#[test]
fn everything_has_arrived_when_it_was_waited_for() {
    let received = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&received);
    let address = server(move |_, connection| read_all(connection, &count));
    let flags = [
        "--connections",
        "8",
        "--duration",
        "200ms",
        "--size",
        "1000",
        "--drain",
        "60s",
    ];
    let loaded = load(address, &flags);
    let total = &loaded["total"];
    assert_eq!(
        (&total["open_at_end"], &total["undrained"]),
        (&8.into(), &0.into()),
        "{total}"
    );
    let sent = total["sent_bytes"].as_u64().unwrap();
    assert!(sent > 0 && received.load(Ordering::SeqCst) == sent, "{total}");
}

#[test]
fn a_server_that_ends_no_connection_is_waited_for_no_longer_than_asked() {
    let address = server(|_, mut connection| {
        read_all(connection.try_clone().unwrap(), &AtomicU64::new(0));
        // Returns when the generator has closed the connection.
        while connection.write_all(b".").is_ok() {
            thread::yield_now();
        }
    });
    let loaded = load(
        address,
        &["--connections", "2", "--duration", "100ms", "--drain", "100ms"],
    );
    assert_eq!(loaded["total"]["undrained"], 2, "{}", loaded["total"]);
}

#[test]
fn a_source_is_read() {
    let address = server(|_, mut connection| {
        let block = vec![7; 1 << 16];
        while connection.write_all(&block).is_ok() {}
    });
    let loaded = load(
        address,
        &["--direction", "read", "--connections", "4", "--duration", "200ms"],
    );
    assert!(loaded["total"]["received_bytes"].as_u64().unwrap() > 1 << 16);
    assert_eq!(loaded["total"]["sent_bytes"], 0);
}

#[test]
fn a_rate_holds_for_every_connection() {
    let received = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&received);
    let address = server(move |_, connection| read_all(connection, &count));
    let loaded = load(
        address,
        &["--connections", "5", "--rate", "100kB", "--duration", "500ms"],
    );
    let sent = loaded["total"]["sent_bytes"].as_f64().unwrap();
    let allowed = 5.0 * 100_000.0 * loaded["running_s"].as_f64().unwrap();
    assert!(sent > 0.0 && sent <= allowed, "{sent} of {allowed}");
    assert_eq!(
        loaded["total"]["stalls"], 0,
        "a writer that waits for its rate does not count as stalled"
    );
}

#[test]
fn a_reader_that_stops_is_named_and_the_others_are_not() {
    let address = server(|number, connection| match number {
        0 => loop {
            thread::park();
            let _ = connection.peek(&mut [0]);
        },
        _ => read_all(connection, &AtomicU64::new(0)),
    });
    let loaded = load(
        address,
        &["--connections", "3", "--duration", "5s", "--stall", "1s"],
    );
    assert_eq!(
        (&loaded["total"]["stalls"], &loaded["total"]["stalled_at_end"]),
        (&1.into(), &1.into())
    );
    let stall = &loaded["stalled"][0];
    assert!(
        stall["local"].as_str().unwrap().starts_with("127.0.0.1:"),
        "{stall}"
    );
    assert_eq!(
        (&stall["peer"], &stall["ended"]),
        (&address.to_string().into(), &false.into())
    );
    assert!(stall["for_s"].as_f64().unwrap() >= 1.0);
}

#[test]
fn connections_that_the_server_resets_are_counted_as_such() {
    let address = server(|number, connection| {
        if number < 2 {
            socket2::SockRef::from(&connection)
                .set_linger(Some(std::time::Duration::ZERO))
                .unwrap();
        } else {
            read_all(connection, &AtomicU64::new(0));
        }
    });
    let loaded = load(address, &["--connections", "6", "--duration", "3s"]);
    let total = &loaded["total"];
    // A reset that arrives before the client polls its connection counts as a connection that was never opened.
    let resets = |field: &str| total[field]["reset"].as_u64().unwrap();
    assert_eq!(resets("broken") + resets("not_opened"), 2, "{total}");
    assert_eq!(total["open_at_end"], 4, "{total}");
}

#[test]
fn a_server_that_is_not_there_fails_the_run_by_name() {
    let output = run("load tcp 127.77.1.1:9 --json --connections 3");
    let loaded: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (output.status.code(), &loaded["total"]["not_opened"]["refused"]),
        (Some(1), &3.into())
    );
    let why = "no connection could be opened: refused by 127.77.1.1:9";
    assert_eq!(
        (&loaded["failed_because"], &loaded["limited_by"]),
        (&why.into(), &Value::Null)
    );
    let text = String::from_utf8(run("load tcp 127.77.1.1:9 --connections 3").stdout).unwrap();
    assert!(text.contains(why) && !text.contains("limited by"), "{text}");
}

#[test]
fn a_run_without_any_progress_fails() {
    let closing = server(|_, connection| drop(connection));
    let silent =
        server(|_, mut connection| while connection.read(&mut [0]).is_ok_and(|length| length > 0) {});
    for (address, flags, why) in [
        (closing, "--duration 300ms", "ended every connection"),
        (
            silent,
            "--direction read --duration 500ms --stall 50ms",
            "stood still at the end",
        ),
    ] {
        let output = run(&format!("load tcp {address} --connections 4 --json {flags}"));
        let loaded: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1), "{flags}: {}", loaded["total"]);
        let failed = loaded["failed_because"].as_str().unwrap();
        assert!(failed.contains(why), "{failed}");
    }
}

#[test]
fn a_server_that_ends_every_connection_after_it_read_much_fails_no_run() {
    let address = server(|_, connection| {
        let mut some = connection.take(64 << 20);
        std::io::copy(&mut some, &mut std::io::sink()).unwrap();
    });
    let output = run(&format!(
        "load tcp {address} --connections 1 --json --duration 2s"
    ));
    let loaded: Value = serde_json::from_slice(&output.stdout).unwrap();
    let total = &loaded["total"];
    assert_eq!(
        (output.status.code(), &loaded["failed_because"]),
        (Some(0), &Value::Null),
        "{total}"
    );
    let broken = total["broken"]
        .as_object()
        .unwrap()
        .values()
        .filter_map(Value::as_u64);
    assert_eq!(
        (broken.sum::<u64>(), &total["open_at_end"]),
        (1, &0.into()),
        "{total}"
    );
}

#[test]
fn the_preset_is_the_posts_run_and_lasts_longer() {
    let output = run("load tcp 127.0.0.1:9000 --preset smash --dry-run");
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let plan = &printed["plan"];
    let leases = plan["workers"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|worker| worker["leases"].as_array().unwrap());
    let connections: u64 = leases.map(|lease| lease["connections"].as_u64().unwrap()).sum();
    assert_eq!(connections, 4 * 12_288);
    let files = &printed["needs"][1];
    assert_eq!(files["needed"], 4 * 12_288 + 1_024, "{files}");
    assert!(plan["duration_s"].as_f64().unwrap() > 90.0);
    let error = refused("load tcp 127.0.0.1:9000 --direction sideways", 2);
    assert!(error.contains("write, read or both"), "{error}");
}
