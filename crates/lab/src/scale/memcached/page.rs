//! A run for people: in a terminal, in Markdown, as a page, as CSV, beside another run, at a gate.

use super::document::{Caches, MemcachedScaleReport, Series, Step};
use super::metrics::{COUNTS, CPU, HITS, LATENCY, LINEARITY, LOCAL, RATE, WRONG};
use crate::scale::limit;
use crate::scale::page::{self, Growth, Shown, linearity_tile, median_words, trials};
use crate::scale::steps::{Shape as _, active};
use corelane_load::memcached::Times;
use corelane_measure::counters::Counters as _;
use corelane_measure::metric::Show;
use corelane_measure::quantity;
use corelane_report::html::tiles::Tile;
use corelane_report::page::{Page, Section};
use corelane_report::reading::{metric, percentiles, relative_range, table, with_range};
use corelane_report::table::{Cell, Column};

impl Shown for Caches {
    fn headline(report: &MemcachedScaleReport, step: &Step) -> String {
        page::headline(report, step, "answer")
    }

    fn tiles(_: &MemcachedScaleReport, step: &Step) -> Vec<Tile> {
        let words = |metric| page::words(metric, step);
        let active = step.shape.buckets_active;
        let buckets = format!("{active} {}", limit::buckets(active));
        let wrong = format!("{} wrong answers", quantity::count(step.found.wrong_answers));
        vec![
            ("requests", words(&RATE), Some(buckets)),
            linearity_tile(&LINEARITY, step),
            ("CPU per request", words(&CPU), None),
            ("hits", words(&HITS), Some(wrong)),
            ("latency, p99", words(&LATENCY), median_words(&LATENCY, step)),
        ]
    }

    fn sections(report: &MemcachedScaleReport, page: &mut Page) {
        for series in report.parted_series().into_iter().flatten() {
            page.section(counts_section(report, &series));
        }
        page.section(growth_section(report));
        page.section(operations_section(report));
        page.section(controls_section(report));
        page::observed_sections(report, [], page);
    }

    fn closing(_: &MemcachedScaleReport, _: &mut Page) {}
}

/// The posts' table: requests at five places, and what they cost.
fn counts_section(report: &MemcachedScaleReport, series: &Series<'_>) -> Section {
    let title = format!("{}; N buckets active", series.shape().title());
    if let Some(why) = report.failure(series) {
        return Section::new(title).note(format!("failed: {why}"));
    }
    if series.last_measured().is_none() {
        return Section::new(title).note("no trial was a result");
    }
    let readings = page::counted(&COUNTS, &[&HITS, &WRONG, &LOCAL, &CPU], &LINEARITY);
    let mut costs = vec![active()];
    costs.extend(percentiles(&LATENCY, ("latency", "median")));
    costs.extend([relative_range(&RATE, "spread of rate"), trials()]);
    Section::new(title)
        .table(table(readings, series.0.iter().copied()).without_silent_columns())
        .table(table(costs, series.0.iter().copied()).without_silent_columns())
}

/// Rate and CPU time against active buckets, of every series.
fn growth_section(report: &MemcachedScaleReport) -> Section {
    let series = report.series();
    let y_title = "requests answered per second".to_owned();
    let rate = Growth::rate(report, "Rate".to_owned(), y_title, &series);
    let title = "CPU per request".to_owned();
    let cost = Growth::cost(title, ["request", "answered"], &CPU, &series);
    Section::new("").figures([rate.draw(), cost.draw()])
}

/// Latency by operation.
fn operations_section(report: &MemcachedScaleReport) -> Section {
    let columns = [
        Column::left("operation"),
        Column::right("requests"),
        Column::right("median"),
        Column::right("p99"),
    ];
    let operations = report.parts_table(columns, |index, _| {
        let valid = report.valid_trials(index);
        let times = Times::sum(valid.iter().map(|trial| &trial.operations));
        let rows = times.each().filter_map(|(operation, times)| {
            let summary = times.summary()?;
            let [median, p99] = [summary.p50_ns, summary.p99_ns];
            let duration = |nanoseconds: u64| Cell::number(Some(nanoseconds as f64), Show::Nanoseconds);
            Some([
                operation.to_string().into(),
                Cell::count(summary.count),
                duration(median),
                duration(p99),
            ])
        });
        rows.collect()
    });
    Section::new("latency by operation, over all valid trials").table(operations)
}

/// Every series at its largest step, beside ours with aligned clients.
fn controls_section(report: &MemcachedScaleReport) -> Section {
    if report.series().len() < 2 {
        return Section::default();
    }
    let more = [metric(&HITS), metric(&CPU), with_range(&LINEARITY, 2)];
    Section::new("side by side, beside corelane with aligned clients")
        .table(report.controls_table(metric(&RATE), more))
        .notes(report.faster_controls(&[("CPU per request", &CPU)], quantity::rate))
        .notes(report.doubtful_controls())
        .notes(report.crossed_at_one(&report.series()))
}
