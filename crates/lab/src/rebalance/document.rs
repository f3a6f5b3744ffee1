//! The document of `lab rebalance`: phases, decisions, and the verdict, which is a pure function of them.

use super::plan::Request;
use crate::document::{Head, document};
use crate::trial::{TrialHead, trial};
use corelane_measure::counters::Counters;
use corelane_measure::statistics::{median, ratio};
use corelane_rss::IndirectionTable;
use corelane_rss::balance::Rebalanced;
use corelane_serve::udp::FlowCount;
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
    pub decisions: Vec<Decision>,
    /// Every phase, by round, the control first.
    pub phases: Vec<Phase>,
    /// The verdict; `None` if the run was interrupted before every phase was measured.
    pub verdict: Option<Verdict>,
}

document!(Rebalancing, [SCHEMA]);

/// A decision, and the round in which it was made; earlier versions wrote one for each round, without its number.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Decision {
    /// The round, from 0.
    pub round: Option<usize>,
    /// What was decided.
    #[serde(flatten)]
    pub decided: Rebalanced,
}
corelane_measure::words!(PhaseName);

/// The kind of a phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PhaseName {
    /// The control: a server whose table never changes.
    #[default]
    Static,
    /// The second server, before its table changes.
    Before,
    /// The second server, while its table changes continuously.
    During,
    /// The second server, with the table rebalanced from its counted loads.
    After,
}

/// The measurements of one phase. Counts are datagrams unless stated otherwise.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Step, round and status: the control is step 0, the phases of the second server are step 1.
    #[serde(flatten)]
    pub head: TrialHead,
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

trial!(
    Phase,
    // If the second server fails, none of its phases is a result.
    fn name(&mut self, title: &str) {
        if title != CONTROL_TITLE {
            self.name = PhaseName::Before;
        }
    }
);

/// The title of the step that measures the control.
pub(super) const CONTROL_TITLE: &str = "static";

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
pub(super) fn entry_loads(flows: &[FlowCount], table: &IndirectionTable) -> Vec<u64> {
    let mut loads = vec![0; table.size()];
    for flow in flows {
        let digits = flow.hash.trim_start_matches("0x");
        if let Ok(hash) = u32::from_str_radix(digits, 16) {
            loads[table.entry(hash)] += flow.count;
        }
    }
    loads
}

/// Computes the verdict; `None` unless each phase was measured.
pub(super) fn verdict(rebalancing: &Rebalancing) -> Option<Verdict> {
    let results = || (rebalancing.phases.iter()).filter(|phase| phase.head.is_result());
    let of = |name: PhaseName| results().filter(move |phase| phase.name == name);
    let lost = |name: PhaseName| {
        let count = |count: fn(&Phase) -> u64| <u64 as Counters>::sum(of(name).map(count)) as f64;
        ratio(1e6 * count(|phase| phase.lost), count(|phase| phase.sent))
    };
    let fullest = |name: PhaseName| {
        let of_phases = of(name).filter_map(|phase| phase.fullest_over_mean);
        median(&of_phases.collect::<Vec<_>>())
    };
    let (static_lost, during_lost) = (lost(PhaseName::Static)?, lost(PhaseName::During)?);
    let decided = rebalancing.decisions.iter().map(|decision| &decision.decided);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use crate::trial::{RawTrials, Trial, TrialStatus};
    use corelane_report::page::Rendered;

    const DOCUMENT: &str = include_str!("../../../cli/tests/golden/documents/rebalance.json");

    #[test]
    fn the_phases_of_a_document_without_statuses_are_results() {
        let read = Rebalancing::from_json(DOCUMENT).unwrap();
        assert!(verdict(&read).is_some());
        assert_eq!(read.decisions[0].round, None);
    }

    #[test]
    fn only_phases_that_are_results_enter_the_verdict() {
        let mut run = Rebalancing::from_json(DOCUMENT).unwrap();
        run.verdict = None;
        let whole = verdict(&run).unwrap();
        let mut spoilt = run.phases[0].clone();
        spoilt.head.end(TrialStatus::Spoilt, "stolen");
        (spoilt.lost, spoilt.fullest_over_mean) = (spoilt.sent, Some(9.0));
        run.phases.push(spoilt);
        let now = verdict(&run).unwrap();
        assert_eq!(
            (now.static_lost_per_million, now.static_fullest_over_mean),
            (whole.static_lost_per_million, whole.static_fullest_over_mean)
        );
        for phase in &mut run.phases {
            if phase.name == PhaseName::During {
                phase.head.end(TrialStatus::Interrupted, "ended early");
            }
        }
        assert!(verdict(&run).is_none());
        assert!(run.proved().is_err());
        assert!(
            run.page()
                .to_text()
                .contains("In 1 of 9 trials CPU time was stolen")
        );
    }

    #[test]
    fn a_failed_second_server_is_no_control() {
        let mut phases: Vec<Phase> = Vec::new();
        phases.fail(TrialHead::new(1, 0, 0.0), "before, during, after");
        phases.fail(TrialHead::new(0, 0, 0.0), CONTROL_TITLE);
        let names: Vec<_> = phases.iter().map(|phase| phase.name).collect();
        assert_eq!(names, [PhaseName::Before, PhaseName::Static]);
        assert!(phases.iter().all(|phase| phase.head().step < 2));
    }
}
