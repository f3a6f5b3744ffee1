//! How HTTP runs end that do not go as planned: descriptors run out under way, or the user interrupts at any moment. What
//! was measured is told, and the rest goes on.

use crate::common;
use crate::raw_http;

use crate::common::{Server, corelane};
use raw_http::RawServer;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !reached() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// `load http URL …` with `--json`, running.
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

/// As the terminal does on ^C; its document, and its exit code.
fn interrupt(child: Child) -> (Value, Option<i32>) {
    common::signal(child.id(), "INT");
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    let document = serde_json::from_slice(&output.stdout);
    (
        document.unwrap_or_else(|wrong| panic!("{wrong}: {error}")),
        output.status.code(),
    )
}

/// Descriptors that the process has from now on.
fn limit_descriptors(process: u32, descriptors: u32) {
    let limit = format!("--nofile={descriptors}:{descriptors}");
    command("prlimit", &["--pid", &process.to_string(), &limit]);
}

#[test]
fn a_generator_whose_descriptors_run_out_goes_on_with_what_it_has() {
    for engine in ["epoll", "io_uring"] {
        let server = serve(engine);
        let url = format!("http://{}/", server.address);
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
        // Thirty of sixty connections have no descriptor when they are next opened.
        until("descriptors are in use", || descriptors(load.id()) >= 60);
        limit_descriptors(load.id(), 40);
        let process = load.id();
        until("the others have ended", || descriptors(process) <= 40);
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
        let fates = ["ok", "failed", "aborted", "unfinished"];
        let told: u64 = fates.iter().map(|fate| requests[*fate].as_u64().unwrap()).sum();
        assert_eq!(requests["begun"], told, "{engine}: {requests}");
    }
}

/// Descriptors that a process has open, in the table of whichever thread has most.
fn descriptors(process: u32) -> usize {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let count =
        |thread: std::fs::DirEntry| std::fs::read_dir(thread.path().join("fd")).map_or(0, Iterator::count);
    threads.map(|thread| count(thread.unwrap())).max().unwrap_or(0)
}

#[test]
fn a_server_whose_descriptors_run_out_serves_those_it_has_and_takes_others_when_it_can() {
    const CLIENTS: usize = 40;
    for engine in ["epoll", "io_uring"] {
        // Fewer than clients, and a handful are the server's own.
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
            "{engine}: no line tells of connections that cannot be had"
        );
        // Each that is answered leaves, and makes room for one that waits.
        for mut client in clients {
            let mut answer = [0; 4096];
            let length = client.read(&mut answer).unwrap();
            assert!(answer[..length].starts_with(b"HTTP/1.1 200 "), "{engine}");
        }
        server.signal("INT");
        let told: Vec<String> = server.lines().collect();
        let answered = format!("answered 200: {CLIENTS}");
        assert!(told.contains(&answered), "{engine}: {told:?}");
        let failed = |line: &String| line.starts_with("error, no descriptor: ");
        assert!(told.iter().any(failed), "{engine}: {told:?}");
    }
}

fn serve(engine: &str) -> Server {
    let mut command = corelane(&format!("serve http 127.0.0.1:0 --buckets 1 --engine {engine}"));
    Server::of(command.stdout(Stdio::piped()).spawn().unwrap())
}

/// Waits until a process catches SIGINT: before that it ends as any program does.
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
    // Linux takes one more than the backlog; what comes then is dropped.
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
        // The ramp's first connection is at work once a twentieth of it is over: three minutes. An hour is never over.
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
            "a ramp that has not begun to ask has no success"
        );
    }
}
