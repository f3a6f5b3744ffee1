//! What `lab rebalance` tells: phases, decisions, and the verdict as a pure function of them.

use super::Request;
use crate::document::{Head, document};
use crate::named::Named;
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
    /// What was asked.
    pub request: Request,
    /// What was decided in each round, from the loads that the server counted.
    pub decisions: Vec<Rebalanced>,
    /// Every phase, by round, the control first.
    pub phases: Vec<Phase>,
    /// What it comes to; none of a run that was interrupted early.
    pub verdict: Option<Verdict>,
}

document!(Rebalancing, [SCHEMA]);

/// Which phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PhaseName {
    /// A server that keeps its table: the control.
    Static,
    /// The other server, which still has the same table.
    Before,
    /// While its table is changed all the time.
    During,
    /// With the table that levels what it counted.
    After,
}

impl Named for PhaseName {
    const WHAT: &'static str = "phase";
    const NAMES: &'static [(Self, &'static str)] = &[
        (Self::Static, "static"),
        (Self::Before, "before"),
        (Self::During, "during"),
        (Self::After, "after"),
    ];
}

/// What was measured in one phase. Numbers are datagrams unless said otherwise.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Phase {
    /// From 0.
    pub round: u32,
    /// Which.
    pub name: PhaseName,
    /// Sent.
    pub sent: u64,
    /// Answered, and the answer came back.
    pub returned: u64,
    /// Sent and never answered.
    pub lost: u64,
    /// That the kernel did not send.
    pub refused: u64,
    /// Answers that came after those of datagrams sent later in their flow.
    pub reordered: u64,
    /// By bucket, what its worker saw.
    pub bucket_datagrams: Vec<u64>,
    /// The fullest bucket's over the mean.
    pub fullest_over_mean: Option<f64>,
    /// Datagrams whose bucket was asked of the hash, under the table then in force.
    pub steering_samples: u64,
    /// Those of them that had come to the bucket that it names.
    pub steering_right: u64,
    /// Tables set.
    pub table_changes: u64,
    /// Entries that they moved.
    pub entries_moved: u64,
    /// Tables set, in a minute.
    pub changes_a_minute: f64,
    /// Microseconds from the intended send to the answer that 99 of 100 did not exceed.
    pub round_trip_p99_us: Option<f64>,
    /// What kept the generator from its schedule: such a phase still counts losses, and its times are no result.
    pub limited_by: Option<String>,
}

/// What it comes to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Verdict {
    /// Datagrams lost with a table that never changed, a million sent.
    pub static_lost_per_million: f64,
    /// Lost while the table changed, a million sent.
    pub during_lost_per_million: f64,
    /// Was nothing lost by changes that static RSS did not lose too?
    pub nothing_lost: bool,
    /// The fullest bucket over the mean, static: median of the rounds.
    pub static_fullest_over_mean: f64,
    /// After rebalancing: median of the rounds.
    pub after_fullest_over_mean: f64,
    /// The fullest bucket that the decisions leave, over the best that any assignment could reach: the worst round.
    pub decided_over_best: f64,
    /// Table changes a minute, of the slowest round.
    pub changes_a_minute: f64,
}

/// The load of every entry: the datagrams whose hash falls on it.
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

/// What the phases and decisions come to; none unless each phase was measured.
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
