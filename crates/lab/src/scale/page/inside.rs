//! What the main series looks like inside: its buckets, its CPUs, its round trips.

use super::figures::{MOST_X_LABELS, Y_STEPS};
use crate::document::CpuShare;
use crate::scale::document::{PerBucket, ScaleReport, Step};
use crate::scale::metrics::ROUND_TRIP;
use corelane_measure::quantity;
use corelane_report::html::axis::{Decades, Linear, whole_ticks};
use corelane_report::html::bars::{self, Bar};
use corelane_report::html::figure::{figure, legend, y_ticks};
use corelane_report::html::markup::Markup;
use corelane_report::html::plot::{Column, Line, Plot, Point, Tick};

/// Lines of round trips: more would hide each other.
const MOST_ROUND_TRIPS: usize = 4;

/// CPUs whose time is drawn: more bars than this are no longer compared by eye.
const MOST_CPUS: usize = 16;

/// The shares of answers of which a round trip is drawn, evenly spaced: each but the last is ten times rarer.
const PERCENTILES: [&str; 5] = ["50 %", "90 %", "99 %", "99.9 %", "longest"];

/// Frames a second of each bucket, seen and dropped, at the largest step of the main series.
pub(super) fn buckets(report: &ScaleReport) -> Markup {
    let Some(step) = largest_main_step(report).filter(|step| !step.per_bucket.is_empty()) else {
        return Markup::default();
    };
    let count = step.per_bucket.len();
    let tallest = step.per_bucket.iter().map(|bucket| {
        let (seen, dropped) = seen_and_dropped(bucket);
        seen + dropped
    });
    let scale = Linear::to(tallest.fold(0.0, f64::max), Y_STEPS);
    let place = |index: usize| (index as f64 + 0.5) / count as f64;
    let plot = Plot {
        description: format!("frames a second of each of {count} buckets; the table has the figures"),
        x_title: "bucket".to_owned(),
        y_title: "frames a second".to_owned(),
        x_ticks: whole_ticks(count, 2 * MOST_X_LABELS)
            .into_iter()
            .map(|number| Tick {
                place: place(number - 1),
                label: step.per_bucket[number - 1].bucket.to_string(),
            })
            .collect(),
        y_ticks: y_ticks(&scale, quantity::metric_brief),
        columns: (step.per_bucket.iter().enumerate())
            .map(|(index, bucket)| Column {
                x: place(index),
                width: (0.7 / count as f64).min(0.2),
                parts: bucket_parts(bucket, &scale),
            })
            .collect(),
        lines: Vec::new(),
    };
    figure(
        &format!("Each bucket, {}", step.mode),
        &format!("Exact steering, aligned, {} active.", step.buckets_active),
        plot.draw()
            .with(fills(&[("exact", "seen"), ("dropped", "dropped at its socket")])),
    )
}

/// Percentiles of round trips of the main series.
pub(super) fn round_trips(report: &ScaleReport) -> Markup {
    let steps = report
        .main_series()
        .map(|series| series.steps)
        .unwrap_or_default();
    let measured: Vec<(&Step, [f64; 5])> = steps
        .into_iter()
        .filter_map(|step| Some((step, percentiles(step)?)))
        .collect();
    let shown: Vec<(&Step, [f64; 5])> = whole_ticks(measured.len(), MOST_ROUND_TRIPS)
        .into_iter()
        .map(|number| measured[number - 1])
        .collect();
    let every = || shown.iter().flat_map(|(_, nanoseconds)| nanoseconds).copied();
    let Some(smallest) = every().reduce(f64::min) else {
        return Markup::default();
    };
    let scale = Decades::over(smallest, every().fold(0.0, f64::max));
    // The darkest shade is the last step's.
    let shade = |index: usize| format!("shade{}", index + MOST_ROUND_TRIPS - shown.len());
    let lines = shown.iter().enumerate();
    let entries = lines
        .clone()
        .map(|(index, (step, _))| (shade(index), format!("{} active", step.buckets_active)));
    let plot = Plot {
        description: "percentiles of round trips by number of active buckets; the table has the figures"
            .to_owned(),
        x_title: "share of answers that came back within".to_owned(),
        y_title: "round trip".to_owned(),
        x_ticks: (PERCENTILES.iter().enumerate())
            .map(|(index, name)| Tick {
                place: percentile_place(index),
                label: (*name).to_owned(),
            })
            .collect(),
        y_ticks: (scale.ticks().into_iter())
            .map(|tick| Tick {
                place: scale.place(tick),
                label: quantity::duration(tick),
            })
            .collect(),
        lines: lines
            .clone()
            .map(|(index, (step, nanoseconds))| Line {
                class: shade(index),
                points: percentile_points(step, nanoseconds, &scale),
                marked: true,
            })
            .collect(),
        columns: Vec::new(),
    };
    figure(
        "Round trips, echo",
        "Exact steering, aligned. From the intended send time, so that waiting to be sent counts.",
        plot.draw().with(legend(entries)),
    )
}

/// How each active CPU spent the largest step of the main series.
pub(super) fn cpus(report: &ScaleReport) -> Markup {
    let Some(step) = largest_main_step(report) else {
        return Markup::default();
    };
    let active = step
        .cpu_shares
        .iter()
        .filter(|share| step.cpus.contains(&share.cpu));
    let bars: Vec<Bar> = active.filter_map(cpu_bar).collect();
    if bars.is_empty() || bars.len() > MOST_CPUS {
        return Markup::default();
    }
    let kinds = [
        ("softirq", "softirq: the receive path"),
        ("exact", "workers, clients and the rest"),
        ("track", "idle"),
    ];
    figure(
        &format!("Where CPU time went, {}", step.mode),
        &format!("Exact steering, aligned, {} active.", step.buckets_active),
        bars::draw(&bars).with(fills(&kinds)),
    )
}

fn largest_main_step(report: &ScaleReport) -> Option<&Step> {
    report.main_series()?.steps.last().copied()
}

/// Frames a second. Drops are counted in frames: they are as many times the rate as they are times the frames seen.
fn seen_and_dropped(bucket: &PerBucket) -> (f64, f64) {
    let seen = bucket.seen_pps.unwrap_or(0.0);
    let times = bucket.dropped as f64 / bucket.seen as f64;
    (seen, if times.is_finite() { seen * times } else { 0.0 })
}

fn bucket_parts(bucket: &PerBucket, scale: &Linear) -> Vec<(&'static str, f64, String)> {
    let (seen, dropped) = seen_and_dropped(bucket);
    let tip = |rate: f64, what: &str| {
        format!(
            "bucket {} on CPU {}: {} {what}",
            bucket.bucket,
            bucket.cpu,
            quantity::rate(rate)
        )
    };
    vec![
        ("fill exact", scale.place(seen), tip(seen, "seen")),
        ("fill dropped", scale.place(dropped), tip(dropped, "dropped")),
    ]
}

/// The round trips that are drawn, in the order of [`PERCENTILES`], in nanoseconds.
fn percentiles(step: &Step) -> Option<[f64; 5]> {
    let trip = ROUND_TRIP.durations(step)?;
    let nanoseconds = [trip.p50_ns, trip.p90_ns, trip.p99_ns, trip.p999_ns, trip.max_ns];
    Some(nanoseconds.map(|nanoseconds| nanoseconds as f64))
}

fn percentile_points(step: &Step, nanoseconds: &[f64; 5], scale: &Decades) -> Vec<Point> {
    let point = |(index, nanoseconds): (usize, &f64)| Point {
        x: percentile_place(index),
        y: scale.place(*nanoseconds),
        range: None,
        tip: format!(
            "{} active, {}: {}",
            step.buckets_active,
            PERCENTILES[index],
            quantity::duration(*nanoseconds)
        ),
    };
    nanoseconds.iter().enumerate().map(point).collect()
}

/// A little inside the edges, so that the outer labels stay on the drawing.
fn percentile_place(index: usize) -> f64 {
    0.06 + 0.88 * index as f64 / (PERCENTILES.len() - 1) as f64
}

fn cpu_bar(share: &CpuShare) -> Option<Bar> {
    let (idle, softirq) = (share.idle_share?, share.softirq_share?);
    let rest = (1.0 - idle - softirq).max(0.0);
    let part = |class: &str, share: f64, what: &str| {
        let tip = format!("{what} {}", quantity::percent(share));
        (format!("fill {class}"), share, tip)
    };
    Some(Bar {
        label: format!("CPU {}", share.cpu),
        value: format!(
            "softirq {} \u{b7} idle {}",
            quantity::percent(softirq),
            quantity::percent(idle)
        ),
        parts: vec![
            part("softirq", softirq, "softirq"),
            part("exact", rest, "all else"),
        ],
    })
}

/// A legend of filled areas: class and words.
fn fills(entries: &[(&str, &str)]) -> Markup {
    legend(
        entries
            .iter()
            .map(|(class, words)| (format!("fill {class}"), (*words).to_owned())),
    )
}
