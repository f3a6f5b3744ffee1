//! The document of `lab rebalance`: phases, decisions, and the verdict, which is a pure function of them.

use super::Request;
use crate::document::{Head, document};
use corelane_measure::statistics::{median, ratio};
use corelane_rss::balance::Rebalanced;
use corelane_serve::udp::FlowCounts;
use serde::{Deserialize, Serialize};

/// Name and version of the document.
pub const SCHEMA: &str = "corelane/rebalance/1";

/// The experiment's document.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Rebalancing {
    /// What all documents begin with.
    #[serde(flatten)]
    pub head: Head,
    /// The request.
    pub request: Request,
    /// The decision of each round, computed from the loads that the server counted.
    pub decisions: Vec<Rebalanced>,
    /// Every phase, by round, the control first.
    pub phases: Vec<Phase>,
    /// The verdict; `None` if the run was interrupted before every phase was measured.
    pub verdict: Option<Verdict>,
}

document!(Rebalancing, [SCHEMA]);

corelane_measure::words!(PhaseName);

/// The kind of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PhaseName {
    /// The control: a server whose table never changes.
    Static,
    /// The second server, before its table changes.
    Before,
    /// The second server, while its table changes continuously.
    During,
    /// The second server, with the table rebalanced from its counted loads.
    After,
}

/// The measurements of one phase. Counts are datagrams unless stated otherwise.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Phase {
    /// The round, from 0.
    pub round: u32,
    /// The kind of phase.
    pub name: PhaseName,
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams whose answer was received.
    pub returned: u64,
    /// Datagrams sent and not answered.
    pub lost: u64,
    /// Datagrams that the kernel did not send.
    pub refused: u64,
    /// Answers received out of order within their flow.
    pub reordered: u64,
    /// Datagrams seen by each bucket's worker.
    pub bucket_datagrams: Vec<u64>,
    /// Load of the fullest bucket, divided by the mean.
    pub fullest_over_mean: Option<f64>,
    /// Datagrams whose bucket was computed from the hash and the table then in force.
    pub steering_samples: u64,
    /// Checked datagrams that arrived at the computed bucket.
    pub steering_right: u64,
    /// Table changes.
    pub table_changes: u64,
    /// Entries moved by the table changes.
    pub entries_moved: u64,
    /// Table changes per minute.
    pub changes_a_minute: f64,
    /// 99th percentile of the time from the intended send to the answer, in microseconds.
    pub round_trip_p99_us: Option<f64>,
    /// Why the generator missed its schedule. Such a phase still counts losses, but its times are not a result.
    pub limited_by: Option<String>,
}

/// The verdict of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Verdict {
    /// Datagrams lost with the static table, per million sent.
    pub static_lost_per_million: f64,
    /// Datagrams lost while the table changed, per million sent.
    pub during_lost_per_million: f64,
    /// Whether table changes caused no loss beyond that of static RSS.
    pub nothing_lost: bool,
    /// Load of the fullest bucket divided by the mean, with the static table; median of the rounds.
    pub static_fullest_over_mean: f64,
    /// Load of the fullest bucket divided by the mean, after rebalancing; median of the rounds.
    pub after_fullest_over_mean: f64,
    /// Load of the fullest bucket after the decision, divided by the best possible; the worst round.
    pub decided_over_best: f64,
    /// Table changes per minute, of the slowest round.
    pub changes_a_minute: f64,
}

/// The load of every entry: the datagrams whose hash selects it.
pub(super) fn entry_loads(counts: &FlowCounts, entries: usize) -> Vec<u64> {
    let mut loads = vec![0; entries];
    for flow in &counts.flows {
        let digits = flow.hash.trim_start_matches("0x");
        if let Ok(hash) = u32::from_str_radix(digits, 16) {
            loads[hash as usize & (entries - 1)] += flow.count;
        }
    }
    loads
}

/// Computes the verdict; `None` unless each phase was measured.
pub(super) fn verdict(rebalancing: &Rebalancing) -> Option<Verdict> {
    let of = |name: PhaseName| rebalancing.phases.iter().filter(move |phase| phase.name == name);
    let lost = |name: PhaseName| {
        let count = |count: fn(&Phase) -> u64| of(name).map(count).sum::<u64>() as f64;
        ratio(1e6 * count(|phase| phase.lost), count(|phase| phase.sent))
    };
    let fullest = |name: PhaseName| {
        let of_phases = of(name).filter_map(|phase| phase.fullest_over_mean);
        median(&of_phases.collect::<Vec<_>>())
    };
    let (static_lost, during_lost) = (lost(PhaseName::Static)?, lost(PhaseName::During)?);
    let decided = rebalancing.decisions.iter();
    let over_best = decided.map(|decided| decided.fullest_after as f64 / decided.bound.max(1) as f64);
    let changes = of(PhaseName::During).map(|phase| phase.changes_a_minute);
    Some(Verdict {
        static_lost_per_million: static_lost,
        during_lost_per_million: during_lost,
        nothing_lost: during_lost <= static_lost,
        static_fullest_over_mean: fullest(PhaseName::Static)?,
        after_fullest_over_mean: fullest(PhaseName::After)?,
        decided_over_best: over_best.fold(0.0, f64::max),
        changes_a_minute: changes.fold(f64::INFINITY, f64::min),
    })
}
