//! The top of the page: the verdict in words, the numbers behind it, and what spoils them.

use crate::documents::change::Run;
use crate::documents::conditions::{self, Severity};
use crate::documents::scale::{ScaleReport, Step, TrialStatus};
use crate::documents::text::SET_ASIDE;
use corelane_measure::quantity::{self, or_missing};
use corelane_report::date;
use corelane_report::html::markup::{Markup, classed, plain};
use corelane_report::html::tiles::{bear_in_mind, tile_row};
use corelane_serve::udp::Mode;

/// The verdict in one line.
pub(crate) fn headline(report: &ScaleReport) -> String {
    let Some(step) = last_step(report) else {
        return "Nothing was measured".to_owned();
    };
    let does = match step.mode {
        Mode::Echo => "answer",
        Mode::Sink => "take in",
    };
    let rate = or_missing(step.main_rate(), quantity::rate);
    match (step.buckets_active, step.linearity) {
        (1, _) => format!("One bucket {does}s {rate}"),
        (buckets, Some(linearity)) => {
            let times = quantity::fixed(linearity * buckets as f64, 2);
            format!("{buckets} buckets {does} {rate}: {times} times what one does")
        }
        (buckets, None) => format!("{buckets} buckets {does} {rate}"),
    }
}

/// Headline, limit and key numbers.
pub(crate) fn banner(report: &ScaleReport) -> Markup {
    let origin = format!(
        "{} \u{b7} UDP scaling \u{b7} {}",
        report.tool.name,
        date::utc(report.started_unix_s)
    );
    let machine = conditions::machine(&report.conditions);
    let reason = report
        .bed
        .reason
        .as_ref()
        .map(|reason| format!(" (no better bed: {reason})"));
    let bed = format!("{}{}", report.bed.describe, reason.unwrap_or_default());
    let mut header = classed("p", "origin", origin)
        .with(plain("h1", headline(report)))
        .with(classed("p", "limit", &report.limit.sentence));
    let evidence: Markup = report
        .limit
        .evidence
        .iter()
        .map(|line| plain("li", line))
        .collect();
    if !evidence.is_empty() {
        header.push(classed("ul", "evidence", evidence));
    }
    let place = [machine, bed]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" \u{b7} ");
    header.push(classed("p", "machine", place));
    header.push(tiles(report));
    plain("header", header)
}

/// What spoils the result, before any figure is seen.
pub(crate) fn spoilers(report: &ScaleReport) -> Markup {
    let mut lines = spoiling_conditions(&report.conditions);
    lines.extend(set_aside(report));
    if report.interrupted {
        lines.push(ENDED_EARLY.into());
    }
    bear_in_mind(lines)
}

/// How many trials enter no number, and why.
pub(super) fn set_aside(run: &impl Run) -> Vec<Markup> {
    let all = run.statuses().count();
    let reasons = SET_ASIDE
        .into_iter()
        .chain([(TrialStatus::Failed, "something failed")]);
    let marked = reasons.map(|(status, why)| (run.ended(status), why));
    marked
        .filter(|(marked, _)| *marked > 0)
        .map(|(marked, why)| {
            format!("In {marked} of {all} trials {why}; none of them enters a number.").into()
        })
        .collect()
}

/// Said of a run that was interrupted.
pub(super) const ENDED_EARLY: &str =
    "The run was ended early; the numbers rest on the trials that were complete.";

/// The conditions that spoil a result, a line each.
pub(super) fn spoiling_conditions(snapshot: &serde_json::Value) -> Vec<Markup> {
    conditions::worst_first(snapshot)
        .into_iter()
        .filter(|condition| condition.severity == Severity::Spoils)
        .map(|condition| {
            let value = condition.value.unwrap_or_default();
            let mend = condition.mend.map(|mend| format!(" Mend: {mend}"));
            let why = format!(": {}.", condition.why.trim_end_matches('.'));
            plain("strong", format!("{} = {value}", condition.name))
                .with(why)
                .with(mend.unwrap_or_default())
        })
        .collect()
}

fn tiles(report: &ScaleReport) -> Markup {
    let Some(step) = last_step(report) else {
        return Markup::default();
    };
    let one = report
        .main_series()
        .and_then(|series| series.steps.first().copied());
    let growth = step
        .cpu_us_per_frame
        .zip(one.and_then(|one| one.cpu_us_per_frame))
        .filter(|_| step.buckets_active > 1)
        .map(|(many, one)| format!("{} of one bucket\u{2019}s", quantity::ratio(many / one)));
    let spread = step.linearity_spread.filter(|spread| spread.count > 1);
    let half_range =
        spread.map(|spread| format!("\u{b1} {:.2}, {} rounds", spread.half_range(), spread.count));
    let buckets = if step.buckets_active == 1 {
        "bucket"
    } else {
        "buckets"
    };
    let payload = step
        .gbit_s
        .map(|rate| format!(", {} Gb/s", quantity::fixed(rate, 2)));
    let active = format!("{} {buckets}{}", step.buckets_active, payload.unwrap_or_default());
    let steering = step
        .steering_ok
        .map(|share| format!("steered right {}", quantity::percent(share)));
    let trip = |nanoseconds: u64| quantity::duration(nanoseconds as f64);
    let middle = step
        .round_trip
        .map(|summary| format!("median {}", trip(summary.p50_ns)));
    let linearity = or_missing(step.linearity, |linearity| quantity::fixed(linearity, 2));
    let cost = or_missing(step.cpu_us_per_frame, |cost| {
        format!("{} \u{b5}s", quantity::fixed(cost, 2))
    });
    let unexplained = quantity::count(report.unexplained_frames());
    let tiles = [
        (
            step.mode.main_rate_name(),
            or_missing(step.main_rate(), quantity::rate),
            Some(active),
        ),
        ("linearity", linearity, half_range),
        ("CPU a frame", cost, growth),
        ("locality", or_missing(step.locality, quantity::percent), steering),
        (
            "round trip, p99",
            or_missing(step.round_trip, |summary| trip(summary.p99_ns)),
            middle,
        ),
        (
            "unexplained",
            unexplained,
            Some("frames without a cause".to_owned()),
        ),
    ];
    tile_row(tiles)
}

fn last_step(report: &ScaleReport) -> Option<&Step> {
    report.main_series()?.steps.last().copied()
}
