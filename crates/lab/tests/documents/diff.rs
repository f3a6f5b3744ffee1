//! Comparison of two saved runs.

use corelane_lab::scale::ScaleReport;
use corelane_report::page::Rendered;

fn diff(before: &ScaleReport, after: &ScaleReport) -> String {
    corelane_report::diff::diff(&before.compared().unwrap(), &after.compared().unwrap())
}

#[test]
fn a_change_within_the_spread_is_none() {
    // Rounds span two percent, so a difference of half a percent is noise.
    let (before, after) = (
        crate::documents::support::report(2, 215_000.0),
        crate::documents::support::report(2, 216_000.0),
    );
    let expected = include_str!("expected/diff_within.txt");
    let text = diff(&before, &after);
    assert!(text == expected, "the text is now:\n{text}");
}

#[test]
fn a_change_beyond_the_spread_is_said_with_its_size() {
    let (before, mut after) = (
        crate::documents::support::report(2, 215_000.0),
        crate::documents::support::report(2, 250_000.0),
    );
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
        report.trials.retain(|trial| trial.tried.round == 0);
        report.summarise();
        report
    };
    let text = diff(
        &first_round(crate::documents::support::report(2, 215_000.0)),
        &first_round(crate::documents::support::report(2, 100_000.0)),
    );
    assert!(text.contains("unknown, one trial has no spread"), "{text}");
    assert!(text.contains("run more rounds"), "{text}");
    assert!(!text.contains("worse;"), "{text}");
}

#[test]
fn steps_of_one_run_only_are_counted() {
    let text = diff(
        &crate::documents::support::report(2, 215_000.0),
        &crate::documents::support::report(3, 215_000.0),
    );
    let sentence = "\
No step is in both runs, so nothing was compared. 6 steps are only in the run before. 8 steps are
only in the run after.
";
    assert!(text.ends_with(sentence), "{text}");
}

#[test]
fn no_line_is_wider_than_100_columns() {
    let text = diff(
        &crate::documents::support::report(64, 215_000.0),
        &crate::documents::support::report(64, 12_345_678.0),
    );
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}
