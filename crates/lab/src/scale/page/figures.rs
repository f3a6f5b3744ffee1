//! The figures of growth with buckets, and of the models side by side.

use crate::growth::{Growth, MEDIANS};
use crate::scale::Placement;
use crate::scale::document::{ScaleReport, Series};
use crate::scale::metrics::{CPU, LOCALITY, RATE};
use crate::steps::Shape as _;
use corelane_measure::quantity::{self, or_missing};
use corelane_report::html::bars::{self, Bar};
use corelane_report::html::figure::figure;
use corelane_report::html::markup::Markup;
use corelane_serve::udp::{Mode, Model};

/// Rate and CPU time a frame against active buckets, of the growing series of a mode.
pub(super) fn growth(report: &ScaleReport, mode: Mode) -> [Markup; 2] {
    let series = growing(report, mode);
    let main = series.iter().find(|series| series.shape().is_exact());
    let one = main.and_then(|main| main.0.iter().find(|step| step.shape.buckets_active == 1));
    let rate = Growth {
        title: format!("Rate, {mode}"),
        caption: MEDIANS,
        y_title: format!("frames {} per second", mode.main_rate_name()),
        metric: &RATE,
        series: &series,
        show: quantity::rate,
        brief: quantity::metric_brief,
        ideal: one.and_then(|step| RATE.of(*step)),
    };
    let cost = Growth {
        title: format!("CPU per frame, {mode}"),
        caption: "Workers and receive path together, for each frame seen. A level line means that buckets do not slow each \
                  other down.",
        y_title: "CPU \u{b5}s per frame".to_owned(),
        metric: &CPU,
        series: &series,
        show: |value| format!("{} \u{b5}s", quantity::fixed(value, 2)),
        brief: |value| match quantity::fixed(value, 2) {
            text if text.contains('.') => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            text => text,
        },
        ideal: None,
    };
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

/// The series that growth is drawn for: every model with aligned clients, and exact steering however it was tried.
/// Rivals with crossed clients stand among the models side by side: a dozen lines would hide each other.
fn growing(report: &ScaleReport, mode: Mode) -> Vec<Series<'_>> {
    let mut series = of_mode(report, mode);
    let is_aligned = |series: &Series<'_>| series.shape().placement == Placement::Aligned;
    let all_crossed = !series.iter().any(is_aligned);
    series.retain(|series| all_crossed || series.shape().model == Model::Exact || is_aligned(series));
    series
}
