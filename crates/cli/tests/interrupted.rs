//! SIGINT, SIGTERM and SIGHUP end a run early; the run still reports what it measured.

use crate::common;
use corelane_tests::until;
use std::net::UdpSocket;
use std::path::PathBuf;
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
    until("a trial is saved", || saved.exists());
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
        "load udp {} --rate 1k --duration 1h",
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

/// An option of `env`: who runs the tests may have given the signal no meaning, as nohup does, and children inherit that.
const UNLESS_NOHUP: &str = "--default-signal=HUP";

#[test]
fn an_interrupted_generator_says_so_in_its_document() {
    for (rest, interrupted) in [
        ("--duration 1h", Some("TERM")),
        ("--duration 1h", Some("HUP")),
        ("--count 1", None),
    ] {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let target = server.local_addr().unwrap();
        let load = std::process::Command::new("env")
            .args([UNLESS_NOHUP, env!("CARGO_BIN_EXE_corelane")])
            .args(format!("load udp {target} --rate 1k --no-answers --json {rest}").split_whitespace())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        server.recv_from(&mut [0; 2048]).unwrap();
        if let Some(name) = interrupted {
            common::signal(load.id(), name);
        }
        let output = load.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{interrupted:?}");
        let loaded: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(loaded["interrupted"], interrupted.is_some(), "{rest}");
    }
}

/// The signals that a process catches, by bits (proc(5)).
fn caught(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigCgt:"))
        .unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap()
}

#[test]
fn a_terminal_that_has_gone_ends_a_server_unless_nohup_or_its_tables_give_the_signal_another_meaning() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("table");
    std::fs::write(&table, "192.0.2.1\n").unwrap();
    let (program, table) = (env!("CARGO_BIN_EXE_corelane"), table.display());
    let bridge = format!("bridge --link ring:hup-a --link ring:hup-b --table {table} --json");
    for (started, ends) in [
        (
            format!("exec env {UNLESS_NOHUP} {program} serve udp 127.0.0.1:0 --json"),
            true,
        ),
        (
            format!("exec nohup {program} serve udp 127.0.0.1:0 --json"),
            false,
        ),
        (format!("exec {program} {bridge}"), false),
    ] {
        let server = std::process::Command::new("sh")
            .args(["-c", &started])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Bit 14 is SIGTERM; what is sent before SIGHUP is caught, too, waits.
        until("the server catches signals", || {
            caught(server.id()) & 1 << 14 != 0
        });
        common::signal(server.id(), "HUP");
        if !ends {
            common::signal(server.id(), "INT");
        }
        let output = server.wait_with_output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{started}: {error}");
        assert!(output.stdout.starts_with(b"{"), "{started}: {error}");
    }
}

/// The `stat` lines of a process's workers, which are all its threads but the first, without number and name.
fn workers(process: u32) -> Vec<Vec<String>> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let workers = tasks
        .map(|task| task.unwrap().path())
        .filter(|task| !task.ends_with(process.to_string()));
    let stat = |task: PathBuf| {
        let stat = std::fs::read_to_string(task.join("stat")).ok()?;
        let (_, after_name) = stat.rsplit_once(") ")?;
        Some(after_name.split(' ').map(str::to_owned).collect())
    };
    workers.filter_map(stat).collect()
}

/// CPU time of a process's workers in clock ticks.
fn worker_ticks(process: u32) -> u64 {
    let workers = workers(process).into_iter();
    let ticks = workers.flat_map(|stat| [stat[11].parse::<u64>().unwrap(), stat[12].parse().unwrap()]);
    ticks.sum()
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
        let (address, flags) = (&server.address, "--workers 1 --duration 1h --json");
        let started = Instant::now();
        let load = common::corelane(&format!("load {verb} {target}{address} {pace} {flags}"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        until("the worker runs", || worker_ticks(load.id()) >= 10);
        common::signal(load.id(), "STOP");
        until("the worker stands still", || {
            workers(load.id()).iter().all(|stat| stat[0] == "T")
        });
        // What counts is how long it stood still, and that it is some share of the run.
        thread::sleep(Duration::from_millis(400).max(started.elapsed() / 10));
        common::signal(load.id(), "CONT");
        let before = worker_ticks(load.id());
        until("the worker runs again", || worker_ticks(load.id()) > before);
        common::signal(load.id(), "INT");
        let output = load.wait_with_output().unwrap();
        let loaded: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let limited = loaded["limited_by"].as_str().unwrap_or_default();
        assert!(limited.contains("stood still"), "{verb} {pace}: {limited}");
        if verb != "udp" {
            assert_eq!(loaded["behind_schedule"], loaded["limited_by"], "{verb}");
        }
    }
}
