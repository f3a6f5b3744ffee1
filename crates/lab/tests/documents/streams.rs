//! The documents of `lab scale http` and `tcp`, with made-up counts of a small machine.

use corelane_lab::document::{Bed, Document, Head, Tool};
use corelane_lab::scale::datagrams::Placement;
use corelane_lab::scale::limit::Scaling;
use corelane_lab::scale::limit::{Limit, LimitCause, Suspect, SuspectName};
use corelane_lab::scale::streams::document::{
    ByteStreams, CacheGrowth, Connections, CpuUse, Memory, Segments, Shape, Step, Trial,
};
use corelane_lab::scale::streams::metrics::{
    CLIENT_PER_REQUEST, CLIENT_SHARE, LATENCY, LINEARITY, OTHERS_SHARE, PAYLOAD, REQUESTS, SERVER_BYTES,
    SERVER_PER_KIB, SERVER_PER_REQUEST, SERVER_SHARE, STEERING,
};
use corelane_lab::scale::streams::{Protocol, Server, StreamsReport, Traffic};
use corelane_lab::trial::{CpuShare, Trial as _, TrialHead, TrialStatus};
use corelane_measure::histogram::Histogram;
use corelane_measure::share::Share;
use corelane_measure::time_series::{RateUntil, TimeSeries};
use corelane_report::diff;
use corelane_report::page::Rendered;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const ROUNDS: usize = 3;

fn shape(server: Server, placement: Placement, connections: u64, buckets_active: usize) -> Shape {
    Shape {
        server,
        placement,
        traffic: Traffic::Requests,
        object_bytes: Some(1024),
        write_bytes: None,
        connections,
        buckets_active,
    }
}

/// A trial with `rate` requests per second for two seconds.
fn trial(step: usize, round: usize, shape: &Shape, rate: f64) -> Trial {
    let requests = (rate * 2.0) as u64;
    let mut latency = Histogram::new();
    latency.record_many(150_000, requests);
    latency.record_many(9_000_000, requests / 100);
    Trial {
        requests_ok: requests,
        served_requests: Some(requests),
        received_bytes: requests * 1024,
        latency: Some(latency),
        over_time: TimeSeries {
            rates: vec![RateUntil {
                until_s: 2.0,
                per_second: rate,
            }],
            times: Vec::new(),
        },
        connections: Connections {
            asked: shape.connections,
            opened: shape.connections,
            held: shape.connections,
            failed: BTreeMap::from([("refused".to_owned(), round as u64)]),
            opening_s: Some(0.5),
        },
        cpu: CpuUse {
            server_ns: Some(requests * 4_000),
            client_ns: Some(requests * 3_500),
            ..CpuUse::default()
        },
        cpu_shares: (0..shape.buckets_active as u32)
            .map(|cpu| CpuShare {
                cpu,
                idle_share: Some(0.01),
                softirq_share: Some(0.3),
            })
            .collect(),
        steering: Some(Share {
            hits: shape.connections,
            samples: shape.connections,
        }),
        kernel: BTreeMap::from([("server.overflows".to_owned(), 3)]),
        memory: Some(Memory {
            connections: shape.connections,
            client_user_bytes: Some(shape.connections * 400),
            server_user_bytes: Some(shape.connections * 700),
            kernel_slab_bytes: Some(shape.connections * 7_500),
            socket_buffer_bytes: Some(0),
            caches: vec![CacheGrowth {
                name: "TCP".to_owned(),
                objects: shape.connections * 2,
                bytes: shape.connections * 5_000,
            }],
            ..Memory::default()
        }),
        ..Trial::new(TrialHead::new(step, round, 2.0))
    }
}

/// A run over 1 to `buckets` buckets at two numbers of connections, with a control, at 100,000 requests/s per bucket.
pub(super) fn report(buckets: usize) -> StreamsReport {
    let mut steps = Vec::new();
    let mut trials = Vec::new();
    for connections in [64, 10_000] {
        for server in [Server::Exact, Server::Reuseport] {
            for active in 1..=buckets {
                let shape = shape(server, Placement::Aligned, connections, active);
                let share = if server == Server::Exact { 1.0 } else { 0.8 };
                for round in 0..ROUNDS {
                    let rate = 100_000.0 * active as f64 * share + round as f64;
                    trials.push(trial(steps.len(), round, &shape, rate));
                }
                steps.push(Step::new(shape, buckets, (0..active as u32).collect()));
            }
        }
    }
    let mut report = StreamsReport {
        head: Head {
            schema: Protocol::Http.facts().schema.to_owned(),
            tool: Tool {
                name: "corelane".to_owned(),
                version: "0.1.0".to_owned(),
            },
            started_unix_s: Some(1_760_000_000),
            command_line: ["corelane", "lab", "scale", "http"].map(str::to_owned).to_vec(),
            bed: Some(Bed {
                kind: "namespaces".to_owned(),
                describe: "two network namespaces joined by veth".to_owned(),
                reason: None,
            }),
            conditions: None,
            ..Head::default()
        },
        plan: json!({ "rounds": ROUNDS }),
        steering: json!({ "hash_fields": "4tuple" }),
        kind: ByteStreams {
            protocol: Protocol::Http,
            subject: None,
            left_out: Vec::new(),
        },
        steps,
        trials,
        scaling: Scaling::default(),
        limit: Limit {
            cause: LimitCause::SharedCpus,
            sentence: "4 buckets answered 400 k/s; the limit was CPU time.".to_owned(),
            evidence: Vec::new(),
            suspects: vec![Suspect {
                name: SuspectName::Server,
                is_limit: true,
                evidence: "took 40 % of the CPUs' time".to_owned(),
            }],
            ..Limit::default()
        },
    };
    report.summarise();
    report
}

#[test]
fn steps_are_medians_of_their_own_trials() {
    let report = report(4);
    let step = report
        .steps
        .iter()
        .find(|step| (step.shape.server, step.shape.buckets_active) == (Server::Exact, 4))
        .unwrap();
    assert_eq!(step.summed.trials, ROUNDS);
    assert_eq!(REQUESTS.of(step), Some(400_001.0));
    assert!((PAYLOAD.of(step).unwrap() - 400_001.0 * 8192.0 / 1e9).abs() < 1e-9);
    assert!((LINEARITY.of(step).unwrap() - 1.0).abs() < 1e-4);
    assert_eq!(SERVER_PER_REQUEST.of(step), Some(4.0));
    assert_eq!(CLIENT_PER_REQUEST.of(step), Some(3.5));
    assert!(
        (SERVER_SHARE.of(step).unwrap() - 0.4).abs() < 1e-4,
        "of four CPUs"
    );
    assert_eq!(STEERING.of(step), Some(1.0));
    assert_eq!(step.found.errors["refused"], 3);
    assert_eq!(step.found.kernel["server.overflows"], 9);
    assert_eq!(
        step.found.memory_per_connection.client_user_bytes, None,
        "64 connections are too few"
    );
    assert_eq!(
        report.steps[8].found.memory_per_connection.server_user_bytes,
        Some(700.0)
    );
    let law = report.scaling.law.unwrap();
    assert!((law.lambda_per_second - 100_000.0).abs() < 100.0, "{law:?}");
}

#[test]
fn the_verdict_is_about_exact_steering_with_the_most_connections() {
    let report = report(2);
    assert_eq!(report.parted_series()[0].len(), 2);
    let main = report.main_series().unwrap();
    assert_eq!(
        (main.shape().server, main.shape().connections),
        (Server::Exact, 10_000)
    );
    assert_eq!(main.last_measured().unwrap().shape.buckets_active, 2);
}

#[test]
fn a_trial_that_the_generator_limited_enters_no_number() {
    let mut report = report(2);
    for trial in report.trials.iter_mut().filter(|trial| trial.head.step == 0) {
        trial.head.status = TrialStatus::GeneratorLimited;
    }
    report.summarise();
    let step = &report.steps[0];
    assert_eq!(
        (
            step.summed.trials,
            step.summed.generator_limited_trials,
            REQUESTS.of(step)
        ),
        (0, ROUNDS, None)
    );
    assert!(step.summed.unknown["requests_per_s"].contains("the generator was the limit in all 3 trials"));
    assert!(report.steps[1].summed.unknown["linearity"].contains("at one"));
}

#[test]
fn the_document_is_read_back_as_written() {
    let report = report(2);
    let text = report.to_json().unwrap();
    assert_eq!(StreamsReport::from_json(&text).unwrap(), report);
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["schema"], "corelane/scale-http/1");
    let step = &json["steps"][0];
    for field in [
        "server",
        "placement",
        "object_bytes",
        "connections",
        "buckets_active",
        "requests_per_s",
    ] {
        assert!(!step[field].is_null(), "{field}");
    }
}

#[test]
fn the_text_fits_a_hundred_columns_and_ends_with_the_verdict() {
    let text = report(4).page().to_text();
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    for words in [
        "exact steering, aligned, 1 KiB objects over 10,000 connections",
        "memory at 10,000 connections",
        "controls beside exact steering",
        "0.80x",
        "server.overflows",
        "who was the limit",
        "* server",
    ] {
        assert!(text.contains(words), "{words} is not in:\n{text}");
    }
    assert!(text.ends_with("the limit was CPU time.\n"));
}

#[test]
fn the_page_is_one_file_that_fetches_nothing_and_says_what_the_text_says() {
    let text = report(4).page().to_html();
    assert!(text.starts_with("<!DOCTYPE html>") && text.ends_with("</html>\n"));
    for words in [
        "Who was the limit",
        "Growth with buckets",
        "Memory at 10,000 connections",
        "<svg",
        "server.overflows",
    ] {
        assert!(text.contains(words), "{words} is not in the page");
    }
    for fetched in ["<script", "<link", "src=", "@import", "url("] {
        assert!(!text.contains(fetched), "{fetched}");
    }
    let mut none = report(1);
    none.steps.clear();
    none.trials.clear();
    assert!(none.page().to_html().contains("Nothing was measured"));
}

/// The same run with bytes sent to the server in writes of 1 KiB.
fn report_of_bytes(buckets: usize) -> StreamsReport {
    let mut report = report(buckets);
    report.kind.protocol = Protocol::Tcp;
    report.head.schema = Protocol::Tcp.facts().schema.to_owned();
    for step in &mut report.steps {
        let shape = &mut step.shape;
        (shape.traffic, shape.object_bytes, shape.write_bytes) = (Traffic::Sink, None, Some(1024));
    }
    for trial in &mut report.trials {
        trial.sent_bytes = std::mem::take(&mut trial.received_bytes);
        (trial.latency, trial.requests_ok) = (None, 0);
        trial.segments = Some(Segments {
            sent_again: 1_234,
            out_of_order: 2,
            stalls: 1,
        });
    }
    report.summarise();
    report
}

#[test]
fn bytes_are_judged_by_their_rate() {
    let report = report_of_bytes(2);
    let step = &report.steps[0];
    assert_eq!(
        (REQUESTS.of(step), report.rate().of(step)),
        (None, PAYLOAD.of(step))
    );
    assert_eq!(LATENCY.of(step), None);
    // A request had 1 KiB and cost the server 4 microseconds.
    assert_eq!(SERVER_PER_KIB.of(step), Some(4000.0));
    assert_eq!(SERVER_BYTES.of(step), Some(256e6));
    assert_eq!(
        step.found.segments,
        Some(Segments {
            sent_again: 3 * 1_234,
            out_of_order: 6,
            stalls: 3,
        })
    );
    assert!(step.summed.unknown["latency"].contains("bytes are measured"));
    assert_eq!(
        StreamsReport::from_json(&report.to_json().unwrap()).unwrap(),
        report
    );
}

#[test]
fn text_and_page_of_bytes_tell_what_a_cpu_second_carries_and_what_tcp_had_to_mend() {
    let report = report_of_bytes(4);
    let text = report.page().to_text();
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    for words in [
        "1 KiB writes to the server over 64 connections",
        "B/CPU s",
        "256 M",
        "3,702",
        "disorder",
    ] {
        assert!(text.contains(words), "{words} is not in:\n{text}");
    }
    let page = report.page().to_html();
    for words in ["Gb/s", "B/CPU s", "3,702", "sent again"] {
        assert!(page.contains(words), "{words} is not in the page");
    }
    assert!(!page.contains("latency, p99") && !page.contains("/request"));
}

/// A run with failed and generator-limited trials, a shape that cannot run, and a step without trials.
fn unlucky_report() -> StreamsReport {
    let mut report = report(2);
    report.trials.retain(|trial| trial.head.step != 5);
    for (trial, status) in [(0, TrialStatus::GeneratorLimited), (4, TrialStatus::Failed)] {
        report.trials[trial].head.status = status;
        report.trials[trial].head.why = Some("the server ended".to_owned());
    }
    report.kind.left_out = vec!["crossed clients: one CPU has no other".to_owned()];
    report.head.interrupted = true;
    report.summarise();
    report
}

#[test]
fn texts_are_those_that_were_read_before() {
    let text = [unlucky_report(), report_of_bytes(2)].map(|report| report.page().to_text());
    let text = text.join("\n----\n\n");
    assert!(
        text == include_str!("expected/streams.txt"),
        "the text is now:\n{text}"
    );
}

#[test]
fn comparisons_are_those_that_were_read_before() {
    let slower = |mut report: StreamsReport| {
        for trial in &mut report.trials {
            trial.head.duration_s *= 1.25;
            trial.cpu.server_ns = trial.cpu.server_ns.map(|time| time * 2);
        }
        let snapshot = json!({ "conditions": [
            { "name": "turbo", "value": "off", "severity": "explains", "why": "it is slower", "source": "the test" }
        ] });
        report.head.conditions = Some(serde_json::from_value(snapshot).unwrap());
        report
    };
    let diff = |before: &StreamsReport, after: &StreamsReport| {
        let [before, after] = [before, after].map(|report| report.compared().unwrap());
        let diff = diff::diff(&before, &after, diff::Basis::Alike).unwrap();
        diff.page().to_text()
    };
    let text = [
        diff(&report(2), &slower(report(2))),
        diff(&report_of_bytes(2), &slower(report_of_bytes(3))),
        diff(&report(2), &unlucky_report()),
    ];
    let text = text.join("\n----\n\n");
    assert!(
        text == include_str!("expected/streams_diff.txt"),
        "the text is now:\n{text}"
    );
}

#[test]
fn documents_of_earlier_versions_are_read() {
    let mut json: Value = serde_json::from_str(&report(2).to_json().unwrap()).unwrap();
    for step in json["steps"].as_array_mut().unwrap() {
        for field in [
            "write_bytes",
            "segments",
            "server_bytes_per_cpu_s",
            "client_bytes_per_cpu_s",
        ] {
            step.as_object_mut().unwrap().remove(field).unwrap();
        }
    }
    for trial in json["trials"].as_array_mut().unwrap() {
        for field in ["segments", "per_bucket"] {
            trial.as_object_mut().unwrap().remove(field).unwrap();
        }
    }
    let read = StreamsReport::from_json(&json.to_string()).unwrap();
    assert_eq!(read.steps[0].shape.write_bytes, None);
    assert_eq!(
        SERVER_BYTES.of(&read.steps[0]),
        SERVER_BYTES.of(&report(2).steps[0])
    );
}

#[test]
fn shares_are_of_the_clocked_time_and_late_answers_enter_no_rate() {
    let mut slow = report(1);
    for trial in &mut slow.trials {
        trial.head.duration_s = 0.2;
        (trial.requests_ok, trial.requests_late) = (70, 64);
        (trial.sent_bytes, trial.received_bytes) = (0, 70_000);
        trial.cpu = CpuUse {
            server_ns: Some(1_500_000_000),
            client_ns: Some(500_000_000),
            clocked_s: Some(2.0),
            others_share: Some(0.42),
        };
    }
    slow.summarise();
    let step = &slow.steps[0];
    assert_eq!(REQUESTS.of(step), Some(6.0 / 0.2));
    assert_eq!(PAYLOAD.of(step), Some(6_000.0 * 8.0 / 0.2 / 1e9));
    assert_eq!(SERVER_SHARE.of(step), Some(0.75));
    assert_eq!(CLIENT_SHARE.of(step), Some(0.25));
    assert_eq!(OTHERS_SHARE.of(step), Some(0.42));
}

#[test]
fn linearity_is_the_quotient_of_the_rates_that_the_table_shows() {
    let mut run = report(2);
    let rates = [[110e3, 123e3, 130e3], [245e3, 238e3, 250e3]];
    for trial in run.trials.iter_mut().filter(|trial| trial.head.step < 2) {
        trial.requests_ok = (rates[trial.head.step][trial.head.round] * 2.0) as u64;
    }
    run.summarise();
    let [one, two] = [&run.steps[0], &run.steps[1]];
    let quotient = REQUESTS.of(two).unwrap() / REQUESTS.of(one).unwrap();
    assert!((LINEARITY.of(two).unwrap() * 2.0 - quotient).abs() < 1e-9);
    assert!((quotient - 1.99).abs() < 0.005, "{quotient}");
    let range = LINEARITY.range(two).unwrap();
    assert_eq!((range.median, range.count), (LINEARITY.of(two).unwrap(), ROUNDS));
}

#[test]
fn a_run_without_a_result_fails() {
    let mut run = report(1);
    assert_eq!(run.proved(), Ok(()));
    for trial in &mut run.trials {
        trial.head.end(TrialStatus::Failed, "no request was answered");
    }
    run.summarise();
    assert!(run.proved().unwrap_err().contains("no trial gave a result"));
    run.head.interrupted = true;
    assert_eq!(run.proved(), Ok(()));
}

#[test]
fn another_schema_is_refused_by_name() {
    let refused = StreamsReport::from_json(r#"{"schema": "corelane/scale/1"}"#).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "a document of schema `corelane/scale/1` cannot be read here: use the version of corelane that wrote it"
    );
    let refused = StreamsReport::from_json("{").unwrap_err().to_string();
    assert!(refused.starts_with("not a readable report"), "{refused}");
}
