//! Steps that did something otherwise, beside the plain step of the same shape: what skew costs each model, what a way
//! to answer or the flows' metadata cost, in numbers and in sentences that text and page share.

use super::{ScaleReport, Shape, Step};
use crate::scale::metrics::{COST_OF_PLAIN, IMBALANCE, RATE, RATE_OF_PLAIN, REORDERED, TX_LOCALITY};
use crate::steps::Shape as _;
use corelane_load::udp::Skew;
use corelane_measure::quantity::{self, or_missing};
use corelane_measure::statistics;
use corelane_serve::udp::{Answers, Mode};

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
    #[must_use]
    pub fn variation_sentences(&self) -> Vec<String> {
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

pub(in crate::scale) const fn verb(mode: Mode) -> &'static str {
    match mode {
        Mode::Echo => "answered",
        Mode::Sink => "received",
    }
}
