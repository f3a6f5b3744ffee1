//! `lab scale udp` as a user runs it: the invariants of its report, in namespaces and on loopback, with either engine.

use crate::common::{Arguments, alone_on_loopback, refused, run, run_json};
use corelane_host::cpus;
use serde_json::Value;

/// The assertions hold for every trial, however busy the CPUs are.
const QUICK: &str = "lab scale udp --duration 100ms --rounds 1 --max-steal 100%";

fn lab<A: Arguments + ?Sized>(more: &A) -> Value {
    run_json(&[QUICK.words(), vec!["--json"], more.words()].concat())
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("a number, not {value}"))
}

/// The part of a report that does not depend on speed: (mode, model, placement, active buckets) of every step.
fn shape(report: &Value) -> Vec<String> {
    let steps = report["steps"].as_array().unwrap();
    let fields = [
        "mode",
        "model",
        "placement",
        "buckets_active",
        "buckets_configured",
        "cpus",
    ];
    steps
        .iter()
        .map(|step| fields.map(|field| step[field].to_string()).join(" "))
        .collect()
}

/// With this many frames the device tap, which samples one in 256 at random, certainly recorded some.
const CERTAINLY_TAPPED: u64 = 8192;

/// Datagrams in the largest frame sent with `--gso`.
const SEGMENTS: u64 = 64;

/// Locality is all or none if the model or the bed determines it.
fn assert_locality(step: &Value, is_merged: bool, what: &str) {
    let buckets = step["per_bucket"].as_array().unwrap().iter();
    let seen: u64 = buckets.map(|bucket| bucket["seen"].as_u64().unwrap()).sum();
    let Some(locality) = step["locality"].as_f64() else {
        let frames = if is_merged { seen / SEGMENTS } else { seen };
        assert!(
            frames < CERTAINLY_TAPPED,
            "{what}: locality is unknown, {seen} seen"
        );
        return;
    };
    match (
        step["model"].as_str().unwrap(),
        step["placement"].as_str().unwrap(),
    ) {
        ("exact" | "farm", "aligned") | ("incoming_cpu", _) => {
            assert!(locality >= 0.99, "{what}: locality {locality}");
        }
        ("exact" | "farm", "crossed") => assert!(locality < 0.01, "{what}: locality {locality}"),
        _ => {}
    }
}

/// The trials that are not results, with their reasons.
fn how_they_ended(report: &Value) -> String {
    let trials = report["trials"].as_array().unwrap().iter();
    let marked = trials.filter(|trial| trial["status"] != "valid");
    marked
        .map(|trial| format!("step {}: {} ({})", trial["step"], trial["status"], trial["why"]))
        .collect::<Vec<_>>()
        .join("; ")
}

/// The assertions for a bed of two namespaces, independent of speed.
fn assert_in_namespaces(report: &Value) {
    for step in report["steps"].as_array().unwrap() {
        let what = format!(
            "{} {} {} x{}, answers {}, metadata {}",
            step["mode"],
            step["model"],
            step["placement"],
            step["buckets_active"],
            step["answers"],
            step["metadata"]
        );
        assert_eq!(step["trials"], 1, "{what}: {}", how_they_ended(report));
        let model = step["model"].as_str().unwrap();
        // The bucket determines the worker, by the socket's program or by the reader's hash.
        let by_bucket = ["exact", "farm"].contains(&model);
        if by_bucket {
            assert_eq!(step["steering_ok"], 1.0, "{what}");
        }
        assert_locality(step, report["plan"]["gso"] == true, &what);
        for (gap, frames) in step["unexplained"].as_object().unwrap() {
            assert!(
                frames.is_null() || frames == 0,
                "{what}: {frames} frames unexplained in {gap}: {}",
                step["drops"]
            );
        }
        assert!(!step["received_pps"].is_null(), "{what}");
        assert_eq!(step["answered_pps"].is_null(), step["mode"] == "sink", "{what}");
        assert_eq!(step["returned_pps"].is_null(), step["mode"] == "sink", "{what}");
        let active = step["buckets_active"].as_u64().unwrap();
        for bucket in step["per_bucket"].as_array().unwrap() {
            let hit = bucket["seen"].as_u64().unwrap() > 0;
            let aimed = bucket["bucket"].as_u64().unwrap() < active;
            assert!(!by_bucket || hit == aimed, "{what}: bucket {bucket}");
        }
    }
}

#[test]
fn every_frame_is_accounted_for_under_either_engine_and_both_give_the_same_table() {
    let mut shapes = Vec::new();
    for engine in ["epoll", "io_uring"] {
        let report = lab(&["--bed", "namespaces", "--engine", engine]);
        assert_eq!(report["schema"], "corelane/scale/1");
        for trial in report["trials"].as_array().unwrap() {
            assert_eq!(
                trial["raw"]["engine"], engine,
                "{}",
                trial["raw"]["engine_reason"]
            );
        }
        assert_in_namespaces(&report);
        assert!(report["limit"]["sentence"].as_str().unwrap().ends_with('.'));
        shapes.push(shape(&report));
    }
    assert_eq!(shapes[0], shapes[1]);
}

#[test]
fn payloads_beyond_the_usual_frame_are_accounted_for_too() {
    assert_in_namespaces(&lab("--bed namespaces --size 4000 --buckets 1"));
}

#[test]
fn every_frame_is_accounted_for_under_every_model() {
    let every = [
        "--models",
        "all",
        "--placements",
        "aligned,crossed",
        "--modes",
        "echo,sink",
    ];
    for engine in ["epoll", "io_uring"] {
        let report = lab(&[&every[..], &["--bed", "namespaces", "--engine", engine]].concat());
        assert_in_namespaces(&report);
        let steps = report["steps"].as_array().unwrap();
        let models = ["single", "shared", "farm", "reuseport", "incoming_cpu", "exact"];
        for model in models {
            let own: Vec<&Value> = steps.iter().filter(|step| step["model"] == model).collect();
            let active = own.iter().filter(|step| step["buckets_active"] == 1).count();
            assert_eq!(active, 4, "{model}: two modes, two placements");
            assert!(own.iter().all(|step| number(&step["seen_pps"]) > 0.0), "{model}");
        }
    }
}

/// Mode, model, placement and variation of every step.
fn series(report: &Value) -> Vec<String> {
    let fields = [
        "mode",
        "model",
        "placement",
        "skew",
        "answers",
        "metadata",
        "buckets_active",
    ];
    let steps = report["steps"].as_array().unwrap().iter();
    steps
        .map(|step| fields.map(|field| step[field].to_string()).join(" "))
        .collect()
}

#[test]
fn ipv6_gives_the_table_of_ipv4_with_every_control() {
    let all =
        "--bed namespaces --models all --placements aligned,crossed --skew zipf:1 --answers all --metadata";
    let planned = run_json(&[QUICK.words(), all.words(), vec!["--dry-run"]].concat());
    let report = lab(&format!("{all} --ipv6"));
    assert_eq!(report["plan"]["server"], "[fd00:11:2::1]:8080");
    assert_eq!(series(&report), series(&planned));
    assert_in_namespaces(&report);
}

#[test]
fn four_tuples_are_steered_exactly_in_both_families_and_from_a_single_address() {
    for bed in ["--bed namespaces", "--bed namespaces --ipv6"] {
        let report = lab(&format!("{bed} --hash 4tuple"));
        assert_eq!(report["steering"]["hash_fields"], "4tuple");
        assert_in_namespaces(&report);
    }
    let _alone = alone_on_loopback();
    let report = lab("--bed loopback --ipv6 --hash 4tuple --models exact");
    assert_eq!(report["plan"]["clients"], "::1");
    for step in report["steps"].as_array().unwrap() {
        assert_eq!(step["steering_ok"], 1.0, "{step}");
    }
    // The loopback device has one IPv6 address, which is one 2-tuple.
    let refused = refused("lab scale udp --bed loopback --ipv6 --buckets 2 --share-cpus", 2);
    assert!(refused.contains("--hash 4tuple"), "{refused}");
}

#[test]
fn every_frame_is_accounted_for_in_every_way_to_move_datagrams() {
    let every = [
        "--models",
        "all",
        "--placements",
        "aligned",
        "--modes",
        "echo,sink",
    ];
    let ways: [&[&str]; 4] = [
        &["--batch", "1"],
        &["--gso"],
        &["--gso", "--gro"],
        &["--gso", "--gro", "--engine", "io_uring"],
    ];
    for way in ways {
        assert_in_namespaces(&lab(&[&every[..], &["--bed", "namespaces"], way].concat()));
    }
}

#[test]
fn skew_overloads_the_fullest_bucket_and_the_report_says_what_that_costs() {
    let report = lab("--bed namespaces --models exact,shared --skew elephant:0.6 --placements aligned");
    assert_in_namespaces(&report);
    let steps = report["steps"].as_array().unwrap();
    let skewed: Vec<&Value> = steps
        .iter()
        .filter(|step| step["skew"] == "elephant:0.6")
        .collect();
    assert_eq!(skewed.len(), 3, "echo of both models, and exact as a sink");
    let all = steps
        .iter()
        .map(|step| step["buckets_active"].as_u64().unwrap())
        .max()
        .unwrap();
    if all < 2 {
        eprintln!("skipped: skew over buckets needs two CPUs");
        return;
    }
    // 8 flows per bucket: the elephant and 7 of the others land on the first.
    let others = 0.4 / (all as f64 * 8.0 - 1.0);
    let expected = (0.6 + 7.0 * others) * all as f64;
    for step in skewed {
        assert_eq!(step["buckets_active"], all);
        let imbalance = number(&step["imbalance"]);
        assert!(
            (imbalance / expected - 1.0).abs() < 0.2,
            "{imbalance}, not {expected}"
        );
        assert!(number(&step["rate_of_plain"]) > 0.0);
    }
    let verdict = report["limit"]["sentence"].as_str().unwrap();
    assert!(verdict.contains("Under elephant:0.6"), "{verdict}");
}

#[test]
fn answers_leave_on_their_buckets_cpu_and_queue_where_the_received_hash_is_used_again() {
    let flags = ["--answers", "all", "--metadata", "--placements", "aligned"];
    let report = lab(&[&["--bed", "namespaces", "--models", "exact"], &flags[..]].concat());
    assert_in_namespaces(&report);
    let steps = report["steps"].as_array().unwrap();
    let varied = |field: &str, value: Value| {
        let all: Vec<&Value> = steps.iter().filter(|step| step[field] == value).collect();
        assert!(!all.is_empty(), "a step with {field} {value}");
        all
    };
    let left_out = report["limit"]["evidence"].to_string();
    if left_out.contains("answers by") {
        eprintln!("skipped: {left_out}");
        return;
    }
    for answers in ["received", "caller"] {
        for step in varied("answers", answers.into()) {
            for field in ["tx_locality", "tx_on_cpu", "tx_on_queue"] {
                assert_eq!(step[field], 1.0, "{answers}: {field}");
            }
        }
    }
    // The worker's CPU sends in any case; the hash chooses the queue.
    for step in varied("answers", "connected".into()) {
        assert_eq!(step["tx_on_cpu"], 1.0);
        assert!(number(&step["rate_of_plain"]) > 0.0);
    }
    for step in varied("metadata", true.into()) {
        assert!(number(&step["cost_of_plain"]) > 0.0);
        assert_eq!(step["steering_ok"], 1.0);
    }
    let sink = varied("mode", "sink".into());
    assert_eq!(sink[0]["unknown"]["tx_locality"], "a sink does not answer");
}

#[test]
fn marked_answers_leave_on_their_buckets_queue_where_neither_cpu_nor_hash_names_it() {
    let cpu = cpus::allowed().unwrap().cpus[0];
    let flags = "--bed namespaces --models exact --placements aligned --buckets 4 --share-cpus --answers all";
    let report = lab(&format!("{flags} --cpus {cpu}"));
    assert_in_namespaces(&report);
    let left_out = report["limit"]["evidence"].to_string();
    if left_out.contains("answers by") {
        eprintln!("skipped: {left_out}");
        return;
    }
    for step in report["steps"].as_array().unwrap() {
        let full = step["mode"] == "echo" && step["buckets_active"] == 4;
        if !full {
            continue;
        }
        let on_queue = number(&step["tx_on_queue"]);
        match step["answers"].as_str().unwrap() {
            "received" => assert_eq!(on_queue, 1.0),
            answers => assert!(on_queue < 1.0, "{answers}: {on_queue}"),
        }
    }
}

#[test]
fn more_buckets_than_cpus_share_them() {
    let report = lab("--bed namespaces --buckets 4 --share-cpus");
    let steps = report["steps"].as_array().unwrap();
    assert!(
        steps
            .iter()
            .any(|step| step["buckets_active"] == 4 && step["placement"] == "aligned")
    );
    assert_in_namespaces(&report);
}

#[test]
fn loopback_does_what_it_can_and_says_what_it_cannot() {
    let _alone = alone_on_loopback();
    let report = lab("--bed loopback");
    assert_eq!(report["bed"]["kind"], "loopback");
    assert!(report["bed"]["reason"].is_string(), "{}", report["bed"]);
    for step in report["steps"].as_array().unwrap() {
        assert!(number(&step["seen_pps"]) > 0.0);
        assert!(step["received_pps"].is_null());
        assert!(
            step["unknown"]["received_pps"]
                .as_str()
                .unwrap()
                .contains("loopback")
        );
        if step["model"] == "exact" {
            assert_eq!(step["steering_ok"], 1.0);
        }
    }
}

#[test]
fn the_text_fits_a_hundred_columns_and_ends_with_the_limit() {
    let output = run(&format!("{QUICK} --buckets 1"));
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap();
    assert!(text.contains("law") && last.contains("limit"), "{text}");
}

#[test]
fn bad_input_is_refused_with_the_flag_named() {
    let few = refused("lab scale udp --buckets 5000", 2);
    assert!(few.contains("--buckets"), "{few}");
    let large = refused("lab scale udp --size 70000", 2);
    assert!(large.contains("--size"), "{large}");
    let large = refused("lab scale udp --ipv6 --size 65500", 2);
    assert!(large.contains("--size: at most 65487"), "{large}");
    let key = refused("lab scale udp --key 00", 2);
    assert!(key.contains("--key"), "{key}");
    let model = refused("lab scale udp --models exact,guess", 2);
    assert!(model.contains("--models") && model.contains("'guess'"), "{model}");
}
