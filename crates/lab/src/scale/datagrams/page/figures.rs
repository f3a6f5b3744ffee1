//! The figures of growth with buckets, and of the models side by side.

use crate::plots::{MOST_X_LABELS, Y_STEPS};
use crate::scale::datagrams::Placement;
use crate::scale::datagrams::document::{PerBucket, ScaleReport, Series, Step};
use crate::scale::datagrams::metrics::{CPU, LOCALITY, RATE, ROUND_TRIP};
use crate::scale::page::{Growth, areas, cpu_bar};
use crate::scale::steps::Shape as _;
use crate::trial::CpuShare;
use corelane_measure::quantity::{self, or_missing};
use corelane_report::html::axis::{Linear, whole_ticks};
use corelane_report::html::bars::{self, Bar};
use corelane_report::html::figure::{figure, linear_ticks};
use corelane_report::html::markup::Markup;
use corelane_report::html::plot::{Column, Plot, Tick};
use corelane_serve::udp::{Mode, Model};

/// Rate and CPU time a frame against active buckets, of the growing series of a mode.
pub(super) fn growth(report: &ScaleReport, mode: Mode) -> [Markup; 2] {
    let series = growing(report, mode);
    let y_title = format!("frames {} per second", mode.main_rate_name());
    let rate = Growth::rate(report, format!("Rate, {mode}"), y_title, &series);
    let cost = Growth::cost(format!("CPU per frame, {mode}"), ["frame", "seen"], &CPU, &series);
    [rate.draw(), cost.draw()]
}

/// Every series of a mode at its largest step.
pub(super) fn models(report: &ScaleReport, mode: Mode) -> Markup {
    let series = of_mode(report, mode);
    let steps = || series.iter().filter_map(|series| series.0.last().copied());
    let rates = series
        .iter()
        .flat_map(|series| &series.0)
        .filter_map(|step| RATE.of(*step));
    let most = rates.filter(|rate| rate.is_finite()).fold(0.0, f64::max);
    if series.len() < 2 || most <= 0.0 {
        return Markup::default();
    }
    let bars: Vec<Bar> = steps()
        .map(|step| {
            let value = or_missing(RATE.of(step), quantity::rate);
            let locality = or_missing(LOCALITY.of(step), quantity::percent);
            let tip = format!("{value}, locality {locality}");
            Bar {
                label: step.shape.who(),
                parts: vec![(step.shape.class(), RATE.of(step).unwrap_or(0.0) / most, tip)],
                value: format!("{value} \u{b7} local {locality}"),
            }
        })
        .collect();
    let active = steps().map(|step| step.shape.buckets_active).max().unwrap_or(1);
    let rate = mode.main_rate_name();
    figure(
        &format!("Models side by side, {mode}"),
        &format!("Frames {rate} per second at {active} active buckets, and locality."),
        bars::draw(&bars),
    )
}

fn of_mode(report: &ScaleReport, mode: Mode) -> Vec<Series<'_>> {
    let mut series = report.series();
    series.retain(|series| series.shape().mode == mode);
    series
}

/// The series that growth is drawn for: every model with aligned clients, and exact steering with any placement.
/// Rivals with crossed clients stand among the models side by side: a dozen lines would hide each other.
fn growing(report: &ScaleReport, mode: Mode) -> Vec<Series<'_>> {
    let mut series = of_mode(report, mode);
    let is_aligned = |series: &Series<'_>| series.shape().placement == Placement::Aligned;
    let all_crossed = !series.iter().any(is_aligned);
    series.retain(|series| all_crossed || series.shape().model == Model::Exact || is_aligned(series));
    series
}

/// CPUs whose time is drawn: more bars than this are no longer compared by eye.
const MOST_CPUS: usize = 16;

/// Frames per second of each bucket, seen and dropped.
pub(super) fn buckets(step: &Step) -> Markup {
    let buckets = &step.found.per_bucket;
    let count = buckets.len();
    let tallest = buckets.iter().map(|bucket| seen_and_dropped(bucket).iter().sum());
    let scale = Linear::to(tallest.fold(0.0, f64::max), Y_STEPS);
    let place = |index: usize| (index as f64 + 0.5) / count as f64;
    let column = |(index, bucket): (usize, &PerBucket)| {
        let [seen, dropped] = seen_and_dropped(bucket);
        let part = |class, rate, what: &str| {
            let (number, cpu, rate_words) = (bucket.bucket, bucket.cpu, quantity::rate(rate));
            (
                String::from(class),
                scale.place(rate),
                format!("bucket {number} on CPU {cpu}: {rate_words} {what}"),
            )
        };
        Column {
            x: place(index),
            width: (0.7 / count as f64).min(0.2),
            parts: vec![
                part("fill exact", seen, "seen"),
                part("fill dropped", dropped, "dropped"),
            ],
            range: None,
        }
    };
    let tick = |number: usize| Tick {
        place: place(number - 1),
        label: buckets[number - 1].bucket.to_string(),
    };
    let plot = Plot {
        description: format!("frames per second of each of {count} buckets; the table has the figures"),
        x_title: "bucket".to_owned(),
        y_title: "frames per second".to_owned(),
        x_ticks: whole_ticks(count, 2 * MOST_X_LABELS)
            .into_iter()
            .map(tick)
            .collect(),
        y_ticks: linear_ticks(&scale, quantity::metric_brief),
        columns: buckets.iter().enumerate().map(column).collect(),
        lines: Vec::new(),
    };
    let kinds = [("exact", "seen"), ("dropped", "dropped at its socket")];
    of_step(step, "Each bucket", plot.draw(), &kinds)
}

/// How each active CPU spent a step.
pub(super) fn cpus(step: &Step) -> Markup {
    let active = step
        .cpu_shares
        .iter()
        .filter(|share| step.cpus.contains(&share.cpu));
    let bar = |share: &CpuShare| {
        let (idle, softirq) = (share.idle_share?, share.softirq_share?);
        let rest = (1.0 - idle - softirq).max(0.0);
        let parts = [("softirq", "softirq", softirq), ("exact", "all else", rest)];
        let shown = [("softirq", softirq), ("idle", idle)];
        Some(cpu_bar(format!("CPU {}", share.cpu), &shown, &parts))
    };
    let bars: Vec<Bar> = active.filter_map(bar).collect();
    if bars.is_empty() || bars.len() > MOST_CPUS {
        return Markup::default();
    }
    let kinds = [
        ("softirq", "softirq: the receive path"),
        ("exact", "workers, clients and the rest"),
        ("track", "idle"),
    ];
    of_step(step, "Where CPU time went", bars::draw(&bars), &kinds)
}

/// A figure of the largest step of the main series, with a legend of filled areas: class and words.
fn of_step(step: &Step, title: &str, drawn: Markup, kinds: &[(&str, &str)]) -> Markup {
    figure(
        &format!("{title}, {}", step.shape.mode),
        &format!("Exact steering, aligned, {} active.", step.shape.buckets_active),
        drawn.with(areas(kinds)),
    )
}

/// Round trips, and the rate over time, of a series.
pub(super) fn series(report: &ScaleReport, series: &Series<'_>) -> [Markup; 2] {
    let mode = series.shape().mode;
    let title = format!("Round trips, {mode}");
    let caption =
        "From the intended send time, so that waiting to be sent counts; all valid trials together.";
    let y_title = format!("frames {} per second", mode.main_rate_name());
    [
        report.distribution(series, &ROUND_TRIP, [&title, caption, "round trip"]),
        report.over_time(series, |trial| &trial.over_time, (&y_title, 1.0)),
    ]
}

/// Frames per second. Drops are counted in frames: they are as many times the rate as they are times the frames seen.
fn seen_and_dropped(bucket: &PerBucket) -> [f64; 2] {
    let seen = bucket.seen_pps.unwrap_or(0.0);
    let times = bucket.dropped as f64 / bucket.seen as f64;
    [seen, if times.is_finite() { seen * times } else { 0.0 }]
}
