//! `corelane lab scale memcached` end to end, with the shortest trials.

use crate::common::{alone_on_loopback, namespaces_for, number, refused, run_json, told_again};
use serde_json::Value;

const QUICK: &str =
    "lab scale memcached --duration 300ms --rounds 1 --keys 2k --buckets 1 --share-cpus --max-steal 100%";

/// Another server, which is ours once more.
fn with_subject(more: &str) -> Value {
    let program = env!("CARGO_BIN_EXE_corelane");
    let subject = format!(
        "{program} serve memcached -l $CORELANE_ADDRESS -p $CORELANE_PORT -U $CORELANE_PORT -t $CORELANE_CPUS"
    );
    let words = format!("{QUICK} {more} --json --subject");
    let words: Vec<&str> = words.split_whitespace().chain([&*subject]).collect();
    run_json(&words)
}

/// Checks every trial: what was measured is right and adds up. The generator may be the limit, which is not an error.
fn assert_whole(report: &Value) {
    let steps = report["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 2, "aligned, for each server");
    for trial in report["trials"].as_array().unwrap() {
        let is_measured = ["valid", "generator_limited"].contains(&trial["status"].as_str().unwrap());
        assert!(is_measured, "{trial}");
        let [generated, returned] = ["generated", "returned"].map(|field| number(&trial[field]));
        assert!(returned > 0 && returned <= generated, "{trial}");
        assert_eq!(trial["wrong"], 0, "{trial}");
        assert!(number(&trial["hits"]["hits"]) > 0, "{trial}");
        let operations = trial["operations"].as_object().unwrap();
        assert!(
            operations.contains_key("get") && operations.contains_key("set"),
            "{trial}"
        );
    }
}

#[test]
fn datagrams_of_a_cache_are_counted_at_five_places_beside_another_server() {
    if !namespaces_for("memcached") {
        return;
    }
    let report = with_subject("--bed namespaces");
    assert_eq!(report["schema"], "corelane/scale-memcached/1");
    assert_whole(&report);
    for trial in report["trials"].as_array().unwrap() {
        let count = |field: &str| number(&trial[field]);
        // Nothing is lost on the way; what a full socket buffer drops was received.
        assert!(
            count("received") >= count("seen") && count("generated") >= count("seen"),
            "{trial}"
        );
        assert!(count("answered") > 0, "{trial}");
        let is_ours = report["steps"][number(&trial["step"]) as usize]["server"] == "corelane";
        assert_eq!(trial["local"].is_null(), !is_ours, "{trial}");
    }
}

#[test]
fn requests_over_connections_are_counted_at_both_ends() {
    let _alone = alone_on_loopback();
    let report = with_subject("--tcp --flows 4 --window 2 --bed loopback");
    assert_whole(&report);
    for trial in report["trials"].as_array().unwrap() {
        assert!(trial["seen"].is_null() && trial["received"].is_null(), "{trial}");
    }
}

#[test]
fn clients_aligned_by_owner_ask_each_worker_for_its_own_keys() {
    let _alone = alone_on_loopback();
    for flags in [
        "--tcp --flows 4 --bed loopback",
        "--gso --gro --flows 4 --bed loopback",
    ] {
        let flags = format!("{QUICK} --buckets 2 --align owner --placements aligned --json {flags}");
        let report = run_json(&flags.replace("--buckets 1 ", ""));
        for trial in report["trials"].as_array().unwrap() {
            let local = &trial["local"];
            assert!(number(&local["samples"]) > 0, "{flags}: {trial}");
            assert_eq!(local["hits"], local["samples"], "{flags}: {trial}");
            assert_eq!(trial["wrong"], 0, "{flags}: {trial}");
        }
    }
    let error = refused("lab scale memcached --align owner --mix decr=1", 2);
    assert!(error.contains("leave incr and decr out"), "{error}");
}

#[test]
fn a_report_of_a_cache_reads_the_same_again() {
    let _alone = alone_on_loopback();
    let (text, compared) = told_again(&format!("{QUICK} --bed loopback"));
    for words in ["corelane, aligned clients", "latency by operation", "hits"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!compared.is_empty());
}
