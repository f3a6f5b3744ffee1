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
    assert!(
        text.contains("interrupted: the run was stopped before its end"),
        "{text}"
    );
}

#[test]
fn an_interrupted_generator_says_so_in_its_document() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap();
    for (rest, interrupted) in [("--duration 60s", true), ("--count 1", false)] {
        let load = common::corelane(&format!("load udp {target} --rate 1k --no-answers --json {rest}"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        server.recv_from(&mut [0; 2048]).unwrap();
        if interrupted {
            common::signal(load.id(), "TERM");
        }
        let output = load.wait_with_output().unwrap();
        let loaded: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(loaded["interrupted"], interrupted, "{rest}");
    }
}

/// CPU time of a process's workers in clock ticks: of all its threads but the first, which starts them.
fn worker_ticks(process: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let workers = tasks
        .map(|task| task.unwrap())
        .filter(|task| task.file_name().to_str() != Some(&process.to_string()));
    workers
        .filter_map(|worker| std::fs::read_to_string(worker.path().join("stat")).ok())
        .map(|stat| {
            let (_, after_name) = stat.rsplit_once(") ").unwrap();
            let fields = after_name.split(' ').skip(11).take(2);
            fields.map(|ticks| ticks.parse::<u64>().unwrap()).sum::<u64>()
        })
        .sum()
}

#[test]
fn a_generator_that_stood_still_is_named_as_the_limit() {
    for (verb, target, pace) in [
        ("udp", "", "--window 8"),
        ("udp", "", "--sockets 2"),
        ("tcp", "", "--connections 2"),
        ("http", "http://", "--connections 8"),
    ] {
        let server = common::corelane(&format!("serve {verb} 127.0.0.1:0 --buckets 1"));
        let server = common::Server::of({ server }.stdout(Stdio::piped()).spawn().unwrap());
        let (address, flags) = (&server.address, "--workers 1 --duration 2s --json");
        let load = common::corelane(&format!("load {verb} {target}{address} {pace} {flags}"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        while worker_ticks(load.id()) < 10 {
            thread::yield_now();
        }
        common::signal(load.id(), "STOP");
        let stopped = Instant::now();
        while stopped.elapsed() < Duration::from_millis(400) {
            thread::yield_now();
        }
        common::signal(load.id(), "CONT");
        let output = load.wait_with_output().unwrap();
        let loaded: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let limited = loaded["limited_by"].as_str().unwrap_or_default();
        assert!(limited.contains("stood still"), "{verb} {pace}: {limited}");
        if verb != "udp" {
            assert_eq!(loaded["behind_schedule"], loaded["limited_by"], "{verb}");
        }
    }
}
