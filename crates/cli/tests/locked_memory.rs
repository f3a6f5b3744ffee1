//! Servers of a user who may lock little memory: io_uring is not chosen, and refused by name if it was requested.

use crate::common;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

/// The user `nobody`.
const NOBODY: u32 = 65_534;

/// Runs the program with 256 KiB of locked memory: enough for two rings, and not for eight.
fn limited(arguments: &str) -> Output {
    let (_folder, program) = common::program_for_anyone();
    let mut command = Command::new("bash");
    let line = format!("ulimit -l 256 && exec {} {arguments}", program.display());
    command.args(["-c", &line]).current_dir("/");
    // Root may lock any amount.
    if std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0) {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.output().unwrap()
}

#[test]
fn servers_whose_rings_cannot_be_locked_use_epoll_or_say_why_they_cannot_start() {
    if !corelane_host::limits::rings_are_counted() {
        eprintln!("skipped: this kernel does not count the memory of rings (Linux 6.14)");
        return;
    }
    let served = limited("serve http 127.0.0.1:0 --buckets 8 --share-cpus --duration 100ms --json");
    let error = String::from_utf8_lossy(&served.stderr).into_owned();
    assert!(served.status.success(), "{error}");
    let served: serde_json::Value = serde_json::from_slice(&served.stdout).unwrap();
    assert_eq!(served["engine"], "epoll");
    if !common::has_engine("io_uring") {
        return;
    }
    for verb in ["udp", "tcp", "http"] {
        let refused = limited(&format!(
            "serve {verb} 127.0.0.1:0 --buckets 8 --share-cpus --duration 100ms --engine io_uring"
        ));
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(77), "{error}");
        assert!(
            error.contains("--engine: ") && error.contains("ulimit -l"),
            "{error}"
        );
    }
}
