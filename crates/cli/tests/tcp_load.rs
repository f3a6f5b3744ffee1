//! `load tcp` against sockets of the test, with the generator as a process on loopback.

use crate::common::{closed_tcp_port, refused, run};
use crate::scrape::Exposing;
use corelane_tests::until;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

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

/// Starts a generator that runs until it is interrupted.
fn start(address: SocketAddr, flags: &str) -> Exposing {
    Exposing::start(&format!("load tcp {address} --json --duration 1h {flags}"))
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
    let running = start(address, "--connections 8 --workers 1 --stall 1h");
    until("bytes arrive", || received.load(Ordering::SeqCst) > 0);
    let loaded = running.report();
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
    let running = start(address, "--connections 8 --size 1000 --drain 10m");
    until("bytes arrive", || received.load(Ordering::SeqCst) > 0);
    let loaded = running.report();
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
            thread::sleep(Duration::from_millis(1));
        }
    });
    let running = start(address, "--connections 2 --drain 100ms");
    until("bytes are sent", || {
        running.sum("corelane_load_sent_bytes_total") > 0.0
    });
    let loaded = running.report();
    assert_eq!(loaded["total"]["undrained"], 2, "{}", loaded["total"]);
}

#[test]
fn a_source_is_read() {
    let address = server(|_, mut connection| {
        let block = vec![7; 1 << 16];
        while connection.write_all(&block).is_ok() {}
    });
    let running = start(address, "--direction read --connections 4");
    until("bytes are received", || {
        running.sum("corelane_load_received_bytes_total") > f64::from(1 << 16)
    });
    let loaded = running.report();
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
        &[
            "--connections",
            "5",
            "--rate",
            "100kB",
            "--duration",
            "1s",
            "--stall",
            "60s",
        ],
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
    let parked = Arc::new(Mutex::new(None));
    let of_server = Arc::clone(&parked);
    let address = server(move |number, connection| match number {
        0 => {
            *of_server.lock().unwrap() = Some(connection.peer_addr().unwrap());
            loop {
                thread::park();
                let _ = connection.peek(&mut [0]);
            }
        }
        _ => read_all(connection, &AtomicU64::new(0)),
    });
    let running = start(address, "--connections 3 --stall 3s");
    until("a connection is stalled", || {
        running.sum("corelane_load_stalled_connections") > 0.0
    });
    let loaded = running.report();
    assert_eq!(
        (&loaded["total"]["stalls"], &loaded["total"]["stalled_at_end"]),
        (&1.into(), &1.into())
    );
    let stall = &loaded["stalled"][0];
    let parked = parked.lock().unwrap().unwrap();
    assert_eq!(stall["local"], parked.to_string(), "{stall}");
    assert_eq!(
        (&stall["peer"], &stall["ended"]),
        (&address.to_string().into(), &false.into())
    );
    assert!(stall["for_s"].as_f64().unwrap() >= 3.0);
}

#[test]
fn connections_that_the_server_resets_are_counted_as_such() {
    let reading = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&reading);
    let address = server(move |number, mut connection| {
        if number < 2 {
            socket2::SockRef::from(&connection)
                .set_linger(Some(Duration::ZERO))
                .unwrap();
        } else if connection.read(&mut [0]).is_ok_and(|length| length > 0) {
            count.fetch_add(1, Ordering::SeqCst);
            read_all(connection, &AtomicU64::new(0));
        }
    });
    let running = start(address, "--connections 6");
    // When the others have written, all were opened.
    until("four connections write and the others are gone", || {
        reading.load(Ordering::SeqCst) == 4 && running.sum("corelane_load_open_connections") == 4.0
    });
    let loaded = running.report();
    let total = &loaded["total"];
    // A reset that arrives before the client polls its connection counts as a connection that was never opened.
    let resets = |field: &str| total[field]["reset"].as_u64().unwrap();
    assert_eq!(resets("broken") + resets("not_opened"), 2, "{total}");
    assert_eq!(total["open_at_end"], 4, "{total}");
}

#[test]
fn a_server_that_is_not_there_fails_the_run_by_name() {
    let (closed, _keeper) = closed_tcp_port();
    let output = run(&format!("load tcp {closed} --json --connections 3"));
    let loaded: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (output.status.code(), &loaded["total"]["not_opened"]["refused"]),
        (Some(1), &3.into())
    );
    let why = format!("no connection could be opened: refused by {closed}");
    assert_eq!(
        (&loaded["failed_because"], &loaded["limited_by"]),
        (&why.clone().into(), &Value::Null)
    );
    let output = run(&format!("load tcp {closed} --connections 3"));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(&why) && !text.contains("limited by"), "{text}");
}

#[test]
fn a_run_without_any_progress_fails() {
    let closing = server(|_, connection| drop(connection));
    let silent =
        server(|_, mut connection| while connection.read(&mut [0]).is_ok_and(|length| length > 0) {});
    for (address, flags, all, why) in [
        (
            closing,
            "",
            "corelane_load_failures_by_cause_total",
            "ended every connection",
        ),
        (
            silent,
            "--direction read --stall 50ms",
            "corelane_load_stalled_connections",
            "stood still at the end",
        ),
    ] {
        let running = start(address, &format!("--connections 4 {flags}"));
        until(why, || running.sum(all) == 4.0);
        let (loaded, code) = running.interrupt();
        assert_eq!(code, Some(1), "{flags}: {}", loaded["total"]);
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
    let running = start(address, "--connections 1");
    until("the connection has ended", || {
        running.sum("corelane_load_failures_by_cause_total") == 1.0
    });
    let (loaded, code) = running.interrupt();
    let total = &loaded["total"];
    assert_eq!(
        (code, &loaded["failed_because"]),
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
