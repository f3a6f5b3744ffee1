//! `corelane plan --flows` as a user runs it.

mod common;

use common::{refused, run, run_json};
use corelane_rss::{Steering, Tuple};
use std::fs;

const PLAN: [&str; 9] = [
    "plan",
    "--server",
    "10.11.2.1:80",
    "--server",
    "10.11.2.2:8080",
    "--clients",
    "10.12.0.0/24",
    "--buckets",
    "4",
];

#[test]
fn flows_of_every_shape_land_where_the_embedded_steering_says() {
    for (shape, expected) in [
        ("balanced", [250, 250, 250, 250]),
        ("skewed:1", [481, 240, 160, 120]),
        ("one:2", [0, 0, 1000, 0]),
    ] {
        let mut plan = PLAN.to_vec();
        plan.extend(["--flows", "1k", "--shape", shape, "--json"]);
        let document = run_json(&plan);
        assert_eq!(document["schema"], "corelane/flow-plan/1");
        let steering: Steering = serde_json::from_value(document["steering"].clone()).unwrap();
        let steerer = steering.steerer();
        let mut counts = Vec::new();
        for (number, bucket) in document["buckets"].as_array().unwrap().iter().enumerate() {
            let flows = bucket["flows"].as_array().unwrap();
            for flow in flows {
                let end = |at: usize| flow[at].as_str().unwrap().parse().unwrap();
                let tuple = Tuple::new(end(0), end(1)).unwrap();
                assert_eq!(steerer.bucket_of(&tuple).index(), number, "{tuple}");
            }
            counts.push(flows.len());
        }
        assert!(
            counts
                .iter()
                .zip(expected)
                .all(|(count, expected)| count.abs_diff(expected) <= 1),
            "{counts:?}"
        );
        assert_eq!(counts.iter().sum::<usize>(), 1000);
    }
}

#[test]
fn lists_are_flows_a_line_and_pools_that_the_planner_reads_again() {
    let folder = tempfile::tempdir().unwrap();
    let lists = folder.path().join("lists");
    let mut plan = PLAN.to_vec();
    plan.extend([
        "--flows",
        "100",
        "--hash",
        "2tuple",
        "--lists",
        lists.to_str().unwrap(),
    ]);
    let output = run(&plan);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    for bucket in 0..4 {
        let flows = fs::read_to_string(lists.join(format!("bucket-{bucket}.flows"))).unwrap();
        assert_eq!(flows.lines().count(), 25);
        let sources = fs::read_to_string(lists.join(format!("bucket-{bucket}.sources"))).unwrap();
        for server in ["10.11.2.1", "10.11.2.2"] {
            let again = run(&[
                "plan",
                "--server",
                server,
                "--clients",
                sources.trim(),
                "--buckets",
                "1",
                "--json",
            ]);
            assert!(again.status.success(), "{sources}");
        }
    }
    // A list is what the audit of keys reads.
    let list = lists.join("bucket-1.flows");
    let audit = run(&[
        "key",
        "audit",
        "--buckets",
        "4",
        "--hash",
        "2tuple",
        "--flow-list",
        list.to_str().unwrap(),
    ]);
    assert_eq!(audit.status.code(), Some(1), "all on one bucket is no chance");
}

#[test]
fn what_cannot_be_planned_is_refused_by_flag() {
    for (more, needed) in [
        (&["--flows", "0"][..], "--flows"),
        (&["--flows", "10", "--shape", "one:4"], "--shape"),
        (&["--flows", "10", "--shape", "round"], "--shape"),
        (&["--flows", "10k", "--ports", "4000-4001"], "flows are missing"),
        (&["--flows", "10", "--server", "10.11.2.3"], "--server"),
        (
            &["--flows", "10", "--server", "[::1]:80", "--clients", "fd00::1"],
            "--clients",
        ),
        (&[], "--flows"),
    ] {
        let error = refused(&[&PLAN[..], more].concat(), 2);
        assert!(error.contains(needed), "{needed}: {error}");
    }
}
