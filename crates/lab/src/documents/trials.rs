//! What the trials of a step come to, whatever was tried in them.

use crate::document::CpuShare;
use crate::document::TrialStatus;
use crate::documents::text::SPOILT;
use crate::steps::Scaling;
use corelane_measure::histogram::{Histogram, Summary};
use corelane_measure::scalability;
use corelane_measure::share::Share;
use corelane_measure::statistics::{self, Spread};
use std::collections::BTreeMap;

/// The law of growth of a rate with CPUs, or why there is none.
pub(crate) fn scaling(points: &[(usize, f64)]) -> Scaling {
    let fitted = scalability::fit(points);
    Scaling {
        law: fitted.as_ref().ok().copied(),
        not_fitted_because: fitted.err().map(|reason| reason.to_string()),
    }
}

/// How close to proportional growth is: rates at `workers` buckets beside those of the same round at one, each with its round.
pub(crate) fn linearity(workers: usize, many: &[(usize, f64)], one: &[(usize, f64)]) -> Option<Spread> {
    let pair = |(round, many): &(usize, f64)| {
        let (_, one) = one.iter().find(|(other, _)| other == round)?;
        Some((*many, *one))
    };
    let pairs: Vec<(f64, f64)> = many.iter().filter_map(pair).collect();
    statistics::linearity(workers, &pairs)
}

/// Shares counted together.
pub(crate) fn pooled(shares: impl Iterator<Item = Share>) -> Option<f64> {
    shares.fold(Share::default(), Share::plus).value()
}

/// Histograms counted together.
pub(crate) fn merged<'a>(histograms: impl Iterator<Item = &'a Histogram>) -> Option<Summary> {
    let mut merged = Histogram::new();
    for histogram in histograms {
        merged.merge(histogram);
    }
    merged.summary()
}

/// Counts by name added up.
pub(crate) fn summed<'a>(counts: impl Iterator<Item = (&'a String, &'a u64)>) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (name, count) in counts {
        *sums.entry(name.clone()).or_default() += count;
    }
    sums
}

/// How each CPU spent the time, medians.
pub(crate) fn cpu_shares<'a>(all: impl Iterator<Item = &'a CpuShare>) -> Vec<CpuShare> {
    let mut by_cpu: BTreeMap<u32, Vec<&CpuShare>> = BTreeMap::new();
    for share in all {
        by_cpu.entry(share.cpu).or_default().push(share);
    }
    let middle = |shares: &[&CpuShare], of: fn(&CpuShare) -> Option<f64>| {
        let values: Vec<f64> = shares.iter().filter_map(|share| of(share)).collect();
        statistics::median(&values)
    };
    let share = |(cpu, shares): (u32, Vec<&CpuShare>)| CpuShare {
        cpu,
        idle_share: middle(&shares, |share| share.idle_share),
        softirq_share: middle(&shares, |share| share.softirq_share),
    };
    by_cpu.into_iter().map(share).collect()
}

/// Why a step lacks a number, as far as how its trials ended tells.
pub(crate) fn why_missing(field: &str, ended: impl Iterator<Item = TrialStatus>) -> Option<String> {
    let ended: Vec<TrialStatus> = ended.collect();
    let all = ended.len();
    let all_are = |status| ended.iter().all(|ended| *ended == status);
    match field {
        _ if all == 0 => Some("no trial ran".to_owned()),
        _ if all_are(TrialStatus::GeneratorLimited) => {
            Some(format!("the generator was the limit in all {all} trials"))
        }
        _ if all_are(TrialStatus::Spoilt) => Some(format!("in all {all} trials {SPOILT}")),
        _ if !ended.contains(&TrialStatus::Valid) => Some(format!("none of the {all} trials was valid")),
        "linearity" => Some("no round has valid trials both at this number of buckets and at one".to_owned()),
        _ => None,
    }
}

/// Why a step lacks a number when nothing else tells it.
pub(crate) const NOT_COUNTED: &str = "the trials did not count it";
