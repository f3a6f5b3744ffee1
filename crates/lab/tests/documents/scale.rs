//! The document of `lab scale udp` and its text.

use corelane_lab::document::Document;
use corelane_lab::scale::counts::Counts;
use corelane_lab::scale::datagrams::document::{ScaleReport, Shape, Step, Trial, unexplained};
use corelane_lab::scale::datagrams::gap::Gap;
use corelane_lab::scale::datagrams::metrics::{COUNTS, LINEARITY};
use corelane_lab::scale::datagrams::{METRICS, Placement};
use corelane_lab::trial::{Trial as _, TrialHead, TrialStatus};
use corelane_measure::metric::Value;
use corelane_report::page::Rendered;
use corelane_serve::udp::{Mode, Model};
use proptest::prelude::*;
use serde_json::Value as Json;
use std::collections::BTreeMap;

#[test]
fn the_text_tells_the_whole_run_in_100_columns() {
    let expected = include_str!("expected/scale.txt");
    let text = super::support::report(2, 215_000.0).page().to_text();
    assert!(text == expected, "the text is now:\n{text}");
}

#[test]
fn no_line_but_the_verdict_is_wider_than_100_columns() {
    for buckets in [1, 2, 8, 64] {
        let text = super::support::report(buckets, 12_345_678.9).page().to_text();
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }
}

#[test]
fn the_last_line_is_the_limit() {
    let mut report = super::support::report(2, 215_000.0);
    report.limit.sentence = "Limit: one\nlong line. ".repeat(9);
    let text = report.page().to_text();
    assert!(
        text.lines()
            .last()
            .unwrap()
            .starts_with("Limit: one long line. Limit:"),
        "{text}"
    );
}

#[test]
fn the_document_has_the_field_names_that_others_rely_on() {
    let document: Json =
        serde_json::from_str(&super::support::report(2, 215_000.0).to_json().unwrap()).unwrap();
    assert_eq!(document["schema"], "corelane/scale/1");
    for field in [
        "conditions",
        "plan",
        "steering",
        "steps",
        "trials",
        "limit",
        "bed",
        "command_line",
        "tool",
    ] {
        assert!(!document[field].is_null(), "{field}");
    }
    let step = &document["steps"][0];
    for field in [
        "model",
        "placement",
        "mode",
        "buckets_configured",
        "buckets_active",
        "cpus",
        "generated_pps",
        "received_pps",
        "seen_pps",
        "answered_pps",
        "returned_pps",
        "gbit_s",
        "locality",
        "steering_ok",
        "cpu_us_per_frame",
        "linearity",
        "drops",
        "per_bucket",
        "round_trip",
    ] {
        assert!(!step[field].is_null(), "{field}");
    }
    let words = [
        &step["model"],
        &step["placement"],
        &step["mode"],
        &document["limit"]["cause"],
    ];
    assert_eq!(words, ["exact", "aligned", "echo", "shared_cpus"]);
    let sink = document["steps"].as_array().unwrap().last().unwrap();
    assert_eq!(sink["mode"], "sink");
    assert_eq!(
        (&sink["answered_pps"], &sink["returned_pps"]),
        (&Json::Null, &Json::Null)
    );
    assert_eq!(sink["unknown"]["returned_pps"], "a sink does not answer");
    assert_eq!(sink["unknown"]["effective_mhz"], "the clock was not read");
}

#[test]
fn every_null_of_a_step_has_its_reason() {
    for step in super::support::report(3, 1_000.0).steps {
        for metric in METRICS {
            let missing = metric.of(&step).is_none() && !metric.name.ends_with("_of_plain");
            let reason = step.summed.unknown.contains_key(metric.name);
            assert_eq!(missing, reason, "{} of {step:?}", metric.name);
        }
    }
}

#[test]
fn a_document_comes_back_as_it_was_written() {
    let mut report = super::support::report(4, 215_000.0);
    let memory = r#"{ "policy": "local", "buffers_policy": "local", "page_bytes": 4096,
        "buffer_pages_by_node": { "0": 12, "1": 3 }, "unknown": null }"#;
    for trial in &mut report.trials {
        for bucket in &mut trial.per_bucket {
            bucket.memory = Some(serde_json::from_str(memory).unwrap());
        }
    }
    report.summarise();
    assert!(report.steps[0].found.per_bucket[0].memory.is_some());
    let back = ScaleReport::from_json(&report.to_json().unwrap()).unwrap();
    assert!(back == report, "the document changed on its way");
    assert_eq!(back.page().to_text(), report.page().to_text());
}

#[test]
fn four_cpu_counts_have_a_scaling_law() {
    let report = super::support::report(4, 215_000.0);
    let law = report.scaling.law.unwrap();
    assert!((law.lambda_per_second - 215_000.0).abs() < 1.0, "{law:?}");
    assert!((law.sigma - 0.01).abs() < 1e-5, "{law:?}");
    assert!(
        report
            .page()
            .to_text()
            .contains("Universal Scalability Law: 215 k/s on one CPU, contention 1.0 %")
    );
}

#[test]
fn a_trial_limited_by_the_generator_enters_no_number() {
    let mut report = super::support::report(2, 215_000.0);
    let before = report.steps[0].clone();
    let mut limited = report.trials[0].clone();
    limited.head.status = TrialStatus::GeneratorLimited;
    limited.head.why = Some("sent 40 % late".to_owned());
    limited.counts.seen = Some(1);
    report.trials.push(limited);
    report.summarise();
    assert_eq!(report.steps[0].summed.generator_limited_trials, 1);
    assert_eq!(COUNTS[2].of(&report.steps[0]), COUNTS[2].of(&before));
    assert_eq!(report.steps[0].found.drops, before.found.drops);
    assert!(
        report
            .page()
            .to_text()
            .contains("In 1 of 19 trials the generator was the limit")
    );
}

#[test]
fn a_step_without_a_valid_trial_is_unknown_and_not_zero() {
    let mut report = super::support::report(1, 1_000.0);
    report.steps.truncate(1);
    let mut trial = Trial::new(TrialHead::new(0, 0, 1.0));
    trial.head.status = TrialStatus::GeneratorLimited;
    report.trials = vec![trial];
    report.summarise();
    assert_eq!(COUNTS[2].of(&report.steps[0]), None);
    assert_eq!(
        report.steps[0].summed.unknown["seen_pps"],
        "the generator was the limit in all 1 trials"
    );
}

#[test]
fn linearity_compares_trials_of_one_round() {
    let shape = (Mode::Echo, Model::Exact, Placement::Aligned);
    let mut report = super::support::report(1, 1_000.0);
    report.steps = [1, 2]
        .map(|active| Step::new(Shape::plain(shape, active), 2, (0..active as u32).collect()))
        .into();
    report.trials.clear();
    // The machine slows by half from the first round to the second; the two steps of each round agree.
    for (round, speed) in [(0, 1_000), (1, 500)] {
        for (step, frames) in [(0, speed), (1, 2 * speed)] {
            let mut trial = Trial::new(TrialHead::new(step, round, 1.0));
            trial.counts.seen = Some(frames);
            trial.counts.answered = Some(frames);
            report.trials.push(trial);
        }
    }
    report.summarise();
    let spread = LINEARITY.range(&report.steps[1]).unwrap();
    assert_eq!((spread.median, spread.relative, spread.count), (1.0, 0.0, 2));
}

#[test]
fn frames_missing_without_a_cause_are_said_to_be_so() {
    let mut trial = Trial::new(TrialHead::new(0, 0, 1.0));
    trial.counts = Counts {
        generated: 100,
        received: Some(98),
        seen: Some(90),
        answered: Some(88),
        returned: Some(89),
    };
    trial.drops = BTreeMap::from([
        ("device".to_owned(), 2),
        ("full_buffers".to_owned(), 7),
        ("answer_buffers_full".to_owned(), 2),
        ("gremlins".to_owned(), 1),
    ]);
    let open = unexplained(&trial);
    let expected = [
        (Gap::GeneratedToReceived, Some(0)),
        (Gap::ReceivedToSeen, Some(1)),
        (Gap::SeenToAnswered, Some(0)),
        (Gap::AnsweredToReturned, Some(-1)),
    ];
    assert_eq!(open, expected.into());

    let mut report = super::support::report(1, 1_000.0);
    report.steps[0].found.unexplained = open;
    let text = report.page().to_text();
    assert!(text.contains("some frames are missing without a cause"), "{text}");
    assert!(text.contains("NO CAUSE, answered to returned"), "{text}");
}

proptest! {
    #[test]
    fn no_document_makes_the_text_panic(
        cut in 0usize..40, seed in any::<u64>(), kind in "\\PC{0,20}", sentence in "\\PC{0,200}",
    ) {
        let mut report = super::support::report(2, 1_000.0);
        report.head.bed.as_mut().unwrap().kind = kind;
        report.limit.sentence = sentence;
        for (index, step) in report.steps.iter_mut().enumerate() {
            match (seed >> (index * 3)) & 7 {
                0 => step.found.drops.clear(),
                1 => step.found.per_bucket.clear(),
                2 => step.cpus.clear(),
                3 => step.summed.values.set_number(COUNTS[3].name, None),
                4 => step.summed.values.set(COUNTS[2].name, Some(Value::Number(f64::NAN))),
                5 => step.summed.values.set_spread(&LINEARITY, None),
                _ => step.shape.buckets_active = 0,
            }
        }
        report.trials.truncate(cut);
        report.steps.truncate(cut % 7);
        prop_assert!(report.page().to_text().ends_with('\n'));
    }
}
