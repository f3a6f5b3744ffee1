//! Standard output and standard error that nobody reads, or on a full disk: no verb panics, and each gives its verdict.

use crate::common::{corelane, signal};
use crate::scrape::Exposing;
use std::fs::{self, File};
use std::io;
use std::process::Stdio;

/// A pipe whose reader has left.
fn unread() -> Stdio {
    let (_, writer) = io::pipe().unwrap();
    writer.into()
}

/// A disk without space.
fn full() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

/// Commands that write to both, each with its exit code.
fn verdicts(folder: &str) -> Vec<(String, i32)> {
    let (pairs, addresses) = (format!("{folder}/pairs"), format!("{folder}/addresses"));
    fs::write(&pairs, "0x1 3\n").unwrap();
    fs::write(&addresses, "192.0.2.1\n").unwrap();
    let (load, timeline) = (
        "load packets pcap:out=/dev/null --count 100",
        format!("{folder}/timeline"),
    );
    let made = corelane(&format!("{load} --timeline {timeline}"))
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let whole = fs::read_to_string(&timeline).unwrap();
    fs::write(&timeline, &whole[..whole.len() - 2]).unwrap();
    vec![
        ("hash x".to_owned(), 2),
        ("hash localhost:1 127.0.0.1:2".to_owned(), 0),
        (format!("report merge {timeline}"), 0),
        (format!("{load} --html {folder}/page.html"), 0),
        (format!("{load} --fail-if sent>0"), 3),
        (format!("verify --queues 4 --log {pairs}"), 1),
        (format!("table show --entries {addresses}"), 0),
    ]
}

#[test]
fn a_standard_error_that_cannot_be_written_changes_no_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    for (line, code) in verdicts(&folder.path().display().to_string()) {
        for stderr in [unread, full] {
            let ended = corelane(&line).stdout(Stdio::null()).stderr(stderr()).status();
            assert_eq!(ended.unwrap().code(), Some(code), "{line}");
        }
    }
}

#[test]
fn a_reader_that_leaves_changes_no_verdict_and_what_a_full_disk_lost_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    for (line, code) in verdicts(&folder.path().display().to_string()) {
        let ended = |stdout: Stdio| {
            let output = corelane(&line).stdout(stdout).stderr(Stdio::piped()).output();
            let output = output.unwrap();
            (output.status.code(), String::from_utf8(output.stderr).unwrap())
        };
        let (left, error) = ended(unread());
        assert_eq!(left, Some(code), "{line}: {error}");
        let (lost, error) = ended(full());
        assert_eq!(lost, Some(code.max(1)), "{line}: {error}");
        let named = error.contains("standard output: No space left on device");
        assert_eq!(named, code == 0, "{line}: {error}");
    }
}

#[test]
fn a_generator_whose_lines_nobody_reads_runs_to_its_end_and_saves_its_document() {
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("run.json");
    let load = "load packets pcap:out=/dev/null --rate 100 --duration 2500ms";
    let ended = corelane(&format!("{load} --json={}", saved.display()))
        .stdout(unread())
        .status();
    assert!(ended.unwrap().success());
    let document: serde_json::Value = serde_json::from_str(&fs::read_to_string(&saved).unwrap()).unwrap();
    assert_eq!(
        (&document["sent"], &document["interrupted"]),
        (&250.into(), &false.into())
    );
}

#[test]
fn a_server_whose_output_nobody_reads_prints_its_flows_and_goes_on() {
    let mut server = Exposing::start("serve udp 127.0.0.1:0 --buckets 1 --flows");
    server.listening();
    server.process.stdout = None;
    signal(server.process.id(), "USR1");
    // Each is answered after the server has looked for the signal once more.
    for _ in 0..3 {
        server.scrape();
    }
    signal(server.process.id(), "INT");
    assert!(server.process.wait().unwrap().success());
}
