//! `--timeline`: a line per second, written as it happens, which other tools can read and a kill does not damage.

mod hdr_v2;

use crate::common::{
    Server, alone_on_loopback, corelane, load_for_lines, newlines, number, refused, run, run_json, signal,
};
use crate::raw_http::RawServer;
use corelane_tests::until;
use hdr_v2::Decoded;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};

/// The header and the whole lines of a timeline; each has to be JSON.
fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    let lines = text[..whole].lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

fn sum(lines: &[Value], name: &str) -> u64 {
    lines.iter().map(|line| number(&line["counts"][name])).sum()
}

/// The histogram of the lines together.
fn durations(lines: &[Value]) -> Decoded {
    let mut all = Decoded::default();
    for line in lines {
        all.add(&Decoded::of(&line["durations"]));
    }
    all
}

/// The histogram of the lines is that of the report, with the percentiles of its summary.
fn assert_summed_up(lines: &[Value], histogram: &Value, summary: &Value) {
    let all = durations(lines);
    assert_eq!(all, Decoded::of(histogram));
    let percentiles = [50.0, 90.0, 99.0, 99.9, 100.0].map(|percent| all.percentile(percent));
    let named = ["p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns"].map(|name| number(&summary[name]));
    assert_eq!((all.count(), percentiles), (number(&summary["count"]), named));
}

/// Each line covers the time from the end of the one before.
fn assert_abut(lines: &[Value]) {
    let mut ended = 0.0;
    for line in lines {
        let [at_s, interval_s] = ["at_s", "interval_s"].map(|name| line[name].as_f64().unwrap());
        assert!((at_s - interval_s - ended).abs() < 1e-6, "{ended} s: {line}");
        ended = at_s;
        let started = |line: &Value| line["unix_s"].as_f64().unwrap() - line["at_s"].as_f64().unwrap();
        assert!((started(line) - started(&lines[0])).abs() < 1e-5, "{line}");
    }
}

#[test]
fn the_lines_of_a_run_close_with_the_seconds_and_add_up_to_its_report() {
    let server = Server::start("127.0.0.1:0 --buckets 1");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.jsonl");
    let load = format!("load udp {} --rate 2k --workers 1 --json", server.address);
    let ended = load_for_lines(&load, &file, 4);
    let loaded: Value = serde_json::from_slice(&ended.stdout).unwrap();
    let (header, seconds) = (lines(&file)[0].clone(), lines(&file).split_off(1));
    assert_eq!(header["schema"], "corelane/timeline/1");
    assert_eq!(header["units"]["returned"], "datagrams");
    assert_eq!(header["durations"], "round trip");
    assert_eq!(header["generators"][0]["command_line"][0], "corelane");
    assert!(seconds.len() >= 4, "the last ends with the run: {seconds:?}");
    assert_abut(&seconds);
    for line in &seconds {
        assert_eq!(line["durations"]["beyond_range"], 0);
        assert_eq!(
            Decoded::of(&line["durations"]).count(),
            number(&line["counts"]["returned"]),
            "{line}"
        );
        assert!(
            line["cpu"]["own_s"].as_f64().unwrap() >= 0.0 && line["drops"].is_object(),
            "{line}"
        );
    }
    for name in ["sent", "returned"] {
        assert_eq!(sum(&seconds, name), number(&loaded["total"][name]), "{name}");
    }
    assert_summed_up(&seconds, &loaded["round_trip_histogram"], &loaded["round_trip"]);
    shown(&file);
}

/// `report show` draws the timeline as text and as a page.
fn shown(file: &Path) {
    let (path, page) = (
        file.display().to_string(),
        file.with_extension("html").display().to_string(),
    );
    let text = run(&["report", "show", &path]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("until") && text.contains("in all: "), "{text}");
    assert!(run(&["report", "show", &path, "--html", &page]).status.success());
    let page = fs::read_to_string(page).unwrap();
    // Shorter intervals are not drawn.
    let is_drawn = |line: &Value| line["interval_s"].as_f64() >= Some(0.1);
    assert!(
        page.contains("<h3>CPU") || !lines(file).iter().any(is_drawn),
        "{page}"
    );
}

#[test]
fn errors_have_their_names_and_what_is_not_measured_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.jsonl");
    let path = file.display().to_string();
    let server = RawServer::with_body("x");
    let url = server.url();
    let http = [
        "load",
        "http",
        &url,
        "-n",
        "50",
        "--connections",
        "2",
        "--status",
        "404",
    ];
    let output = run(&[&http[..], &["--timeline", &path]].concat());
    assert!(file.exists(), "{output:?}");
    let found = lines(&file);
    let wrong: u64 = found[1..]
        .iter()
        .map(|line| number(&line["errors"]["wrong_status"]))
        .sum();
    assert_eq!(wrong, 50, "{found:?}");

    let link = format!("pcap:out={}", folder.path().join("sent.pcap").display());
    assert!(
        run(&["load", "packets", &link, "--count", "300", "--timeline", &path])
            .status
            .success()
    );
    let found = lines(&file);
    assert_eq!(sum(&found[1..], "sent"), 300);
    assert!(found[1]["durations"].is_null());
    assert_eq!(
        found[1]["unknown_because"]["durations"],
        "frames are not answered"
    );
}

#[test]
fn a_timeline_that_cannot_be_written_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let link = format!("pcap:out={}", folder.path().join("sent.pcap").display());
    let load = ["load", "packets", &link, "--count", "1", "--timeline"];
    let error = refused(&[&load[..], &["/nowhere/run.jsonl"]].concat(), 2);
    assert!(error.contains("--timeline: /nowhere/run.jsonl"), "{error}");
    let output = run(&[&load[..], &["/dev/full"]].concat());
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("--timeline /dev/full: No space left"), "{error}");
}

#[test]
fn the_lines_of_connections_add_up_to_their_report() {
    let mut server = corelane("serve tcp 127.0.0.1:0 --buckets 1 --mode echo");
    let server = Server::of(server.stdout(Stdio::piped()).spawn().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.jsonl");
    let load = format!(
        "load tcp {} --connections 4 --workers 1 --duration 1200ms --json --timeline",
        server.address
    );
    let words: Vec<&str> = load.split(' ').chain([file.to_str().unwrap()]).collect();
    let loaded = run_json(&words);
    let seconds = lines(&file).split_off(1);
    assert_abut(&seconds);
    for name in ["opened", "sent_bytes", "received_bytes"] {
        assert_eq!(sum(&seconds, name), number(&loaded["total"][name]), "{name}");
    }
    assert_eq!(sum(&seconds, "opened"), 4);
    assert_summed_up(&seconds, &loaded["connect_histogram"], &loaded["connect"]);
    shown(&file);
}

/// A count of the lines, and the field of a trial that it is.
type Counted = (&'static str, &'static str);

/// The shortest run of each experiment that has timelines; where its document has its trials; and what is counted.
const EXPERIMENTS: [(&str, &str, &[Counted]); 5] = [
    (
        "scale udp --models exact --placements aligned --duration 200ms --rounds 2",
        "trials",
        // Sinks answer nothing.
        &[("sent", "generated")],
    ),
    (
        "scale http --models exact --placements aligned --size 1KiB --connections 8 --duration 400ms --rounds 1",
        "trials",
        &[
            ("ok", "requests_ok"),
            ("sent_bytes", "sent_bytes"),
            ("received_bytes", "received_bytes"),
        ],
    ),
    (
        "scale tcp --models exact --placements aligned --connections 8 --duration 400ms --rounds 1",
        "trials",
        &[("sent_bytes", "sent_bytes"), ("received_bytes", "received_bytes")],
    ),
    (
        "rebalance --buckets 4 --share-cpus --duration 300ms --rate 2k --rounds 1",
        "phases",
        &[("sent", "sent"), ("returned", "returned")],
    ),
    (
        "engines --ways batch --duration 5s --rounds 1",
        "udp_trials",
        &[("returned", "answered")],
    ),
];

#[test]
fn the_lines_of_an_experiment_name_their_trial_and_add_up_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let _alone = alone_on_loopback();
    for (lab, of_document, counts) in EXPERIMENTS {
        let file = folder.path().join("lab.jsonl");
        // A trial that another machine spoilt would be repeated under the same names.
        let lab = format!("lab {lab} --bed loopback --max-steal 100% --json --timeline");
        let words: Vec<&str> = lab.split(' ').chain([file.to_str().unwrap()]).collect();
        let report = run_json(&words);
        let found = lines(&file).split_off(1);
        let trials = report[of_document].as_array().unwrap();
        let mut of_trials = 0;
        for trial in trials {
            let is_of = |line: &&Value| {
                let of = &line["trial"];
                let part = &of["part"];
                of["step"] == trial["step"]
                    && of["round"] == trial["round"]
                    && (part.is_null() || *part == trial["name"])
            };
            let lines: Vec<Value> = found.iter().filter(is_of).cloned().collect();
            of_trials += lines.len();
            let is_named = |line: &Value| !line["trial"]["title"].as_str().unwrap().is_empty();
            assert!(lines.iter().all(is_named), "{lab}");
            assert_abut(&lines);
            for (counted, reported) in counts {
                // The server answers what the generator has given up.
                let late = match *reported == "answered" {
                    true => number(&trial["lost"]),
                    false => 0,
                };
                let (of_lines, of_trial) = (sum(&lines, counted), number(&trial[*reported]));
                assert!(
                    (of_lines..=of_lines + late).contains(&of_trial),
                    "{lab}: {counted} {of_lines} of {trial}"
                );
            }
        }
        assert!(of_trials > 0 && of_trials == found.len(), "{lab}");
        shown(&file);
    }
}

#[test]
fn timelines_of_simultaneous_runs_are_added_second_by_second() {
    let server = Server::start("127.0.0.1:0 --buckets 1");
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let load = |name: &str| {
        corelane(&[
            "load",
            "udp",
            &server.address,
            "--rate",
            "500",
            "--duration",
            "1h",
            "--timeline",
        ])
        .arg(file(name))
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
    };
    let both = [load("one.jsonl"), load("two.jsonl")];
    // The header, the rest of a second, and a whole one in which the other ran too.
    for name in ["one.jsonl", "two.jsonl"] {
        until("the second to run has had a whole second", || {
            newlines(&file(name)) >= 4
        });
    }
    for mut load in both {
        signal(load.id(), "INT");
        assert!(load.wait().unwrap().success());
    }
    let paths = ["one.jsonl", "two.jsonl"].map(|name| file(name).display().to_string());
    let merged = run(&["report", "merge", &paths[0], &paths[1]]);
    let said = String::from_utf8_lossy(&merged.stderr).into_owned();
    assert!(
        said.contains("2 timelines added by the whole second") && said.contains("one clock"),
        "{said}"
    );
    fs::write(file("both.jsonl"), &merged.stdout).unwrap();
    let apart: u64 = (paths.iter())
        .map(|path| sum(&lines(Path::new(path))[1..], "returned"))
        .sum();
    let found = lines(&file("both.jsonl"));
    assert_eq!(sum(&found[1..], "returned"), apart);
    assert_eq!(durations(&found[1..]).count(), apart);
    assert!(found[1..].iter().any(|line| line["generators"] == 2), "{found:?}");
    shown(&file("both.jsonl"));
    let json = folder.path().join("run.json");
    fs::write(&json, "{\"schema\": \"corelane/loaded-http/1\"}").unwrap();
    let error = refused(&["report", "merge", &paths[0], &json.display().to_string()], 2);
    assert!(error.contains("it is no timeline"), "{error}");
}

/// Each is killed once it has written one line more than the one before.
const KILLS: usize = 6;

#[test]
fn killed_at_any_moment_a_run_leaves_only_whole_lines() {
    let server = Server::start("127.0.0.1:0 --buckets 1");
    let folder = tempfile::tempdir().unwrap();
    let start = |kill: usize| -> (Child, std::path::PathBuf) {
        let file = folder.path().join(format!("{kill}.jsonl"));
        let verb = match kill % 3 {
            0 => "lab scale udp --bed namespaces --duration 1500ms --rounds 9 --timeline".to_owned(),
            _ => format!("load udp {} --rate 200 --duration 1h --timeline", server.address),
        };
        let mut command = corelane(&verb);
        let command = command.arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        (command.spawn().unwrap(), file)
    };
    // All run at the same time.
    let runs: Vec<_> = (0..KILLS).map(start).collect();
    for (kill, (mut process, file)) in runs.into_iter().enumerate() {
        until("lines are written", || {
            assert!(
                process.try_wait().unwrap().is_none(),
                "run {kill} ended by itself"
            );
            file.exists() && newlines(&file) >= kill
        });
        process.kill().unwrap();
        process.wait().unwrap();
        let lines = lines(&file);
        assert!(lines.len() >= kill, "{} of {kill} lines", lines.len());
        if !lines.is_empty() {
            assert_eq!(lines[0]["schema"], "corelane/timeline/1", "killed at line {kill}");
        }
        match lines.len() {
            0 => {}
            1 => {
                let text = run(&["report", "show", file.to_str().unwrap()]).stdout;
                assert!(
                    String::from_utf8(text)
                        .unwrap()
                        .contains("no second has been written yet")
                );
            }
            _ => shown(&file),
        }
    }
}

#[test]
fn lines_on_standard_output_have_it_to_themselves() {
    let server = Server::start("127.0.0.1:0 --buckets 1");
    let load = format!(
        "load udp {} --count 200 --window 8 --workers 1 --timeline -",
        server.address
    );
    let ended = run(&load);
    let error = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{error}");
    assert!(
        error.contains("round trip: median "),
        "the text of the report: {error}"
    );
    let lines = String::from_utf8(ended.stdout).unwrap();
    let lines: Vec<Value> = (lines.lines().map(|line| serde_json::from_str(line).expect(line))).collect();
    assert_eq!(lines[0]["schema"], "corelane/timeline/1");
    assert_eq!(sum(&lines[1..], "sent"), 200);

    let error = refused(&format!("{load} --json"), 2);
    assert!(
        error.contains("--timeline: standard output has the JSON document"),
        "{error}"
    );
    // A reader that has what it wanted does not fail the run.
    let mut load = corelane(&load);
    let mut load = load.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(load.stdout.take());
    assert!(load.wait().unwrap().success());
}
