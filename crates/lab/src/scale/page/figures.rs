//! The figures of the page: what each plots, and how it reads without being seen. Here: growth with buckets, and the
//! models side by side.

use crate::scale::document::{Placement, ScaleReport, Series, Step};
use crate::scale::metrics::{CPU, LOCALITY, RATE};
use corelane_measure::quantity::{self, or_missing};
use corelane_report::html::axis::{Linear, whole_ticks};
use corelane_report::html::bars::{self, Bar};
use corelane_report::html::figure::{figure, legend, y_ticks};
use corelane_report::html::markup::Markup;
use corelane_report::html::plot::{Line, Plot, Point, Tick};
use corelane_serve::udp::{Mode, Model};

/// Ticks of a y axis: about as many as stay apart on a phone.
pub(crate) const Y_STEPS: usize = 4;

/// Labels of an x axis, for the same reason.
pub(super) const MOST_X_LABELS: usize = 8;

/// Rate against active buckets, the growing series of a mode, with proportional growth as a guide.
pub(super) fn rate(report: &ScaleReport, mode: Mode) -> Markup {
    let series = growing(report, mode);
    let base = series
        .iter()
        .filter(|series| series.is_main())
        .find_map(|series| RATE.of(series.steps.iter().find(|step| step.buckets_active == 1)?));
    let last = last_bucket_count(&series);
    let highest = |step: &Step| {
        RATE.range(step)
            .map_or(RATE.of(step), |spread| Some(spread.maximum))
    };
    let ideal = base.map(|rate| rate * last as f64);
    let scale = Linear::to(largest(&series, highest).max(ideal.unwrap_or(0.0)), Y_STEPS);
    let mut plot = bucket_plot(last, &scale, quantity::metric_brief);
    plot.y_title = format!("frames {} a second", mode.main_rate_name());
    plot.description = format!(
        "{}, {}: {}",
        plot.y_title,
        mode,
        readings(&series, |step| RATE.of(step), quantity::rate)
    );
    if let Some(rate) = base {
        let guide =
            |buckets: usize| plain_point(bucket_place(buckets, last), scale.place(rate * buckets as f64));
        plot.lines.push(Line {
            class: "ideal".to_owned(),
            points: vec![guide(1), guide(last)],
            marked: false,
        });
    }
    plot.lines.extend(series.iter().rev().map(|series| {
        series_line(series, last, &scale, |step| {
            let rate = RATE.of(step)?;
            let range = RATE.range(step).map(|spread| (spread.minimum, spread.maximum));
            Some((rate, range, quantity::rate(rate)))
        })
    }));
    let ideal = base.map(|_| ("ideal".to_owned(), "in proportion to one bucket".to_owned()));
    figure(
        &format!("Rate, {mode}"),
        "Medians of the valid trials; bars span the lowest and the highest round.",
        plot.draw()
            .with(legend(series.iter().map(legend_entry).chain(ideal))),
    )
}

/// CPU time a frame against active buckets: level means that buckets do not slow each other down.
pub(super) fn cost(report: &ScaleReport, mode: Mode) -> Markup {
    let series = growing(report, mode);
    let most = largest(&series, |step| CPU.of(step));
    if most <= 0.0 {
        return Markup::default();
    }
    let last = last_bucket_count(&series);
    let scale = Linear::to(most, Y_STEPS);
    let mut plot = bucket_plot(last, &scale, |value| trim(value, 2));
    plot.y_title = "CPU \u{b5}s per frame".to_owned();
    let shown = |value: f64| format!("{} \u{b5}s", quantity::fixed(value, 2));
    plot.description = format!(
        "{}, {mode}: {}",
        plot.y_title,
        readings(&series, |step| CPU.of(step), shown)
    );
    plot.lines.extend(series.iter().rev().map(|series| {
        series_line(series, last, &scale, |step| {
            let cost = CPU.of(step)?;
            Some((cost, None, shown(cost)))
        })
    }));
    figure(
        &format!("CPU per frame, {mode}"),
        "Workers and receive path together, for each frame seen. A level line means that buckets do not slow each \
         other down.",
        plot.draw().with(legend(series.iter().map(legend_entry))),
    )
}

/// Every series of a mode at its largest step.
pub(super) fn models(report: &ScaleReport, mode: Mode) -> Markup {
    let series = of_mode(report, mode);
    let most = largest(&series, |step| RATE.of(step));
    if series.len() < 2 || most <= 0.0 {
        return Markup::default();
    }
    let bars: Vec<Bar> = series
        .iter()
        .filter_map(|series| {
            let step = series.steps.last()?;
            let value = or_missing(RATE.of(step), quantity::rate);
            let width = RATE.of(step).unwrap_or(0.0) / most;
            let locality = or_missing(LOCALITY.of(step), quantity::percent);
            Some(Bar {
                label: format!("{}, {}", series.model.words(), series.placement),
                parts: vec![(
                    series_class(series),
                    width,
                    format!("{value}, locality {locality}"),
                )],
                value: format!("{value} \u{b7} local {locality}"),
            })
        })
        .collect();
    figure(
        &format!("Models side by side, {mode}"),
        &format!(
            "Frames {} a second at {} active buckets, and locality.",
            mode.main_rate_name(),
            last_bucket_count(&series)
        ),
        bars::draw(&bars),
    )
}

fn of_mode(report: &ScaleReport, mode: Mode) -> Vec<Series<'_>> {
    report
        .series()
        .into_iter()
        .filter(|series| series.mode == mode)
        .collect()
}

/// The series that growth is drawn for: every model with aligned clients, and exact steering however it was tried. Rivals
/// with crossed clients stand among the models side by side: a dozen lines would hide each other.
fn growing(report: &ScaleReport, mode: Mode) -> Vec<Series<'_>> {
    let mut series = of_mode(report, mode);
    let all_crossed = series.iter().all(|series| series.placement == Placement::Crossed);
    series.retain(|series| {
        all_crossed || series.model == Model::Exact || series.placement == Placement::Aligned
    });
    series
}

fn last_bucket_count(series: &[Series<'_>]) -> usize {
    let counts = series
        .iter()
        .flat_map(|series| &series.steps)
        .map(|step| step.buckets_active);
    counts.max().unwrap_or(1).max(1)
}

fn largest(series: &[Series<'_>], of: impl Fn(&Step) -> Option<f64>) -> f64 {
    let values = series
        .iter()
        .flat_map(|series| &series.steps)
        .filter_map(|step| of(step));
    values.filter(|value| value.is_finite()).fold(0.0, f64::max)
}

/// A plot over numbers of active buckets, still without lines.
pub(crate) fn bucket_plot(last: usize, scale: &Linear, show: impl Fn(f64) -> String) -> Plot {
    Plot {
        x_title: "active buckets".to_owned(),
        x_ticks: whole_ticks(last, MOST_X_LABELS)
            .into_iter()
            .map(|buckets| Tick {
                place: bucket_place(buckets, last),
                label: buckets.to_string(),
            })
            .collect(),
        y_ticks: y_ticks(scale, show),
        ..Plot::default()
    }
}

/// Where a number of buckets lies: one alone in the middle, several a little inside the edges.
pub(crate) fn bucket_place(buckets: usize, last: usize) -> f64 {
    if last <= 1 {
        0.5
    } else {
        0.04 + 0.92 * (buckets.saturating_sub(1)) as f64 / (last - 1) as f64
    }
}

/// The line of one series; `read` gives a step's value, its range and how it reads.
fn series_line(
    series: &Series<'_>,
    last: usize,
    scale: &Linear,
    read: impl Fn(&Step) -> Option<(f64, Option<(f64, f64)>, String)>,
) -> Line {
    let point = |step: &&Step| {
        let (value, range, words) = read(step)?;
        Some(Point {
            x: bucket_place(step.buckets_active, last),
            y: scale.place(value),
            range: range.map(|(low, high)| (scale.place(low), scale.place(high))),
            tip: format!("{}, {} active: {words}", series.title(), step.buckets_active),
        })
    };
    Line {
        class: series_class(series),
        points: series.steps.iter().filter_map(point).collect(),
        marked: true,
    }
}

fn plain_point(x: f64, y: f64) -> Point {
    Point {
        x,
        y,
        range: None,
        tip: String::new(),
    }
}

/// Every value of a plot in words.
fn readings(
    series: &[Series<'_>],
    of: impl Fn(&Step) -> Option<f64>,
    show: impl Fn(f64) -> String,
) -> String {
    let lines = series.iter().map(|series| {
        let values: Vec<String> = series
            .steps
            .iter()
            .map(|step| format!("{} at {}", or_missing(of(step), &show), step.buckets_active))
            .collect();
        format!(
            "{}, {}: {}",
            series.model.words(),
            series.placement,
            values.join(", ")
        )
    });
    lines.collect::<Vec<_>>().join("; ")
}

/// Model and placement, as the style sheet colours and dashes them.
fn series_class(series: &Series<'_>) -> String {
    format!("fill {} {}", series.model, series.placement)
}

fn legend_entry(series: &Series<'_>) -> (String, String) {
    (
        series_class(series),
        format!("{}, {}", series.model.words(), series.placement),
    )
}

fn trim(value: f64, decimals: usize) -> String {
    let text = quantity::fixed(value, decimals);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}
