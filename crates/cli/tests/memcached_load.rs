//! `load memcached` against `serve memcached`, and a server that lies, as processes on loopback.

use crate::common::{refused, run, run_json};
use crate::scrape::Exposing;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::id;
use std::thread;

const ALL: &str =
    "get=40,gets=5,gat=5,set=15,add=5,replace=5,append=5,prepend=5,cas=5,delete=5,incr=5,decr=5,touch=5";

fn is_right(loaded: &Value, what: &str) {
    let requests = &loaded["requests"];
    assert_eq!(requests["failed"], 0, "{what}: {requests}");
    let wrong = requests["wrong"].as_object().unwrap();
    assert!(wrong.values().all(|count| *count == 0), "{what}: {requests}");
    assert!(requests["ok"].as_u64().unwrap() > 0, "{what}: {requests}");
}

#[test]
fn every_operation_of_both_protocols_is_answered_rightly() {
    let mut server = Exposing::start("serve memcached -l 127.0.0.1:0 -t 1");
    let address = server.listening();
    let load = |flags: &str| {
        run_json(&format!(
            "load memcached {address} --json --keys 500 --workers 1 {flags}"
        ))
    };
    let filled = load("--prefill --mix get=1 --count 1000 --connections 4");
    is_right(&filled, "prefilled");
    assert_eq!(
        (&filled["requests"]["hits"], &filled["requests"]["misses"]),
        (&1_000.into(), &0.into())
    );
    for flags in [
        "",
        "--meta",
        "--ttl 1s --popularity zipf:1.2",
        "--meta --value-size 0-30 --rate 100k",
    ] {
        let flags = format!("--mix {ALL} --pipeline 8 --multi-get 5 --connections 8 --count 20k {flags}");
        let loaded = load(&flags);
        is_right(&loaded, &flags);
        let operations = loaded["requests"]["operations"].as_object().unwrap();
        assert_eq!(operations.len(), 13, "{flags}");
        let count = |times: &Value| times["latency"]["count"].as_u64().unwrap();
        let sum: u64 = operations.values().map(count).sum();
        assert_eq!(Some(sum), loaded["requests"]["ok"].as_u64(), "{flags}");
    }
}

#[test]
fn over_udp_every_answer_is_checked_and_what_needs_connections_is_refused() {
    // An address of this process alone.
    let [_, a, b, c] = id().to_be_bytes();
    let address = Ipv4Addr::new(127, 64 | a, b, c);
    let mut server = Exposing::start(&format!("serve memcached -l {address} -p 11212 -U 11212 -t 1"));
    server.listening();
    let udp = SocketAddr::from((address, 11_212));
    let load = |flags: &str| {
        run_json(&format!(
            "load memcached {udp} --udp --json --keys 500 --workers 1 --connections 4 {flags}"
        ))
    };
    let values = |loaded: &Value, what: &str| {
        let total = &loaded["total"];
        let wrong = total["requests"]["wrong"].as_object().unwrap();
        assert!(wrong.values().all(|count| *count == 0), "{what}: {total}");
        let hits = total["requests"]["hits"].as_u64().unwrap();
        assert!(hits > 0 && total["errors"].is_null(), "{what}: {total}");
        (total["returned"].as_u64().unwrap(), hits)
    };
    let filled = load("--prefill --mix get=1 --count 1000");
    assert_eq!(values(&filled, "prefilled"), (1_000, 1_000));
    for flags in ["", "--meta --gso --gro", "--value-size 0-5000 --rate 50k"] {
        let window = if flags.contains("rate") { "" } else { "--window 4" };
        let flags = format!("--mix {ALL} --multi-get 5 --count 5k {window} {flags}");
        let loaded = load(&flags);
        let (returned, _) = values(&loaded, &flags);
        let operations = loaded["total"]["requests"]["operations"].as_object().unwrap();
        let count = |times: &Value| times["latency"]["count"].as_u64().unwrap();
        assert_eq!(operations.values().map(count).sum::<u64>(), returned, "{flags}");
    }
    for (flags, why) in [
        ("--udp --pipeline 2", "cannot be used with '--pipeline"),
        ("--udp --value-size 66k", "does not fit a datagram"),
        ("--window 2", "--udp"),
    ] {
        let error = refused(&format!("load memcached {udp} {flags}"), 2);
        assert!(error.contains(why), "{flags}: {error}");
    }
    let error = refused("load memcached unix:/nowhere --udp", 2);
    assert!(error.contains("no datagrams"), "{error}");
}

/// A server that answers each `get` of one key with the value of its choice.
fn liar(answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut connection in listener.incoming().map_while(Result::ok) {
            let lines = BufReader::new(connection.try_clone().unwrap()).lines();
            for line in lines.map_while(Result::ok) {
                let key = line.strip_prefix("get ").unwrap();
                if connection.write_all(&answer(key)).is_err() {
                    break;
                }
            }
        }
    });
    address
}

#[test]
fn a_wrong_value_fails_its_request_and_the_gate() {
    let address = liar(|key| format!("VALUE {key} 0 100\r\n{:100}\r\nEND\r\n", "nonsense").into_bytes());
    let flags = "--json --keys 10 --mix get=1 --connections 1 --count 5 --fail-if wrong>0";
    let output = run(&format!("load memcached {address} {flags}"));
    let loaded: Value = serde_json::from_slice(&output.stdout).unwrap();
    let requests = &loaded["requests"];
    let counts = [
        &requests["wrong"]["wrong_value"],
        &requests["wrong_body"],
        &requests["ok"],
    ];
    assert_eq!(counts, [5, 5, 0], "{requests}");
    assert_eq!(output.status.code(), Some(3));
    let address = liar(|_| b"SERVER_ERROR out of memory\r\n".to_vec());
    let loaded = run(&format!(
        "load memcached {address} --json --keys 10 --mix get=1 --connections 1 --count 5"
    ));
    let loaded: Value = serde_json::from_slice(&loaded.stdout).unwrap();
    let requests = &loaded["requests"];
    assert_eq!(
        (&requests["server_errors"], &requests["wrong_status"]),
        (&5.into(), &5.into())
    );
}

#[test]
fn what_cannot_be_asked_for_is_refused() {
    for (flags, why) in [
        ("--mix get=1,put=1", "'put': give get"),
        ("--popularity zipf:0", "zipf:1.1"),
        ("--value-size 1GiB", "up to 64 MiB"),
        ("--ttl 721h", "30 days"),
        ("--multi-get 129", "1 to 128"),
        ("--rate 1k --think 1s", "cannot be used with"),
    ] {
        let error = refused(&format!("load memcached 127.0.0.1:1 {flags}"), 2);
        assert!(error.contains(why), "{flags}: {error}");
    }
}
