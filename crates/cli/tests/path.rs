//! `corelane lab path` as a user runs it.

use crate::common::{run, run_json};

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
