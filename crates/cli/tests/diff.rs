//! `report diff` refuses runs of different traffic, compares them by one field, and judges gates.

use crate::common::run;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

const BEFORE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/golden/documents/scale-udp.json"
);

/// The saved run with other traffic, and an eighth of the time.
fn faster(folder: &Path, change: impl FnOnce(&mut Value)) -> PathBuf {
    let mut document: Value = serde_json::from_str(&fs::read_to_string(BEFORE).unwrap()).unwrap();
    change(&mut document["plan"]);
    for trial in document["trials"].as_array_mut().unwrap() {
        trial["duration_s"] = json!(trial["duration_s"].as_f64().unwrap() / 8.0);
    }
    let path = folder.join("after.json");
    fs::write(&path, document.to_string()).unwrap();
    path
}

fn diff(after: &Path, flags: &[&str]) -> (Option<i32>, String, String) {
    let output = run(&[&["report", "diff", BEFORE, after.to_str().unwrap()], flags].concat());
    let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.code(), stdout, stderr)
}

#[test]
fn runs_of_different_traffic_are_refused_by_field() {
    let folder = tempfile::tempdir().unwrap();
    let after = faster(folder.path(), |plan| {
        (plan["payload_bytes"], plan["gso"]) = (json!(1400), json!(true));
    });
    let (code, out, error) = diff(&after, &[]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(
        error.contains("gso: false -> true; payload_bytes: 510 -> 1400") && error.contains("--by FIELD"),
        "{error}"
    );
    let (code, out, _) = diff(&after, &["--force"]);
    assert_eq!(code, Some(0));
    assert!(out.contains("asked   gso: false -> true\n"), "{out}");
}

#[test]
fn one_field_is_compared_in_json_and_at_gates() {
    let folder = tempfile::tempdir().unwrap();
    let after = faster(folder.path(), |plan| plan["gso"] = json!(true));
    let (code, out, error) = diff(&after, &["--by", "gso", "--json", "--fail-if", "better > 0"]);
    assert_eq!(code, Some(3), "{error}");
    let document: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(document["schema"], "corelane/report-diff/1");
    assert_eq!(
        document["asked"],
        json!([{ "name": "gso", "before": "false", "after": "true" }])
    );
    let row = &document["rows"][0];
    assert_eq!(
        (&row["metric"], &row["verdict"]),
        (&json!("rate_pps"), &json!("better"))
    );
    assert_eq!(row["step"]["buckets_active"], "1");
    let (code, _, error) = diff(&after, &["--by", "rate"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("they differ in gso: false -> true"), "{error}");
}
