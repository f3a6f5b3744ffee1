//! From raw trials to steps: medians of what was valid.
//!
//! In: steps that say what was asked, and trials that say what was counted. Out: the steps filled in, with the range of
//! what they are judged by; what stays unknown keeps a reason. A trial in which the generator was the limit counts as
//! such and enters no number.

use super::{PerBucket, Placement, Scaling, Share, Step, Trial, TrialBucket, TrialStatus};
use crate::documents::trials::{self, NOT_COUNTED, pooled, why_missing};
use corelane_measure::statistics::{self, Spread};
use corelane_serve::udp::{Mode, Model};
use std::collections::BTreeMap;

/// Fills in every step from its valid trials, then linearity from the rounds that steps share.
pub fn summarise(steps: &mut [Step], trials: &[Trial]) {
    for (index, step) in steps.iter_mut().enumerate() {
        let own: Vec<&Trial> = trials.iter().filter(|trial| trial.step == index).collect();
        fill(step, &own);
    }
    let of_plain = |of: fn(&Step) -> Option<f64>| -> Vec<Option<f64>> {
        steps.iter().map(|step| share_of_plain(step, steps, of)).collect()
    };
    let (rates, costs) = (of_plain(Step::main_rate), of_plain(|step| step.cpu_us_per_frame));
    for (step, (rate, cost)) in steps.iter_mut().zip(rates.into_iter().zip(costs)) {
        (step.rate_of_plain, step.cost_of_plain) = (rate, cost);
    }
    for index in 0..steps.len() {
        let spread = linearity(index, steps, trials);
        steps[index].linearity = spread.map(|spread| spread.median);
        steps[index].linearity_spread = spread;
    }
    for (index, step) in steps.iter_mut().enumerate() {
        let own: Vec<&Trial> = trials.iter().filter(|trial| trial.step == index).collect();
        give_reasons(step, &own);
    }
}

/// The scaling law of the exact, aligned echo steps (sink where nothing echoed), from the medians.
#[must_use]
pub fn scaling(steps: &[Step]) -> Scaling {
    let points = |mode: Mode| -> Vec<(usize, f64)> {
        steps
            .iter()
            .filter(|step| {
                step.variation.is_plain()
                    && (step.mode, step.model, step.placement) == (mode, Model::Exact, Placement::Aligned)
            })
            .filter_map(|step| Some((step.cpu_count(), step.main_rate()?)))
            .collect()
    };
    let echo = points(Mode::Echo);
    trials::scaling(&if echo.is_empty() { points(Mode::Sink) } else { echo })
}

/// What `of` tells of the step over what it tells of the step that differs in nothing but its variation.
fn share_of_plain(step: &Step, steps: &[Step], of: fn(&Step) -> Option<f64>) -> Option<f64> {
    if step.variation.is_plain() {
        return None;
    }
    let plain = steps
        .iter()
        .find(|other| other.variation.is_plain() && step.varies(other))?;
    statistics::ratio(of(step)?, of(plain)?)
}

/// Pairs the step's trials with those of the same round at one bucket.
fn linearity(index: usize, steps: &[Step], trials: &[Trial]) -> Option<Spread> {
    let step = &steps[index];
    let shape = |step: &Step| (step.mode, step.model, step.placement, step.buckets_configured);
    let base = steps.iter().position(|other| {
        other.buckets_active == 1 && other.variation.is_plain() && shape(other) == shape(step)
    })?;
    let rates = |step: usize| -> Vec<(usize, f64)> {
        let valid = trials
            .iter()
            .filter(|trial| trial.step == step && trial.is_valid());
        valid.map(|trial| (trial.round, trial.main_rate())).collect()
    };
    trials::linearity(step.buckets_active, &rates(index), &rates(base))
}

fn fill(step: &mut Step, trials: &[&Trial]) {
    let valid: Vec<&Trial> = trials.iter().copied().filter(|trial| trial.is_valid()).collect();
    step.trials = valid.len();
    step.generator_limited_trials = trials
        .iter()
        .filter(|trial| trial.status == TrialStatus::GeneratorLimited)
        .count();
    let rate = |of: fn(&Trial) -> Option<u64>| median(&valid, |trial| Some(trial.per_second(of(trial)?)));
    step.generated_pps = rate(|trial| Some(trial.generated));
    step.received_pps = rate(|trial| trial.received);
    step.seen_pps = rate(|trial| Some(trial.seen));
    step.answered_pps = rate(|trial| trial.answered);
    step.returned_pps = rate(|trial| trial.returned);
    step.context_switches_per_s = rate(|trial| trial.context_switches);
    step.gbit_s = rate(|trial| trial.seen_bytes).map(|bytes_per_second| bytes_per_second * 8.0 / 1e9);
    step.cpu_us_per_frame = median(&valid, Trial::cpu_us_per_frame);
    step.effective_mhz = median(&valid, |trial| trial.effective_mhz);
    step.locality = pooled(valid.iter().filter_map(|trial| trial.locality));
    step.steering_ok = pooled(valid.iter().filter_map(|trial| trial.steering));
    step.tx_locality = pooled(valid.iter().filter_map(|trial| trial.tx_locality));
    step.tx_on_cpu = pooled(valid.iter().filter_map(|trial| trial.tx_on_cpu));
    step.tx_on_queue = pooled(valid.iter().filter_map(|trial| trial.tx_on_queue));
    step.imbalance = median(&valid, |trial| trial.imbalance);
    step.reordered_share = pooled(valid.iter().filter_map(|trial| {
        let (hits, samples) = (trial.reordered?, trial.returned?);
        Some(Share { hits, samples })
    }));
    let main_rates: Vec<f64> = valid.iter().map(|trial| trial.main_rate()).collect();
    step.rate_spread = Spread::of(&main_rates);
    step.cpu_shares = trials::cpu_shares(valid.iter().flat_map(|trial| &trial.cpu_shares));
    step.round_trip = trials::merged(valid.iter().filter_map(|trial| trial.round_trip.as_ref()));
    step.per_bucket = per_bucket(&valid);
    step.drops = trials::summed(valid.iter().flat_map(|trial| &trial.drops));
    let unexplained = valid.iter().map(|trial| trial.unexplained);
    step.unexplained = unexplained.reduce(|sum, next| sum.plus(next)).unwrap_or_default();
}

/// What only answers have.
const OF_ANSWERS: [&str; 7] = [
    "answered_pps",
    "returned_pps",
    "round_trip",
    "reordered_share",
    "tx_locality",
    "tx_on_cpu",
    "tx_on_queue",
];

/// Names the reason of every number that is missing: the trials' own, or what is known of them all.
fn give_reasons(step: &mut Step, trials: &[&Trial]) {
    // A report is summarised again after every trial: reasons of an earlier time may no longer hold.
    step.unknown.clear();
    let missing = step.missing();
    for field in missing {
        let own = trials.iter().find_map(|trial| trial.unknown.get(field).cloned());
        let of_sink = || {
            let answers = step.mode == Mode::Sink && OF_ANSWERS.contains(&field);
            answers.then(|| "a sink does not answer".to_owned())
        };
        let of_all = || why_missing(field, trials.iter().map(|trial| trial.status));
        let reason = own.or_else(of_sink).or_else(of_all);
        let reason = reason.unwrap_or_else(|| NOT_COUNTED.to_owned());
        step.unknown.entry(field.to_owned()).or_insert(reason);
    }
}

fn median(trials: &[&Trial], of: impl Fn(&Trial) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = trials.iter().filter_map(|trial| of(trial)).collect();
    statistics::median(&values)
}

fn per_bucket(trials: &[&Trial]) -> Vec<PerBucket> {
    let mut by_bucket: BTreeMap<u16, Vec<(&Trial, &TrialBucket)>> = BTreeMap::new();
    for trial in trials {
        for bucket in &trial.per_bucket {
            by_bucket.entry(bucket.bucket).or_default().push((trial, bucket));
        }
    }
    by_bucket
        .into_iter()
        .map(|(bucket, parts)| {
            let rates: Vec<f64> = parts
                .iter()
                .map(|(trial, part)| trial.per_second(part.seen))
                .collect();
            PerBucket {
                bucket,
                cpu: parts[0].1.cpu,
                seen: parts.iter().map(|(_, part)| part.seen).sum(),
                answered: parts.iter().map(|(_, part)| part.answered).sum(),
                dropped: parts.iter().map(|(_, part)| part.dropped).sum(),
                seen_pps: statistics::median(&rates),
                locality: pooled(parts.iter().filter_map(|(_, part)| part.locality)),
                steering_ok: pooled(parts.iter().filter_map(|(_, part)| part.steering)),
                memory: parts.iter().rev().find_map(|(_, part)| part.memory.clone()),
            }
        })
        .collect()
}
