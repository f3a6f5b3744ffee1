//! `load tcp --tls` against `serve tcp --tls`, as processes on loopback: equal counts on both sides, and who is refused.

use crate::common::{engines, parsed, refused, run};
use crate::scrape::Exposing;
use crate::stream_server::{Server, sum};
use corelane_tests::until;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;

/// Runs `load tcp ADDRESS …` with `--json`; returns the document and the exit code, whatever it is.
fn load(server: &Server, arguments: &[&str]) -> (Value, Option<i32>) {
    let address = format!("127.0.0.1:{}", server.port);
    let common = [
        "load",
        "tcp",
        &address,
        "--json",
        "--workers",
        "1",
        "--duration",
        "1s",
        "--stall",
        "60s",
        "--connect-timeout",
        "60s",
    ];
    let output = run(&[&common[..], arguments].concat());
    (parsed(&output), output.status.code())
}

/// Errors of that cause over all buckets.
fn errors(served: &Value, cause: &str) -> u64 {
    let buckets = served["buckets"].as_array().unwrap();
    let errors = buckets.iter().map(|bucket| bucket["errors"][cause].as_u64());
    errors.map(Option::unwrap_or_default).sum()
}

#[test]
fn bytes_go_every_way_and_arrive_whole() {
    for (mode, direction) in [("echo", "both"), ("sink", "write"), ("source", "read")] {
        for engine in engines() {
            let engine = ["--engine", engine];
            let (server, _folder, certificate) =
                Server::start_tls("tcp", &[&["--mode", mode], &engine[..]].concat());
            let tls = ["--tls", "--ca", &certificate, "--direction", direction];
            let flags = ["--connections", "4", "--drain", "120s"];
            let (loaded, code) = load(&server, &[&tls[..], &flags, &engine].concat());
            assert_eq!(code, Some(0), "{mode}: {loaded}");
            let total = &loaded["total"];
            let count = |field: &str| total[field].as_u64().unwrap();
            assert_eq!((count("opened"), count("undrained")), (4, 0), "{mode}: {total}");
            assert!(
                total["broken"]
                    .as_object()
                    .unwrap()
                    .values()
                    .all(|count| *count == 0)
            );
            let (sent, received) = (count("sent_bytes"), count("received_bytes"));
            match mode {
                "echo" => assert!(sent > 0 && received == sent, "{total}"),
                "sink" => assert!(sent > 0 && received == 0, "{total}"),
                _ => assert!(sent == 0 && received > 0, "{total}"),
            }
            let tls = &loaded["tls"];
            let handshakes = |kind: &str| tls[kind].as_u64().unwrap();
            assert_eq!(tls["verified"], true);
            assert_eq!(
                handshakes("handshakes_full") + handshakes("handshakes_resumed"),
                4
            );
            assert_eq!(loaded["handshake"]["count"], 4);
            assert!(handshakes("bytes_sent") > sent && handshakes("bytes_received") > received);
            let served = server.stop();
            // The server counts bytes of records.
            assert_eq!(sum(&served, "bytes_received"), handshakes("bytes_sent"), "{mode}");
            assert_eq!(sum(&served, "bytes_sent"), handshakes("bytes_received"), "{mode}");
            assert_eq!(sum(&served, "accepted"), 4);
            assert_eq!((errors(&served, "tls"), sum(&served, "open")), (0, 0), "{served}");
        }
    }
}

#[test]
fn a_certificate_that_is_not_believed_is_refused_and_insecure_is_told() {
    let (server, _folder, own) = Server::start_tls("tcp", &[]);
    let (other_server, _other_folder, other) = Server::start_tls("tcp", &[]);
    drop(other_server);
    let few = ["--tls", "--connections", "3"];
    let (loaded, code) = load(&server, &[&few[..], &["--ca", &other]].concat());
    assert_eq!((code, &loaded["total"]["opened"]), (Some(1), &0.into()));
    assert_eq!(loaded["total"]["not_opened"]["certificate_refused"], 3);
    let errors_by_text = loaded["tls"]["errors"].as_object().unwrap();
    assert!(
        errors_by_text
            .keys()
            .all(|text| text.contains("invalid peer certificate"))
    );
    let failed = loaded["failed_because"].as_str().unwrap();
    assert!(
        failed.contains("certificate refused") && failed.contains("--ca"),
        "{failed}"
    );
    // The certificate is for this name, too.
    let by_name = format!("localhost:{}", server.port);
    let output = run(&[
        &["load", "tcp", &by_name, "--duration", "100ms", "--ca", &own],
        &few[..],
    ]
    .concat());
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let (loaded, code) = load(&server, &[&few[..], &["--insecure"]].concat());
    assert_eq!((code, &loaded["tls"]["verified"]), (Some(0), &false.into()));
    let address = format!("127.0.0.1:{}", server.port);
    let output = run(&[
        &["load", "tcp", &address, "--duration", "100ms", "--insecure"],
        &few[..],
    ]
    .concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("TLS: certificates were NOT verified"), "{text}");
    assert_eq!(errors(&server.stop(), "tls"), 3);
}

#[test]
fn who_does_not_speak_tls_is_refused_and_counted() {
    let (server, _folder, _) = Server::start_tls("tcp", &["--mode", "echo"]);
    let plain = format!(
        "load tcp 127.0.0.1:{} --connections 3 --direction both --duration 1h --connect-timeout 60s --json",
        server.port
    );
    let running = Exposing::start(&plain);
    until("the server has ended every connection", || {
        running.sum("corelane_load_failures_by_cause_total") >= 3.0
    });
    let loaded = running.report();
    let total = &loaded["total"];
    assert_eq!(
        (&total["opened"], &total["open_at_end"]),
        (&3.into(), &0.into()),
        "{total}"
    );
    // At most an alert each.
    assert!(total["received_bytes"].as_u64().unwrap() < 100, "{total}");
    let mut client = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut heard = Vec::new();
    client.read_to_end(&mut heard).unwrap();
    // An alert (RFC 8446 5.1), and none of the bytes.
    assert_eq!(heard.first(), Some(&21), "{heard:?}");
    assert_eq!(errors(&server.stop(), "tls"), 4);

    let server = Server::start("tcp", &["--mode", "echo"]);
    let (loaded, code) = load(&server, &["--tls", "--insecure", "--connections", "3"]);
    assert_eq!(
        (code, &loaded["total"]["not_opened"]["tls"]),
        (Some(1), &3.into())
    );
}

#[test]
fn a_source_that_is_no_longer_read_ends_a_record_before_it_closes() {
    let (server, _folder, certificate) = Server::start_tls("tcp", &["--mode", "source", "--size", "100"]);
    let flags = [
        "--tls",
        "--ca",
        &certificate,
        "--direction",
        "read",
        "--drain",
        "120s",
    ];
    let (loaded, code) = load(&server, &[&flags[..], &["--connections", "16"]].concat());
    assert_eq!(
        (code, &loaded["total"]["undrained"]),
        (Some(0), &0.into()),
        "{loaded}"
    );
    assert!(loaded["tls"]["errors"].as_object().unwrap().is_empty());
}

#[test]
fn flags_of_tls_need_tls() {
    for arguments in [
        "load tcp 127.0.0.1:9 --insecure",
        "load tcp 127.0.0.1:9 --ca file.pem",
        "load tcp 127.0.0.1:9 --resumption off",
        "serve tcp --certificate a.pem --private-key b.pem",
        "serve tcp --write-certificate a.pem",
    ] {
        assert!(refused(arguments, 2).contains("--tls"), "{arguments}");
    }
    let error = refused("load tcp 127.0.0.1:9 --tls --ca /nonexistent.pem", 2);
    assert!(
        error.contains("--ca") && error.contains("/nonexistent.pem"),
        "{error}"
    );
    let error = refused(
        "serve tcp 127.0.0.1:0 --tls --certificate /none.pem --private-key /none.pem",
        2,
    );
    assert!(error.contains("--certificate"), "{error}");
}

#[test]
fn many_connections_share_a_rate_over_tls() {
    let (server, _folder, certificate) = Server::start_tls("tcp", &["--mode", "echo", "--stall", "60s"]);
    let flags = [
        "--tls",
        "--ca",
        &certificate,
        "--direction",
        "both",
        "--drain",
        "120s",
    ];
    let rate = ["--connections", "64", "--rate", "100kB/s", "--size", "1000"];
    let loaded = thread::scope(|scope| {
        let runs = [(); 2].map(|()| scope.spawn(|| load(&server, &[&flags[..], &rate].concat())));
        runs.map(|run| run.join().unwrap())
    });
    for (loaded, code) in loaded {
        let total = &loaded["total"];
        assert_eq!((code, &total["stalls"]), (Some(0), &0.into()), "{total}");
        assert_eq!(total["sent_bytes"], total["received_bytes"], "{total}");
    }
    assert_eq!(sum(&server.stop(), "stalled"), 0);
}
