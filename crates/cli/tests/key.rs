//! `corelane key` as a user runs it.

use crate::common::{refused, run, run_json};
use serde_json::{Value, json};
use std::fs;

fn repeated_6d5a() -> String {
    "6d5a".repeat(20)
}

/// Runs an audit, checks that it fails, and returns its document.
fn failing(arguments: &[&str]) -> Value {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

#[test]
fn the_published_default_key_is_named_and_spreads_well() {
    let document = run_json("key audit --buckets 8 --json");
    assert_eq!(document["schema"], "corelane/key-audit/1");
    assert_eq!(document["passes"], true);
    assert_eq!(document["hash_rank"], 32);
    assert_eq!(document["period"], Value::Null);
    assert!(
        document["published"]
            .as_str()
            .unwrap()
            .contains("verification suite")
    );
    assert_eq!(document["imbalance"]["flows"], 100_000);
    assert!(document["imbalance"]["fullest_over_mean"].as_f64().unwrap() < 1.1);
}

#[test]
fn the_repeated_key_fails_unless_symmetry_is_what_it_is_for() {
    let key = repeated_6d5a();
    let audit = ["key", "audit", "--key", &key, "--buckets", "8", "--json"];
    let document = failing(&audit);
    assert_eq!(
        (&document["period"], &document["hash_rank"]),
        (&json!(16), &json!(16))
    );
    assert_eq!(document["symmetric_ipv4"], true);
    let meant = run_json(&[&audit[..], &["--symmetric"]].concat());
    assert_eq!(meant["passes"], true);
}

#[test]
fn generated_keys_differ_pass_and_are_as_long_and_symmetric_as_asked() {
    for (symmetric, fields, bytes) in [
        (None, "4tuple", "40"),
        (None, "2tuple", "52"),
        (Some("ipv4"), "2tuple", "40"),
        (Some("ipv6"), "2tuple", "52"),
        (Some("both"), "4tuple", "40"),
    ] {
        let mut generate = vec![
            "key", "generate", "--count", "3", "--hash", fields, "--bytes", bytes,
        ];
        generate.extend(
            symmetric
                .into_iter()
                .flat_map(|families| ["--symmetric", families]),
        );
        let output = run(&generate);
        let text = String::from_utf8(output.stdout).unwrap();
        let keys: Vec<&str> = text.lines().collect();
        assert_eq!(keys.len(), 3);
        assert!(keys[0] != keys[1] && keys[1] != keys[2], "{text}");
        for key in keys {
            assert_eq!(key.len(), 2 * bytes.parse::<usize>().unwrap());
            let mut audit = vec![
                "key",
                "audit",
                "--key",
                key,
                "--hash",
                fields,
                "--buckets",
                "8",
                "--json",
            ];
            audit.extend(symmetric.map(|_| "--symmetric"));
            let document = run_json(&audit);
            let expected = |family| symmetric.is_some_and(|given| given == "both" || given == family);
            if expected("ipv4") || symmetric.is_none() {
                assert_eq!(document["symmetric_ipv4"], expected("ipv4"), "{key}");
            }
            if expected("ipv6") || symmetric.is_none() {
                assert_eq!(document["symmetric_ipv6"], expected("ipv6"), "{key}");
            }
        }
    }
}

#[test]
fn flows_that_fall_on_one_bucket_are_found_out() {
    let plan = run_json("plan --server 10.11.2.1:8080 --client 10.11.2.3 --buckets 4 --all --json");
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("flows");
    let ports = plan["buckets"][2]["ports"].as_array().unwrap();
    let flows: Vec<_> = ports
        .iter()
        .take(500)
        .map(|port| format!("10.11.2.3:{port} -> 10.11.2.1:8080"))
        .collect();
    fs::write(&list, flows.join("\n")).unwrap();
    let list = list.to_str().unwrap();
    let document = failing(&["key", "audit", "--buckets", "4", "--flow-list", list, "--json"]);
    assert_eq!(document["imbalance"]["flows"], 500);
    assert_eq!(document["imbalance"]["buckets"][2]["flows"], 500);
    assert_eq!(document["imbalance"]["fullest_over_mean"], 4.0);
}

#[test]
fn the_text_fits_100_columns_and_ends_with_the_verdict() {
    for key in [repeated_6d5a(), "00".repeat(40)] {
        let output = run(&["key", "audit", "--key", &key, "--buckets", "4"]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.lines().last(), Some("the key does not pass"));
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
}

#[test]
fn what_cannot_be_audited_or_made_is_refused_by_flag() {
    for (arguments, needed) in [
        (
            &["key", "audit", "--buckets", "4", "--flow-list", "absent"][..],
            "--flow-list",
        ),
        (&["key", "audit", "--buckets", "4", "--flows", "0"], "--flows"),
        (&["key", "generate", "--bytes", "39"], "--bytes"),
        (&["key", "generate", "--table-size", "5000"], "--table-size"),
    ] {
        let error = refused(arguments, 2);
        assert!(error.contains(needed), "{needed}: {error}");
    }
}
