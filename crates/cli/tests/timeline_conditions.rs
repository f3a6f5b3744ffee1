//! What timelines and merged documents have of the machines on which their generators ran.

use crate::common::{refused, run, run_json};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Runs a generator of frames that writes a timeline and a document; returns their paths.
fn sent(folder: &Path, name: &str) -> [String; 2] {
    let file = |ending: &str| folder.join(format!("{name}.{ending}")).display().to_string();
    let (lines, json, out) = (file("jsonl"), file("json"), format!("pcap:out={}", file("pcap")));
    let to_json = format!("--json={json}");
    let load = [
        "load",
        "packets",
        &out,
        "--count",
        "10",
        "--timeline",
        &lines,
        &to_json,
    ];
    assert!(run(&load).status.success());
    [lines, json]
}

fn kernel() -> String {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    kernel.trim().to_owned()
}

fn is_of_this_machine(generator: &Value) -> bool {
    let snapshot = &generator["conditions"];
    let conditions = snapshot["conditions"].as_array().unwrap();
    snapshot["kernel"].as_str().unwrap().contains(&kernel())
        && conditions
            .iter()
            .any(|condition| condition["name"] == "mitigations")
}

#[test]
fn a_timeline_and_what_shows_it_have_the_machine_and_its_conditions() {
    let folder = tempfile::tempdir().unwrap();
    let [lines, json] = sent(folder.path(), "run");
    let text = fs::read_to_string(&lines).unwrap();
    let header: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert!(is_of_this_machine(&header["generators"][0]), "{header}");
    let html = format!("{json}.html");
    let shown = String::from_utf8(run(&["report", "show", &lines]).stdout).unwrap();
    assert!(run(&["report", "show", &lines, "--html", &html]).status.success());
    let page = fs::read_to_string(&html).unwrap();
    for shown in [&shown, &page] {
        assert!(shown.contains(&format!("kernel {}", kernel())), "{shown}");
        assert!(
            shown.to_lowercase().contains("conditions, worst first"),
            "{shown}"
        );
    }
}

#[test]
fn merged_documents_and_timelines_have_the_conditions_of_each() {
    let folder = tempfile::tempdir().unwrap();
    let [[one, first], [other, second]] = ["one", "other"].map(|name| sent(folder.path(), name));
    let merged = run_json(&["report", "merge", &first, &second]);
    let generators = merged["generators"].as_array().unwrap();
    assert_eq!((generators.len(), &merged["documents"]), (2, &Value::from(2)));
    for (generator, name) in generators.iter().zip(["one", "other"]) {
        assert!(is_of_this_machine(generator), "{generator}");
        assert!(
            generator["command_line"]
                .to_string()
                .contains(&format!("{name}.pcap"))
        );
        assert_eq!(generator["plan"], Value::Null);
    }
    let both = String::from_utf8(run(&["report", "merge", &one, &other]).stdout).unwrap();
    let header: Value = serde_json::from_str(both.lines().next().unwrap()).unwrap();
    let generators = header["generators"].as_array().unwrap();
    assert_eq!(generators.len(), 2);
    assert!(generators.iter().all(is_of_this_machine), "{header}");
    let error = refused(&["report", "merge", &one, &second], 2);
    assert!(error.contains("it is no timeline"), "{error}");
}
