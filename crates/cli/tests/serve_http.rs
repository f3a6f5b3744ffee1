//! `serve http` and `serve tcp` with common clients, as processes on loopback: both sides count the same.

use crate::stream_server;

use crate::common::{self, engines, refused, run, run_json};
use corelane_tests::until;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};
use stream_server::{Server, sum};

/// The output of a client; `None` if it is not installed.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    match Command::new(program).args(arguments).output() {
        Ok(output) => {
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{program}: {error}");
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Err(error) => {
            eprintln!("skipped: {program}: {error} (tests/prepare.sh installs it)");
            None
        }
    }
}

/// It counts a response that takes longer than the timeout, 2 s unless given, as an error.
const WRK: [&str; 8] = ["-t", "1", "-c", "16", "-d", "1s", "--timeout", "30s"];

/// The number between these two strings.
fn number(text: &str, pattern: (&str, &str)) -> u64 {
    let (before, after) = pattern;
    let line = text
        .lines()
        .find(|line| line.contains(before) && line.contains(after))
        .expect(text);
    let rest = &line[line.find(before).unwrap() + before.len()..];
    rest.split_whitespace()
        .next()
        .unwrap()
        .trim_end_matches(',')
        .parse()
        .expect(line)
}

#[test]
fn known_clients_and_the_server_count_alike() {
    for engine in engines() {
        let server = Server::start("http", &["--engine", engine]);
        let mut requests = 0;
        if let Some(text) = output(
            "curl",
            &["-s", &server.url("/size/5"), &server.url("/chunks/3/4")],
        ) {
            assert_eq!(text, "01234".to_owned() + "0123456789ab");
            requests += 2;
        }
        if let Some(text) = output("curl", &["-s", "-T", "/etc/hostname", &server.url("/echo")]) {
            assert_eq!(text, fs::read_to_string("/etc/hostname").unwrap());
            requests += 1;
        }
        let url = server.url("/size/1024");
        if let Some(text) = output("h2load", &["--h1", "-n", "3000", "-c", "10", "-m", "4", &url]) {
            assert_eq!(
                number(
                    &text,
                    ("requests: 3000 total, 3000 started, 3000 done,", "succeeded")
                ),
                3_000,
                "{text}"
            );
            requests += 3_000;
        }
        for keep in [&["-k"][..], &[]] {
            let arguments = [keep, &["-q", "-n", "1000", "-c", "8", &url]].concat();
            if let Some(text) = output("ab", &arguments) {
                assert_eq!(number(&text, ("Complete requests:", "")), 1_000, "{text}");
                assert_eq!(number(&text, ("Failed requests:", "")), 0, "{text}");
                requests += 1_000;
            }
        }
        let served = server.stop();
        assert_eq!(served["engine"], engine);
        assert_eq!(sum(&served, "requests"), requests, "{served}");
        let answered = |bucket: &Value| bucket["answers"]["200"].as_u64().unwrap_or(0);
        let answered: u64 = served["buckets"].as_array().unwrap().iter().map(answered).sum();
        assert_eq!(answered, requests, "{served}");
        assert!(
            served["buckets"][0]["errors"].as_object().unwrap().is_empty(),
            "{served}"
        );
    }
}

#[test]
fn known_clients_and_the_server_count_alike_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = folder.path().join("certificate.pem");
    let certificate = certificate.to_str().unwrap();
    let server = Server::start("http", &["--tls", "--write-certificate", certificate]);
    let url = server.url("/size/1024").replace("http:", "https:");
    let mut requests = 0;
    if let Some(text) = output("h2load", &["--h1", "-n", "1000", "-c", "10", &url]) {
        let done = ("requests: 1000 total, 1000 started, 1000 done,", "succeeded");
        assert_eq!(number(&text, done), 1_000, "{text}");
        requests += 1_000;
    }
    for keep in [&["-k"][..], &[]] {
        if let Some(text) = output("ab", &[keep, &["-q", "-n", "200", "-c", "8", &url]].concat()) {
            assert_eq!(number(&text, ("Complete requests:", "")), 200, "{text}");
            assert_eq!(number(&text, ("Failed requests:", "")), 0, "{text}");
            requests += 200;
        }
    }
    // With its certificate, and by the name in it.
    let named = url.replace("127.0.0.1", "localhost");
    if let Some(text) = output("curl", &["-s", "--cacert", certificate, &url, &named]) {
        assert_eq!(text.len(), 2_048);
        requests += 2;
    }
    let mut least = requests;
    let mut most = requests;
    if let Some(text) = output("wrk", &[&WRK[..], &[&url]].concat()) {
        let line = text.lines().find(|line| line.contains("requests in")).unwrap();
        let by_wrk: u64 = line.split_whitespace().next().unwrap().parse().unwrap();
        assert!(!text.contains("Non-2xx"), "{text}");
        // wrk does not count the requests under way at the end: at most one per connection.
        (least, most) = (requests + by_wrk, requests + by_wrk + 16);
    }
    let served = server.stop();
    let counted = sum(&served, "requests");
    assert!((least..=most).contains(&counted), "{least} {counted} {most}");
}

#[test]
fn wrk_counts_no_more_than_the_server() {
    let server = Server::start("http", &[]);
    let Some(text) = output("wrk", &[&WRK[..], &[&server.url("/size/100")]].concat()) else {
        return;
    };
    let line = text.lines().find(|line| line.contains("requests in")).unwrap();
    let by_wrk: u64 = line.split_whitespace().next().unwrap().parse().unwrap();
    assert!(
        !text.contains("Socket errors") && !text.contains("Non-2xx"),
        "{text}"
    );
    let served = sum(&server.stop(), "requests");
    // The client does not count the requests under way when its time is over: at most one per connection.
    assert!((by_wrk..=by_wrk + 16).contains(&served), "{by_wrk} {served}");
}

#[test]
fn files_and_certificates_satisfy_curl() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.txt"), "a file\n").unwrap();
    let root = folder.path().to_str().unwrap();
    let server = Server::start("http", &["--root", root, "--tls"]);
    let url = server.url("/a.txt").replace("http:", "https:");
    let Some(text) = output("curl", &["-sk", "-r", "2-5", &url]) else {
        return;
    };
    assert_eq!(text, "file");
    let served = server.stop();
    assert_eq!(sum(&served, "requests"), 1);
}

#[test]
fn a_server_that_sees_no_one_ends_in_time_and_tells_its_plan() {
    let served = run_json("serve http 127.0.0.1:0 --buckets 1 --duration 50ms --json");
    assert_eq!(served["schema"], "corelane/served-http/1");
    assert_eq!(sum(&served, "requests"), 0);
    let plan = run_json("serve http 127.0.0.1:0 --buckets 1 --max-head 4KiB --dry-run");
    assert_eq!(plan["limits"]["head_bytes"], 4_096);
    let plan = run_json("serve tcp 127.0.0.1:0 --buckets 1 --mode echo --dry-run");
    assert_eq!(plan["mode"], "echo");
    assert!(refused("serve tcp --mode drain", 2).contains("sink, source or echo"));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    assert!(refused(&["serve", "http", &address, "--buckets", "1"], 2).contains("is in use"));
    let text = run("serve tcp 127.0.0.1:0 --buckets 1 --duration 50ms");
    assert!(String::from_utf8_lossy(&text.stdout).contains("listening on 127.0.0.1:"));
}

#[test]
fn a_sink_counts_every_byte_by_either_engine() {
    for engine in engines() {
        let server = Server::start("tcp", &["--engine", engine]);
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        stream.write_all(&vec![1; 3_000_000]).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut nothing = Vec::new();
        stream.read_to_end(&mut nothing).unwrap();
        let served = server.stop();
        assert_eq!(sum(&served, "bytes_received"), 3_000_000);
        assert_eq!(served["mode"], "sink");
    }
}

/// The lines of a log, once it has at least `count`.
fn lines(path: &std::path::Path, count: usize) -> Vec<String> {
    let mut text = String::new();
    until("the lines are written", || {
        text = fs::read_to_string(path).unwrap_or_default();
        text.lines().count() >= count
    });
    text.lines().map(str::to_owned).collect()
}

#[test]
fn each_answer_has_its_line_in_the_access_log_which_may_be_rotated() {
    let folder = tempfile::tempdir().unwrap();
    let (log, old) = (
        folder.path().join("access.log"),
        folder.path().join("access.log.1"),
    );
    let server = Server::start("http", &["--access-log", log.to_str().unwrap()]);
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let mut answer = [0; 4096];
    for request in [
        "GET /size/10 HTTP/1.1\r\nHost: a\r\nUser-Agent: a \"b\"\r\nReferer: http://a/\r\n\r\n",
        "HEAD /size/10 HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /chunks/2/3 HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /none HTTP/1.1\r\nHost: a\r\n\r\n",
        "no request\r\n\r\n",
    ] {
        stream.write_all(request.as_bytes()).unwrap();
        assert!(stream.read(&mut answer).unwrap() > 0);
    }
    let written = lines(&log, 5);
    let logged: Vec<String> = written.iter().map(|line| without_times(line)).collect();
    assert_eq!(
        logged,
        [
            r#"127.0.0.1 - - "GET /size/10 HTTP/1.1" 200 10 "http://a/" "a \"b\"""#,
            r#"127.0.0.1 - - "HEAD /size/10 HTTP/1.1" 200 0 "-" "-""#,
            r#"127.0.0.1 - - "GET /chunks/2/3 HTTP/1.1" 200 21 "-" "-""#,
            r#"127.0.0.1 - - "GET /none HTTP/1.1" 404 0 "-" "-""#,
            r#"127.0.0.1 - - "-" 400 47 "-" "-""#,
        ]
    );
    fs::rename(&log, &old).unwrap();
    server.signal("USR1");
    until("the log is opened again", || log.exists());
    drop(TcpStream::connect(("127.0.0.1", server.port)).map(|mut stream| {
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        stream.read(&mut answer).unwrap()
    }));
    assert_eq!(lines(&log, 1).len(), 1);
    assert_eq!(lines(&old, 5).len(), 5, "the renamed file is left as it was");
    let served = server.stop();
    let logged = &served["access_log"];
    assert_eq!(
        (
            &logged["lines"],
            &logged["dropped"],
            &logged["unwritten"],
            &logged["reopened"]
        ),
        (&6.into(), &0.into(), &0.into(), &1.into()),
        "{logged}"
    );
}

/// A log line without its date and duration, whose format is checked.
fn without_times(line: &str) -> String {
    let (before, rest) = line.split_once(" [").expect(line);
    let (date, rest) = rest.split_once(']').expect(line);
    assert!(date.len() == 26 && date.ends_with(" +0000"), "{line}");
    let (rest, seconds) = rest.rsplit_once(' ').expect(line);
    assert!(
        seconds.parse::<f64>().is_ok_and(|seconds| seconds >= 0.0),
        "{line}"
    );
    format!("{before}{rest}")
}

#[test]
fn an_access_log_that_cannot_be_is_refused_by_its_flag() {
    let address = "127.0.0.1:0";
    let refused_log = |arguments: &[&str]| {
        let all = [
            &["serve", "http", address, "--buckets", "1", "--access-log"],
            arguments,
        ]
        .concat();
        refused(&all, 2)
    };
    assert!(
        refused_log(&["/nowhere/access.log"])
            .contains("--access-log: cannot write the access log /nowhere/access.log")
    );
    assert!(refused_log(&["-", "--json"]).contains("--access-log"));
}

#[test]
fn a_pipe_that_nobody_reads_does_not_keep_a_server_from_ending() {
    let mut command = common::corelane("serve http 127.0.0.1:0 --buckets 1 --access-log -");
    command.stdout(std::process::Stdio::piped());
    let mut server = common::Server::of(command.spawn().unwrap());
    let mut stream = TcpStream::connect(&server.address).unwrap();
    let mut answer = [0; 4096];
    // Lines of more than 64 KiB, which is what a pipe holds.
    for _ in 0..1_000 {
        stream
            .write_all(b"GET /size/1 HTTP/1.1\r\nHost: a\r\n\r\n")
            .unwrap();
        assert!(stream.read(&mut answer).unwrap() > 0);
    }
    server.signal("TERM");
    assert!(server.wait().success());
}

#[test]
fn a_server_whose_log_and_output_are_closed_goes_on_and_saves_its_report() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("served.json");
    let mut command = common::corelane("serve http 127.0.0.1:0 --buckets 1 --metrics 127.0.0.1:0");
    command.arg(format!("--json={}", file.display()));
    command.stdout(std::process::Stdio::piped());
    let (reader, log) = std::io::pipe().unwrap();
    drop(reader);
    command.stderr(log);
    let mut server = common::Server::of(command.spawn().unwrap());
    server.close_output();
    let mut stream = TcpStream::connect(&server.address).unwrap();
    let (mut answer, mut asked) = ([0; 4096], 0);
    let started = Instant::now();
    // Longer than a second, when the first line is due.
    while started.elapsed() < Duration::from_millis(1_500) {
        stream
            .write_all(b"GET /size/1 HTTP/1.1\r\nHost: a\r\n\r\n")
            .unwrap();
        assert!(stream.read(&mut answer).unwrap() > 0);
        asked += 1;
    }
    server.signal("TERM");
    assert!(server.wait().success());
    let document: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(document["buckets"][0]["requests"], asked);
}
