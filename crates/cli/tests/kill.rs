//! Killed at any moment, the lab leaves nothing behind: no process, namespace, device or file.

use crate::common;
use corelane_tests::{PATIENCE, until};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

/// Number of kills, as the documentation promises.
const KILLS: u64 = 20;

/// Processes with their network namespace, and when they started, in ticks of 10 ms since the machine did.
fn processes() -> Vec<(String, u64)> {
    let processes = fs::read_dir("/proc").unwrap().map_while(Result::ok);
    let started = |stat: String| stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok();
    let of_process = |process: fs::DirEntry| {
        let namespace = fs::read_link(process.path().join("ns/net")).ok()?;
        let stat = fs::read_to_string(process.path().join("stat")).ok()?;
        Some((namespace.display().to_string(), started(stat)?))
    };
    processes.filter_map(of_process).collect()
}

/// Ticks of 10 ms since the machine started.
fn now() -> u64 {
    let uptime = fs::read_to_string("/proc/uptime").unwrap();
    let seconds: f64 = uptime.split_whitespace().next().unwrap().parse().unwrap();
    (seconds * 100.0) as u64
}

/// Network namespaces of the threads of these processes.
fn namespaces_of(processes: &[String]) -> BTreeSet<String> {
    let tasks = processes
        .iter()
        .filter_map(|process| fs::read_dir(format!("/proc/{process}/task")).ok());
    let threads = tasks.flat_map(|tasks| tasks.map_while(Result::ok));
    let links = threads.filter_map(|thread| fs::read_link(thread.path().join("ns/net")).ok());
    links.map(|link| link.display().to_string()).collect()
}

/// Network devices in this namespace.
fn devices() -> BTreeSet<String> {
    let entries = fs::read_dir("/sys/class/net").unwrap().map_while(Result::ok);
    entries
        .map(|entry| entry.file_name().display().to_string())
        .collect()
}

/// Processes of the lab whose working directory is `folder`, which is unique to one run.
pub fn processes_in(folder: &std::path::Path) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().map_while(Result::ok);
    let inside =
        processes.filter(|process| fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == folder));
    inside
        .map(|process| process.file_name().display().to_string())
        .collect()
}

#[test]
fn killed_at_a_random_moment_it_leaves_nothing() {
    let (here, devices_before) = (namespaces_of(&["self".to_owned()]), devices());
    // Each namespace with the time of the kill. Afterwards the kernel gives its number to the next one, so processes that
    // started later are of another test.
    let mut made = BTreeMap::new();
    for kill in 0..KILLS {
        let folder = tempfile::tempdir().unwrap();
        let report = folder.path().join("report.json");
        let mut lab = common::corelane("lab scale udp --duration 50ms --rounds 3 --json")
            .arg(&report)
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let own = || -> BTreeSet<String> {
            let all = namespaces_of(&processes_in(folder.path()));
            all.difference(&here).cloned().collect()
        };
        // On a busy machine many a run does not have its bed by the time of the kill.
        if kill % 2 == 1 {
            until("a bed is built", || {
                !own().is_empty() || lab.try_wait().unwrap().is_some()
            });
        }
        // The time of the kill is fixed and waits for nothing: it is spread over start, trials and the gaps between
        // them.
        thread::sleep(Duration::from_millis(kill * 73 % 900));
        made.extend(own().into_iter().map(|namespace| (namespace, now())));
        lab.kill().unwrap();
        lab.wait().unwrap();
        until("no process of the killed run is left", || {
            processes_in(folder.path()).is_empty()
        });
        let files: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map_while(Result::ok)
            .collect();
        let unexpected = files
            .iter()
            .filter(|file| !file.file_name().display().to_string().starts_with("report.json"));
        assert_eq!(unexpected.count(), 0, "{files:?}");
    }
    assert!(!made.is_empty(), "no moment fell into a run with a bed");
    // The kernel removes the namespaces of an ended process asynchronously.
    let is_left = |(namespace, started): &(String, u64)| {
        let killed = made.get(namespace);
        killed.is_some_and(|killed| started < killed)
    };
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left: Vec<_> = processes().into_iter().filter(is_left).collect();
        let devices: Vec<String> = devices().difference(&devices_before).cloned().collect();
        if left.is_empty() && devices.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "left: {left:?} {devices:?}");
        thread::sleep(Duration::from_millis(1));
    }
}
