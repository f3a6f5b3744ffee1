//! The HTML page: valid, self-contained, and with the numbers of the JSON document.

use corelane_lab::document::Document;
use corelane_lab::scale::datagrams::ScaleReport;
use corelane_lab::scale::datagrams::metrics::{COUNTS, CPU, RATE};
use corelane_lab::trial::TrialStatus;
use corelane_measure::metric::Value as Measured;
use corelane_report::page::Rendered;
use proptest::prelude::*;
use serde_json::Value;

fn page(report: &ScaleReport) -> String {
    report.page().to_html().replace('\u{a0}', " ")
}

#[test]
fn the_page_needs_no_network() {
    let html = page(&super::support::report(8, 215_000.0));
    for fetching in [
        "http:", "https:", "src=", "href=", "url(", "@import", "<script", "<link", "<iframe",
    ] {
        assert!(!html.contains(fetching), "{fetching}");
    }
}

#[test]
fn the_page_is_well_formed() {
    for buckets in [1, 2, 8, 64] {
        check_nesting(&page(&super::support::report(buckets, 215_000.0)));
    }
}

#[test]
fn the_numbers_of_the_page_are_those_of_the_json() {
    let report = super::support::report(3, 216_543.21);
    let document: Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
    let html = page(&report);
    for (mode, fields) in [
        (
            "Echo",
            &[
                "buckets_active",
                "generated_pps",
                "received_pps",
                "seen_pps",
                "answered_pps",
                "returned_pps",
                "gbit_s",
                "locality",
                "cpu_us_per_frame",
            ][..],
        ),
        (
            "Sink",
            &[
                "buckets_active",
                "generated_pps",
                "received_pps",
                "seen_pps",
                "gbit_s",
                "locality",
            ][..],
        ),
    ] {
        let table = html
            .split(&format!(
                "<h2>{mode}, exact steering, aligned; N buckets active</h2>"
            ))
            .nth(1)
            .unwrap();
        let body = table
            .split("<tbody>")
            .nth(1)
            .unwrap()
            .split("</tbody>")
            .next()
            .unwrap();
        let shown: Vec<Vec<f64>> = body.split("<tr>").skip(1).map(data_values).collect();
        let steps = document["steps"].as_array().unwrap().iter();
        let expected: Vec<Vec<f64>> = steps
            .filter(|step| {
                (&step["mode"], &step["model"], &step["placement"])
                    == (&mode.to_lowercase().into(), &"exact".into(), &"aligned".into())
            })
            .map(|step| fields.iter().map(|field| step[field].as_f64().unwrap()).collect())
            .collect();
        assert_eq!(shown.len(), 3);
        for (shown, expected) in shown.iter().zip(&expected) {
            assert_eq!(&shown[..expected.len()], expected);
        }
    }
}

#[test]
fn the_verdict_and_what_spoils_it_come_before_any_figure() {
    let mut report = super::support::report(2, 215_000.0);
    report.trials[0].head.status = TrialStatus::GeneratorLimited;
    report.head.interrupted = true;
    let html = page(&report);
    let before = html.split("<svg").next().unwrap();
    for words in [
        "2 buckets answer 426 k/s: 1.98 times what one does",
        "Limit: client and server share each CPU, and no CPU time is left.",
        "load from others = 1.7 runnable",
        "In 1 of 18 trials the generator was the limit",
        "The run was ended early",
    ] {
        assert!(before.contains(words), "{words}");
    }
}

#[test]
fn published_rows_are_labelled_as_other_hardware() {
    let html = page(&super::support::report(2, 215_000.0));
    let section = html.split("Beside what was published").nth(1).unwrap();
    for words in [
        "Receive side scaling: testing UDP throughput",
        "More RSS UDP tests",
        "other hardware: i5-3550",
        "1.12 M",
        "1.72 M",
    ] {
        assert!(section.contains(words), "{words}");
    }
}

#[test]
fn the_command_that_repeats_the_run_is_on_the_page() {
    let mut report = super::support::report(2, 215_000.0);
    report.head.command_line.push("--note=a b".to_owned());
    assert!(page(&report).contains("<code>corelane lab scale udp --buckets 2 '--note=a b'</code>"));
}

#[test]
fn text_from_outside_stays_text() {
    let mut report = super::support::report(1, 1_000.0);
    let hostile = "</style><script>alert(1)</script>\"'&";
    report.limit.sentence = hostile.to_owned();
    report.head.bed.as_mut().unwrap().describe = hostile.to_owned();
    report.head.tool.name = hostile.to_owned();
    report.head.conditions.as_mut().unwrap().conditions[0].name = hostile.to_owned();
    report.plan = hostile.into();
    report.steps[0].found.drops.insert(hostile.to_owned(), 1);
    let html = page(&report);
    assert!(!html.contains("<script"), "{html}");
    check_nesting(&html);
}

#[test]
fn a_report_without_steps_still_has_a_page() {
    let mut report = super::support::report(1, 1_000.0);
    report.steps.clear();
    report.trials.clear();
    report.head.conditions = None;
    let html = page(&report);
    assert!(html.contains("<h1>Nothing was measured</h1>"));
    check_nesting(&html);
}

proptest! {
    #[test]
    fn no_number_breaks_the_page(rate in proptest::num::f64::ANY, cost in proptest::num::f64::ANY, active in 0usize..5_000) {
        let mut report = super::support::report(2, 1_000.0);
        let number = |number| Some(Measured::Number(number));
        report.steps[0].summed.values.set(COUNTS[3].name, number(rate));
        report.steps[0].summed.values.set(RATE.name, number(rate));
        report.steps[1].summed.values.set(CPU.name, number(cost));
        report.steps[1].shape.buckets_active = active;
        let mut spread = *RATE.range(&report.steps[1]).unwrap();
        spread.maximum = rate;
        report.steps[1].summed.values.set("rate_spread", Some(Measured::Spread(spread)));
        let html = page(&report);
        check_nesting(&html);
        prop_assert!(!html.contains("NaN") && !html.contains("inf\""));
    }
}

/// The values of the `<data>` elements in a piece of HTML.
fn data_values(html: &str) -> Vec<f64> {
    html.split("<data value=\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap().parse().unwrap())
        .collect()
}

/// Checks that every opened element is closed, in order, and that every attribute is quoted.
fn check_nesting(html: &str) {
    let html = html
        .strip_prefix("<!DOCTYPE html>\n")
        .expect("the page starts with its type");
    let mut open: Vec<&str> = Vec::new();
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        let end = start + rest[start..].find('>').expect("a tag ends");
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "</{name}> closes another element");
        } else {
            let name = tag.split(' ').next().unwrap();
            assert!(
                name.chars().all(|letter| letter.is_ascii_alphanumeric()),
                "<{tag}>"
            );
            assert_eq!(
                tag.matches('"').count(),
                2 * tag.matches("=\"").count(),
                "<{tag}>"
            );
            if !["meta", "input"].contains(&name) {
                open.push(name);
            }
        }
    }
    assert!(open.is_empty(), "never closed: {open:?}");
}
