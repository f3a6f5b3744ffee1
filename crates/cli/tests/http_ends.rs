//! HTTP runs that end early: descriptors run out, or the user interrupts at any moment. The run reports what it
//! measured, and unaffected connections continue.

use crate::common;
use crate::common::{Server, corelane, engines, parsed};
use crate::raw_http::RawServer;
use crate::scrape::Exposing;
use corelane_tests::{PATIENCE, until};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// Starts `load http URL …` with `--json`.
fn start(url: &str, arguments: &[&str]) -> Child {
    let all = [&["load", "http", url, "--json", "--workers", "1"], arguments].concat();
    corelane(&all)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn command(program: &str, arguments: &[&str]) {
    let done = Command::new(program).args(arguments).status().unwrap();
    assert!(done.success(), "{program} {arguments:?}");
}

/// Interrupts the run, as ^C in a terminal does; returns its document and exit code.
fn interrupt(child: Child) -> (Value, Option<i32>) {
    common::signal(child.id(), "INT");
    let output = child.wait_with_output().unwrap();
    (parsed(&output), output.status.code())
}

/// Sets the descriptor limit of a running process.
fn limit_descriptors(process: u32, descriptors: u32) {
    let limit = format!("--nofile={descriptors}:{descriptors}");
    command("prlimit", &["--pid", &process.to_string(), &limit]);
}

#[test]
fn a_generator_whose_descriptors_run_out_goes_on_with_what_it_has() {
    for engine in engines() {
        let mut server = Exposing::start(&format!("serve http 127.0.0.1:0 --buckets 1 --engine {engine}"));
        let url = format!("http://{}/", server.listening());
        let asked = || server.sum("corelane_serve_requests_total");
        let arguments = [
            "--connections",
            "60",
            "--requests-a-connection",
            "1",
            "--duration",
            "1h",
            "--engine",
            engine,
        ];
        let load = start(&url, &arguments);
        // Thirty of the sixty connections find no descriptor when they are opened again.
        until("descriptors are in use", || descriptors(load.id()) >= 60);
        until("connections are opened again", || asked() > 60.0);
        limit_descriptors(load.id(), 40);
        let process = load.id();
        until("the others have ended", || descriptors(process) <= 40);
        let before = asked();
        until("those that are left go on", || asked() > before + 500.0);
        let (loaded, code) = interrupt(load);
        assert_eq!(code, Some(0), "{engine}");
        let (requests, connections) = (&loaded["requests"], &loaded["connections"]);
        assert!(requests["ok"].as_u64() > Some(0), "{engine}: {requests}");
        assert!(
            connections["failed"]["no_descriptors"].as_u64() > Some(0),
            "{engine}: {connections}"
        );
        assert!(
            loaded["limited_by"]
                .as_str()
                .unwrap()
                .starts_with("descriptors ran out")
        );
        let outcomes = ["ok", "failed", "aborted", "unfinished"];
        let reported: u64 = outcomes
            .iter()
            .map(|outcome| requests[*outcome].as_u64().unwrap())
            .sum();
        assert_eq!(requests["begun"], reported, "{engine}: {requests}");
    }
}

/// Open descriptors of a process, in the largest descriptor table of its threads.
fn descriptors(process: u32) -> usize {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let count =
        |thread: std::fs::DirEntry| std::fs::read_dir(thread.path().join("fd")).map_or(0, Iterator::count);
    threads.map(|thread| count(thread.unwrap())).max().unwrap_or(0)
}

#[test]
fn a_server_whose_descriptors_run_out_serves_those_it_has_and_takes_others_when_it_can() {
    const CLIENTS: usize = 40;
    for engine in engines() {
        // Fewer descriptors than clients; the server itself needs a few of them.
        let limited = format!(
            "ulimit -n 24; exec {} serve http 127.0.0.1:0 --buckets 1 --engine {engine}",
            env!("CARGO_BIN_EXE_corelane")
        );
        let mut server = Server::of(
            Command::new("sh")
                .args(["-c", &limited])
                .stdout(Stdio::piped())
                .spawn()
                .unwrap(),
        );
        let clients: Vec<TcpStream> = (0..CLIENTS)
            .map(|_| {
                let mut stream = TcpStream::connect(&server.address).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                stream.write_all(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
                stream
            })
            .collect();
        let failed = |line: String| line.contains("errors ") && !line.trim_end().ends_with(" 0");
        assert!(
            server.lines().any(failed),
            "{engine}: no line reports the connections that were not accepted"
        );
        // Each answered client disconnects and frees a descriptor for a waiting one.
        for mut client in clients {
            let mut answer = [0; 4096];
            let length = client.read(&mut answer).unwrap();
            assert!(answer[..length].starts_with(b"HTTP/1.1 200 "), "{engine}");
        }
        server.signal("INT");
        let printed: Vec<String> = server.lines().collect();
        let answered = format!("answered 200: {CLIENTS}");
        assert!(printed.contains(&answered), "{engine}: {printed:?}");
        let failed = |line: &String| line.starts_with("error, no descriptor: ");
        assert!(printed.iter().any(failed), "{engine}: {printed:?}");
    }
}

/// Waits until a process has a handler for SIGINT; before that the signal would terminate it.
fn until_it_catches(process: u32) {
    let caught = |status: String| {
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .is_some_and(|mask| mask & (1 << 1) != 0)
    };
    let path = format!("/proc/{process}/status");
    until("SIGINT is caught", || {
        std::fs::read_to_string(&path).is_ok_and(caught)
    });
}

#[test]
fn an_interrupt_while_connections_are_opened_reports_that_none_was_answered() {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let anywhere: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    socket.bind(&anywhere.into()).unwrap();
    socket.listen(1).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    // Linux queues one more connection than the backlog and drops the rest.
    let _full: Vec<_> = (0..2).map(|_| TcpStream::connect(address).unwrap()).collect();
    let load = start(
        &format!("http://{address}/"),
        &["--connections", "3", "--connect-timeout", "1h"],
    );
    until_it_catches(load.id());
    let (loaded, code) = interrupt(load);
    assert_eq!(code, Some(1), "nothing was answered");
    assert_eq!(loaded["connections"]["asked"], 3);
    assert_eq!(
        (&loaded["connections"]["opened"], &loaded["requests"]["begun"]),
        (&0.into(), &0.into())
    );
}

#[test]
fn a_terminal_sees_the_run_and_nothing_else_does() {
    let server = RawServer::with_body("hello");
    let folder = tempfile::tempdir().unwrap();
    let document = folder.path().join("run.json");
    let process = folder.path().join("process");
    let arguments = format!("load http {} --connections 3 --json", server.url());
    let command = format!(
        "echo $$ > {}; exec {} {arguments} --duration 1h > {}",
        process.display(),
        env!("CARGO_BIN_EXE_corelane"),
        document.display()
    );
    // `script` (util-linux) provides the terminal: what is written to it appears on its standard output.
    let mut shown = Command::new("script")
        .args(["--quiet", "--return", "--command", &command, "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = shown.stdout.take().unwrap();
    let (mut text, mut part) = (Vec::new(), [0; 4_096]);
    let parts = ["hold (1 of 1)", "3 of 3 connections open", "answered", "latency"];
    let all = |text: &[u8]| {
        let text = String::from_utf8_lossy(text);
        parts.iter().all(|part| text.contains(part))
    };
    while !all(&text) {
        let length = output.read(&mut part).unwrap();
        text.extend_from_slice(&part[..length]);
        let text = String::from_utf8_lossy(&text);
        assert!(length > 0, "one of {parts:?} is not in {text:?}");
    }
    let process = std::fs::read_to_string(process).unwrap();
    common::signal(process.trim().parse().unwrap(), "INT");
    output.read_to_end(&mut text).unwrap();
    assert!(
        shown.wait().unwrap().success(),
        "{}",
        String::from_utf8_lossy(&text)
    );
    let loaded: Value = serde_json::from_str(&std::fs::read_to_string(&document).unwrap()).unwrap();
    assert!(loaded["requests"]["ok"].as_u64().unwrap() > 0);
    let quiet = common::run(&format!("{arguments} --duration 1s"));
    assert!(
        quiet.status.success() && quiet.stderr.is_empty(),
        "a pipe is not a terminal"
    );
}

#[test]
fn an_interrupt_in_a_ramp_or_a_hold_reports_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    for (phase, from) in [("ramp", 0), ("hold", 1)] {
        let server = RawServer::with_body("hello");
        let scenario = folder.path().join("scenario.toml");
        let text = format!(
            "[[client]]\nname = \"a\"\nurls = \"u\"\nserver = \"s\"\nconnections = 10\n\
             [[urls]]\nname = \"u\"\nentry = [{{ path = \"/\" }}]\n\
             [[server]]\nname = \"s\"\naddresses = [\"{}\"]\n\
             [[phase]]\nname = \"{phase}\"\nfrom = {from}\nto = 1\nduration = \"1h\"\n",
            server.address
        );
        std::fs::write(&scenario, text).unwrap();
        // The first connection of the ramp starts after a twentieth of the ramp: three minutes. The hour never ends.
        let load = corelane(&["load", "http", "--scenario", scenario.to_str().unwrap(), "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        if phase == "ramp" {
            until("connections are open", || {
                server.peers.lock().unwrap().len() == 10
            });
        } else {
            until("requests are answered", || server.count() > 100);
        }
        until_it_catches(load.id());
        let (loaded, code) = interrupt(load);
        assert_eq!(loaded["connections"]["opened"], 10, "{phase}");
        assert_eq!(loaded["requests"]["sent"], server.count(), "{phase}");
        assert_eq!(loaded["requests"]["ok"].as_u64() > Some(100), phase == "hold");
        assert_eq!(
            code,
            Some(i32::from(phase == "ramp")),
            "a ramp without a request has no success"
        );
    }
}
