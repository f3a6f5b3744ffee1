//! `corelane lab scale tcp` end to end, with the shortest trials.

use crate::common::{Arguments, namespaces_for, number, refused, run_json, told_again};
use serde_json::Value;

/// The assertions hold for every trial, however busy the CPUs are: it is long enough for one byte.
const QUICK: &str = "lab scale tcp --duration 400ms --rounds 1 --connections 8 --max-steal 100%";

fn lab<A: Arguments + ?Sized>(more: &A) -> Value {
    run_json(&[QUICK.words(), vec!["--json"], more.words()].concat())
}

fn steps(report: &Value) -> &Vec<Value> {
    report["steps"].as_array().unwrap()
}

/// Checks each trial: both sides counted the same bytes for every bucket, and every connection came to its planned
/// bucket. The generator may be the limit, which is not an error.
fn assert_whole(report: &Value) {
    assert!(!steps(report).is_empty());
    for trial in report["trials"].as_array().unwrap() {
        let step = &steps(report)[number(&trial["step"]) as usize];
        let what = format!("{step}: {trial}");
        let is_measured = ["valid", "generator_limited"].contains(&trial["status"].as_str().unwrap());
        assert!(is_measured, "{what}");
        let connections = &trial["connections"];
        for count in ["opened", "held"] {
            assert_eq!(connections[count], step["connections"], "{what}");
        }
        assert_eq!(trial["errors"].as_object().unwrap().len(), 0, "{what}");
        assert_eq!(connections["failed"].as_object().unwrap().len(), 0, "{what}");
        let (sent, received) = (number(&trial["sent_bytes"]), number(&trial["received_bytes"]));
        match step["traffic"].as_str().unwrap() {
            "sink" => assert!(sent > 0 && received == 0, "{what}"),
            "source" => assert!(sent == 0 && received > 0, "{what}"),
            _ => assert!(sent > 0 && sent == received, "{what}"),
        }
        let buckets = trial["per_bucket"].as_array().unwrap();
        let sum = |field: &str| buckets.iter().map(|bucket| number(&bucket[field])).sum::<u64>();
        assert_eq!(
            (sum("server_received"), sum("server_sent")),
            (sent, received),
            "{what}"
        );
        if step["server"] == "exact" {
            assert_eq!(buckets.len() as u64, number(&step["buckets_active"]), "{what}");
            for bucket in buckets {
                assert_eq!(bucket["connections"], bucket["connections_planned"], "{what}");
                assert_eq!(bucket["server_received"], bucket["client_sent"], "{what}");
                assert_eq!(bucket["server_sent"], bucket["client_received"], "{what}");
            }
        }
    }
}

#[test]
fn every_byte_is_counted_on_both_sides_of_its_bucket() {
    if !namespaces_for("tcp") {
        return;
    }
    for family in ["", "--ipv6 --hash 2tuple"] {
        assert_every_byte_is_counted(&lab(&format!("--bed namespaces --size 64KiB {family}")));
    }
}

fn assert_every_byte_is_counted(report: &Value) {
    assert_eq!(
        (&report["schema"], &report["protocol"]),
        (&"corelane/scale-tcp/1".into(), &"tcp".into())
    );
    assert_whole(report);
    for step in steps(report).iter().filter(|step| step["trials"] != 0) {
        let exact = step["server"] == "exact";
        let steered = if exact { 1.0.into() } else { Value::Null };
        assert_eq!(step["steering_ok"], steered, "{step}");
        for field in ["gbit_s", "server_bytes_per_cpu_s", "client_bytes_per_cpu_s"] {
            assert!(step[field].as_f64().unwrap() > 0.0, "{field}: {step}");
        }
        assert_eq!(
            (&step["write_bytes"], &step["object_bytes"]),
            (&65_536.into(), &Value::Null)
        );
        assert!(step["segments"]["sent_again"].is_u64(), "{step}");
        assert!(
            step["unknown"]["requests_per_s"]
                .as_str()
                .unwrap()
                .contains("bytes are measured")
        );
    }
    assert!(report["limit"]["sentence"].as_str().unwrap().ends_with('.'));
}

#[test]
fn small_writes_and_a_rate_carry_no_more_than_was_asked_for() {
    let report = lab("--modes sink,echo --size 100 --rate 1MB --models exact --placements aligned");
    for trial in report["trials"].as_array().unwrap() {
        let allowed = 1e6 * trial["duration_s"].as_f64().unwrap() + 8.0;
        let sent = number(&trial["sent_bytes"]);
        assert!(sent > 0 && sent as f64 <= allowed, "{sent} of {allowed}: {trial}");
        assert!(!trial["schedule_lag"].is_null(), "{trial}");
        assert_eq!(trial["errors"].as_object().unwrap().len(), 0, "{trial}");
    }
}

#[test]
fn a_saved_report_is_told_again_compared_and_made_a_page() {
    let flags = ["--modes", "source", "--models", "exact", "--size", "64KiB,100"];
    let (text, compared) = told_again(&[&QUICK.words()[..], &flags].concat());
    assert!(
        compared.contains("Nothing changed beyond the spread"),
        "{compared}"
    );
    let lines: Vec<&str> = text.lines().collect();
    let (last, others) = lines.split_last().unwrap();
    for line in others {
        assert!(!line.contains('\u{2026}'), "{line}");
    }
    for line in compared.lines() {
        assert!(!line.contains('\u{2026}'), "{line}");
    }
    assert!(
        text.contains("64 KiB writes from the server over 8 connections"),
        "{text}"
    );
    assert!(
        text.contains("who was the limit") && last.contains("the limit was"),
        "{text}"
    );
}

#[test]
fn any_server_of_bytes_can_take_the_place_of_ours() {
    if !namespaces_for("tcp") {
        return;
    }
    let corelane = env!("CARGO_BIN_EXE_corelane");
    // The subject is started through its command, as any other server, and not by the lab as its own.
    let subject = format!(
        "exec {corelane} serve tcp $CORELANE_ADDRESS:$CORELANE_PORT --mode echo --cpus $CORELANE_CPU_LIST"
    );
    let flags = "--bed namespaces --modes echo --size 1KiB --subject";
    let [four, six] = ["", "--ipv6"].map(|family| {
        let report = lab(&[family.words(), flags.words(), vec![subject.as_str()]].concat());
        assert_eq!(report["subject"], subject);
        report["trials"].as_array().unwrap().clone()
    });
    for trial in four.iter().chain(&six) {
        let (sent, received) = (number(&trial["sent_bytes"]), number(&trial["received_bytes"]));
        assert!(sent > 0 && sent == received, "{trial}");
        assert_eq!(trial["errors"].as_object().unwrap().len(), 0, "{trial}");
        assert_eq!(
            trial["per_bucket"].as_array().unwrap().len(),
            0,
            "a subject does not report buckets"
        );
    }
}

#[test]
fn bad_input_is_refused_with_the_flag_named() {
    for (flags, named) in [
        (&["--active", "99"][..], "--active"),
        (&["--modes", "send"], "give sink, source or echo"),
        (&["--size", "0"], "--size"),
        (&["--size", "2MiB"], "1 MiB"),
        (&["--rate", "1MB"], "--modes"),
        (&["--rate", "0", "--modes", "sink"], "--rate"),
    ] {
        let error = refused(&[&["lab", "scale", "tcp"], flags].concat(), 2);
        assert!(error.contains(named), "{error}");
    }
}
