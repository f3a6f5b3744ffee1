//! `corelane plan --flows` as a user runs it.

use crate::common::{Arguments, host_with_rss, refused, run, run_json};
use corelane_rss::{Steering, Tuple};
use std::fs;

const PLAN: &str = "plan --server 10.11.2.1:80 --server 10.11.2.2:8080 --clients 10.12.0.0/24 --buckets 4";

#[test]
fn flows_of_every_shape_land_where_the_embedded_steering_says() {
    for (shape, expected) in [
        ("balanced", [250, 250, 250, 250]),
        ("skewed:1", [481, 240, 160, 120]),
        ("one:2", [0, 0, 1000, 0]),
    ] {
        let mut plan = PLAN.words();
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
    let mut plan = PLAN.words();
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
            let again = run(&format!(
                "plan --server {server} --clients {} --buckets 1 --json",
                sources.trim()
            ));
            assert!(again.status.success(), "{sources}");
        }
    }
    // The key audit reads this list.
    let list = lists.join("bucket-1.flows");
    let audit = run(&format!(
        "key audit --buckets 4 --hash 2tuple --flow-list {}",
        list.to_str().unwrap()
    ));
    assert_eq!(
        audit.status.code(),
        Some(1),
        "all flows on one bucket cannot be chance"
    );
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
        let error = refused(&[&PLAN.words()[..], more].concat(), 2);
        assert!(error.contains(needed), "{needed}: {error}");
    }
}

#[test]
fn flows_are_planned_for_the_key_and_table_of_a_saved_device() {
    const KEY: &str = "c135f2a96e0b47d8812e9f5c3a60d7b4e81f4c96a2d35b70f9168ae34dc25b07961fe8a3d54c720b";
    let table = [0, 1, 2, 2, 3, 3, 3, 3];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("host.json");
    let mut document = host_with_rss(KEY, &table);
    fs::write(&file, document.to_string()).unwrap();
    let plan = [
        "plan",
        "--server",
        "10.11.2.1:80",
        "--clients",
        "10.12.0.0/24",
        "--flows",
        "400",
        "--shape",
        "one:3",
        "--json",
        "--host",
        file.to_str().unwrap(),
    ];
    for (proto, fields) in [("tcp", "4tuple"), ("udp", "2tuple")] {
        let planned = run_json(&[&plan[..], &["--proto", proto]].concat());
        let steering: Steering = serde_json::from_value(planned["steering"].clone()).unwrap();
        assert_eq!(steering.key.to_string(), KEY);
        assert_eq!(planned["hash_fields"], fields, "{proto}");
        let entries: Vec<_> = steering
            .table
            .entries()
            .iter()
            .map(|entry| entry.index())
            .collect();
        assert_eq!(entries, table.map(usize::from));
        let flows = planned["buckets"][3]["flows"].as_array().unwrap();
        let on_three = flows.iter().filter(|flow| {
            let end = |at: usize| flow[at].as_str().unwrap().parse().unwrap();
            steering
                .steerer()
                .bucket_of(&Tuple::new(end(0), end(1)).unwrap())
                .index()
                == 3
        });
        assert_eq!(on_three.count(), 400);
    }
    // Loopback has one queue without an interrupt: the command reports that and still plans the flows.
    let error = String::from_utf8(run(&plan).stderr).unwrap();
    assert!(error.contains("queue 0 of lo"), "{error}");
    let error = refused(&[&plan[..], &["--dev", "none0"]].concat(), 2);
    assert!(
        error.contains("--dev") && error.contains("none0") && error.contains("lo"),
        "{error}"
    );
    let error = refused(&[&plan[..], &["--key", KEY]].concat(), 2);
    assert!(error.contains("--key"), "{error}");
    let mut second = document["devices"][0].clone();
    second["name"] = "second0".into();
    second["rss"] = document["devices"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["name"] == "lo")
        .unwrap()["rss"]
        .clone();
    document["devices"].as_array_mut().unwrap().push(second);
    fs::write(&file, document.to_string()).unwrap();
    let error = refused(&plan, 2);
    assert!(error.contains("--dev") && error.contains("second0"), "{error}");
}

#[test]
fn a_device_that_tells_no_rule_is_refused_with_what_is_missing() {
    let plan = ["plan", "--server", "127.0.0.1:80", "--clients", "127.0.0.0/24"];
    for (more, needed) in [
        (&["--dev", "lo"][..], "rss of lo"),
        (&["--dev", "none0"], "no device none0"),
        (&["--proto", "udp"], "--host"),
        (&["--host", "/none/host.json"], "/none/host.json"),
    ] {
        let output = run(&[&plan[..], more].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && error.contains(needed),
            "{needed}: {error}"
        );
        assert!(output.stdout.is_empty());
    }
}
