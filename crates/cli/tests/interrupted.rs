//! SIGINT ends a run early; the run still reports what it measured.

use crate::common;
use std::net::UdpSocket;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn an_interrupted_lab_reports_the_trials_that_it_had() {
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("report.json");
    let mut lab = common::corelane("lab scale udp --max-steal 100% --duration 100ms --rounds 100 --json")
        .arg(&saved)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while !saved.exists() {
        assert!(Instant::now() < deadline, "no trial was saved");
        thread::yield_now();
    }
    common::signal(lab.id(), "INT");
    assert!(lab.wait().unwrap().success());
    let report: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&saved).unwrap()).unwrap();
    assert_eq!(report["interrupted"], true);
    let trials = report["trials"].as_array().unwrap().len();
    assert!((1..800).contains(&trials), "{trials}");
}

#[test]
fn an_interrupted_generator_reports_what_it_sent() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let load = common::corelane(&format!(
        "load udp {} --rate 1k --duration 60s",
        server.local_addr().unwrap()
    ))
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    let mut datagram = [0; 2048];
    let (length, client) = server.recv_from(&mut datagram).unwrap();
    server.send_to(&datagram[..length], client).unwrap();
    // The response was sent before the signal, and the run waits for responses under way.
    common::signal(load.id(), "INT");
    let output = load.wait_with_output().unwrap();
    assert!(output.status.success());
    assert!(output.stderr.is_empty(), "progress is for terminals");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("round trip") && text.contains("returned"), "{text}");
}
