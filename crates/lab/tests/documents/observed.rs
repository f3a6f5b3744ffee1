//! Observations in the document, the text and the HTML page.

use corelane_lab::document::Document;
use corelane_lab::observed::Observed;
use corelane_lab::scale::datagrams::document::LockComparison;
use corelane_lab::scale::datagrams::{Placement, ScaleReport};
use corelane_observe::locks::{LockReport, LockSite};
use corelane_observe::profile::{CallerShare, FunctionShare, FunctionTable, Profile, SampledEvent};
use corelane_observe::softnet::{SoftnetReport, SoftnetRow};
use corelane_report::page::Rendered;
use corelane_serve::udp::Model;

/// A report with observations in every step; the function names contain markup and are very long.
fn observed_report() -> ScaleReport {
    let mut report = crate::documents::support::report(2, 215_000.0);
    let long = "a_function_whose_name_is_longer_than_any_column_that_fits_on_a_terminal_of_the_usual_width_";
    let functions = FunctionTable {
        samples: 10,
        functions: 1,
        rows: vec![FunctionShare {
            samples_percent: 12.34,
            image: "<script>".to_owned(),
            function: long.to_owned(),
            callers: vec![CallerShare {
                function: long.to_owned(),
                samples_percent: 12.34,
            }],
        }],
        ..FunctionTable::default()
    };
    let observed = Observed {
        round: 2,
        profile: Some(Profile {
            event: SampledEvent::CpuClock,
            samples: 20,
            workers: functions.clone(),
            softirq: functions,
            ..Profile::default()
        }),
        locks: Some(LockReport {
            cpus: vec![0, 1],
            waits: 300,
            receive_lock_waits: 300,
            rows: vec![LockSite {
                wait_total_ns: 1_500_000,
                count: 300,
                receive_lock: true,
                name: format!("__udp_enqueue_schedule_skb (spin lock) < {long}"),
                ..LockSite::default()
            }],
            unknown: [("max_ns", "waits only"), ("avg_ns", "waits only")]
                .map(|(field, reason)| (field.to_owned(), reason.to_owned()))
                .into(),
            ..LockReport::default()
        }),
        softnet: Some(SoftnetReport {
            readings: 20,
            rows: vec![SoftnetRow {
                cpu: 1,
                processed: 4_294_967_295,
                backlog_high_water: Some(300),
                ..SoftnetRow::default()
            }],
            ..SoftnetReport::default()
        }),
        ..Observed::default()
    };
    for step in &mut report.steps {
        step.observed = Some(observed.clone());
    }
    report.kind.lock_comparisons.push(LockComparison {
        placement: Placement::Crossed,
        buckets_active: 2,
        sentence: "sink waits more.".to_owned(),
    });
    report
}

#[test]
fn what_was_observed_survives_the_document() {
    let report = observed_report();
    let read = ScaleReport::from_json(&report.to_json().unwrap()).unwrap();
    assert_eq!(read, report);
}

#[test]
fn a_report_without_observations_has_no_such_fields_and_no_such_section() {
    let report = crate::documents::support::report(2, 215_000.0);
    let json = report.to_json().unwrap();
    assert!(!json.contains("observed") && !json.contains("lock_comparisons"));
    assert!(!report.page().to_text().contains("where the time went"));
    assert!(!report.page().to_html().contains("Where the time went"));
}

#[test]
fn the_text_shows_exact_steering_at_all_buckets_in_100_columns() {
    let report = observed_report();
    let text = report.page().to_text();
    let titles: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("where the time went: "))
        .collect();
    assert_eq!(
        titles,
        [
            "where the time went: echo, exact steering, aligned, 2 active (round 3)",
            "where the time went: echo, exact steering, crossed, 2 active (round 3)",
            "where the time went: sink, exact steering, aligned, 2 active (round 3)",
        ]
    );
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    for words in [
        "locks    crossed, 2 buckets: sink waits more.",
        "observed avg_ns, max_ns: waits only",
    ] {
        assert_eq!(text.matches(words).count(), 1, "{words}:\n{text}");
    }
}

#[test]
fn what_could_not_be_had_is_told_once_though_every_step_lacks_it() {
    let mut report = crate::documents::support::report(2, 215_000.0);
    for step in &mut report.steps {
        let mut observed = Observed::default();
        observed
            .unknown
            .insert("locks".to_owned(), "grant CAP_PERFMON".to_owned());
        step.observed = Some(observed);
    }
    assert!(
        report
            .steps
            .iter()
            .any(|step| step.shape.model == Model::Reuseport && step.observed.is_some())
    );
    let line = "locks: grant CAP_PERFMON";
    assert_eq!(report.page().to_text().matches(line).count(), 1);
    assert_eq!(report.page().to_html().matches(line).count(), 1);
}

#[test]
fn the_page_has_the_numbers_of_the_document_and_names_stay_text() {
    let html = observed_report().page().to_html();
    let section = html.split("<h2>Where the time went: ").nth(1).unwrap();
    for words in [
        "<data value=\"1500000\">1500.0</data>",
        "<data value=\"12.34\">12.3</data>",
        "<data value=\"4294967295\">4294967295</data>",
        "&lt;script&gt;",
    ] {
        assert!(section.contains(words), "{words}");
    }
    assert!(!html.contains("<script"));
}
