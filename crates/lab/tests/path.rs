//! `lab path`: each scenario, small, gives the values that its rules say.

use corelane_lab::document::{Document, Head};
use corelane_lab::experiment::{Experiment, Schedule, run};
use corelane_lab::path::{Path, PathReport, Request, ScenarioName};
use corelane_report::page::Rendered;
use serde_json::Value;
use std::sync::atomic::AtomicBool;

fn report(scenario: ScenarioName, packets: u64, buckets: u16) -> PathReport {
    let request = Request {
        scenario,
        packets,
        buckets,
        rounds: 1,
        seed: 7,
    };
    let schedule = Schedule::untimed(request.rounds, request.seed);
    let mut path = Path::new(request, Head::default());
    let document = path.begin().unwrap();
    run(
        &mut path,
        document,
        schedule,
        (&AtomicBool::new(false), None),
        |_| (),
    )
    .unwrap()
}

/// A figure of the row with these labels.
fn figure(report: &PathReport, labels: &[&str], name: &str) -> f64 {
    let rows = serde_json::to_value(&report.rows).unwrap();
    let has = |row: &&Value| {
        let own = row["labels"].as_object().unwrap();
        labels.iter().all(|label| own.values().any(|own| own == label))
    };
    let row = rows.as_array().unwrap().iter().find(has).unwrap();
    row[name].as_f64().unwrap()
}

#[test]
fn the_same_seed_gives_the_same_document_which_is_read_back() {
    let [first, second] = [0, 1].map(|_| report(ScenarioName::Fragments, 300, 3));
    assert_eq!(first, second);
    assert_eq!(PathReport::from_json(&first.to_json().unwrap()).unwrap(), first);
    assert!(first.compared().unwrap().steps.len() == 12);
}

#[test]
fn fragments_arriving_by_hash_are_whole_wherever_and_in_order_under_two_fields() {
    let report = report(ScenarioName::Fragments, 4000, 4);
    for hash in ["2-tuple", "4-tuple"] {
        for at in ["arrival", "owner"] {
            let of = |name| figure(&report, &[hash, at, "RSS"], name);
            assert_eq!(
                (of("whole_share"), of("on_bucket_share"), of("fragments_dropped")),
                (1.0, 1.0, 0.0)
            );
            assert_eq!(of("rehashed"), of("kept") + of("handed_over"));
            assert_eq!(of("fragments_moved") > 0.0, at == "owner");
        }
    }
    let two = |name| figure(&report, &["2-tuple", "arrival", "RSS"], name);
    assert_eq!(
        (two("reordered"), two("rehashed"), two("handed_over")),
        (0.0, 0.0, 0.0)
    );
    assert!(two("reused") > 1000.0);
    let four = |name| figure(&report, &["4-tuple", "arrival", "RSS"], name);
    assert_eq!((four("reused"), four("rehashed")), (0.0, two("reused")));
    assert!(four("reordered") > 0.0, "{}", four("reordered"));
    assert!(four("handed_over") > four("kept"), "{}", four("kept"));
}

#[test]
fn fragments_that_arrive_apart_are_whole_at_their_owner_only() {
    let report = report(ScenarioName::Fragments, 2000, 4);
    for (hash, arrival) in [("2-tuple", "in turn"), ("4-tuple", "random")] {
        let of = |at, name| figure(&report, &[hash, at, arrival], name);
        assert_eq!(
            (of("owner", "whole_share"), of("owner", "fragments_dropped")),
            (1.0, 0.0)
        );
        assert!(of("arrival", "whole_share") < 0.7 && of("arrival", "fragments_dropped") > 1000.0);
        assert_eq!(of("arrival", "fragments_moved"), 0.0);
    }
}

#[test]
fn every_dispatch_and_policy_delivers_in_order_or_counts_and_each_row_adds_up() {
    let report = report(ScenarioName::Dispatch, 6000, 4);
    assert_eq!(report.rows.len(), 11);
    for method in ["direct", "deferred", "hybrid"] {
        for policy in ["source", "flow", "cpu"] {
            let of = |name| figure(&report, &[method, policy], name);
            assert_eq!(of("reordered"), 0.0, "{method} {policy}");
            let frames = |name| (of(name) * 6000.0).round();
            let (here, queued) = (frames("here_share"), frames("queued_share"));
            assert_eq!(here + queued, frames("delivered_share"));
            assert_eq!(here + queued + of("queue_drops"), 6000.0);
            let expected = match method {
                "direct" => (6000.0, 0.0),
                "deferred" => (0.0, queued),
                _ => (here, queued),
            };
            assert_eq!((here, queued), expected, "{method} {policy}");
        }
    }
    let cpu = |name| figure(&report, &["hybrid", "cpu"], name);
    let here = (cpu("here_share"), cpu("queue_drops"));
    assert_eq!(here, (1.0, 0.0), "a device sends to the right bucket");
    assert!(figure(&report, &["hybrid", "source"], "queued_share") > 0.0);
    let ring = |name| figure(&report, &["two on one ring"], name);
    assert_eq!((ring("here_share"), ring("queue_drops")), (1.0, 0.0));
    assert!(ring("reordered") > 100.0, "{}", ring("reordered"));
}

#[test]
fn a_bucket_that_stands_still_loses_its_own_frames_and_no_others() {
    let report = report(ScenarioName::Dispatch, 6000, 4);
    let of = |name| figure(&report, &["bucket 0 stops"], name);
    assert_eq!(of("others"), 0.0);
    assert!(of("queue_drops") > 500.0);
    let handled = ((of("here_share") + of("queued_share")) * 6000.0).round();
    assert_eq!(handled + of("queue_drops"), 6000.0);
    let trial = report
        .trials
        .iter()
        .rfind(|trial| trial.dispatch.is_some())
        .unwrap();
    let streams = &trial.dispatch.as_ref().unwrap().workstreams;
    let row = &streams.iter().find(|stream| stream.row.dropped > 0).unwrap();
    assert_eq!((row.bucket, row.row.watermark, row.row.queued), (0, 256, 256));
}

#[test]
fn a_tunnel_uses_one_bucket_and_its_flows_all() {
    let report = report(ScenarioName::Tunnels, 2000, 6);
    let labels: Vec<&str> = report.rows.iter().map(|row| &*row.labels["buckets"]).collect();
    assert_eq!(labels, ["1", "2", "4", "6"].repeat(2));
    for (buckets, count) in [("1", 1.0), ("2", 2.0), ("4", 4.0), ("6", 6.0)] {
        let of = |decapsulated, name| figure(&report, &[decapsulated, buckets], name);
        let figures = ["buckets_used", "fullest_over_mean", "handed_over_share"];
        assert_eq!(figures.map(|name| of("no", name)), [1.0, count, 0.0]);
        assert_eq!((of("yes", "buckets_used"), of("yes", "reordered")), (count, 0.0));
        assert!(of("yes", "fullest_over_mean") <= (1.5_f64).min(count));
        // All but the share of the tunnel's own bucket.
        assert!((of("yes", "handed_over_share") - (1.0 - 1.0 / count)).abs() < 0.15);
    }
}

#[test]
fn a_sorted_batch_merges_what_a_list_of_eight_flows_has_forgotten() {
    let report = report(ScenarioName::Coalesce, 8192, 1);
    let of = |flows, grouping| figure(&report, &[flows, grouping], "packets_per_aggregation");
    for flows in ["1", "10", "100", "1,000", "10,000"] {
        assert_eq!(of(flows, "none"), 1.0, "{flows}");
    }
    // The longest IP packet has 45 segments of 1448 bytes.
    assert!((40.0..=45.0).contains(&of("1", "sorted")) && of("1", "list of 8") == of("1", "sorted"));
    assert!(of("1,000", "sorted") > 3.0 && of("1,000", "list of 8") < 1.2);
    assert!(of("10", "list of 8") < 1.2 && of("100", "sorted") > 20.0);
    assert_eq!(of("10,000", "sorted"), 1.0);
    assert_eq!(report.rows[11].published.as_ref().unwrap().figure, "over 2");
}
