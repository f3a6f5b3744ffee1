//! `corelane lab nic` on an emulated NIC with real RSS: every frame has the computed hash, queue and CPU, and wrong
//! rules are detected. In the same guest, `host` and `explain` describe the device.

use crate::common::{self, run, run_json};
use corelane_host::counters::with_descendants;
use corelane_tests::{guest_parts, until};
use serde_json::Value;
use std::fs;
use std::process::Stdio;

/// The document of the experiment, or `None` after printing what this machine lacks.
fn report(arguments: &[&str]) -> Option<Value> {
    let output = run(arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) {
        eprintln!("skipped: {error}");
        return None;
    }
    assert!(
        output.status.success(),
        "{error}\n{}",
        String::from_utf8_lossy(&output.stdout)
    );
    Some(serde_json::from_slice(&output.stdout).expect("one document"))
}

#[test]
fn the_first_signal_stops_the_guest_and_the_run_reports() {
    let Some(_) = guest_parts() else { return };
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("report.json");
    let mut lab = common::corelane("lab nic --json");
    let mut lab = lab.arg(&saved).stdout(Stdio::null()).spawn().unwrap();
    let is_emulator = |process: &u32| {
        let name = fs::read_to_string(format!("/proc/{process}/comm"));
        name.is_ok_and(|name| name.starts_with("qemu"))
    };
    until("a guest runs", || {
        with_descendants(lab.id()).is_ok_and(|all| all.iter().any(is_emulator))
            || lab.try_wait().unwrap().is_some()
    });
    if lab.try_wait().unwrap().and_then(|status| status.code()) == Some(77) {
        eprintln!("skipped: lab nic cannot run here");
        return;
    }
    common::signal(lab.id(), "INT");
    assert_eq!(lab.wait().unwrap().code(), Some(1), "nothing is proved");
    let report: Value = serde_json::from_slice(&fs::read(saved).unwrap()).unwrap();
    assert_eq!(report["interrupted"], true);
    // A guest that runs to its end counts frames.
    let models = report["models"].as_array().unwrap();
    assert_eq!(
        (models.len(), &models[0]["status"]),
        (1, &"interrupted".into()),
        "{report}"
    );
    assert_eq!(models[0]["probed"], Value::Null);
}

#[test]
fn every_frame_has_the_hash_the_queue_and_the_cpu_that_were_computed() {
    let Some(report) = report(&["lab", "nic", "--json"]) else {
        return;
    };
    assert_eq!(report["schema"], "corelane/nic/1");
    let verdict = &report["verdict"];
    assert!(verdict["frames"].as_u64().unwrap() >= 2_000, "{verdict}");
    for count in ["sent", "right_hash", "right_queue", "right_program", "right_cpu"] {
        assert_eq!(verdict[count], verdict["frames"], "{count} of {verdict}");
    }
    let virtio = &report["models"][0];
    assert_eq!(virtio["model"], "virtio-net");
    let rounds = virtio["probed"]["rounds"].as_array().unwrap();
    let types: std::collections::BTreeSet<&str> = rounds
        .iter()
        .flat_map(|round| round["types"].as_object().unwrap().keys())
        .map(String::as_str)
        .collect();
    let expected = ["IPV4", "IPV6", "TCP_IPV4", "TCP_IPV6", "UDP_IPV4", "UDP_IPV6"];
    assert_eq!(types.into_iter().collect::<Vec<_>>(), expected);
    for round in rounds {
        assert!(round["key"].as_str().unwrap().bytes().any(|digit| digit != b'0'));
        assert_eq!(round["reads_back"], true);
        let entries: std::collections::BTreeSet<u64> = round["entries_by_queue"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_u64)
            .collect();
        assert_eq!(entries.len(), 4, "unequal weights over four queues: {round}");
        assert_eq!(round["wrong_table"]["misplaced"], round["frames"]);
        assert!(round["wrong_key"]["misplaced"].as_u64().unwrap() > 0);
    }
    let igb = &report["models"][1];
    assert_eq!(igb["model"], "igb");
    if let Some(reason) = igb["skipped"].as_str() {
        println!("skipped: igb: {reason}");
    } else {
        // Its driver keeps the kernel's key.
        let rounds = igb["probed"]["rounds"].as_array().unwrap();
        assert_eq!(rounds[0]["key"], rounds[1]["key"]);
        assert!(rounds.iter().all(|round| round["reads_back"] == true), "{igb}");
    }
}

#[test]
fn the_plan_can_be_seen_before() {
    let plan = run_json("lab nic --dry-run --flows 8");
    assert_eq!(plan["flows"], 8);
    assert_eq!(plan["rounds"][0]["table"].as_array().unwrap().len(), 128);
}
