//! Comparison of two saved runs.

use crate::documents::support::report;
use corelane_lab::scale::datagrams::{Placement, ScaleReport};
use corelane_report::diff::{self, Basis, Diff, DiffError};
use corelane_report::gate::Gate;
use corelane_report::page::Rendered;
use corelane_serve::udp::Mode;
use serde_json::json;

fn compared(before: &ScaleReport, after: &ScaleReport, basis: Basis<'_>) -> Result<Diff, DiffError> {
    diff::diff(&before.compared().unwrap(), &after.compared().unwrap(), basis)
}

fn diff(before: &ScaleReport, after: &ScaleReport) -> String {
    compared(before, after, Basis::Alike).unwrap().page().to_text()
}

/// A run of the same steps with these fields of the plan.
fn with_plan(rate: f64, fields: &[(&str, serde_json::Value)]) -> ScaleReport {
    let mut report = report(2, rate);
    for (name, value) in fields {
        report.plan[*name] = value.clone();
    }
    report
}

#[test]
fn a_change_within_the_spread_is_none() {
    // Rounds span two percent, so a difference of half a percent is noise.
    let (before, after) = (report(2, 215_000.0), report(2, 216_000.0));
    let expected = include_str!("expected/diff_within.txt");
    let text = diff(&before, &after);
    assert!(text == expected, "the text is now:\n{text}");
}

#[test]
fn a_change_beyond_the_spread_is_said_with_its_size() {
    let (before, mut after) = (report(2, 215_000.0), report(2, 250_000.0));
    after.head.conditions.as_mut().unwrap().conditions[1].value = Some("off".to_owned());
    for trial in &mut after.trials {
        trial.server_cpu_us = trial.server_cpu_us.map(|time| time * 1.5);
    }
    let expected = include_str!("expected/diff_beyond.txt");
    let text = diff(&before, &after);
    assert!(text == expected, "the text is now:\n{text}");
}

#[test]
fn one_round_tells_nothing_from_noise() {
    let first_round = |mut report: ScaleReport| {
        report.trials.retain(|trial| trial.head.round == 0);
        report.summarise();
        report
    };
    let text = diff(
        &first_round(report(2, 215_000.0)),
        &first_round(report(2, 100_000.0)),
    );
    assert!(text.contains("unknown, one trial has no spread"), "{text}");
    assert!(text.contains("run more rounds"), "{text}");
    assert!(!text.contains("worse;"), "{text}");
}

#[test]
fn steps_of_one_run_only_are_counted() {
    let mut after = report(3, 215_000.0);
    after
        .steps
        .iter_mut()
        .for_each(|step| step.shape.buckets_active += 3);
    let text = diff(&report(2, 215_000.0), &after);
    let sentence = "\
No step is in both runs, so nothing was compared. 6 steps are only in the run before. 8 steps are
only in the run after.
";
    assert!(text.ends_with(sentence), "{text}");
}

#[test]
fn runs_of_different_traffic_are_refused_by_field_and_compared_only_if_forced() {
    let before = with_plan(215_000.0, &[("rounds", json!(5))]);
    let fields = [("payload_bytes", json!(1400)), ("gso", json!(true))];
    let after = with_plan(2_000_000.0, &fields);
    let refused = compared(&before, &after, Basis::Alike).unwrap_err().to_string();
    assert!(
        refused.ends_with("better: gso: - -> true; payload_bytes: 510 -> 1400"),
        "rounds do not matter: {refused}"
    );
    let refused = compared(&before, &after, Basis::By("gso"))
        .unwrap_err()
        .to_string();
    assert!(refused.contains("payload_bytes: 510 -> 1400"), "{refused}");
    let text = compared(&before, &after, Basis::Any).unwrap().page().to_text();
    assert!(
        text.contains("asked   gso: - -> true\nasked   payload_bytes: 510 -> 1400\n"),
        "{text}"
    );
    let nested = [("subject", json!({ "command": "nginx", "path": "/1k" }))];
    let refused = compared(&before, &with_plan(1e6, &nested), Basis::Alike).unwrap_err();
    assert!(
        refused.to_string().contains("subject.path: - -> /1k"),
        "{refused}"
    );
}

#[test]
fn runs_alike_but_for_one_field_are_compared_by_it() {
    let (without, with) = (
        with_plan(215_000.0, &[("gso", json!(false))]),
        with_plan(430_000.0, &[("gso", json!(true))]),
    );
    let diff = compared(&without, &with, Basis::By("gso")).unwrap();
    let text = diff.page().to_text();
    assert!(text.contains("asked   gso: false -> true\n"), "{text}");
    assert!(
        text.contains("rate  215 k/s  430 k/s  +100.0 %  better"),
        "{text}"
    );
    let same = compared(&without, &without, Basis::By("gso"))
        .unwrap_err()
        .to_string();
    assert_eq!(same, "the runs do not differ in `gso`; they differ in nothing");
}

#[test]
fn steps_are_compared_by_a_field_of_their_shape() {
    let only = |model: &str, rate: f64| {
        let mut report = report(2, rate);
        let steps = report.steps.iter().enumerate();
        let kept = steps.filter(|(_, step)| step.shape.model.to_string() == model);
        let kept = kept
            .filter(|(_, step)| step.shape.placement == Placement::Aligned && step.shape.mode == Mode::Echo);
        let kept: Vec<_> = kept.map(|(index, step)| (index, step.clone())).collect();
        report
            .trials
            .retain(|trial| kept.iter().any(|(index, _)| *index == trial.head.step));
        for trial in &mut report.trials {
            trial.head.step = kept
                .iter()
                .position(|(index, _)| *index == trial.head.step)
                .unwrap();
        }
        report.steps = kept.into_iter().map(|(_, step)| step).collect();
        report
    };
    let (exact, rival) = (only("exact", 215_000.0), only("reuseport", 215_000.0));
    let text = compared(&exact, &rival, Basis::By("model"))
        .unwrap()
        .page()
        .to_text();
    assert!(text.contains("asked   model: exact -> reuseport\n"), "{text}");
    assert!(text.contains("exact -> reuseport  aligned  2  rate"), "{text}");
    let several = compared(&report(2, 1e5), &rival, Basis::By("model"))
        .unwrap_err()
        .to_string();
    assert!(
        several.contains("`model` with several values: exact, reuseport"),
        "{several}"
    );
}

#[test]
fn gates_judge_changes_beyond_the_spread_and_fail_if_nothing_was_compared() {
    let before = report(2, 215_000.0);
    let failed = |after: &ScaleReport, gate: &str| {
        let diff = compared(&before, after, Basis::Any).unwrap();
        let gate = Gate::parse(gate, &diff::FIGURES).unwrap();
        let value = |name: &str| {
            diff.figures()
                .into_iter()
                .find(|(figure, _)| figure.name == name)?
                .1
        };
        gate.failed(value).is_some()
    };
    let slower = report(2, 107_500.0);
    assert!(
        failed(&slower, "worse > 0") && failed(&slower, "worst > 49%") && !failed(&slower, "worst > 51%")
    );
    assert!(!failed(&report(2, 216_000.0), "worse > 0"));
    let mut nothing = report(2, 215_000.0);
    nothing.steps.clear();
    assert!(failed(&nothing, "worse > 0"));
}

#[test]
fn no_line_is_wider_than_100_columns() {
    let text = diff(&report(64, 215_000.0), &report(64, 12_345_678.0));
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}
