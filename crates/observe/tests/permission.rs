//! Errors without permission name the setting to change. The test needs root, to change its user.

use std::env;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, id};

use corelane_observe::locks::LockWatch;
use corelane_observe::profile::{Processes, Profiler};

use crate::common::alone;

/// Environment variable that is set for the child.
const CHILD: &str = "CORELANE_OBSERVE_UNPRIVILEGED_CHILD";

/// The user `nobody`, which has this number in every distribution.
const NOBODY: u32 = 65534;

#[test]
fn without_permission_the_errors_name_what_to_allow() {
    if env::var_os(CHILD).is_some() {
        return speak_as_nobody();
    }
    let _alone = alone();
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap();
    let paranoid: i32 = paranoid.trim().parse().unwrap();
    if paranoid < 1 {
        eprintln!("skipped: kernel.perf_event_paranoid is {paranoid}, so every user may observe");
        return;
    }
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: only root can become another user");
        return;
    }
    let output = Command::new("/proc/self/exe")
        .args([
            "--exact",
            "permission::without_permission_the_errors_name_what_to_allow",
            "--nocapture",
        ])
        .env(CHILD, "1")
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let wanted = [
        format!(
            "profile: not permitted to observe cpu-clock of CPU 0: kernel.perf_event_paranoid is {paranoid}"
        ),
        "`sysctl kernel.perf_event_paranoid=0`".to_owned(),
        "CAP_PERFMON".to_owned(),
        "locks: cannot read the tracepoint lock:contention_begin in tracefs".to_owned(),
    ];
    for part in wanted {
        assert!(printed.contains(&part), "{part} is not in: {printed}");
    }
}

/// Prints the errors of a user without permission.
fn speak_as_nobody() {
    let own = Processes {
        server: vec![id()],
        generator: id(),
    };
    let profile = Profiler::start(&[0], &own).err();
    let locks = LockWatch::start(&[0], &[]).err();
    println!("profile: {}", profile.unwrap());
    println!("locks: {}", locks.unwrap());
}
