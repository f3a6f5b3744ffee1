//! From raw trials to steps, beyond what the metrics' declarations say: growth, what variations cost, buckets, drops.

use super::{PerBucket, Placement, ScaleReport, Step, Trial, TrialBucket};
use crate::scale::metrics::{COST_OF_PLAIN, CPU, LINEARITY, METRICS, RATE, RATE_OF_PLAIN};
use crate::steps::{Scaling, Stepped, cpu_shares, summed};
use corelane_measure::metric::{Measured, Metric};
use corelane_measure::share::Share;
use corelane_measure::statistics;
use corelane_serve::udp::{Mode, Model};
use std::collections::BTreeMap;

impl ScaleReport {
    /// Fills in every step from its valid trials, then what compares steps, and the law of growth. The limit stays as it is.
    pub fn summarise(&mut self) {
        self.fill();
        let linearity: Vec<_> = (0..self.steps.len())
            .map(|step| self.linearity(&RATE, self.steps[step].buckets_active, (step, self.base(step)?)))
            .collect();
        let of_plain: Vec<_> = (self.steps.iter())
            .map(|step| [&RATE, &CPU].map(|metric| self.share_of_plain(step, metric)))
            .collect();
        for (index, step) in self.steps.iter_mut().enumerate() {
            let values = &mut step.summed.values;
            values.set_spread(&LINEARITY, linearity[index]);
            values.set_number(RATE_OF_PLAIN.name, of_plain[index][0]);
            values.set_number(COST_OF_PLAIN.name, of_plain[index][1]);
            let valid: Vec<&Trial> = (self.trials.iter())
                .filter(|trial| trial.tried.step == index && trial.tried.is_valid())
                .collect();
            step.cpu_shares = cpu_shares(valid.iter().flat_map(|trial| &trial.cpu_shares));
            step.per_bucket = per_bucket(&valid);
            step.drops = summed(valid.iter().flat_map(|trial| &trial.drops));
            let unexplained = valid.iter().map(|trial| trial.unexplained);
            step.unexplained = unexplained.reduce(|sum, next| sum.plus(next)).unwrap_or_default();
        }
        let of_plain = [RATE_OF_PLAIN.name, COST_OF_PLAIN.name];
        self.give_reasons(
            |step| {
                let expected = |name: &&str| !step.variation.is_plain() || !of_plain.contains(name);
                let names = METRICS.iter().map(|metric| metric.name).filter(expected);
                names.filter(|name| step.values().is_null(name)).collect()
            },
            |step, name| {
                let answers = step.mode == Mode::Sink && OF_ANSWERS.contains(&name);
                answers.then(|| "a sink does not answer".to_owned())
            },
        );
        self.scaling = self.law();
    }

    /// The scaling law of the exact, aligned echo steps (sink where nothing echoed), from the medians.
    fn law(&self) -> Scaling {
        let points = |mode: Mode| -> Vec<(usize, f64)> {
            let main = (mode, Model::Exact, Placement::Aligned);
            let own = |step: &&Step| step.variation.is_plain() && step.series() == main;
            let steps = self.steps.iter().filter(own);
            steps
                .filter_map(|step| Some((step.cpu_count(), RATE.of(step)?)))
                .collect()
        };
        let echo = points(Mode::Echo);
        Scaling::of(&if echo.is_empty() { points(Mode::Sink) } else { echo })
    }

    /// The plain step at one bucket that a step grew from.
    fn base(&self, index: usize) -> Option<usize> {
        let step = &self.steps[index];
        let shape = |step: &Step| (step.series(), step.buckets_configured);
        self.steps.iter().position(|other| {
            other.buckets_active == 1 && other.variation.is_plain() && shape(other) == shape(step)
        })
    }

    /// The metric of a step over that of the step that differs in nothing but its variation.
    fn share_of_plain(&self, step: &Step, metric: &Metric<Trial>) -> Option<f64> {
        if step.variation.is_plain() {
            return None;
        }
        let mut plain = self.steps.iter().filter(|other| other.variation.is_plain());
        let plain = plain.find(|other| step.varies(other))?;
        statistics::ratio(metric.of(step)?, metric.of(plain)?)
    }
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

fn pooled(shares: impl Iterator<Item = Share>) -> Option<f64> {
    shares.fold(Share::default(), Share::plus).value()
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
                .map(|(trial, part)| trial.tried.per_second(part.seen))
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
