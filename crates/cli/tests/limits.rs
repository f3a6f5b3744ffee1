//! More sockets than a descriptor table holds, and a run without privileges.

use crate::common;
use std::net::UdpSocket;
use std::os::unix::process::CommandExt;

/// The user `nobody`.
const NOBODY: u32 = 65_534;

#[test]
fn sockets_beyond_65_535_and_beyond_one_descriptor_table() {
    // If root may raise the limit, one table would hold them all: 20,000 is what many containers allow.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = silent.local_addr().unwrap().to_string();
    let command = format!(
        "ulimit -n $(( $(ulimit -Hn) < 20000 ? $(ulimit -Hn) : 20000 )); exec {} load udp {target} --sockets 70000 \
         --sources 127.2.0.0/24 --workers 2 --count 70000 --no-answers --json",
        env!("CARGO_BIN_EXE_corelane")
    );
    let output = std::process::Command::new("bash")
        .args(["-c", &command])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let loaded: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(loaded["sockets"], 70_000);
    assert_eq!(loaded["total"]["sent"], 70_000);
    assert!(
        loaded["workers"].as_array().unwrap().len() > 3,
        "four tables or more for 70,000 sockets"
    );
}

#[test]
fn without_privilege_the_lab_runs_in_a_user_namespace_or_says_why_not() {
    let (_folder, program) = common::program_for_anyone();
    let mut lab = std::process::Command::new(&program);
    lab.args([
        "lab",
        "scale",
        "udp",
        "--max-steal",
        "100%",
        "--duration",
        "100ms",
        "--rounds",
        "1",
        "--buckets",
        "1",
        "--json",
    ]);
    // Only root can change its user; any other user already lacks privileges.
    if std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0) {
        lab.uid(NOBODY).gid(NOBODY);
    }
    let output = lab.current_dir("/").output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let kind = report["bed"]["kind"].as_str().unwrap();
    assert!(["user_namespace", "loopback"].contains(&kind), "{kind}");
    assert!(
        report["bed"]["reason"].is_string(),
        "it reports why it has no better bed"
    );
    let trials = report["trials"].as_array().unwrap();
    let is_seen = |trial: &serde_json::Value| common::number(&trial["seen"]) > 0;
    assert!(trials.iter().any(is_seen), "{trials:?}");
    for trial in trials {
        // A generator without a CPU during the trial sends nothing.
        assert!(is_seen(trial) || trial["generated"] == 0, "{trial}");
    }
}

#[test]
fn saved_reports_are_shown_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("run.json");
    let path = saved.to_str().unwrap();
    let lab = [
        "lab",
        "scale",
        "udp",
        "--max-steal",
        "100%",
        "--duration",
        "100ms",
        "--rounds",
        "1",
        "--buckets",
        "1",
        "--json",
        path,
    ];
    let first = common::run(&lab);
    let shown = common::run(&["report", "show", path]);
    assert_eq!(
        String::from_utf8(first.stdout).unwrap(),
        String::from_utf8(shown.stdout).unwrap()
    );
    let diff = common::run(&["report", "diff", path, path]);
    assert!(diff.status.success() && !diff.stdout.is_empty());
    let other = folder.path().join("other.json");
    std::fs::write(&other, "{}").unwrap();
    assert!(common::refused(&["report", "show", other.to_str().unwrap()], 2).contains("other.json"));
}
