//! Output files: one that cannot be written is noticed before the run, and one that cannot be written after it loses
//! nothing.

use crate::common::{corelane, mounting, refused, run};
use serde_json::Value;
use std::fs;
use std::io;
use std::process::Command;

const SIMULATION: [&str; 6] = ["lab", "simulate", "--buckets", "2", "--table-size", "128"];

#[test]
fn an_output_that_cannot_be_written_is_refused_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let (there, file) = (folder.path().display().to_string(), folder.path().join("file"));
    fs::write(&file, "").unwrap();
    let (absent, below) = (format!("{there}/absent/x"), format!("{}/x", file.display()));
    // Each would run for an hour, or read a standard input that never ends.
    let hour = ["--duration", "1h"];
    let generators = [
        vec!["load", "udp", "127.0.0.1:9"],
        vec!["load", "tcp", "127.0.0.1:9"],
        vec!["load", "http", "http://127.0.0.1:9/"],
        vec!["load", "packets", "ring:outputs"],
    ];
    for (generator, flag) in generators
        .iter()
        .zip(["--html", "--export-markdown", "--export-csv", "--html"])
    {
        let error = refused(&[generator, &hour[..], &[flag, &absent]].concat(), 2);
        assert!(
            error.contains(&format!("{flag}: {absent}: No such file")),
            "{error}"
        );
    }
    for (flag, path, why) in [
        ("--json", &absent, "No such file"),
        ("--html", &there, "s a directory"),
        ("--export-csv", &below, "Not a directory"),
    ] {
        let error = refused(&[&SIMULATION[..], &[flag, path]].concat(), 2);
        assert!(
            error.contains(&format!("{flag}: {path}: ")) && error.contains(why),
            "{error}"
        );
    }
    // The output comes first: the documents are not read.
    for show in ["report show /nope", "report diff /nope /nope"] {
        let error = refused(&format!("{show} --html {absent}"), 2);
        assert!(error.contains(&format!("--html: {absent}: ")), "{error}");
    }
    let (input, _open) = io::pipe().unwrap();
    let mut build = corelane(&["table", "build", "-", "--output", &absent]);
    let output = build.stdin(input).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let plan = "plan --server 10.11.2.1 --clients 10.11.2.0/24 --buckets 2 --flows 4 --hash 2tuple --lists";
    let error = refused(&format!("{plan} {below}"), 2);
    assert!(error.contains(&format!("--lists: {below}: ")), "{error}");
    assert_eq!(fs::read_dir(&there).unwrap().count(), 1, "a check leaves nothing");
}

/// The text report, and the JSON document after it.
fn parts(output: &str) -> (&str, Value) {
    let (text, json) = output.split_once("\n{").expect("a text and a document");
    (
        text,
        serde_json::from_str(&format!("{{{json}")).expect("the whole document"),
    )
}

#[test]
fn a_full_disk_loses_no_result() {
    for flag in ["--json", "--html"] {
        let output = run(&[&SIMULATION[..], &[flag, "/dev/full"]].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(
            error.contains(&format!("{flag} /dev/full: No space left")),
            "{error}"
        );
        let printed = String::from_utf8(output.stdout).unwrap();
        let (text, document) = parts(&printed);
        assert!(
            text.starts_with("tool ") && text.ends_with("hash and table."),
            "{text}"
        );
        assert_eq!(document["schema"], "corelane/simulate/1");
    }
    let output = run("load packets pcap:out=/dev/null --count 100 --html /dev/full");
    assert_eq!(output.status.code(), Some(1));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(parts(&printed).1["sent"], 100);
}

#[test]
fn a_full_disk_keeps_no_part_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let (there, program) = (folder.path().display(), env!("CARGO_BIN_EXE_corelane"));
    let mounted = format!("mount -t tmpfs -o size=4k none {there} && ");
    let simulation = SIMULATION.join(" ");
    let Some(output) = mounting(&format!(
        "{mounted} {program} {simulation} --html {there}/page.html; ls -A {there} >&2"
    )) else {
        return;
    };
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("page.html: No space left"), "{error}");
    assert!(
        error.trim_end().ends_with("was printed instead)"),
        "a file is left: {error}"
    );
    parts(&String::from_utf8(output.stdout).unwrap());
    let packets =
        format!("load packets pcap:out={there}/sent.pcap --count 100k --export-csv {there}/sent.csv");
    let output = mounting(&format!("{mounted} {program} {packets}; ls -A {there} >&2")).unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.trim_end().ends_with("\nsent.pcap"), "{error}");
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(
        printed.contains("sent.pcap: cannot be written: No space left"),
        "{printed}"
    );
}

#[test]
fn a_capture_on_a_full_disk_is_reported_with_what_was_sent() {
    for more in ["", "--json"] {
        let output = run(&format!("load packets pcap:out=/dev/full --count 100k {more}"));
        let (printed, error) = (output.stdout, String::from_utf8(output.stderr).unwrap());
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(
            error.contains("/dev/full: cannot be written: No space left"),
            "{error}"
        );
        let printed = String::from_utf8(printed).unwrap();
        if more.is_empty() {
            assert!(
                printed.contains("failed: /dev/full: cannot be written: No space left"),
                "{printed}"
            );
            continue;
        }
        let loaded: Value = serde_json::from_str(&printed).unwrap();
        let why = loaded["failed_because"].as_str().unwrap();
        assert!(
            why.starts_with("/dev/full: cannot be written: No space left"),
            "{why}"
        );
        assert!(loaded["sent"].as_u64().unwrap() < 100_000);
    }
}

#[test]
fn a_pipe_gets_the_document_once() {
    let (program, simulation) = (env!("CARGO_BIN_EXE_corelane"), SIMULATION.join(" "));
    let script = format!("{program} {simulation} --json /dev/fd/3 3>&1 >/dev/null");
    let output = Command::new("sh")
        .args(["-c", &script])
        .output()
        .expect("sh starts");
    assert!(output.status.success());
    let document: Value = serde_json::from_slice(&output.stdout).expect("one document");
    assert_eq!(document["schema"], "corelane/simulate/1");
}
