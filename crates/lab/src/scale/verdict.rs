//! The conclusion: what stopped growth, from the report alone. A pure function, so that it can be read and tested.

use super::document::{Limit, LimitCause, ScaleReport, Step};
use super::metrics::{IMBALANCE, LINEARITY, RATE, RATE_OF_PLAIN, STEERING};
use super::plan::ScalePlan;
use corelane_load::udp::Skew;
use corelane_measure::drops::{Cause, label};
use corelane_measure::quantity;
use corelane_serve::udp::Mode;

/// Below this idle share a CPU has nothing left to give: the kernel's accounting is in ticks, and a percent or two goes to
/// the clock and to the pipes of the experiment itself.
const BUSY_IDLE_SHARE: f64 = 0.05;

/// Above this share of frames lost in full socket buffers, they are what stopped growth even though CPUs idled.
const MATERIAL_LOSS: f64 = 0.01;

/// What the report says about the limit.
pub(super) fn limit(report: &ScaleReport, plan: &ScalePlan) -> Limit {
    let Some(series) = report.main_series() else {
        return unknown();
    };
    let Some(last) = series.steps.iter().rev().find(|step| step.summed.trials > 0) else {
        return unknown();
    };
    let (cause, because) = cause(last);
    let evidence = evidence(last, plan);
    let growth = growth(last);
    Limit {
        cause,
        sentence: format!("{growth}; the limit was {because}.{}", skewed(report, last)),
        evidence,
    }
}

/// How much of the rate is left under skew, where that was tried.
fn skewed(report: &ScaleReport, plain: &Step) -> String {
    let mut varied = report.varied_steps();
    let Some(step) = varied.find(|step| step.variation.skew != Skew::None && step.varies(plain)) else {
        return String::new();
    };
    let left = quantity::or_missing(RATE_OF_PLAIN.of(step), quantity::ratio);
    let times = quantity::or_missing(IMBALANCE.of(step), |times| quantity::fixed(times, 2));
    let skew = step.variation.skew;
    format!(" Under {skew} it was {left} of that, with {times} times the mean on the fullest bucket.")
}

fn unknown() -> Limit {
    Limit {
        cause: LimitCause::Unknown,
        sentence: "No trial gave a result, so the limit is unknown.".to_owned(),
        evidence: Vec::new(),
    }
}

/// How far the rate grew, in words.
fn growth(step: &Step) -> String {
    let active = step.buckets_active;
    let rate = quantity::or_missing(RATE.of(step), quantity::rate);
    let verb = if step.mode == Mode::Echo {
        "answered"
    } else {
        "received"
    };
    match LINEARITY.of(step) {
        Some(linearity) if active > 1 => {
            format!(
                "{active} buckets {verb} {rate}, {:.2} times one bucket's",
                linearity * active as f64
            )
        }
        _ => format!(
            "{active} bucket{} {verb} {rate}",
            if active == 1 { "" } else { "s" }
        ),
    }
}

/// The kind of limit, and the words that complete «the limit was».
fn cause(step: &Step) -> (LimitCause, String) {
    if step.model.promises_buckets() && STEERING.of(step).is_some_and(|right| right < 1.0) {
        return (
            LimitCause::Steering,
            "steering: frames reached the wrong bucket, so the rates mean little".to_owned(),
        );
    }
    let idle = idle(step);
    let lost = loss(step);
    if idle.is_some_and(|idle| idle < BUSY_IDLE_SHARE) {
        let softirq = mean(step.cpu_shares.iter().filter_map(|share| share.softirq_share)).unwrap_or(0.0);
        let (idle, softirq) = (quantity::percent(idle.unwrap_or(0.0)), quantity::percent(softirq));
        let shared = format!("CPU time ({idle} idle, {softirq} softirq)");
        return (LimitCause::SharedCpus, shared);
    }
    if let Some((cause, share)) = lost.filter(|(_, share)| *share > MATERIAL_LOSS) {
        let because = format!("{} of frames {}", quantity::percent(share), label(&cause));
        let kind = match Cause::of_key(&cause) {
            Some((Cause::FullBuffers | Cause::Memory | Cause::StillQueued, _)) => LimitCause::SocketBuffers,
            _ => LimitCause::Path,
        };
        return (kind, because);
    }
    match (idle, step.mode) {
        (Some(idle), Mode::Echo) => {
            let because = format!("the window: {} of CPU time was left", quantity::percent(idle));
            (LimitCause::OfferedRate, because)
        }
        (Some(idle), Mode::Sink) => (
            LimitCause::Generator,
            format!("the generator: {} of CPU time was left", quantity::percent(idle)),
        ),
        (None, _) => (
            LimitCause::Unknown,
            "not to be told without the CPUs' times".to_owned(),
        ),
    }
}

/// Mean idle share of the CPUs that the step used.
fn idle(step: &Step) -> Option<f64> {
    mean(step.cpu_shares.iter().filter_map(|share| share.idle_share))
}

/// The cause that took most frames, and its share of those received.
fn loss(step: &Step) -> Option<(String, f64)> {
    let (cause, frames) = step.drops.iter().max_by_key(|(_, frames)| **frames)?;
    let seen: u64 = step.per_bucket.iter().map(|bucket| bucket.seen).sum();
    Some((cause.clone(), *frames as f64 / (seen + frames).max(1) as f64))
}

fn evidence(step: &Step, plan: &ScalePlan) -> Vec<String> {
    let mut lines = Vec::new();
    for share in &step.cpu_shares {
        let show = |share: Option<f64>| quantity::or_missing(share, quantity::percent);
        let (idle, softirq) = (show(share.idle_share), show(share.softirq_share));
        lines.push(format!("CPU {}: {idle} idle, {softirq} in softirq", share.cpu));
    }
    if let Some(spread) = LINEARITY.range(step) {
        let (least, most) = (spread.minimum, spread.maximum);
        lines.push(format!(
            "linearity {:.2} ({least:.2} to {most:.2} over {} rounds)",
            spread.median, spread.count
        ));
    }
    for (cause, frames) in &step.drops {
        lines.push(format!("{} {}", quantity::count(*frames), label(cause)));
    }
    lines.extend(
        plan.left_out
            .iter()
            .map(|left_out| format!("left out: {left_out}")),
    );
    lines
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::CpuShare;
    use crate::scale::document::{PerBucket, Placement};
    use corelane_serve::udp::Model;

    fn step(idle: f64, drops: &[(&str, u64)]) -> Step {
        let share = CpuShare {
            cpu: 0,
            idle_share: Some(idle),
            softirq_share: Some(0.3),
        };
        let bucket = PerBucket {
            bucket: 0,
            cpu: 0,
            seen: 1000,
            answered: Some(1000),
            dropped: 0,
            seen_pps: None,
            locality: None,
            steering_ok: Some(1.0),
            memory: None,
        };
        let mut step = Step {
            cpu_shares: vec![share],
            per_bucket: vec![bucket],
            drops: drops
                .iter()
                .map(|(cause, frames)| ((*cause).to_owned(), *frames))
                .collect(),
            ..Step::new((Mode::Echo, Model::Exact, Placement::Aligned), 1, vec![0])
        };
        step.summed.trials = 1;
        step.summed.values.set_number(STEERING.name, Some(1.0));
        step
    }

    #[test]
    fn busy_cpus_are_the_limit_whatever_was_dropped() {
        assert_eq!(
            cause(&step(0.01, &[("full_buffers", 500)])).0,
            LimitCause::SharedCpus
        );
    }

    #[test]
    fn full_buffers_are_the_limit_only_where_cpus_idle() {
        let (kind, words) = cause(&step(0.5, &[("full_buffers", 500)]));
        assert_eq!(kind, LimitCause::SocketBuffers);
        assert!(words.contains("full socket buffers"), "{words}");
        assert_eq!(
            cause(&step(0.5, &[("full_buffers", 5)])).0,
            LimitCause::OfferedRate
        );
    }

    #[test]
    fn wrong_buckets_come_before_everything() {
        let mut wrong = step(0.01, &[]);
        wrong.summed.values.set_number(STEERING.name, Some(0.999));
        assert_eq!(cause(&wrong).0, LimitCause::Steering);
    }
}
