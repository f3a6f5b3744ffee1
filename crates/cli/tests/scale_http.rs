//! `corelane lab scale http` end to end, with the shortest trials.

use crate::common::{Arguments, namespaces_for, number, refused, run, run_json, told_again};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// The assertions hold for every trial, however busy the CPUs are: it is long enough for one answer.
const QUICK: &str = "lab scale http --duration 400ms --rounds 1 --connections 8 --max-steal 100%";

fn lab<A: Arguments + ?Sized>(more: &A) -> Value {
    run_json(&[QUICK.words(), vec!["--json"], more.words()].concat())
}

/// Checks every trial: both sides counted the same, and nothing failed. The generator may be the limit, which is not an
/// error.
fn assert_whole(report: &Value) {
    let steps = report["steps"].as_array().unwrap();
    assert!(!steps.is_empty());
    for trial in report["trials"].as_array().unwrap() {
        let step = &steps[number(&trial["step"]) as usize];
        let what = format!(
            "{} {} x{}: {trial}",
            step["server"], step["placement"], step["buckets_active"]
        );
        let is_measured = ["valid", "generator_limited"].contains(&trial["status"].as_str().unwrap());
        assert!(is_measured, "{what}");
        assert!(number(&trial["requests_ok"]) > 0, "{what}");
        let connections = &trial["connections"];
        for count in ["opened", "held"] {
            assert_eq!(connections[count], step["connections"], "{what}");
        }
        assert_eq!(trial["errors"].as_object().unwrap().len(), 0, "{what}");
        assert_eq!(connections["failed"].as_object().unwrap().len(), 0, "{what}");
    }
}

#[test]
fn every_request_is_counted_on_both_sides_with_controls() {
    if !namespaces_for("http") {
        return;
    }
    for family in ["", "--ipv6"] {
        assert_every_request_is_counted(&lab(&format!("--bed namespaces --size 0,100KiB {family}")));
    }
}

fn assert_every_request_is_counted(report: &Value) {
    assert_eq!(report["schema"], "corelane/scale-http/1");
    assert_whole(report);
    let measured = report["steps"].as_array().unwrap().iter();
    for step in measured.filter(|step| step["trials"] != 0) {
        let exact = step["server"] == "exact";
        assert_eq!(
            step["steering_ok"],
            if exact { 1.0.into() } else { Value::Null },
            "{step}"
        );
        assert!(step["latency"]["p99_ns"].as_u64().unwrap() > 0);
        for field in [
            "requests_per_s",
            "gbit_s",
            "server_cpu_us_per_request",
            "client_cpu_us_per_request",
        ] {
            assert!(step[field].as_f64().unwrap() > 0.0, "{field}: {step}");
        }
    }
    let trials = report["trials"].as_array().unwrap();
    assert!(trials.iter().all(|trial| trial["served_requests"].is_u64()));
    assert!(report["limit"]["sentence"].as_str().unwrap().ends_with('.'));
    assert_eq!(report["limit"]["suspects"].as_array().unwrap().len(), 5);
}

#[test]
fn a_saved_report_is_told_again_compared_and_made_a_page() {
    let (_, compared) = told_again(&format!("{QUICK} --models exact --size 10"));
    assert!(
        compared.contains("Nothing changed beyond the spread"),
        "{compared}"
    );
}

#[test]
fn a_schedule_is_kept_and_its_lag_told() {
    let report = lab("--rate 200 --models exact --placements aligned --size 10");
    for trial in report["trials"].as_array().unwrap() {
        assert!(!trial["schedule_lag"].is_null(), "{trial}");
        let late = &trial["raw"]["client"]["behind_schedule"];
        let status = if late.is_null() {
            "valid"
        } else {
            "generator_limited"
        };
        assert_eq!(
            (&trial["status"], &trial["why"]),
            (&status.into(), late),
            "{trial}"
        );
    }
}

#[test]
fn any_server_can_take_the_place_of_ours() {
    if !Path::new("/usr/sbin/nginx").exists() {
        eprintln!("skipped: nginx is not installed (tests/prepare.sh)");
        return;
    }
    if !namespaces_for("http") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display();
    let configuration = format!(
        "daemon off; user root; pid {place}/pid; error_log {place}/errors;\n\
         events {{ worker_connections 512; }}\n\
         http {{ access_log off; keepalive_requests 100000000; client_body_temp_path {place}; proxy_temp_path {place};\n\
         fastcgi_temp_path {place}; uwsgi_temp_path {place}; scgi_temp_path {place};\n\
         server {{ listen 8080; return 200 pong; }} }}\n"
    );
    fs::write(folder.path().join("nginx.conf"), configuration).unwrap();
    let subject =
        format!("nginx -e {place}/errors -c {place}/nginx.conf -g \"worker_processes $CORELANE_CPUS;\"");
    let report = lab(&["--bed", "namespaces", "--subject", &subject]);
    assert_eq!(report["subject"], subject);
    assert_whole(&report);
    for step in report["steps"].as_array().unwrap() {
        assert_eq!(
            (&step["server"], &step["object_bytes"]),
            (&"subject".into(), &Value::Null)
        );
    }
    for trial in report["trials"].as_array().unwrap() {
        assert!(
            number(&trial["cpu"]["server_ns"]) > 0,
            "its workers' time is counted"
        );
    }
}

#[test]
fn a_subject_that_does_not_start_ends_the_run_with_its_own_words() {
    if !namespaces_for("http") {
        return;
    }
    let error = refused(
        &[QUICK.words(), vec!["--subject", "echo no port for me >&2; false"]].concat(),
        1,
    );
    assert!(error.contains("no port for me"), "{error}");
}

#[test]
fn a_subject_that_refuses_every_request_fails_with_the_status_and_the_path() {
    if !namespaces_for("http") {
        return;
    }
    let subject = format!(
        "{} serve http $CORELANE_ADDRESS:$CORELANE_PORT",
        env!("CARGO_BIN_EXE_corelane")
    );
    let output = run(&[QUICK.words(), vec!["--path", "/absent", "--subject", &subject]].concat());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("N CPUs\nfailed: 404 on /absent ("), "{text}");
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("Failed: 404 on /absent ("), "{text}");
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.contains("no trial gave a result: 404 on /absent ("),
        "{error}"
    );
}

#[test]
fn the_text_is_whole_in_a_pipe_and_ends_with_the_limit() {
    let output = run(&format!("{QUICK} --models exact --size 10"));
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let (last, others) = lines.split_last().unwrap();
    for line in others {
        assert!(!line.contains('\u{2026}'), "{line}");
    }
    assert!(
        text.contains("who was the limit") && last.contains("the limit was"),
        "{text}"
    );
}

#[test]
fn bad_input_is_refused_with_the_flag_named() {
    for (flags, named) in [
        (&["--active", "99"][..], "--active"),
        (&["--connections", "0"], "--connections"),
        (&["--models", "guess"], "--models"),
        (&["--subject", "x", "--path", "y"], "--path"),
        (&["--path", "/y"], "--subject"),
    ] {
        let error = refused(&[&["lab", "scale", "http"], flags].concat(), 2);
        assert!(error.contains(named), "{error}");
    }
    let few = refused("lab scale http --connections 1 --active 2", 2);
    assert!(few.contains("fewer than one a bucket"), "{few}");
}
