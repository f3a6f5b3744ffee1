//! `corelane lab rebalance` as a user runs it.

use crate::common::{alone_on_loopback, number, refused, run, run_json};
use corelane_tests::{undisturbed, until};
use serde_json::Value;

const QUICK: &str =
    "lab rebalance --max-steal 100% --buckets 4 --share-cpus --rounds 1 --duration 300ms --rate 5k";

/// Runs the experiment, again while the generator of a phase had too little of its time for half of the 1,500 datagrams.
fn lab(more: &str) -> Value {
    let mut document = Value::Null;
    until("each phase has sent half of its datagrams", || {
        document = run_json(&format!("{QUICK} {more} --json"));
        let phases = document["phases"].as_array().unwrap();
        phases.iter().all(|phase| number(&phase["sent"]) > 750)
    });
    document
}

#[test]
fn a_skewed_load_is_levelled_while_it_runs_and_nothing_is_lost() {
    for family in ["", "--ipv6"] {
        undisturbed(|| assert_levelled(&lab(family)));
    }
}

fn assert_levelled(document: &Value) {
    assert_eq!(document["schema"], "corelane/rebalance/1");
    let phases = document["phases"].as_array().unwrap();
    let names: Vec<_> = phases
        .iter()
        .map(|phase| phase["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["static", "before", "during", "after"]);
    for phase in phases {
        assert_eq!(
            (&phase["lost"], &phase["refused"]),
            (&Value::from(0), &Value::from(0)),
            "{phase}"
        );
        assert_eq!(phase["bucket_datagrams"].as_array().unwrap().len(), 4);
        let seen: u64 = phase["bucket_datagrams"]
            .as_array()
            .unwrap()
            .iter()
            .map(|seen| seen.as_u64().unwrap())
            .sum();
        assert_eq!(phase["sent"], seen, "{phase}");
        // While the table does not change, every datagram arrives at the bucket that the table names.
        if phase["name"] != "during" {
            assert_eq!(phase["steering_samples"], phase["steering_right"], "{phase}");
        }
    }
    assert!(phases[2]["table_changes"].as_u64().unwrap() > 0, "{}", phases[2]);
    let decided = &document["decisions"][0];
    let load = |name: &str| decided[name].as_f64().unwrap();
    assert!(load("fullest_after") <= 1.05 * load("bound"), "{decided}");
    let fullest = |phase: usize| phases[phase]["fullest_over_mean"].as_f64().unwrap();
    assert!(
        fullest(3) < fullest(1),
        "{} after, {} before",
        fullest(3),
        fullest(1)
    );
    assert_eq!(document["verdict"]["nothing_lost"], true);
}

#[test]
fn the_bed_is_named_and_loopback_had_when_asked_for() {
    let _alone = alone_on_loopback();
    undisturbed(|| {
        let document = lab("--bed loopback");
        assert_eq!(document["bed"]["kind"], "loopback");
        let reason = document["bed"]["reason"].as_str().unwrap();
        assert!(reason.contains("--bed loopback"), "{document}");
        assert_eq!(document["verdict"]["nothing_lost"], true);
    });
    let output = run(&format!("{QUICK} --bed namespaces"));
    let (text, error) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    if output.status.code() == Some(77) {
        eprintln!("skipped: {error}");
        return;
    }
    assert!(output.status.success(), "{error}");
    assert!(text.contains("joined by a veth pair"), "{text}");
}

#[test]
fn the_text_fits_100_columns_and_ends_with_the_verdict() {
    let output = run(QUICK);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.lines().last().unwrap().contains("lost per million under"),
        "{text}"
    );
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn what_cannot_be_rebalanced_is_refused_by_flag() {
    for (more, needed) in [
        (&["--buckets", "1"][..], "--buckets"),
        (&["--buckets", "2", "--share-cpus", "--exponent=-1"], "--exponent"),
    ] {
        let error = refused(&[&["lab", "rebalance"], more].concat(), 2);
        assert!(error.contains(needed), "{needed}: {error}");
    }
}
