//! `lab engines` as a user runs it: the document has every way with its reference and plausible figures.

use crate::common::{alone_on_loopback, refused, run, run_json};
use serde_json::Value;

/// Server and client may have a CPU too rarely for a figure: such a trial is tolerated.
const QUICK: &str = "lab engines --max-steal 100% --rounds 2 --tolerate";

fn positive(value: &Value) -> f64 {
    let number = value.as_f64().unwrap_or_else(|| panic!("a number, not {value}"));
    assert!(number.is_finite() && number > 0.0, "{number}");
    number
}

fn named<'a>(entries: &'a Value, name: &str) -> Vec<&'a Value> {
    let all = entries.as_array().expect("a list").iter();
    all.filter(|entry| entry["name"] == name).collect()
}

/// The ways that this machine does not support, each with its reason.
fn left_out(report: &Value) -> Vec<&str> {
    let all = report["left_out"].as_array().unwrap().iter();
    all.map(|entry| {
        assert!(!entry["because"].as_str().unwrap().is_empty());
        entry["name"].as_str().unwrap()
    })
    .collect()
}

/// Whether a trial of a way answered enough datagrams. The others failed for no other reason than that.
fn has_figure(report: &Value, way: &str) -> bool {
    let trials = named(&report["udp_trials"], way);
    let is_valid = |trial: &&Value| trial["status"] == "valid";
    for failed in trials.iter().filter(|trial| !is_valid(trial)) {
        assert!(
            failed["why"].as_str().unwrap().contains("too few for a figure"),
            "{failed}"
        );
    }
    trials.iter().any(is_valid)
}

#[test]
fn every_way_stands_beside_its_reference() {
    let report = run_json(&format!("{QUICK} --json"));
    assert_eq!(report["schema"], "corelane/engines/1");
    assert!(report["conditions"]["conditions"].as_array().is_some());
    let missing = left_out(&report);
    for tuple in ["ipv4-2tuple", "ipv4-4tuple", "ipv6-2tuple", "ipv6-4tuple"] {
        for (way, batches) in [
            ("oracle", vec![1]),
            ("gfni", vec![1, 64]),
            ("clmul", vec![1, 64]),
            ("tables", vec![1, 64]),
        ] {
            if missing.contains(&way) {
                continue;
            }
            let entries = named(&report["toeplitz"], way);
            let of_tuple = entries.iter().filter(|entry| entry["tuple"] == tuple);
            let found: Vec<u64> = of_tuple
                .map(|entry| {
                    positive(&entry["ns_per_hash"]);
                    let ratio = positive(&entry["ratio_to_oracle"]);
                    assert!(way != "oracle" || ratio == 1.0, "{entry}");
                    assert_eq!(entry["ns_per_hash_spread"]["count"], 2);
                    entry["batch"].as_u64().unwrap()
                })
                .collect();
            assert_eq!(found, batches, "{way} {tuple}");
        }
    }
    for way in ["basic", "batch", "uring", "gso", "gro_gso_16", "gro_gso_64"] {
        if missing.contains(&way) {
            continue;
        }
        let entries = named(&report["udp"], way);
        assert_eq!(entries.len(), 1, "{way}");
        assert_eq!(named(&report["udp_trials"], way).len(), 2, "{way}");
        if has_figure(&report, way) {
            positive(&entries[0]["datagrams_per_cpu_second"]);
        }
        if way == "basic" && has_figure(&report, way) {
            assert_eq!(positive(&entries[0]["ratio_to_basic"]), 1.0, "{}", entries[0]);
        }
    }
}

#[test]
fn only_the_ways_named_and_their_references_are_measured() {
    let report = run_json(&format!("{QUICK} --ways tables --json"));
    let names: Vec<&Value> = report["toeplitz"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["name"])
        .collect();
    assert!(
        names.iter().all(|name| *name == "oracle" || *name == "tables") && names.len() == 12,
        "{names:?}"
    );
    assert_eq!(report["udp"].as_array().unwrap().len(), 0);
    assert!(report["bed"].is_null());
    let refusal = refused("lab engines --ways avx", 2);
    assert!(
        refusal.contains("--ways") && refusal.contains("gro_gso_64"),
        "{refusal}"
    );
}

#[test]
fn the_text_fits_a_hundred_columns_on_loopback_too() {
    let _alone = alone_on_loopback();
    let output = run(&format!("{QUICK} --ways udp --bed loopback --duration 1s"));
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("loopback") && text.contains("Best here:"), "{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}
