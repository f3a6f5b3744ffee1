//! The conclusion: what stopped growth, from the report alone. A pure function, so that it can be read and tested.

use super::document::{ScaleReport, Shape, Step};
use super::gap::{label, of_key};
use super::metrics::{
    COST_OF_PLAIN, IMBALANCE, LINEARITY, RATE, RATE_OF_PLAIN, REORDERED, STEERING, TX_LOCALITY,
};
use super::plan::ScalePlan;
use crate::scale::limit::{self, BUSY_IDLE_SHARE, Limit, LimitCause, buckets, percent};
use crate::scale::steps::{Shape as _, quota};
use crate::trial::mean_share;
use corelane_load::udp::Skew;
use corelane_measure::drops::Cause;
use corelane_measure::quantity::{self, or_missing};
use corelane_measure::statistics;
use corelane_serve::udp::{Answers, Mode};

/// Above this share of frames lost in full socket buffers, they are what stopped growth even though CPUs idled.
const MATERIAL_LOSS: f64 = 0.01;

/// What the report says about the limit.
pub(super) fn limit(report: &ScaleReport, plan: &ScalePlan) -> Limit {
    let Some(last) = report.last_step() else {
        return Limit::unknown();
    };
    let active = last.shape.buckets_active;
    let (verb, rate) = (verb(last.shape.mode), or_missing(RATE.of(last), quantity::rate));
    let did = format!("{active} {} {verb} {rate}", buckets(active));
    let trials = report.trials_of(last);
    let mut limit = last.limit(&trials, (&did, "one bucket's"), cause(last, quota(&trials)));
    limit.sentence += &skewed(report, last);
    limit.evidence.extend(evidence(last, plan));
    limit
}

/// How much of the rate is left under skew, where that was measured.
fn skewed(report: &ScaleReport, plain: &Step) -> String {
    let mut varied = report.varied_steps();
    let of_skew =
        |step: &&Step| step.shape.skew != Skew::None && step.shape.without_variation() == plain.shape;
    let Some(step) = varied.find(of_skew) else {
        return String::new();
    };
    let left = or_missing(RATE_OF_PLAIN.of(step), quantity::ratio);
    let times = or_missing(IMBALANCE.of(step), |times| quantity::fixed(times, 2));
    let skew = step.shape.skew;
    format!(" Under {skew} it was {left} of that, with {times} times the mean on the fullest bucket.")
}

/// The kind of limit, and the words that complete «the limit was».
fn cause(step: &Step, quota: Option<String>) -> limit::Found {
    let right = STEERING.of(step).filter(|_| step.shape.model.promises_buckets());
    if let Some(found) = limit::steering(right, "frames") {
        return found;
    }
    if let Some(quota) = quota {
        return (LimitCause::Quota, quota);
    }
    let idle = mean_share(&step.cpu_shares, |share| share.idle_share);
    if idle.is_some_and(|idle| idle < BUSY_IDLE_SHARE) {
        let softirq = mean_share(&step.cpu_shares, |share| share.softirq_share).unwrap_or(0.0);
        let shared = format!(
            "CPU time ({} idle, {} softirq)",
            percent(idle),
            percent(Some(softirq))
        );
        return (LimitCause::SharedCpus, shared);
    }
    let seen: u64 = step.found.per_bucket.iter().map(|bucket| bucket.seen).sum();
    let most = step.found.drops.iter().max_by_key(|(_, frames)| **frames);
    let share = most.map(|(cause, frames)| (cause, *frames as f64 / (seen + frames).max(1) as f64));
    if let Some((cause, share)) = share.filter(|(_, share)| *share > MATERIAL_LOSS) {
        let kind = match of_key(cause) {
            Some((Cause::FullBuffers | Cause::Memory | Cause::StillQueued, _)) => LimitCause::SocketBuffers,
            _ => LimitCause::Path,
        };
        return (
            kind,
            format!("{} of frames {}", quantity::percent(share), label(cause)),
        );
    }
    match step.shape.mode {
        Mode::Echo => limit::asked_for(idle, LimitCause::OfferedRate, "the window"),
        Mode::Sink => limit::asked_for(idle, LimitCause::Generator, "the generator"),
    }
}

fn evidence(step: &Step, plan: &ScalePlan) -> Vec<String> {
    let cpus = step.cpu_shares.iter().map(|share| {
        let (idle, softirq) = (percent(share.idle_share), percent(share.softirq_share));
        format!("CPU {}: {idle} idle, {softirq} in softirq", share.cpu)
    });
    let linearity = LINEARITY.range(step).map(|spread| {
        let (middle, least, most) = (spread.median, spread.minimum, spread.maximum);
        match spread.count {
            1 => format!("linearity {middle:.2}"),
            rounds => format!("linearity {middle:.2} ({least:.2} to {most:.2} over {rounds} rounds)"),
        }
    });
    let drops = step.found.drops.iter();
    let drops = drops.map(|(cause, frames)| format!("{} {}", quantity::count(*frames), label(cause)));
    let left_out = plan.left_out.iter().map(|reason| format!("left out: {reason}"));
    cpus.chain(linearity).chain(drops).chain(left_out).collect()
}

impl ScaleReport {
    /// The steps that did something otherwise, in the document's order.
    pub fn varied_steps(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(|step| !step.shape.is_plain())
    }

    /// The step that a varied one differs from in nothing but its variation.
    pub(super) fn plain(&self, varied: &Step) -> Option<&Step> {
        let plain = varied.shape.without_variation();
        let all = (!varied.shape.is_plain()).then_some(&self.steps)?;
        all.iter().find(|step| step.shape == plain)
    }

    /// What the steps that did something otherwise say: of skew, of ways to answer, of metadata.
    pub(crate) fn variation_sentences(&self) -> Vec<String> {
        let measured = || self.varied_steps().filter(|step| step.summed.trials > 0);
        let skewed = || measured().filter(|step| step.shape.skew != Skew::None);
        let mut sentences = Vec::new();
        for exact in skewed().filter(|step| step.shape.is_exact()) {
            sentences.push(exact_under_skew(exact));
            let alike = |step: &&Step| {
                let model = exact.shape.model;
                step.shape.model != model && Shape { model, ..step.shape } == exact.shape
            };
            let rivals: Vec<&Step> = skewed().filter(alike).collect();
            sentences.extend(best_under_skew(&rivals, exact));
            sentences.extend(rivals.iter().filter_map(|rival| out_of_order(rival)));
        }
        let answers = measured().filter(|step| step.shape.answers != Answers::default());
        sentences.extend(answers.map(|step| of_answers(step, self.plain(step))));
        sentences.extend(measured().filter(|step| step.shape.metadata).map(of_metadata));
        sentences
    }
}

/// Where answers left, and what that cost.
fn of_answers(step: &Step, plain: Option<&Step>) -> String {
    let local = |step: &Step| or_missing(TX_LOCALITY.of(step), quantity::percent);
    let against = plain.map_or_else(String::new, |plain| {
        format!(" (hashed per send: {})", local(plain))
    });
    format!(
        "Answers by {}: {} left on their bucket's own CPU and queue{against}{}.",
        step.shape.answers,
        local(step),
        cost(step),
    )
}

/// What an application pays that asks for each datagram's hash, hash type and bucket.
fn of_metadata(step: &Step) -> String {
    format!(
        "With hash, hash type and bucket of each datagram given to the application, the {} kept {} of its rate{}.",
        step.shape.mode,
        or_missing(RATE_OF_PLAIN.of(step), quantity::ratio),
        cost(step),
    )
}

fn cost(step: &Step) -> String {
    COST_OF_PLAIN.of(step).map_or_else(String::new, |cost| {
        format!(", at {} of its CPU time a frame", quantity::ratio(cost))
    })
}

/// What RSS loses: the fullest bucket bounds the rate, and the CPUs of the others idle.
fn exact_under_skew(step: &Step) -> String {
    let buckets = step.shape.buckets_active as f64;
    let fullest = IMBALANCE.of(step).map(|imbalance| {
        let (share, times) = (
            quantity::percent(imbalance / buckets),
            quantity::fixed(imbalance, 2),
        );
        format!(
            "the fullest of {buckets} buckets was sent {share} of all frames, {times} times the mean, and "
        )
    });
    let of_plain = RATE_OF_PLAIN.of(step);
    let of_plain = of_plain.map(|share| format!(", {} of its rate without skew", quantity::ratio(share)));
    let idle = || step.cpu_shares.iter().filter_map(|share| share.idle_share);
    let (busiest, idlest) = (idle().reduce(f64::min), idle().reduce(f64::max));
    let cpus = busiest.zip(idlest).map(|(busiest, idlest)| {
        let (busiest, idlest) = (quantity::percent(busiest), quantity::percent(idlest));
        format!("; its busiest CPU was idle {busiest} of the time, its idlest {idlest}")
    });
    format!(
        "Under {}, {}{} {} {}{}{}.",
        step.shape.skew,
        fullest.unwrap_or_default(),
        step.shape.model.words(),
        verb(step.shape.mode),
        or_missing(RATE.of(step), quantity::rate),
        of_plain.unwrap_or_default(),
        cpus.unwrap_or_default(),
    )
}

/// What a model pays that lets several workers serve one flow.
fn out_of_order(rival: &Step) -> Option<String> {
    let reordered = REORDERED.of(rival).filter(|share| *share > 0.0)?;
    let (model, skew) = (rival.shape.model.words(), rival.shape.skew);
    let share = quantity::percent(reordered);
    Some(format!(
        "Under {skew}, {share} of the answers of {model} came back out of order."
    ))
}

/// Whether exact steering is the best choice under this skew.
fn best_under_skew(rivals: &[&Step], exact: &Step) -> Option<String> {
    let ratio = |rival| statistics::ratio(RATE.of(rival)?, RATE.of(exact)?);
    let rates = rivals.iter().filter_map(|rival| Some((*rival, ratio(*rival)?)));
    let (best, times) = rates.max_by(|one, other| one.1.total_cmp(&other.1))?;
    let (skew, verb, rival) = (exact.shape.skew, verb(exact.shape.mode), best.shape.model.words());
    let within = RATE.range(best).zip(RATE.range(exact));
    let judged = if within.is_some_and(|(best, exact)| best.count > 1 && best.overlaps(exact)) {
        format!("exact steering and the best rival ({rival}) are equal within their spread")
    } else if times > 1.0 {
        let times = quantity::ratio(times);
        format!("{rival} {verb} {times} as much as exact steering: RSS loses here")
    } else {
        format!("no rival {verb} more than exact steering")
    };
    Some(format!("Under {skew}, {judged}."))
}

const fn verb(mode: Mode) -> &'static str {
    match mode {
        Mode::Echo => "answered",
        Mode::Sink => "received",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::datagrams::Placement;
    use crate::scale::datagrams::document::{Found, PerBucket, Shape};
    use crate::scale::datagrams::metrics::Trial;
    use crate::trial::{CpuShare, Trial as _, TrialHead};
    use corelane_load::{HowLost, Lost};
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
        let shape = Shape::plain((Mode::Echo, Model::Exact, Placement::Aligned), 1);
        let mut step = Step::new(shape, 1, vec![0]);
        step.cpu_shares = vec![share];
        step.found = Found {
            per_bucket: vec![bucket],
            drops: drops
                .iter()
                .map(|(cause, frames)| ((*cause).to_owned(), *frames))
                .collect(),
            ..Found::default()
        };
        step.summed.trials = 1;
        step.summed.values.set_number(STEERING.name, Some(1.0));
        step
    }

    #[test]
    fn busy_cpus_are_the_limit_whatever_was_dropped() {
        assert_eq!(
            cause(&step(0.01, &[("full_buffers", 500)]), None).0,
            LimitCause::SharedCpus
        );
    }

    #[test]
    fn full_buffers_are_the_limit_only_where_cpus_idle() {
        let (kind, words) = cause(&step(0.5, &[("full_buffers", 500)]), None);
        assert_eq!(kind, LimitCause::SocketBuffers);
        assert!(words.contains("full socket buffers"), "{words}");
        assert_eq!(
            cause(&step(0.5, &[("full_buffers", 5)]), None).0,
            LimitCause::OfferedRate
        );
    }

    #[test]
    fn a_server_that_was_silent_for_a_time_makes_the_limit_doubtful() {
        let lost = Lost {
            server: "127.0.0.1:9".parse().unwrap(),
            how: HowLost::Silent,
            cause: None,
            since_s: 0.5,
            until_s: Some(0.9),
        };
        let head = |lost| TrialHead {
            lost,
            ..TrialHead::new(0, 0, 1.0)
        };
        let [silent, plain] = [vec![lost], Vec::new()].map(|lost| Trial::new(head(lost)));
        let limit = |trial: &Trial| {
            let (step, words) = (step(0.01, &[]), ("1 bucket answered", "one bucket's"));
            step.limit(&[trial], words, cause(&step, None))
        };
        assert!(limit(&plain).doubts.is_empty());
        let limit = limit(&silent);
        assert!(limit.sentence.starts_with("Doubtful: "), "{}", limit.sentence);
        assert_eq!(
            limit.doubts,
            ["127.0.0.1:9 answered nothing from 0.50 s to 0.90 s"]
        );
    }

    #[test]
    fn wrong_buckets_come_before_everything() {
        let mut wrong = step(0.01, &[]);
        wrong.summed.values.set_number(STEERING.name, Some(0.999));
        assert_eq!(cause(&wrong, None).0, LimitCause::Steering);
    }
}
