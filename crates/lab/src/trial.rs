//! The fields that every raw trial has: step, round, status, reasons; and the lists of trials in documents.

use corelane_host::counters::CpuTimes;
use corelane_load::timeline::TrialLabel;
use corelane_load::{Lost, RunOutcome};
use corelane_measure::metric::Sample;
use corelane_measure::share::Share;
use corelane_measure::statistics;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The position of one trial in the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The step.
    pub step: usize,
    /// The round, from 0.
    pub round: usize,
}

impl Turn {
    /// The name of trial `number` in a timeline; `title` is that of its step.
    pub(crate) fn trial(self, number: usize, title: &str) -> TrialLabel {
        TrialLabel {
            number,
            step: self.step,
            round: self.round,
            title: title.to_owned(),
            part: None,
        }
    }
}

/// The status of a trial: only the numbers of a valid trial are used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialStatus {
    /// The trial is a result.
    #[default]
    Valid,
    /// The generator was the limit; kept, but excluded from medians.
    GeneratorLimited,
    /// Another machine on the same hardware used too much CPU time; kept, but excluded from medians.
    Spoilt,
    /// The run was interrupted during the trial.
    Interrupted,
    /// The trial failed.
    Failed,
}

/// Why a trial is spoilt.
pub(crate) const SPOILT: &str = "CPU time was stolen for another machine";

/// How one CPU spent its time, in shares of 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CpuShare {
    /// CPU number.
    pub cpu: u32,
    /// Idle.
    pub idle_share: Option<f64>,
    /// In the kernel's receive and transmit path.
    pub softirq_share: Option<f64>,
}

/// Time shares of some CPUs in what all spent.
pub(crate) fn cpu_shares(cpus: &[u32], spent: &CpuTimes) -> Vec<CpuShare> {
    let share = |cpu: &u32| CpuShare {
        cpu: *cpu,
        idle_share: spent.cpus.get(cpu).and_then(|time| time.idle_share()),
        softirq_share: spent.cpus.get(cpu).and_then(|time| time.softirq_share()),
    };
    cpus.iter().map(share).collect()
}

/// CPU time shares, medians.
pub(crate) fn middle_shares<'a>(all: impl Iterator<Item = &'a CpuShare>) -> Vec<CpuShare> {
    let mut by_cpu: BTreeMap<u32, [Vec<f64>; 2]> = BTreeMap::new();
    for share in all {
        let [idle, softirq] = by_cpu.entry(share.cpu).or_default();
        idle.extend(share.idle_share);
        softirq.extend(share.softirq_share);
    }
    let share = |(cpu, [idle, softirq]): (u32, [Vec<f64>; 2])| CpuShare {
        cpu,
        idle_share: statistics::median(&idle),
        softirq_share: statistics::median(&softirq),
    };
    by_cpu.into_iter().map(share).collect()
}

/// The mean of a share over some CPUs.
pub(crate) fn mean_share<'a>(
    shares: impl IntoIterator<Item = &'a CpuShare>,
    of: fn(&CpuShare) -> Option<f64>,
) -> Option<f64> {
    let values: Vec<f64> = shares.into_iter().filter_map(of).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// A raw trial of a document; implemented by `trial!`.
pub trait Trial: fmt::Debug + Clone + Default + PartialEq + Serialize + DeserializeOwned + 'static {
    /// A trial that counted nothing, to be filled in.
    #[must_use]
    fn new(head: TrialHead) -> Self {
        let mut trial = Self::default();
        *trial.head_mut() = head;
        trial
    }

    /// The common fields.
    fn head(&self) -> &TrialHead;

    /// The common fields, mutable.
    fn head_mut(&mut self) -> &mut TrialHead;

    /// Sets the field that names what was tried, in a trial that failed; `title` is that of its step.
    fn name(&mut self, _title: &str) {}

    /// The trial in a few words: why it is no result, else what `result` makes of it.
    fn in_words(&self, result: impl FnOnce(&Self) -> Option<String>) -> Option<String> {
        self.head().why.clone().or_else(|| result(self))
    }

    /// CPU time shares of the trial.
    fn cpu_shares(&self) -> &[CpuShare] {
        &[]
    }
}

/// Makes a type with a field `head` a raw trial; in a failed one, the field `named` has the title of the step.
macro_rules! trial {
    ($trial:ty, named: $field:ident) => {
        $crate::trial::trial!(
            $trial,
            fn name(&mut self, title: &str) {
                title.clone_into(&mut self.$field);
            }
        );
    };
    ($trial:ty $(, $($more:tt)+)?) => {
        impl $crate::trial::Trial for $trial {
            fn head(&self) -> &$crate::trial::TrialHead {
                &self.head
            }

            fn head_mut(&mut self) -> &mut $crate::trial::TrialHead {
                &mut self.head
            }

            $($($more)+)?
        }
    };
}
pub(crate) use trial;

/// The raw trials of one kind in a document.
pub trait RawTrials {
    /// Adds a trial that failed, of the step of this title.
    fn fail(&mut self, head: TrialHead, title: &str);

    /// Sets the status of the trials of a turn that are results; returns whether there are any.
    fn end(&mut self, turn: Turn, status: TrialStatus, why: &str) -> bool;

    /// Sets the CPU quota that limited the trials of a turn.
    fn limit(&mut self, turn: Turn, quota: &str);

    /// Whether a trial of a turn failed.
    fn has_failed(&self, turn: Turn) -> bool;
}

impl<T: Trial> RawTrials for Vec<T> {
    fn fail(&mut self, head: TrialHead, title: &str) {
        let mut trial = T::new(head);
        trial.name(title);
        self.push(trial);
    }

    fn end(&mut self, turn: Turn, status: TrialStatus, why: &str) -> bool {
        let mut any = false;
        for head in self.iter_mut().map(T::head_mut) {
            let measured = matches!(head.status, TrialStatus::Valid | TrialStatus::GeneratorLimited);
            if measured && (head.step, head.round) == (turn.step, turn.round) {
                head.end(status, why);
                any = true;
            }
        }
        any
    }

    fn limit(&mut self, turn: Turn, quota: &str) {
        let own = self.iter_mut().map(T::head_mut);
        let own = own.filter(|head| (head.step, head.round) == (turn.step, turn.round));
        own.for_each(|head| head.quota = Some(quota.to_owned()));
    }

    fn has_failed(&self, turn: Turn) -> bool {
        let mut all = self.iter().map(T::head);
        all.any(|head| {
            head.status == TrialStatus::Failed && (head.step, head.round) == (turn.step, turn.round)
        })
    }
}

/// The fields that every trial has, flattened into its document. A field that an earlier version did not write has its
/// default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TrialHead {
    /// Index of the step in the document.
    pub step: usize,
    /// The round, from 0: trials of one round ran next to each other.
    pub round: usize,
    /// Seconds that were measured.
    pub duration_s: f64,
    /// Whether the numbers may be used.
    pub status: TrialStatus,
    /// Why not.
    pub why: Option<String>,
    /// The CPU quota that limited the server, or all that was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<String>,
    /// When the server was gone or silent; absent if it never was, and in trials that count datagrams as `lost`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<Lost>,
    /// Why a field is null: field name to reason.
    pub unknown: BTreeMap<String, String>,
}

impl TrialHead {
    /// A valid trial of so many seconds.
    #[must_use]
    pub fn new(step: usize, round: usize, duration_s: f64) -> Self {
        Self {
            step,
            round,
            duration_s,
            ..Self::default()
        }
    }

    /// Marks how it ended, and why.
    pub fn end(&mut self, status: TrialStatus, why: impl Into<String>) {
        (self.status, self.why) = (status, Some(why.into()));
    }

    /// Marks the trial as failed if the server was lost to the end of a run that the generator did not limit.
    pub(crate) fn end_if_lost(&mut self, outcome: &RunOutcome) {
        if let (Some(lost), None) = (outcome.never_back(), &outcome.limited_by) {
            self.end(TrialStatus::Failed, lost.to_string());
        }
    }

    /// Records why a field is null.
    pub(crate) fn explain(&mut self, field: &str, reason: impl Into<String>) {
        self.unknown.insert(field.to_owned(), reason.into());
    }

    /// Whether the trial is a result. Earlier versions wrote a reason, and no status, if it is not.
    pub(crate) fn is_result(&self) -> bool {
        self.status == TrialStatus::Valid && self.why.is_none()
    }

    /// Whether the trial is a result, of some time.
    pub(crate) fn is_valid(&self) -> bool {
        self.is_result() && self.duration_s > 0.0
    }

    /// A value of this trial with its round.
    pub(crate) fn in_round(&self, value: Option<f64>) -> Option<(usize, f64)> {
        Some((self.round, value?))
    }

    /// A count as a rate per second.
    pub(crate) fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.duration_s
    }

    /// The same as a sample.
    pub(crate) fn rate(&self, count: Option<u64>) -> Option<Sample<'_>> {
        number(count.map(|count| self.per_second(count)))
    }
}

/// In how many of the trials a CPU quota was the limit, and which in the last of them; `None` if in none.
pub(crate) fn limited(trials: &[&TrialHead]) -> Option<String> {
    let quotas = || trials.iter().filter_map(|head| head.quota.as_ref());
    let (some, all, last) = (quotas().count(), trials.len(), quotas().next_back()?);
    Some(format!(
        "In {some} of {all} trials a CPU quota was the limit, in the last of them {last}."
    ))
}

/// A sample of a number.
pub(crate) fn number<'a>(value: Option<f64>) -> Option<Sample<'a>> {
    value.map(Sample::Number)
}

/// A sample of a share.
pub(crate) fn share<'a>(value: Option<Share>) -> Option<Sample<'a>> {
    value.map(Sample::Share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_load::HowLost;

    #[test]
    fn a_server_that_was_lost_to_the_end_fails_a_trial_that_the_generator_did_not_limit() {
        let ended = |until_s, limited_by: Option<&str>| {
            let lost = Lost {
                server: "127.0.0.1:9".parse().unwrap(),
                how: HowLost::Silent,
                cause: None,
                since_s: 0.5,
                until_s,
            };
            let mut head = TrialHead::new(0, 0, 1.0);
            head.end_if_lost(&RunOutcome {
                lost: vec![lost],
                limited_by: limited_by.map(str::to_owned),
                ..RunOutcome::default()
            });
            head.why
        };
        let why = "127.0.0.1:9 has answered nothing since 0.50 s";
        assert_eq!(ended(None, None).as_deref(), Some(why));
        assert_eq!(ended(Some(0.9), None), None);
        assert_eq!(ended(None, Some("the worker on CPU 0 stood still")), None);
    }
}
