//! `corelane lab path` as a user runs it.

use crate::common::{parsed, run, run_json};

/// The text of a scenario, and its document.
fn both(scenario: &str) -> (String, serde_json::Value) {
    let arguments = format!("lab path {scenario} --packets 500 --rounds 1 --buckets 3");
    let output = run(&arguments);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    let document = run_json(&format!("{arguments} --json"));
    assert_eq!(document["schema"], "corelane/path/1");
    assert_eq!(document, run_json(&format!("{arguments} --json")));
    (text, document)
}

#[test]
fn fragments_end_with_the_order_that_an_application_sees() {
    let (text, document) = both("fragments");
    let result = "As a device spreads frames, 0 datagrams are reordered under 2-tuples and ";
    assert!(text.lines().last().unwrap().starts_with(result), "{text}");
    assert_eq!(document["rows"].as_array().unwrap().len(), 12);
    assert_eq!(document["rows"][0]["whole_share"], 1.0);
}

#[test]
fn every_dispatch_and_policy_has_the_tables_of_netstat_in_the_document_and_the_posts_in_text() {
    let arguments = "lab path dispatch --packets 3k --rounds 1 --buckets 3";
    let output = run(arguments);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    for words in [
        "1,492 of 6.62 G queued",
        "HDisp'd",
        "QDrops",
        "10240",
        "stands still drops",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let document = run_json(&format!("{arguments} --json"));
    let trials = document["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 11);
    let streams = trials
        .iter()
        .filter_map(|trial| trial["dispatch"]["workstreams"].as_array());
    assert_eq!(streams.clone().count(), 11);
    for row in streams.flatten() {
        let of = |name: &str| row[name].as_u64().unwrap();
        assert_eq!(
            (of("length"), of("handled")),
            (0, of("dispatched") + of("hybrid") + of("queued")),
            "{row}"
        );
    }
}

#[test]
fn software_rss_brings_each_datagram_to_the_cpu_of_the_table_and_loses_none() {
    let output = run("lab path software-rss --packets 5k --rounds 1 --json");
    let refusal = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) || refusal.contains("allow as many CPUs") {
        eprintln!("skipped: {refusal}");
        return;
    }
    let document = parsed(&output);
    let rows = document["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4, "{document}");
    for row in rows {
        let local = row["local_share"].as_f64().unwrap();
        if row["labels"]["steering"].as_str().unwrap().starts_with("cpumap") {
            assert!(local >= 0.99, "{row}");
            assert_eq!(row["lost"], 0.0, "{row}");
        } else {
            assert!(local < 0.99, "{row}");
        }
    }
}

#[test]
fn tunnels_end_with_the_buckets_that_are_used() {
    let (text, document) = both("tunnels");
    let result = "Of 3 buckets the tunnel uses 1, and the flows inside 3: ";
    assert!(text.lines().last().unwrap().starts_with(result), "{text}");
    assert_eq!(document["rows"].as_array().unwrap().len(), 6);
}

#[test]
fn coalescing_ends_with_the_packets_per_aggregation_and_names_the_post() {
    let (text, document) = both("coalesce");
    let result = "Of 1,000 interleaved flows a sorted batch merges 4.10 packets per aggregation, a list of eight 1.00.";
    assert_eq!(text.lines().last().unwrap(), result);
    assert!(
        text.contains("published elsewhere: \u{201c}Serving 100 Gbps"),
        "{text}"
    );
    assert_eq!(document["rows"][11]["published"]["figure"], "over 2");
}
