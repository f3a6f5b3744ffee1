//! `load http` against raw-byte servers, correct and faulty, as processes on loopback.

use crate::common::{self, Server, closed_tcp_port, corelane, parsed, refused, run, run_json};
use crate::raw_http::{Answer, RawServer};
use corelane_rss::{HashFields, IndirectionTable, Key, Steering, Tuple};
use corelane_tests::until;
use serde_json::Value;
use std::collections::HashSet;
use std::io::Write;
use std::process::Stdio;

/// Runs `load http URL …` with `--json`; returns the document and the exit code, whatever it is.
fn load(url: &str, arguments: &[&str]) -> (Value, Option<i32>) {
    let output = run(&[&["load", "http", url, "--json", "--drain", "5s"], arguments].concat());
    (parsed(&output), output.status.code())
}

/// The counts of a document that are not zero, except the counts of success.
fn failures(document: &Value) -> Vec<(String, u64)> {
    let known = [
        "begun",
        "sent",
        "ok",
        "failed",
        "unfinished",
        "waited_for_connection",
    ];
    let requests = document["requests"].as_object().unwrap();
    let counts = requests
        .iter()
        .filter(|(name, _)| !known.contains(&name.as_str()) && !name.starts_with("unsent"));
    let counts = counts.filter_map(|(name, count)| Some((name.clone(), count.as_u64()?)));
    counts.filter(|(_, count)| *count > 0).collect()
}

#[test]
fn both_sides_count_the_same_requests_in_either_model() {
    for model in [
        &["--connections", "7"][..],
        &["--connections", "7", "--rate", "20k"],
    ] {
        let server = RawServer::with_body("hello");
        let (loaded, code) = load(
            &server.url(),
            &[&["--requests", "5000", "--workers", "1"], model].concat(),
        );
        assert_eq!(code, Some(0));
        let requests = &loaded["requests"];
        for outcome in ["begun", "sent", "ok"] {
            assert_eq!(requests[outcome], 5_000, "{model:?}: {requests}");
        }
        assert_eq!(server.count(), 5_000);
        assert_eq!(loaded["bytes"]["body"], 25_000);
        assert_eq!(loaded["latency"]["count"], 5_000);
        assert_eq!(loaded["pools"][0]["requests"], *requests);
        assert_eq!(loaded["connections"]["opened"], 7);
        assert_eq!(loaded["schedule_lag"].is_null(), model.len() == 2);
    }
}

#[test]
fn memory_a_connection_is_told_of_many() {
    let mut server = corelane("serve http 127.0.0.1:0 --buckets 1");
    let server = Server::of(server.stdout(Stdio::piped()).spawn().unwrap());
    let url = format!("http://{}/", server.address);
    for (connections, shown) in [("999", false), ("1000", true)] {
        let flags = [
            "--connections",
            connections,
            "--requests",
            "1000",
            "--workers",
            "1",
        ];
        let output = run(&[&["load", "http", &url], &flags[..]].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.contains("\nclient: "), "{text}");
        assert_eq!(text.contains("\nclient memory: "), shown, "{text}");
    }
}

#[test]
fn every_misbehaviour_is_counted_under_its_own_name() {
    let bytes = |text: &str| text.as_bytes().to_vec();
    let cases: Vec<(&str, Answer)> = vec![
        ("reset", Answer::Reset),
        ("closed_early", Answer::BytesThenClose(Vec::new())),
        (
            "closed_early",
            Answer::BytesThenClose(bytes("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort")),
        ),
        (
            "malformed",
            Answer::BytesThenSilence(bytes("SSH-2.0-OpenSSH_9.2\r\n")),
        ),
        (
            "malformed",
            Answer::Bytes(bytes("HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\nx")),
        ),
        (
            "malformed",
            Answer::Bytes(bytes(
                "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1 200 unasked",
            )),
        ),
        (
            "wrong_status",
            Answer::Bytes(bytes("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")),
        ),
        ("first_byte_timeout", Answer::BytesThenSilence(Vec::new())),
        (
            "request_timeout",
            Answer::BytesThenSilence(bytes("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhal")),
        ),
    ];
    for (name, answer) in cases {
        let server = RawServer::start(move |_| answer.clone());
        let limit: &[&str] = match name {
            "first_byte_timeout" => &["--first-byte-timeout", "100ms"],
            "request_timeout" => &["--timeout", "200ms"],
            _ => &[],
        };
        let (loaded, code) = load(
            &server.url(),
            &[&["--requests", "3", "--connections", "1"], limit].concat(),
        );
        assert_eq!(failures(&loaded), [(name.to_owned(), 3)], "{loaded:#}");
        assert_eq!((code, &loaded["requests"]["begun"]), (Some(1), &3.into()));
    }
}

#[test]
fn one_bad_answer_in_three_leaves_the_others() {
    let good = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec();
    let server = RawServer::start(move |request| match request % 3 {
        0 => Answer::Reset,
        _ => Answer::Bytes(good.clone()),
    });
    let (loaded, code) = load(&server.url(), &["--requests", "300", "--connections", "1"]);
    assert_eq!((code, &loaded["requests"]["ok"]), (Some(0), &200.into()));
    assert_eq!(failures(&loaded), [("reset".to_owned(), 100)]);
    assert_eq!(loaded["connections"]["reset_by_server"], 100);
}

#[test]
fn a_server_that_is_not_there_is_told_as_such() {
    let (closed, _keeper) = closed_tcp_port();
    let (loaded, code) = load(&format!("http://{closed}/"), &["--connections", "5"]);
    let refused = &loaded["connections"]["failed"]["refused"];
    assert_eq!((code, refused), (Some(1), &5.into()));
    let why = format!("no connection could be opened: refused by {closed}");
    assert_eq!(loaded["failed_because"], why);
}

#[test]
fn a_server_that_never_accepts_times_out_by_its_own_name() {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket
        .bind(&"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into())
        .unwrap();
    socket.listen(1).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    // Linux queues one more connection than the backlog and drops the rest.
    let _full: Vec<_> = (0..2)
        .map(|_| std::net::TcpStream::connect(address).unwrap())
        .collect();
    let (loaded, code) = load(
        &format!("http://{address}/"),
        &["--connections", "3", "--connect-timeout", "200ms"],
    );
    assert_eq!(
        (code, &loaded["connections"]["failed"]["connect_timeout"]),
        (Some(1), &3.into())
    );
}

#[test]
fn a_connection_is_closed_after_as_many_requests_as_asked() {
    let server = RawServer::start(|request| {
        let close = if request % 4 == 3 {
            "Connection: close\r\n"
        } else {
            ""
        };
        let answer = format!("HTTP/1.1 200 OK\r\n{close}Content-Length: 0\r\n\r\n").into_bytes();
        if close.is_empty() {
            Answer::Bytes(answer)
        } else {
            Answer::BytesThenClose(answer)
        }
    });
    let flags = [
        "--requests",
        "40",
        "--connections",
        "1",
        "--requests-a-connection",
        "4",
    ];
    let (loaded, _) = load(&server.url(), &flags);
    assert_eq!(
        (&loaded["requests"]["ok"], &loaded["connections"]["opened"]),
        (&40.into(), &10.into())
    );
    assert!(String::from_utf8_lossy(&server.last.lock().unwrap()).contains("Connection: close"));
    assert_eq!(server.peers.lock().unwrap().len(), 10);
}

#[test]
fn method_headers_and_host_arrive_as_asked() {
    let server = RawServer::start(|_| Answer::Bytes(b"HTTP/1.1 204 None\r\n\r\n".to_vec()));
    let headers = ["-H", "Host: example.org", "-H", "X-Test: a b"];
    let (loaded, _) = load(
        &format!("{}path?query", server.url()),
        &[
            &["--requests", "1", "--connections", "1", "--method", "DELETE"],
            &headers[..],
        ]
        .concat(),
    );
    assert_eq!(loaded["requests"]["ok"], 1);
    let head = String::from_utf8(server.last.lock().unwrap().clone()).unwrap();
    assert_eq!(
        head,
        "DELETE /path?query HTTP/1.1\r\nHost: example.org\r\nX-Test: a b"
    );
}

/// The request's body as the raw server records it: it follows the head in the bytes read.
fn pattern(length: usize) -> Vec<u8> {
    (0..length as u64)
        .map(corelane_proto::http::pattern::byte)
        .collect()
}

#[test]
fn a_body_that_breaks_its_promise_is_wrong() {
    let cases = [
        (pattern(100), 0),
        (pattern(99), 1),
        (pattern(101), 1),
        ([&pattern(99)[..], b"!"].concat(), 1),
    ];
    for (body, wrong) in cases {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        let answer = [head.as_bytes(), &body].concat();
        let server = RawServer::start(move |_| Answer::Bytes(answer.clone()));
        let url = format!("{}size/100", server.url());
        let (loaded, _) = load(&url, &["--requests", "1", "--connections", "1", "--check"]);
        assert_eq!(loaded["requests"]["wrong_body"], wrong, "{loaded:#}");
        let (loaded, _) = load(&url, &["--requests", "1", "--connections", "1"]);
        assert_eq!(
            loaded["requests"]["wrong_body"], 0,
            "without --check any body is accepted"
        );
    }
}

#[test]
fn bodies_are_sent_as_text_file_or_pattern_whole_or_in_chunks() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"from a file").unwrap();
    let path = file.path().to_str().unwrap();
    for (flag, value, body) in [
        ("--body", "a text", b"a text".to_vec()),
        ("--body-file", path, b"from a file".to_vec()),
        ("--body-size", "200", pattern(200)),
    ] {
        // The raw server ends a request at its empty line, so the body stays in the buffer, unanswered.
        let server = RawServer::start(|_| Answer::BytesThenClose(b"HTTP/1.1 200 OK\r\n\r\n".to_vec()));
        let flags = ["--requests", "1", "--connections", "1", flag, value];
        load(&server.url(), &flags);
        let head = String::from_utf8(server.last.lock().unwrap().clone()).unwrap();
        assert!(head.starts_with("POST / HTTP/1.1\r\n"), "{head}");
        assert!(
            head.contains(&format!("Content-Length: {}", body.len())),
            "{head}"
        );
        load(
            &server.url(),
            &[&flags[..], &["--chunked", "--method", "PUT"]].concat(),
        );
        let head = String::from_utf8(server.last.lock().unwrap().clone()).unwrap();
        assert!(
            head.starts_with("PUT / HTTP/1.1\r\n") && head.contains("Transfer-Encoding: chunked"),
            "{head}"
        );
    }
}

#[test]
fn aborted_requests_are_neither_successes_nor_failures() {
    let server = RawServer::with_body("hello");
    let (loaded, _) = load(
        &server.url(),
        &["--requests", "400", "--connections", "4", "--abort", "50%"],
    );
    let count = |name: &str| loaded["requests"][name].as_u64().unwrap();
    assert_eq!(count("begun"), count("ok") + count("aborted"));
    assert!((100..300).contains(&count("aborted")), "{}", count("aborted"));
    assert_eq!(count("failed"), 0);
}

#[test]
fn slow_clients_take_and_give_no_faster_than_they_say() {
    let body: &'static str = Box::leak("x".repeat(40_000).into_boxed_str());
    let server = RawServer::with_body(body);
    let one = ["--requests", "1", "--connections", "1"];
    for (flag, rate, least_ns) in [("--read-rate", "100kB", 300e6), ("--write-rate", "100", 300e6)] {
        let (loaded, _) = load(&server.url(), &[&one[..], &[flag, rate]].concat());
        assert_eq!(loaded["requests"]["ok"], 1, "{flag}");
        assert!(
            loaded["latency"]["min_ns"].as_f64().unwrap() >= least_ns,
            "{flag}: {}",
            loaded["latency"]
        );
    }
}

#[test]
fn every_source_address_is_used() {
    let server = RawServer::with_body("x");
    let flags = [
        "--connections",
        "12",
        "--requests",
        "12",
        "--sources",
        "127.7.0.1-127.7.0.4",
    ];
    let (loaded, _) = load(&server.url(), &flags);
    assert_eq!(loaded["requests"]["ok"], 12);
    until("every connection is accepted", || {
        server.peers.lock().unwrap().len() >= 12
    });
    let peers = server.peers.lock().unwrap();
    let addresses: HashSet<_> = peers.iter().map(|peer| peer.ip()).collect();
    assert_eq!((peers.len(), addresses.len()), (12, 4));
}

#[test]
fn aligned_connections_come_from_ports_that_the_steering_names() {
    let server = RawServer::with_body("x");
    let steering = Steering {
        key: Key::VERIFICATION,
        hash_fields: HashFields::FourTuple,
        table: IndirectionTable::round_robin(128, 4).unwrap(),
        cpus: vec![0; 4],
        generation: 0,
    };
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(serde_json::to_string(&steering).unwrap().as_bytes())
        .unwrap();
    let path = file.path().to_str().unwrap();
    let flags = [
        "--connections",
        "32",
        "--requests",
        "32",
        "--align",
        "even",
        "--steering",
        path,
    ];
    let (loaded, _) = load(&server.url(), &flags);
    assert_eq!(loaded["requests"]["ok"], 32);
    until("every connection is accepted", || {
        server.peers.lock().unwrap().len() >= 32
    });
    let mut buckets = [0; 4];
    for peer in server.peers.lock().unwrap().iter() {
        let tuple = Tuple::new(*peer, server.address).unwrap();
        buckets[steering.steerer().bucket_of(&tuple).index()] += 1;
    }
    assert_eq!(buckets, [8; 4]);
}

#[test]
fn more_connections_than_a_descriptor_table_holds_take_more_tables() {
    let server = RawServer::with_body("x");
    let program = env!("CARGO_BIN_EXE_corelane");
    let line = format!(
        "ulimit -n 100; exec {program} load http {} --json --connections 150 --requests 300",
        server.url()
    );
    let output = std::process::Command::new("bash")
        .args(["-c", &line])
        .output()
        .unwrap();
    let loaded = parsed(&output);
    assert_eq!(
        (&loaded["requests"]["ok"], &loaded["connections"]["opened"]),
        (&300.into(), &150.into())
    );
    assert!(loaded["workers"].as_array().unwrap().len() >= 5);
    assert_eq!(loaded["plan"]["workers"][0]["own_descriptors"], true);
}

#[test]
fn a_gate_that_is_not_met_ends_with_its_own_exit_code() {
    let server = RawServer::with_body("x");
    let url = server.url();
    let flags = ["load", "http", &url, "--requests", "100", "--fail-if"];
    let output = run(&[&flags[..], &["p50 > 1ns"]].concat());
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("'p50 > 1ns': p50 is"));
    let output = run(&[&flags[..], &["failed > 0", "--fail-if", "ok < 100"]].concat());
    assert_eq!(output.status.code(), Some(0));
    let error = refused(&[&flags[..], &["mid > 1ns"]].concat(), 2);
    assert!(error.contains("--fail-if: there is no figure 'mid'"), "{error}");
}

#[test]
fn what_cannot_be_asked_is_refused_by_flag() {
    for (arguments, reason) in [
        (&["127.0.0.1:8080"][..], "does not start with http"),
        (&["http://127.0.0.1/", "--connections", "0"], "--connections"),
        (&["http://127.0.0.1/", "--rate", "0"], "--rate"),
        (&["http://127.0.0.1/", "--header", "no colon"], "--header"),
        (&["http://127.0.0.1/", "--method", "G ET"], "--method"),
        (&["http://127.0.0.1/", "--status", "42"], "--expect-status"),
        (&["http://127.0.0.1/", "--align", "even"], "--steering"),
        (&["http://127.0.0.1/", "--sources", "2001:db8::1"], "--sources"),
    ] {
        let error = refused(&[&["load", "http"], arguments].concat(), 2);
        assert!(error.contains(reason), "{arguments:?}: {error}");
    }
}

#[test]
fn an_interrupt_gives_the_report_of_what_was_measured() {
    let server = RawServer::with_body("hello");
    let mut child = corelane(&format!(
        "load http {} --duration 1h --json --connections 3",
        server.url()
    ))
    .stdout(Stdio::piped())
    .spawn()
    .unwrap();
    until("requests are answered", || {
        assert!(child.try_wait().unwrap().is_none(), "it ended without a signal");
        server.count() >= 100
    });
    common::signal(child.id(), "INT");
    let output = child.wait_with_output().unwrap();
    let loaded = parsed(&output);
    assert_eq!(output.status.code(), Some(0));
    assert!(loaded["requests"]["ok"].as_u64().unwrap() >= 97);
    assert_eq!(loaded["requests"]["sent"].as_u64().unwrap(), server.count());
}

#[test]
fn a_dry_run_tells_the_plan_and_what_it_needs() {
    let document = run_json("load http http://127.0.0.1:8080/ --connections 100k --dry-run");
    assert_eq!(document["plan"]["pools"][0]["connections"], 100_000);
    let needs = document["needs"].as_array().unwrap();
    assert!(needs.iter().any(|need| need["what"] == "descriptors per table"));
    assert!(needs.iter().all(|need| need["needed"].is_u64()));
}

#[test]
fn a_scenario_runs_its_pools_and_phases() {
    let server = RawServer::with_body("hello");
    let scenario = format!(
        "[[client]]\nname = 'quick'\nurls = 'all'\nserver = 'raw'\nconnections = 4\n\
         [[client]]\nname = 'steady'\nurls = 'all'\nserver = 'raw'\nconnections = 2\nrate = '1k'\n\
         [[urls]]\nname = 'all'\nentry = [{{ path = '/a', weight = 3 }}, {{ path = '/b' }}]\n\
         [[server]]\nname = 'raw'\naddresses = ['{}']\nhost = 'example.org'\n\
         [[phase]]\nname = 'ramp'\nfrom = 0\nto = 1\nduration = '300ms'\n\
         [[phase]]\nname = 'hold'\nrequests = 1000\n",
        server.address
    );
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(scenario.as_bytes()).unwrap();
    let output = run(&format!(
        "load http --scenario {} --json",
        file.path().to_str().unwrap()
    ));
    let error = String::from_utf8_lossy(&output.stderr);
    let loaded: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|wrong| panic!("{wrong}: {error}"));
    assert_eq!(loaded["model"], "mixed");
    assert_eq!(loaded["requests"]["failed"], 0, "{}", loaded["requests"]);
    assert_eq!(loaded["requests"]["sent"].as_u64().unwrap(), server.count());
    let pools = loaded["pools"].as_array().unwrap();
    let names: Vec<_> = pools.iter().map(|pool| pool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["quick", "steady"]);
    assert!(
        pools
            .iter()
            .all(|pool| pool["latency"]["count"].as_u64().unwrap() > 0)
    );
    let phases = loaded["phases"].as_array().unwrap();
    assert_eq!((&phases[0]["name"], phases.len()), (&"ramp".into(), 2));
    assert!((phases[1]["began_s"].as_f64().unwrap() - 0.3).abs() < 1e-6);
    assert_eq!(phases[1]["begun"], 1000);
    let head = String::from_utf8(server.last.lock().unwrap().clone()).unwrap();
    assert!(head.contains("Host: example.org"), "{head}");
}

#[test]
fn merged_documents_add_up_with_their_histograms() {
    let server = RawServer::with_body("hello");
    let mut files = Vec::new();
    for requests in ["300", "700"] {
        let (loaded, _) = load(&server.url(), &["--requests", requests, "--connections", "2"]);
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(loaded.to_string().as_bytes()).unwrap();
        files.push(file);
    }
    let paths: Vec<&str> = files.iter().map(|file| file.path().to_str().unwrap()).collect();
    let merged = run_json(&[&["report", "merge"], &paths[..]].concat());
    assert_eq!(
        (&merged["documents"], &merged["requests"]["ok"]),
        (&2.into(), &1000.into())
    );
    assert_eq!(merged["latency"]["count"], 1000);
    assert_eq!(merged["pools"].as_array().unwrap().len(), 1);
    let mut other = tempfile::NamedTempFile::new().unwrap();
    other.write_all(b"{\"schema\": \"other\"}").unwrap();
    let error = refused(&["report", "merge", other.path().to_str().unwrap()], 2);
    assert!(error.contains(other.path().to_str().unwrap()), "{error}");
}
