//! What gates are about, and what of it reports show: percentiles of any rank, and conditions that can hold.

use crate::common::{Server, refused, run};
use serde_json::Value;
use std::fs;

#[test]
fn percentiles_of_any_rank_are_in_gates_text_csv_and_json() {
    let server = Server::start("127.0.0.1:0 --buckets 1");
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (json, csv) = (file("run.json"), file("run.csv"));
    let load = format!(
        "load udp {} --count 200 --window 8 --workers 1 --percentiles 95,99.95,1",
        server.address
    );
    let load: Vec<&str> = load.split(' ').collect();
    let to_file = format!("--json={json}");
    let ended = run(&[
        &load[..],
        &[&to_file, "--export-csv", &csv, "--fail-if", "p99.95 > 0ns"],
    ]
    .concat());
    let error = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(3), "{error}");
    assert!(error.contains("'p99.95 > 0ns': p99.95 is "), "{error}");

    let document: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    let percentiles = document["percentiles"].as_array().unwrap();
    let [p95, rarest, least] = [0, 1, 2].map(|place| percentiles[place]["time_ns"].as_f64().unwrap());
    assert_eq!(percentiles[1]["percent"], 99.95);
    let summary = |name: &str| document["round_trip"][name].as_f64().unwrap();
    assert_eq!(p95, summary("p95_ns"));
    // Of 200 round trips, it is the longest.
    assert_eq!(rarest, summary("max_ns"));
    assert!(least > 0.0 && least <= summary("p50_ns"), "{least}");

    let csv = fs::read_to_string(csv).unwrap();
    let [names, values] = [0, 1].map(|line| csv.lines().nth(line).unwrap().split(',').collect::<Vec<_>>());
    for (name, value) in [("p95", p95), ("p99.95", rarest), ("p1", least)] {
        let places: Vec<usize> = (0..names.len()).filter(|place| names[*place] == name).collect();
        assert_eq!(places.len(), 1, "{csv}");
        assert_eq!(values[places[0]].parse::<f64>().unwrap(), value, "{name}");
    }
    let shown = run(&["report", "show", &json]).stdout;
    for text in [ended.stdout, shown] {
        let text = String::from_utf8(text).unwrap();
        let line = text
            .lines()
            .find(|line| line.starts_with("percentiles: p95 "))
            .expect(&text);
        assert!(line.contains(", p99.95 ") && line.contains(", p1 "), "{line}");
        assert!(text.contains(", p95 ") && text.contains(", p99.9 "), "{text}");
    }
}

#[test]
fn what_is_no_percentile_or_never_holds_is_refused_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let out = format!("pcap:out={}", folder.path().join("never.pcap").display());
    for (arguments, why) in [
        (
            ["--percentiles", "95"],
            "--percentiles: there is no figure 'p95': give one of rate, sent",
        ),
        (["--percentiles", "100"], "give numbers between 0 and 100"),
        (["--percentiles", "5,nan"], "give numbers between 0 and 100"),
        (["--fail-if", "p95 > 1ms"], "--fail-if: there is no figure 'p95'"),
        (
            ["--fail-if", "lag_p99 > 90s"],
            "--fail-if: 'lag_p99 > 90s' can never hold: lag_p99 is never more than 60 s",
        ),
        (
            ["--fail-if", "unsent < 0"],
            "--fail-if: 'unsent < 0' can never hold: unsent is never less than 0",
        ),
    ] {
        let error = refused(&[&["load", "packets", &out], &arguments[..]].concat(), 2);
        assert!(error.contains(why), "{arguments:?}: {error}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    let error = refused(&["report", "diff", "a", "b", "--fail-if", "worse < 0"], 2);
    assert!(error.contains("'worse < 0' can never hold"), "{error}");
}
