//! Rebalancing of a group that serves: measured loads in, changes of its table out.
//!
//! The policy is [`corelane_rss::balance::Rebalancer`]; this is its clock, its effect on a [`SteeredGroup`], and the record of
//! its moves.

use crate::steered::{ChangeError, SteeredGroup};
use corelane_rss::balance::{self, EntryLoads, Move, Policy, Rebalancer};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Most moves that a record keeps; older ones are only counted.
const MOST_MOVES: usize = 1_024;

/// What rebalancing did so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rebalanced {
    /// What it acts by.
    pub policy: Policy,
    /// Decisions, of which most move nothing.
    pub decisions: u64,
    /// Changes of the table, each of one entry or more.
    pub changes: u64,
    /// Entries moved.
    pub moved: u64,
    /// The last moves, at most 1,024, oldest first.
    pub moves: Vec<RecordedMove>,
    /// Why it ended early; the table stays as it is.
    pub ended_because: Option<String>,
}

/// An entry moved, with the loads that were the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedMove {
    /// The entry, its buckets and its load per second.
    #[serde(flatten)]
    pub entry: Move,
    /// Load per second of the bucket that it left, before.
    pub from_load: u64,
    /// Load per second of the bucket that it joined, before.
    pub to_load: u64,
    /// The generation of the table that has it in its new bucket.
    pub generation: u64,
}

/// Rebalances one group.
#[derive(Debug)]
pub struct Rebalancing {
    rebalancer: Rebalancer,
    /// Time of the last decision.
    decided: Instant,
    done: Rebalanced,
    /// Of `done.moves`, those already taken.
    taken: u64,
    /// Whether the reason of the end was taken.
    end_taken: bool,
}

impl Rebalancing {
    /// Rebalances by `policy` over so many sockets from `now` on. `counted` has the loads so far.
    #[must_use]
    pub fn new(policy: Policy, sockets: usize, now: Instant, counted: EntryLoads) -> Rebalancing {
        Rebalancing {
            rebalancer: Rebalancer::new(policy, sockets, counted),
            decided: now,
            done: Rebalanced {
                policy,
                decisions: 0,
                changes: 0,
                moved: 0,
                moves: Vec::new(),
                ended_because: None,
            },
            taken: 0,
            end_taken: false,
        }
    }

    /// Decides if it is time to, by the loads that `measure` returns, and changes the group's table; call it a few times
    /// per interval. Ends rebalancing if the table cannot be changed.
    pub fn look(&mut self, now: Instant, group: &mut SteeredGroup, measure: impl FnOnce() -> EntryLoads) {
        let elapsed = now.saturating_duration_since(self.decided).as_secs_f64();
        if elapsed < self.rebalancer.policy().interval_s || self.done.ended_because.is_some() {
            return;
        }
        self.decided = now;
        if let Err(error) = self.decide(elapsed, group, measure()) {
            self.done.ended_because = Some(error.to_string());
        }
    }

    fn decide(
        &mut self,
        elapsed: f64,
        group: &mut SteeredGroup,
        counted: EntryLoads,
    ) -> Result<(), ChangeError> {
        self.done.decisions += 1;
        let table = &group.steering().table;
        let moves = self.rebalancer.decide(elapsed, table, counted)?;
        if moves.is_empty() {
            return Ok(());
        }
        let mut loads = self.rebalancer.bucket_loads_per_s(table);
        let table = balance::moved(table, &moves);
        group.change(table)?;
        let generation = group.steering().generation;
        self.done.changes += 1;
        self.done.moved += moves.len() as u64;
        for entry in moves {
            let (from, to) = (entry.from.index(), entry.to.index());
            self.done.moves.push(RecordedMove {
                entry,
                from_load: loads[from],
                to_load: loads[to],
                generation,
            });
            loads[from] = loads[from].saturating_sub(entry.load);
            loads[to] += entry.load;
        }
        let surplus = self.done.moves.len().saturating_sub(MOST_MOVES);
        self.done.moves.drain(..surplus);
        Ok(())
    }

    /// What it did so far.
    #[must_use]
    pub fn done(&self) -> &Rebalanced {
        &self.done
    }

    /// The moves since the last call, as far as the record still has them.
    pub fn take_moves(&mut self) -> &[RecordedMove] {
        let new = (self.done.moved - self.taken) as usize;
        self.taken = self.done.moved;
        let kept = self.done.moves.len();
        &self.done.moves[kept.saturating_sub(new)..]
    }

    /// Why it ended, once.
    pub fn take_end(&mut self) -> Option<&str> {
        let is_new = !std::mem::replace(&mut self.end_taken, self.done.ended_because.is_some());
        self.done.ended_because.as_deref().filter(|_| is_new)
    }
}
