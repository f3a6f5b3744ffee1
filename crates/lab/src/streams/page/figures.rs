//! Rates against active buckets, one figure for each kind of traffic: our server, its controls, or the subject.

use crate::scale::figures::{Y_STEPS, bucket_place, bucket_plot};
use crate::streams::document::{Protocol, Series, Server, Step, StreamsReport};
use corelane_measure::quantity::{self, or_missing};
use corelane_report::html::axis::Linear;
use corelane_report::html::figure::{figure, legend};
use corelane_report::html::markup::Markup;
use corelane_report::html::plot::{Line, Point};

/// A figure for each traffic whose steps differ in buckets.
pub(super) fn growth(report: &StreamsReport) -> Vec<Markup> {
    let mut figures = Vec::new();
    let mut rest: Vec<Series<'_>> = report.series();
    while let Some(first) = rest.first().map(|series| series.shape().clone()) {
        let (kin, others): (Vec<_>, Vec<_>) = rest
            .into_iter()
            .partition(|series| series.shape().same_load(&first));
        if kin.iter().any(|series| series.steps.len() > 1) {
            figures.push(one(report, &first.load_words(), &kin));
        }
        rest = others;
    }
    figures
}

fn one(report: &StreamsReport, load: &str, series: &[Series<'_>]) -> Markup {
    let rate = report.rate();
    let steps = || series.iter().flat_map(|series| series.steps.iter().copied());
    let highest = |step: &Step| rate.range(step).map_or(0.0, |spread| spread.maximum);
    let scale = Linear::to(steps().map(highest).fold(0.0, f64::max), Y_STEPS);
    let last = steps().map(|step| step.shape.buckets_active).max().unwrap_or(1);
    let words = series.iter().map(|series| {
        let values = series.steps.iter().map(|step| {
            let rate = or_missing(rate.of(*step), quantity::metric_brief);
            format!("{rate} at {}", step.shape.buckets_active)
        });
        format!("{}: {}", name(series), values.collect::<Vec<_>>().join(", "))
    });
    let words: Vec<String> = words.collect();
    let point = |series: &Series<'_>, step: &Step| {
        let value = rate.of(step)?;
        let range = rate.range(step);
        let active = step.shape.buckets_active;
        Some(Point {
            x: bucket_place(active, last),
            y: scale.place(value),
            range: range.map(|spread| (scale.place(spread.minimum), scale.place(spread.maximum))),
            tip: format!("{}, {active} active: {}", name(series), quantity::metric(value)),
        })
    };
    let line = |series: &Series<'_>| Line {
        class: class(series),
        points: (series.steps.iter())
            .filter_map(|step| point(series, step))
            .collect(),
        marked: true,
    };
    let mut plot = bucket_plot(last, &scale, quantity::metric_brief);
    plot.y_title = match report.protocol {
        Protocol::Http => "requests a second".to_owned(),
        Protocol::Tcp => "Gb/s".to_owned(),
    };
    plot.description = format!("{}, {load}: {}", plot.y_title, words.join("; "));
    plot.lines = series.iter().rev().map(line).collect();
    figure(
        load,
        "Medians of the valid trials; bars span the lowest and the highest round.",
        plot.draw()
            .with(legend(series.iter().map(|series| (class(series), name(series))))),
    )
}

fn name(series: &Series<'_>) -> String {
    let shape = series.shape();
    format!("{}, {}", shape.server.words(), shape.placement)
}

/// As the style sheet colours and dashes it; the subject has the colour of what is judged.
fn class(series: &Series<'_>) -> String {
    let shape = series.shape();
    let server = match shape.server {
        Server::Subject => Server::Exact,
        own => own,
    };
    format!("fill {server} {}", shape.placement)
}
