//! `lab scale udp` as a user runs it: the invariants of its report, in namespaces and on loopback, with either engine.

use crate::common::{Arguments, alone_on_loopback, engines, has_engine, number, refused, run, run_json};
use corelane_host::cpus;
use corelane_tests::until;
use serde_json::Value;

/// The assertions hold for the counts of every trial, however busy the CPUs are.
const QUICK: &str = "lab scale udp --duration 100ms --rounds 1 --max-steal 100%";

fn lab<A: Arguments + ?Sized>(more: &A) -> Value {
    run_json(&[QUICK.words(), vec!["--json"], more.words()].concat())
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

/// With this many frames the samples of the device tap and of the workers, one in 256 at random or more, certainly have
/// some.
const CERTAINLY_SAMPLED: u64 = 8192;

/// Datagrams in the largest frame sent with `--gso`.
const SEGMENTS: u64 = 64;

/// The trials with their steps. Counts add up in every one that was measured.
fn trials(report: &Value) -> impl Iterator<Item = (&Value, &Value)> {
    let (steps, trials) = (&report["steps"], report["trials"].as_array().unwrap());
    assert_eq!(trials.len(), steps.as_array().unwrap().len(), "one per step");
    assert!(trials.iter().any(|trial| number(&trial["seen"]) > 0));
    trials.iter().map(|trial| {
        let is_measured = ["valid", "generator_limited"].contains(&trial["status"].as_str().unwrap());
        assert!(is_measured, "{} ({})", trial["status"], trial["why"]);
        (trial, &steps[number(&trial["step"]) as usize])
    })
}

/// The hits and samples of a share, `None` if there was no sample; with so many frames there is one.
fn share(trial: &Value, name: &str, frames: u64, what: &str) -> Option<(u64, u64)> {
    let share = &trial[name];
    if share.is_null() {
        assert!(frames < CERTAINLY_SAMPLED, "{what}: no {name} of {frames} frames");
        return None;
    }
    Some((number(&share["hits"]), number(&share["samples"])))
}

/// All samples are hits.
fn assert_all(trial: &Value, name: &str, frames: u64, what: &str) {
    if let Some((hits, samples)) = share(trial, name, frames, what) {
        assert_eq!(hits, samples, "{what}: {name}");
    }
}

/// Locality is all or none if the model or the bed determines it.
fn assert_locality(trial: &Value, step: &Value, is_merged: bool, what: &str) {
    let seen = number(&trial["seen"]);
    let frames = if is_merged { seen / SEGMENTS } else { seen };
    let Some((hits, samples)) = share(trial, "locality", frames, what) else {
        return;
    };
    let locality = hits as f64 / samples as f64;
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

/// What the generator sent to a bucket.
fn sent_to(trial: &Value, bucket: &Value) -> u64 {
    let workers = trial["raw"]["workers"].as_array().unwrap().iter();
    let own = workers.filter(|worker| worker["bucket"] == *bucket);
    own.map(|worker| number(&worker["counts"]["sent"])).sum()
}

/// The assertions for a bed of two namespaces, independent of speed.
fn assert_in_namespaces(report: &Value) {
    for (trial, step) in trials(report) {
        let what = format!(
            "{} {} {} x{}, answers {}, metadata {}",
            step["mode"],
            step["model"],
            step["placement"],
            step["buckets_active"],
            step["answers"],
            step["metadata"]
        );
        let (generated, seen) = (number(&trial["generated"]), number(&trial["seen"]));
        assert!(seen > 0 || generated == 0, "{what}: {generated} sent, none seen");
        // The bucket determines the worker, by the socket's program or by the reader's hash.
        let by_bucket = ["exact", "farm"].contains(&step["model"].as_str().unwrap());
        if by_bucket {
            assert_all(trial, "steering", seen, &what);
        }
        assert_locality(trial, step, report["plan"]["gso"] == true, &what);
        for (gap, frames) in trial["unexplained"].as_object().unwrap() {
            assert!(
                frames.is_null() || frames == 0,
                "{what}: {frames} frames unexplained in {gap}: {trial:#}"
            );
        }
        let is_sink = step["mode"] == "sink";
        for (count, is_missing) in [("received", false), ("answered", is_sink), ("returned", is_sink)] {
            assert_eq!(trial[count].is_null(), is_missing, "{what}: {count}");
        }
        let active = number(&step["buckets_active"]);
        for bucket in trial["per_bucket"].as_array().unwrap() {
            let hit = number(&bucket["seen"]) > 0;
            let aimed = number(&bucket["bucket"]) < active && sent_to(trial, &bucket["bucket"]) > 0;
            assert!(!by_bucket || hit == aimed, "{what}: bucket {bucket}");
        }
    }
}

#[test]
fn every_frame_is_accounted_for_under_either_engine_and_both_give_the_same_table() {
    let mut shapes = Vec::new();
    for engine in engines() {
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
    assert!(shapes.windows(2).all(|pair| pair[0] == pair[1]), "{shapes:?}");
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
    for engine in engines() {
        let report = lab(&[&every[..], &["--bed", "namespaces", "--engine", engine]].concat());
        assert_in_namespaces(&report);
        let steps = report["steps"].as_array().unwrap();
        let models = ["single", "shared", "farm", "reuseport", "incoming_cpu", "exact"];
        for model in models {
            let own: Vec<&Value> = steps.iter().filter(|step| step["model"] == model).collect();
            let active = own.iter().filter(|step| step["buckets_active"] == 1).count();
            assert_eq!(active, 4, "{model}: two modes, two placements");
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
    for (trial, step) in trials(&report) {
        assert_all(trial, "steering", number(&trial["seen"]), &step.to_string());
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
    let mut ways: Vec<&[&str]> = vec![&["--batch", "1"], &["--gso"], &["--gso", "--gro"]];
    if has_engine("io_uring") {
        ways.push(&["--gso", "--gro", "--engine", "io_uring"]);
    }
    for way in ways {
        assert_in_namespaces(&lab(&[&every[..], &["--bed", "namespaces"], way].concat()));
    }
}

/// Whether the kernel uses the received hash again; a note says why the steps that need it are left out.
fn answers_by_hash(report: &Value) -> bool {
    let left_out = report["limit"]["evidence"].to_string();
    let is_left_out = left_out.contains("answers by");
    if is_left_out {
        eprintln!("skipped: {left_out}");
    }
    !is_left_out
}

#[test]
fn answers_leave_on_their_buckets_cpu_and_queue_where_the_received_hash_is_used_again() {
    let flags = ["--answers", "all", "--metadata", "--placements", "aligned"];
    let report = lab(&[&["--bed", "namespaces", "--models", "exact"], &flags[..]].concat());
    assert_in_namespaces(&report);
    if !answers_by_hash(&report) {
        return;
    }
    let varied = |field: &'static str, value: Value| {
        let all: Vec<_> = trials(&report).filter(|(_, step)| step[field] == value).collect();
        assert!(!all.is_empty(), "a step with {field} {value}");
        all
    };
    let answered = |trial: &Value| number(&trial["answered"]);
    for answers in ["received", "caller"] {
        for (trial, _) in varied("answers", answers.into()) {
            for field in ["tx_locality", "tx_on_cpu", "tx_on_queue"] {
                assert_all(trial, field, answered(trial), answers);
            }
        }
    }
    // The worker's CPU sends in any case; the hash chooses the queue.
    for (trial, _) in varied("answers", "connected".into()) {
        assert_all(trial, "tx_on_cpu", answered(trial), "connected");
    }
    for (trial, _) in varied("metadata", true.into()) {
        assert_all(trial, "steering", number(&trial["seen"]), "metadata");
    }
    // Figures come from valid trials; beside other programs the generator may be the limit of some.
    let positive = |step: &Value, figure: &str| step[figure].as_f64().is_some_and(|figure| figure > 0.0);
    if trials(&report).all(|(trial, _)| trial["status"] == "valid") {
        let connected = varied("answers", "connected".into());
        assert!(connected.iter().all(|(_, step)| positive(step, "rate_of_plain")));
        let described = varied("metadata", true.into());
        assert!(described.iter().all(|(_, step)| positive(step, "cost_of_plain")));
    }
    let (_, sink) = varied("mode", "sink".into())[0];
    assert_eq!(sink["unknown"]["tx_locality"], "a sink does not answer");
}

#[test]
fn marked_answers_leave_on_their_buckets_queue_where_neither_cpu_nor_hash_names_it() {
    let cpu = cpus::allowed().unwrap().cpus[0];
    // Long enough for samples of most flows on a busy machine, of which one in four leaves on the right queue by chance.
    let lab = format!(
        "lab scale udp --quick --max-steal 100% --json --bed namespaces --models exact --placements aligned \
         --modes echo --buckets 4 --share-cpus --answers all --cpus {cpu}"
    );
    let of_four = |(_, step): &(&Value, &Value)| step["buckets_active"] == 4;
    let mut report = Value::Null;
    until(
        "every way to answer has so many answers that some are sampled",
        || {
            report = run_json(&lab);
            let few = |trial: &Value| {
                number(&trial["answered"]) < CERTAINLY_SAMPLED && trial["tx_on_queue"].is_null()
            };
            !answers_by_hash(&report) || !trials(&report).filter(of_four).any(|(trial, _)| few(trial))
        },
    );
    assert_in_namespaces(&report);
    if !answers_by_hash(&report) {
        return;
    }
    for (trial, step) in trials(&report).filter(of_four) {
        let answers = step["answers"].as_str().unwrap();
        let (right, samples) = share(trial, "tx_on_queue", u64::MAX, answers).unwrap();
        match answers {
            "received" => assert_eq!(right, samples),
            _ => assert!(right < samples, "{answers}: {right} of {samples}"),
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
    for (trial, step) in trials(&report) {
        let seen = number(&trial["seen"]);
        assert!(seen > 0 || trial["generated"] == 0, "{trial}");
        assert!(step["received_pps"].is_null());
        assert!(
            step["unknown"]["received_pps"]
                .as_str()
                .unwrap()
                .contains("loopback")
        );
        if step["model"] == "exact" {
            assert_all(trial, "steering", seen, "exact");
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
