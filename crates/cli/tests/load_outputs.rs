//! The output files and gates of the generators: HTML, Markdown, CSV, and exit code 3.

use crate::common::{Server, load_for_lines, refused, run, run_json};
use crate::raw_http::RawServer;
use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::thread;

/// The address of a listener that reads and discards everything.
fn sink() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for mut connection in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let mut buffer = vec![0; 1 << 16];
                while matches!(connection.read(&mut buffer), Ok(1..)) {}
            });
        }
    });
    address
}

/// Runs a generator with every output file, one gate that passes and one that fails, and compares the outputs with each
/// other.
fn has_every_form(load: &[&str], met: &str, failed: (&str, &str), first_line: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (html, markdown, csv) = (file("page.html"), file("page.md"), file("run.csv"));
    let files = [
        "--html",
        &html,
        "--export-markdown",
        &markdown,
        "--export-csv",
        &csv,
    ];
    let output = run(&[load, &files, &["--fail-if", met]].concat());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    assert!(error.contains(&format!("report: {html}")), "{error}");
    let text = String::from_utf8(output.stdout).unwrap();
    let first = text.lines().find(|line| line.contains(first_line));
    let first = first.unwrap_or_else(|| panic!("{text}"));

    let csv = fs::read_to_string(csv).unwrap();
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines.len(), 2, "one header and one run: {csv}");
    let name = failed.0.split(' ').next().unwrap();
    let place = lines[0]
        .iter()
        .position(|column| *column == name)
        .expect("gates and CSV name alike");
    assert!(lines[1][place].parse::<f64>().is_ok(), "{csv}");

    let (page, markdown) = (
        fs::read_to_string(html).unwrap().replace('\u{a0}', " "),
        fs::read_to_string(markdown).unwrap(),
    );
    assert!(
        page.contains("All metrics") && page.contains("corelane load "),
        "{page}"
    );
    assert!(page.contains(first) && markdown.contains(first), "{first}");
    for (name, value) in lines[0].iter().zip(&lines[1]) {
        assert_eq!(!value.is_empty(), page.contains(&format!(">{name}<")), "{name}");
    }
    is_judged(load, failed, name);
}

/// Checks the exit code and message of a gate that fails, and that a gate on an unknown figure is rejected.
fn is_judged(load: &[&str], (gate, words): (&str, &str), name: &str) {
    let json = run(&[load, &["--json", "--fail-if", gate]].concat());
    assert_eq!(json.status.code(), Some(3));
    serde_json::from_slice::<serde_json::Value>(&json.stdout).expect("one JSON document and nothing else");
    let error = String::from_utf8_lossy(&json.stderr).into_owned();
    assert!(
        error.contains("a gate was not met") && error.contains(words),
        "{error}"
    );
    let error = refused(&[load, &["--fail-if", "nonsense > 1"]].concat(), 2);
    assert!(
        error.contains("--fail-if: there is no figure 'nonsense'") && error.contains(name),
        "{error}"
    );
}

#[test]
fn datagrams_have_every_form() {
    let server = Server::start("127.0.0.1:0 --buckets 1");
    let load = [
        "load",
        "udp",
        &server.address,
        "--count",
        "200",
        "--window",
        "8",
        "--workers",
        "1",
    ];
    let failed = ("returned < 1M", "'returned < 1M': returned is");
    has_every_form(&load, "p99 > 59s", failed, "from 1 sockets in");
    let loaded = run_json(&[&load[..], &["--json", "--fail-if", "sent < 200"]].concat());
    assert_eq!(loaded["total"]["sent"], 200);
}

#[test]
fn a_saved_document_gives_the_page_of_its_run() {
    let server = Server::start("127.0.0.1:0 --buckets 1");
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (html, json, again) = (file("page.html"), file("run.json"), file("again.html"));
    let load = format!("load udp {} --rate 2k --html {html} --json", server.address);
    // At the third, more than a second has passed.
    let output = load_for_lines(&load, &folder.path().join("run.jsonl"), 3);
    assert!(output.status.success());
    fs::write(&json, &output.stdout).unwrap();
    let shown = run(&["report", "show", &json, "--html", &again]);
    assert!(
        shown.status.success(),
        "{}",
        String::from_utf8_lossy(&shown.stderr)
    );
    let page = fs::read_to_string(html).unwrap();
    assert_eq!(page, fs::read_to_string(again).unwrap());
    for title in [
        "Rate over time",
        "Round trip, over time",
        "Round trip, histogram",
        "Round trip, percentiles",
    ] {
        assert!(page.contains(title), "{title}");
    }
}

#[test]
fn bytes_have_every_form() {
    let address = sink();
    let load = [
        "load",
        "tcp",
        &address,
        "--connections",
        "2",
        "--duration",
        "500ms",
        "--workers",
        "1",
    ];
    let failed = ("opened < 3", "'opened < 3': opened is 2");
    has_every_form(&load, "failed > 0", failed, "2 of 2 connections opened");
}

#[test]
fn requests_have_every_form() {
    let server = RawServer::with_body("x");
    let url = server.url();
    let load = [
        "load",
        "http",
        &url,
        "--requests",
        "100",
        "--connections",
        "2",
        "--workers",
        "1",
    ];
    has_every_form(
        &load,
        "failed > 0",
        ("ok < 1k", "'ok < 1k': ok is 100"),
        "2 of 2 connections opened",
    );
}

#[test]
fn packets_have_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let link = format!("pcap:out={}", folder.path().join("sent.pcap").display());
    let load = ["load", "packets", &link, "--count", "300"];
    has_every_form(
        &load,
        "dropped > 0",
        ("sent < 1k", "'sent < 1k': sent is 300"),
        "300 frames",
    );
}
