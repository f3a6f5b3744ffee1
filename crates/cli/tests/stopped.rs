//! A child of a lab that is stopped for good: the first signal ends the run, with its report and without leftovers.

use crate::common;
use crate::kill::processes_in;
use corelane_host::counters::with_descendants;
use corelane_host::processes::is_stopped;
use corelane_tests::until;
use serde_json::Value;
use std::fs;
use std::process::Stdio;

/// The children of a lab, in the order of their start: the server, or the keeper of a subject, and the generator.
fn children(lab: u32) -> Vec<u32> {
    let is_child = |process: &u32| {
        let words = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).nth(1) == Some(b"run-child")
    };
    let started = |process: &u32| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let after_name = stat.rsplit_once(')').map_or("", |(_, after_name)| after_name);
        after_name
            .split_whitespace()
            .nth(19)
            .and_then(|ticks| ticks.parse::<u64>().ok())
    };
    let mut children = with_descendants(lab).unwrap();
    children.retain(is_child);
    children.sort_by_key(|process| (started(process), *process));
    children
}

/// Stops a child, and interrupts the run.
fn stop_and_interrupt(flags: &[&str], child: usize) {
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("report.json");
    let mut lab = common::corelane("lab scale http --duration 1h --rounds 1 --connections 8 --json")
        .arg(&saved)
        .args(flags)
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    until("server and generator run", || children(lab.id()).len() == 2);
    let child = children(lab.id())[child];
    common::signal(child, "STOP");
    until("it is stopped", || is_stopped(child));
    common::signal(lab.id(), "INT");
    assert!(lab.wait().unwrap().success(), "{flags:?}");
    assert_eq!(processes_in(folder.path()), [""; 0], "{flags:?}");
    let report: Value = serde_json::from_slice(&fs::read(&saved).unwrap()).unwrap();
    assert_eq!(report["interrupted"], true, "{flags:?}");
    assert_eq!(report["trials"][0]["status"], "interrupted", "{flags:?}");
}

#[test]
fn the_first_signal_ends_a_run_whose_generator_is_stopped() {
    stop_and_interrupt(&[], 1);
}

#[test]
fn the_first_signal_ends_a_run_whose_server_is_stopped() {
    stop_and_interrupt(&[], 0);
}

#[test]
fn the_first_signal_ends_a_run_whose_keeper_of_a_subject_is_stopped() {
    let program = env!("CARGO_BIN_EXE_corelane");
    let subject = format!("exec {program} serve http $CORELANE_ADDRESS:$CORELANE_PORT");
    stop_and_interrupt(&["--subject", &subject], 0);
}

/// The document of a run of one trial, whose subject receives a signal in the middle.
fn signalled(signal: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let [saved, timeline] = ["report.json", "lines"].map(|name| folder.path().join(name));
    let program = env!("CARGO_BIN_EXE_corelane");
    let subject = format!("exec {program} serve http $CORELANE_ADDRESS:$CORELANE_PORT --share-cpus");
    let lab = "lab scale http --bed namespaces --max-steal 100% --duration 12s --rounds 1 --active 1 --connections 8";
    let lab = common::corelane(lab)
        .args(["--subject", &subject])
        .arg(format!("--json={}", saved.display()))
        .arg(format!("--timeline={}", timeline.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("a second has passed, after the head", || {
        common::newlines(&timeline) > 1
    });
    let is_subject = |process: &u32| {
        let words = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).nth(1) == Some(b"serve")
    };
    let mut processes = with_descendants(lab.id()).unwrap();
    processes.retain(is_subject);
    common::signal(processes[0], signal);
    let output = lab.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    serde_json::from_slice(&fs::read(&saved).unwrap()).unwrap()
}

#[test]
fn a_subject_that_stops_answering_fails_its_trial_with_the_time() {
    if !common::namespaces_for("http") {
        return;
    }
    let report = signalled("STOP");
    let trial = &report["trials"][0];
    let why = trial["why"].as_str().unwrap_or_default();
    assert_eq!(trial["status"], "failed", "{why}");
    assert!(
        why.starts_with("10.11.2.1:8080 has answered nothing since "),
        "{why}"
    );
    assert!(
        why.ends_with("the server's processes are stopped (SIGSTOP)"),
        "{why}"
    );
}

#[test]
fn a_subject_that_ends_in_a_trial_is_named_with_the_time_and_the_signal() {
    if !common::namespaces_for("http") {
        return;
    }
    let report = signalled("KILL");
    let trial = &report["trials"][0];
    let why = trial["why"].as_str().unwrap_or_default();
    assert_eq!(trial["status"], "failed", "{why}");
    assert!(why.starts_with("10.11.2.1:8080 went at "), "{why}");
    assert!(
        why.contains("the subject ended by itself (signal SIGKILL)"),
        "{why}"
    );
}

#[test]
fn the_first_signal_ends_a_run_that_waits_for_its_subject() {
    let folder = tempfile::tempdir().unwrap();
    let mut lab = common::corelane("lab scale http --rounds 1 --connections 8 --json")
        .arg(folder.path().join("report.json"))
        .args(["--subject", "touch started; exec sleep 1000"])
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    until("the subject runs", || folder.path().join("started").exists());
    common::signal(lab.id(), "INT");
    assert!(lab.wait().unwrap().success());
    assert_eq!(processes_in(folder.path()), [""; 0]);
}
