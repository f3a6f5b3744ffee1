//! A report as people read it in a terminal: 100 columns, the verdict last.

use super::{Placement, ScaleReport, Series, Step, TrialStatus, beside, observed};
use crate::documents::change::Run;
use crate::documents::text::{ENDED_EARLY, conditions_section, heading, linearity, set_aside, unknown};
use corelane_measure::drops;
use corelane_measure::quantity::{self, or_missing};
use corelane_measure::statistics::{self, Spread};
use corelane_report::table::{Column, Table, clean};
use corelane_report::text::{WIDTH, paragraph};
use corelane_serve::udp::Model;
use corelane_worker::worker_memory as memory;
use std::fmt::Write as _;

/// The whole report as text: bed and conditions, the posts' table, controls, drops, and the limit in the last line.
#[must_use]
pub fn render(report: &ScaleReport) -> String {
    let mut sections = vec![heading(&report.heading()), conditions_section(&report.conditions)];
    for series in report.judged_series() {
        sections.push(frames_section(&series));
        sections.push(costs_section(&series));
    }
    sections.push(buckets_section(report));
    sections.push(controls_section(report));
    sections.push(variations_section(report));
    sections.push(drops_section(report));
    sections.push(observed::section(report));
    sections.push(trials_section(report));
    sections.push(unknown_section(report));
    sections.push(scaling_section(report));
    sections.push(limit_section(report));
    sections.retain(|section| !section.is_empty());
    sections.join("\n")
}

/// The posts' table: frames at five places, and what came of the CPUs.
fn frames_section(series: &Series<'_>) -> String {
    let mut table = Table::new(vec![
        Column::right("N"),
        Column::right("generated").unit("/s"),
        Column::right("received").unit("/s"),
        Column::right("seen").unit("/s"),
        Column::right("answered").unit("/s"),
        Column::right("returned").unit("/s"),
        Column::right("Gb/s"),
        Column::right("local").unit("%"),
        Column::right("CPU \u{b5}s").unit("/frame"),
        Column::right("idle").unit("%"),
        Column::right("softirq").unit("%"),
        Column::right("linearity"),
    ]);
    for step in &series.steps {
        table.row([
            step.buckets_active.to_string(),
            or_missing(step.generated_pps, quantity::metric),
            or_missing(step.received_pps, quantity::metric),
            or_missing(step.seen_pps, quantity::metric),
            or_missing(step.answered_pps, quantity::metric),
            or_missing(step.returned_pps, quantity::metric),
            or_missing(step.gbit_s, |rate| quantity::fixed(rate, 2)),
            or_missing(step.locality, quantity::percent_number),
            or_missing(step.cpu_us_per_frame, |cost| quantity::fixed(cost, 2)),
            or_missing(step.idle_share(), quantity::whole_percent),
            or_missing(step.softirq_share(), quantity::whole_percent),
            linearity(step.linearity_spread, step.linearity),
        ]);
    }
    format!("{}; N buckets active\n{}", series.title(), table.render(WIDTH))
}

/// What else a step cost: round trips, context switches, the clock.
fn costs_section(series: &Series<'_>) -> String {
    let mut table = Table::new(vec![
        Column::right("N"),
        Column::right("round trip").unit("median"),
        Column::right("p99"),
        Column::right("p99.9"),
        Column::right("longest"),
        Column::right("ctx switches").unit("/s"),
        Column::right("clock").unit("MHz"),
        Column::right("steered right").unit("%"),
        Column::right("spread of rate").unit("%"),
        Column::right("trials"),
    ]);
    for step in &series.steps {
        let nanoseconds = |of: fn(&corelane_measure::histogram::Summary) -> u64| {
            or_missing(step.round_trip.as_ref(), |summary| {
                quantity::duration(of(summary) as f64)
            })
        };
        table.row([
            step.buckets_active.to_string(),
            nanoseconds(|summary| summary.p50_ns),
            nanoseconds(|summary| summary.p99_ns),
            nanoseconds(|summary| summary.p999_ns),
            nanoseconds(|summary| summary.max_ns),
            or_missing(step.context_switches_per_s, quantity::metric),
            or_missing(step.effective_mhz, |clock| quantity::fixed(clock, 0)),
            or_missing(step.steering_ok, quantity::percent_number),
            or_missing(several(step.rate_spread), |spread| {
                quantity::percent_number(spread.relative)
            }),
            step.trials.to_string(),
        ]);
    }
    table.without_silent_columns().render(WIDTH)
}

/// The buckets of the main series at its largest step.
fn buckets_section(report: &ScaleReport) -> String {
    let Some(step) = report
        .main_series()
        .and_then(|series| series.steps.last().copied())
    else {
        return String::new();
    };
    if step.per_bucket.is_empty() {
        return String::new();
    }
    let mut table = Table::new(vec![
        Column::right("bucket"),
        Column::right("cpu"),
        Column::right("seen").unit("/s"),
        Column::right("seen").unit("frames"),
        Column::right("answered").unit("frames"),
        Column::right("dropped").unit("frames"),
        Column::right("local").unit("%"),
        Column::right("steered right").unit("%"),
    ]);
    for bucket in &step.per_bucket {
        table.row([
            bucket.bucket.to_string(),
            bucket.cpu.to_string(),
            or_missing(bucket.seen_pps, quantity::metric),
            quantity::count(bucket.seen),
            or_missing(bucket.answered, quantity::count),
            quantity::count(bucket.dropped),
            or_missing(bucket.locality, quantity::percent_number),
            or_missing(bucket.steering_ok, quantity::percent_number),
        ]);
    }
    let mut text = format!(
        "each bucket, {}, {} active\n{}",
        step.mode,
        step.buckets_active,
        table.render(WIDTH)
    );
    if let Some(memory) = memory::sentence(step.memory()) {
        paragraph(&mut text, "", &memory);
    }
    text
}

/// Every series at its largest step, beside exact steering with aligned clients.
fn controls_section(report: &ScaleReport) -> String {
    let all = report.series();
    if all.len() < 2 {
        return String::new();
    }
    let mut table = ScaleReport::step_table([
        Column::right("rate").unit("/s"),
        Column::right("of exact"),
        Column::right("local").unit("%"),
        Column::right("steered").unit("%"),
        Column::right("CPU \u{b5}s").unit("/frame"),
        Column::right("linearity"),
    ]);
    for series in &all {
        let Some(step) = series.steps.last() else { continue };
        let reference = report.steps.iter().find(|other| {
            other.variation.is_plain()
                && (other.mode, other.model, other.placement, other.buckets_active)
                    == (step.mode, Model::Exact, Placement::Aligned, step.buckets_active)
        });
        let of_exact = step
            .main_rate()
            .zip(reference.and_then(Step::main_rate))
            .and_then(|(rate, exact)| statistics::ratio(rate, exact));
        let cells = [
            or_missing(step.main_rate(), quantity::metric),
            or_missing(of_exact, quantity::ratio),
            or_missing(step.locality, quantity::percent_number),
            or_missing(step.steering_ok, quantity::percent_number),
            or_missing(step.cpu_us_per_frame, |cost| quantity::fixed(cost, 2)),
            linearity(step.linearity_spread, step.linearity),
        ];
        table.row(ScaleReport::shape_cells(step).into_iter().chain(cells));
    }
    let mut text = format!(
        "controls beside exact steering (rate: answered for echo, seen for sink)\n{}",
        table.render(WIDTH)
    );
    if let Some(note) = report.locality_note() {
        paragraph(&mut text, "", note);
    }
    text
}

/// Steps that did something otherwise, and what that did.
fn variations_section(report: &ScaleReport) -> String {
    let table = beside::table(report);
    if table.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "otherwise than above, at the same number of buckets\n{}",
        table.without_silent_columns().render(WIDTH)
    );
    for sentence in report.variation_sentences() {
        paragraph(&mut text, "", &sentence);
    }
    text
}

/// Frames dropped by cause, and frames that nobody accounts for.
fn drops_section(report: &ScaleReport) -> String {
    let mut table = ScaleReport::step_table([
        Column::left("cause").may_shrink(),
        Column::right("frames"),
        Column::right("of generated").unit("%"),
    ]);
    for (index, step) in report.steps.iter().enumerate() {
        let generated: u64 = report.valid_trials(index).map(|trial| trial.generated).sum();
        let mut row = |cells: [String; 3]| table.row(ScaleReport::shape_cells(step).into_iter().chain(cells));
        for (key, frames) in step.drops.iter().filter(|(_, frames)| **frames > 0) {
            let share = quantity::percent_number(*frames as f64 / generated as f64);
            row([drops::label(key), quantity::count(*frames), share]);
        }
        for (gap, frames) in step.unexplained.by_gap() {
            if let Some(frames) = frames.filter(|frames| *frames != 0) {
                let cause = format!("NO CAUSE, {gap}");
                row([cause, quantity::signed_count(frames), String::new()]);
            }
        }
    }
    let uncounted = report
        .steps
        .iter()
        .any(|step| step.trials > 0 && step.received_pps.is_none());
    let verdict = match (report.unexplained_frames(), uncounted) {
        (0, false) => "every frame missing between two places has a cause",
        (0, true) => "received was not counted, so the account has a gap",
        _ => "some frames are missing without a cause",
    };
    if table.is_empty() {
        return "drops by cause, over all valid trials: none\n".to_owned();
    }
    format!(
        "drops by cause, over all valid trials; {verdict}\n{}",
        table.render(WIDTH)
    )
}

fn trials_section(report: &ScaleReport) -> String {
    let mut text = set_aside(report);
    let all = report.trials.len();
    let failed = report.ended(TrialStatus::Failed);
    if failed > 0 {
        paragraph(
            &mut text,
            "",
            &format!("{failed} of {all} trials failed; the document says why."),
        );
    }
    if report.interrupted {
        paragraph(&mut text, "", ENDED_EARLY);
    }
    text
}

/// What could not be measured in the main series, and why.
fn unknown_section(report: &ScaleReport) -> String {
    let steps = report
        .main_series()
        .map(|series| series.steps)
        .unwrap_or_default();
    unknown(steps.iter().flat_map(|step| &step.unknown))
}

fn scaling_section(report: &ScaleReport) -> String {
    let mut text = String::new();
    if let Some(sentence) = report.scaling_sentence() {
        paragraph(&mut text, "", &sentence);
    }
    text
}

fn limit_section(report: &ScaleReport) -> String {
    let mut text = String::new();
    for line in &report.limit.evidence {
        paragraph(&mut text, "  - ", line);
    }
    // One line whatever its length, so that the last line of the text is the verdict.
    let _ = writeln!(text, "{}", clean(&report.limit.sentence));
    text
}

/// A spread that has a range.
fn several(spread: Option<Spread>) -> Option<Spread> {
    spread.filter(|spread| spread.count > 1)
}
