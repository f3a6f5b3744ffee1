//! Steps that did something otherwise, beside the plain step of the same shape: what skew costs each model, what a way to
//! answer or the flows' metadata cost, in numbers and in sentences that text and page share.

use super::{Placement, ScaleReport, Step};
use crate::scale::metrics::{COST_OF_PLAIN, IMBALANCE, RATE, RATE_OF_PLAIN, REORDERED, TX_LOCALITY};
use corelane_load::udp::Skew;
use corelane_measure::quantity::{self, or_missing};
use corelane_measure::statistics;
use corelane_serve::udp::{Answers, Mode, Model};

impl ScaleReport {
    /// The steps that did something otherwise, in the document's order.
    pub fn varied_steps(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(|step| !step.variation.is_plain())
    }

    /// What the steps that did something otherwise say: of skew, of ways to answer, of metadata.
    #[must_use]
    pub fn variation_sentences(&self) -> Vec<String> {
        let measured = || self.varied_steps().filter(|step| step.summed.trials > 0);
        let plain = |step: &Step| {
            let mut all = self.steps.iter();
            all.find(|other| other.variation.is_plain() && other.varies(step))
        };
        let answers = measured().filter(|step| step.variation.answers != Answers::default());
        let metadata = measured().filter(|step| step.variation.metadata);
        let mut sentences = self.skew_sentences();
        sentences.extend(answers.map(|step| of_answers(step, plain(step))));
        sentences.extend(metadata.map(of_metadata));
        sentences
    }

    /// What skew did: what exact steering lost, who did best under it, and who paid with order.
    fn skew_sentences(&self) -> Vec<String> {
        let main = |step: &&Step| (step.model, step.placement) == (Model::Exact, Placement::Aligned);
        let skewed = || {
            self.varied_steps()
                .filter(|step| step.variation.skew != Skew::None && step.summed.trials > 0)
        };
        let mut sentences = Vec::new();
        for exact in skewed().filter(main) {
            sentences.push(exact_under_skew(exact));
            let alike = |step: &&Step| {
                (step.mode, step.placement, step.variation) == (exact.mode, exact.placement, exact.variation)
            };
            let rivals: Vec<&Step> = skewed().filter(|step| !main(step)).filter(alike).collect();
            sentences.extend(best_under_skew(&rivals, exact));
            sentences.extend(rivals.iter().filter_map(|rival| out_of_order(rival)));
        }
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
        step.variation.answers,
        local(step),
        cost(step),
    )
}

/// What an application pays that asks for each datagram's hash, hash type and bucket.
fn of_metadata(step: &Step) -> String {
    format!(
        "With hash, hash type and bucket of each datagram given to the application, the {} kept {} of its rate{}.",
        step.mode,
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
    let buckets = step.buckets_active as f64;
    let fullest = IMBALANCE.of(step).map(|imbalance| {
        let (share, times) = (
            quantity::percent(imbalance / buckets),
            quantity::fixed(imbalance, 2),
        );
        format!(
            "the fullest of {buckets} buckets was sent {share} of all frames, {times} times the mean, and "
        )
    });
    let idle = || step.cpu_shares.iter().filter_map(|share| share.idle_share);
    let (busiest, idlest) = (idle().reduce(f64::min), idle().reduce(f64::max));
    let cpus = busiest.zip(idlest).map(|(busiest, idlest)| {
        let (busiest, idlest) = (quantity::percent(busiest), quantity::percent(idlest));
        format!("; its busiest CPU was idle {busiest} of the time, its idlest {idlest}")
    });
    format!(
        "Under {}, {}{} {} {}{}{}.",
        step.variation.skew,
        fullest.unwrap_or_default(),
        step.model.words(),
        verb(step.mode),
        or_missing(RATE.of(step), quantity::rate),
        of_plain(step),
        cpus.unwrap_or_default(),
    )
}

/// What a model pays that lets several workers serve one flow.
fn out_of_order(rival: &Step) -> Option<String> {
    let reordered = REORDERED.of(rival).filter(|share| *share > 0.0)?;
    let (model, skew) = (rival.model.words(), rival.variation.skew);
    let share = quantity::percent(reordered);
    Some(format!(
        "Under {skew}, {share} of the answers of {model} came back out of order."
    ))
}

/// Whether exact steering is the best choice under this skew.
fn best_under_skew(rivals: &[&Step], exact: &Step) -> Option<String> {
    let rates = rivals
        .iter()
        .filter_map(|rival| Some((rival, ratio(rival, exact)?)));
    let (best, times) = rates.max_by(|one, other| one.1.total_cmp(&other.1))?;
    let (skew, verb) = (exact.variation.skew, verb(exact.mode));
    let within = RATE.range(best).zip(RATE.range(exact));
    Some(
        if within.is_some_and(|(best, exact)| best.count > 1 && best.overlaps(exact)) {
            format!(
                "Under {skew}, exact steering and the best rival ({}) are equal within their spread.",
                best.model.words()
            )
        } else if times > 1.0 {
            let times = quantity::ratio(times);
            format!(
                "Under {skew}, {} {verb} {times} as much as exact steering: RSS loses here.",
                best.model.words()
            )
        } else {
            format!("Under {skew}, no rival {verb} more than exact steering.")
        },
    )
}

fn of_plain(step: &Step) -> String {
    RATE_OF_PLAIN.of(step).map_or_else(String::new, |share| {
        format!(", {} of its rate without skew", quantity::ratio(share))
    })
}

const fn verb(mode: Mode) -> &'static str {
    match mode {
        Mode::Echo => "answered",
        Mode::Sink => "received",
    }
}

fn ratio(step: &Step, other: &Step) -> Option<f64> {
    statistics::ratio(RATE.of(step)?, RATE.of(other)?)
}
