//! Rates against active buckets, one figure for each kind of traffic: our server, its controls, or the subject.

use crate::documents::streams::{Protocol, Series, Server, Step, StreamsReport};
use corelane_measure::quantity;
use corelane_report::html::axis::{Linear, whole_ticks};
use corelane_report::html::figure::{figure, legend, y_ticks};
use corelane_report::html::markup::Markup;
use corelane_report::html::plot::{Line, Plot, Point, Tick};

/// Steps of a y axis, and labels of an x axis: about as many as stay apart on a phone.
const Y_STEPS: usize = 4;
const MOST_X_LABELS: usize = 8;

/// A figure for each traffic whose steps differ in buckets.
pub(super) fn growth(report: &StreamsReport) -> Markup {
    let mut figures = Markup::default();
    let mut rest: Vec<Series<'_>> = report.series();
    while let Some(first) = rest.first().map(|series| series.shape().clone()) {
        let (kin, others): (Vec<_>, Vec<_>) = rest
            .into_iter()
            .partition(|series| series.shape().same_load(&first));
        if kin.iter().any(|series| series.steps.len() > 1) {
            figures.push(one(report.protocol, &first.load_words(), &kin));
        }
        rest = others;
    }
    figures
}

fn one(protocol: Protocol, load: &str, series: &[Series<'_>]) -> Markup {
    let steps = || series.iter().flat_map(|series| &series.steps);
    let highest = |step: &&Step| step.rate_spread.map_or(0.0, |spread| spread.maximum);
    let scale = Linear::to(steps().map(highest).fold(0.0, f64::max), Y_STEPS);
    let last = steps().map(|step| step.shape.buckets_active).max().unwrap_or(1);
    let (y_title, show): (&str, fn(f64) -> String) = match protocol {
        Protocol::Http => ("requests a second", quantity::metric_brief),
        Protocol::Tcp => ("Gb/s", quantity::metric_brief),
    };
    let words: Vec<String> = series
        .iter()
        .map(|series| {
            let values = series.steps.iter().map(|step| {
                let rate = quantity::or_missing(step.main_rate(protocol), show);
                format!("{rate} at {}", step.shape.buckets_active)
            });
            format!("{}: {}", name(series), values.collect::<Vec<_>>().join(", "))
        })
        .collect();
    let plot = Plot {
        description: format!("{y_title}, {load}: {}", words.join("; ")),
        x_title: "active buckets".to_owned(),
        y_title: y_title.to_owned(),
        x_ticks: whole_ticks(last, MOST_X_LABELS)
            .into_iter()
            .map(|buckets| Tick {
                place: place(buckets, last),
                label: buckets.to_string(),
            })
            .collect(),
        y_ticks: y_ticks(&scale, show),
        lines: series
            .iter()
            .rev()
            .map(|series| line(protocol, series, last, &scale))
            .collect(),
        ..Plot::default()
    };
    figure(
        load,
        "Medians of the valid trials; bars span the lowest and the highest round.",
        plot.draw()
            .with(legend(series.iter().map(|series| (class(series), name(series))))),
    )
}

fn line(protocol: Protocol, series: &Series<'_>, last: usize, scale: &Linear) -> Line {
    let point = |step: &&Step| {
        let rate = step.main_rate(protocol)?;
        Some(Point {
            x: place(step.shape.buckets_active, last),
            y: scale.place(rate),
            range: step
                .rate_spread
                .map(|spread| (scale.place(spread.minimum), scale.place(spread.maximum))),
            tip: format!(
                "{}, {} active: {}",
                name(series),
                step.shape.buckets_active,
                quantity::metric(rate)
            ),
        })
    };
    Line {
        class: class(series),
        points: series.steps.iter().filter_map(point).collect(),
        marked: true,
    }
}

/// Where a number of buckets lies: one alone in the middle, several a little inside the edges.
fn place(buckets: usize, last: usize) -> f64 {
    if last <= 1 {
        return 0.5;
    }
    0.04 + 0.92 * (buckets.saturating_sub(1)) as f64 / (last - 1) as f64
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
