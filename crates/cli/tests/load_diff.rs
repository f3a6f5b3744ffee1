//! `report diff` of two runs of a generator: what changed beyond the spread within each run, and what was asked otherwise.

use crate::common::{run, run_json};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// A saved run of a generator of this kind, whose rate was this over ten parts of its time, give or take a hundredth.
fn saved(kind: &str, rate: f64) -> Value {
    let path = format!(
        "{}/tests/golden/documents/load-{kind}.json",
        env!("CARGO_MANIFEST_DIR")
    );
    let mut document: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let part = |part: u32| {
        let per_second = rate * (0.99 + 0.02 * f64::from(part % 2));
        json!({ "until_s": 0.25 * f64::from(part + 1), "per_second": per_second })
    };
    let times = |part: u32| {
        let p99_ns = 200_000 + u64::from(part);
        json!({ "until_s": part + 1, "count": 9, "p50_ns": 50_000, "p99_ns": p99_ns, "max_ns": 900_000 })
    };
    document["over_time"] = json!({
        "rates": (0..10).map(part).collect::<Vec<_>>(),
        "times": (0..4).map(times).collect::<Vec<_>>(),
    });
    document
}

/// Writes two documents, and compares them with these flags: exit code, standard output, standard error.
fn diff(before: &Value, after: &Value, flags: &[&str]) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let [one, other] = [("before", before), ("after", after)].map(|(name, document)| {
        let path = folder.path().join(name);
        fs::write(&path, document.to_string()).unwrap();
        path.display().to_string()
    });
    let output = run(&[&["report", "diff", &one, &other], flags].concat());
    let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.code(), stdout, stderr)
}

#[test]
fn what_changed_beyond_the_spread_within_each_run_is_said_with_what_that_is_worth() {
    let (before, mut after) = (saved("http", 1_000.0), saved("http", 800.0));
    after["requests"]["failed"] = json!(25);
    after["limited_by"] = json!("a worker stood still");
    let (code, text, error) = diff(&before, &after, &[]);
    assert_eq!(code, Some(0), "{error}");
    let lines: Vec<String> = (text.lines())
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    for expected in [
        "differs limited_by: null -> a worker stood still",
        "what before after change verdict",
        "rate over time 1.00 k/s 800/s -20.0 % worse",
        "p50 over time 50 \u{b5}s 50 \u{b5}s +0.0 % none, within the spread",
        "p99 over time 200 \u{b5}s 200 \u{b5}s +0.0 % none, within the spread",
        "failed 0 % 10.0 % - unknown, one trial has no spread",
    ] {
        assert!(lines.iter().any(|line| line == expected), "{expected}:\n{text}");
    }
    assert!(lines.iter().any(|line| line.starts_with("per CPU ")), "{text}");
    let said = lines.join(" ");
    for sentence in [
        "Beyond the spread within each run: 0 better, 1 worse.",
        "Parts of one run are not independent rounds: what differs from run to run is not in their spread, so repeat both runs",
    ] {
        assert!(said.contains(sentence), "{sentence}:\n{text}");
    }
    let (code, out, error) = diff(&before, &after, &["--json", "--fail-if", "worst > 19%"]);
    assert_eq!(code, Some(3), "{error}");
    let document: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(document["samples"], "parts");
    let rows = document["rows"].as_array().unwrap();
    let row = |name: &str| rows.iter().find(|row| row["metric"] == name).unwrap();
    assert_eq!(row("rate_over_time")["verdict"], "worse");
    assert_eq!(row("rate_over_time")["before"]["count"], 10);
    assert_eq!(row("failed")["verdict"], "no_spread");
    let (code, _, error) = diff(&before, &saved("http", 990.0), &["--fail-if", "worse > 0"]);
    assert_eq!(code, Some(0), "{error}");
}

#[test]
fn what_was_asked_otherwise_is_refused_by_field_and_compared_by_it() {
    let (before, mut after) = (saved("http", 1_000.0), saved("http", 1_000.0));
    after["plan"]["pools"][0]["connections"] = json!(8);
    let leased = after.pointer_mut("/plan/workers/0/shares/0/leases/0/connections");
    *leased.expect("a worker has a lease") = json!(6);
    let field = "pools.connections: 4 -> 8";
    let (code, out, error) = diff(&before, &after, &[]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(
        error.contains(&format!("better: {field}. Give --by FIELD")),
        "{error}"
    );
    for by in ["pools.connections", "pools"] {
        let (code, out, error) = diff(&before, &after, &["--by", by]);
        assert_eq!(code, Some(0), "{error}");
        assert!(out.contains(&format!("asked   {field}\n")), "{out}");
    }
    after["plan"]["pools"][0]["target"] = json!("127.0.0.2:80");
    let (code, _, error) = diff(&before, &after, &["--by", "pools.connections"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("pools.target: "), "{error}");
    assert_eq!(diff(&before, &after, &["--force"]).0, Some(0));
}

#[test]
fn how_often_a_table_changed_is_not_part_of_what_was_asked() {
    let [before, after] = [0, 7].map(|generation| {
        let mut document = saved("tcp", 1e9);
        let steering = &mut document["plan"]["steering"];
        steering["forward"]["generation"] = json!(generation);
        steering["reply"] = json!({ "device": "eth0", "steering": steering["forward"] });
        document
    });
    let (code, _, error) = diff(&before, &after, &[]);
    assert_eq!(code, Some(0), "{error}");
}

#[test]
fn every_kind_is_compared_and_two_kinds_are_not() {
    for kind in ["udp", "tcp", "http", "packets"] {
        let document = saved(kind, 1e9);
        let (code, text, error) = diff(&document, &document, &["--fail-if", "worse > 0"]);
        assert_eq!(code, Some(0), "{kind}: {error}");
        assert!(
            text.contains("Nothing changed beyond the spread within each run."),
            "{text}"
        );
        assert!(text.contains("p99 over time"), "{text}");
    }
    let (_, text, _) = diff(&saved("tcp", 1e9), &saved("tcp", 2e9), &[]);
    let line = text
        .lines()
        .find(|line| line.starts_with("sum over time"))
        .expect(&text);
    assert!(
        line.contains("8.000 Gbit/s") && line.contains("16.000 Gbit/s"),
        "{line}"
    );
    let (code, _, error) = diff(&saved("udp", 1e9), &saved("http", 1e9), &[]);
    assert_eq!(code, Some(2));
    let kinds = "it is a document of corelane/loaded-http/1, and the first of corelane/loaded-udp/1";
    assert!(error.contains(kinds), "{error}");
}

#[test]
fn runs_that_nothing_is_known_of_over_time_pass_no_gate() {
    let mut document = saved("http", 1_000.0);
    document.as_object_mut().unwrap().remove("over_time");
    let (code, text, error) = diff(&document, &document, &["--fail-if", "worse > 0"]);
    assert_eq!(code, Some(3), "{text}{error}");
}

/// Sends frames to a file at a rate, long enough for several samples.
fn sent(folder: &Path, rate: &str) -> Value {
    let out = format!("pcap:out={}", folder.join("out.pcap").display());
    run_json(&[
        "load",
        "packets",
        &out,
        "--rate",
        rate,
        "--duration",
        "800ms",
        "--json",
    ])
}

#[test]
fn a_run_of_frames_has_its_plan_and_its_rate_over_time() {
    let folder = tempfile::tempdir().unwrap();
    let (slow, fast) = (sent(folder.path(), "1k"), sent(folder.path(), "2k"));
    assert!(
        !slow["over_time"]["rates"].as_array().unwrap().is_empty(),
        "{slow}"
    );
    let (code, _, error) = diff(&slow, &fast, &[]);
    assert_eq!(code, Some(2));
    let field = "traffic.generated.pace.rate.per_second: 1000.0 -> 2000.0";
    assert!(error.contains(field), "{error}");
}

#[test]
fn runs_of_datagrams_are_compared_by_their_plans() {
    let load = |sockets: &str| {
        let load = "load udp 127.0.0.1:9 --count 1 --no-answers --workers 1 --json";
        run_json(&format!("{load} --sockets {sockets}"))
    };
    let (few, many) = (load("1"), load("3"));
    let (code, _, error) = diff(&few, &many, &[]);
    assert_eq!(code, Some(2));
    assert!(error.contains("better: connections: 1 -> 3. "), "{error}");
    // The documents of earlier versions have no plan.
    let without = |document: &Value, command: &str| {
        let mut document = document.clone();
        document.as_object_mut().unwrap().remove("plan");
        document["command_line"] = json!(["corelane", command]);
        document
    };
    let (code, _, error) = diff(&without(&few, "one"), &without(&many, "other"), &[]);
    assert_eq!(code, Some(2));
    assert!(
        error.contains("command: corelane one -> corelane other"),
        "{error}"
    );
}
