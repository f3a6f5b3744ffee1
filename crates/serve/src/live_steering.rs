//! The steering of a running server: its current table, and what moves entries of it by their loads.
//!
//! In: the loads that workers count, each in a block of its own. Out: moved entries, by the control thread.

use crate::check::{Check, Loads};
use crate::server::ServeError;
use arc_swap::ArcSwap;
use corelane_rss::balance::{EntryLoads, Policy};
use corelane_rss::steer::Families;
use corelane_rss::{Bucket, Steerer, Steering};
use corelane_worker::Counter;
use corelane_worker::rebalancing::{Rebalanced, Rebalancing};
use corelane_worker::steered::{Moved, SteeredGroup};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

/// The steering of a running server.
pub(crate) struct LiveSteering {
    planned: Steering,
    /// That of the current table.
    steerer: Arc<ArcSwap<Steerer>>,
    /// `None` without a steering program.
    pub(crate) group: Option<SteeredGroup>,
    /// `None` if the table stays as it is.
    pub(crate) rebalancing: Option<Rebalancing>,
    /// Of each worker, if the table is rebalanced.
    loads: Vec<Arc<Loads>>,
}

impl LiveSteering {
    /// Steering as `planned`, of these sockets if a program steers them: of two or more. `steerer` follows the table.
    pub(crate) fn new(
        planned: &Steering,
        rebalance: Option<Policy>,
        (sockets, families): (&[impl AsFd], Families),
        steerer: &Arc<ArcSwap<Steerer>>,
    ) -> Result<Self, ServeError> {
        let mut group = match sockets {
            [member, _, ..] => {
                let group = SteeredGroup::new(member, sockets.len(), families, planned.clone());
                Some(group.map_err(ServeError::socket("duplicate a socket of the group"))?)
            }
            _ => None,
        };
        if let Some(group) = &mut group {
            let steerer = Arc::clone(steerer);
            group.on_move(move |moved: &Moved<'_>| steerer.store(Arc::new(moved.steering.steerer())));
        }
        let rebalancing = match (rebalance, &group) {
            (None, _) => None,
            (Some(_), None) => return Err(ServeError::NoTable),
            (Some(policy), Some(group)) => {
                let nothing = EntryLoads::default();
                Some(Rebalancing::new(policy, group.sockets(), Instant::now(), nothing))
            }
        };
        Ok(Self {
            planned: planned.clone(),
            steerer: Arc::clone(steerer),
            group,
            rebalancing,
            loads: Vec::new(),
        })
    }

    /// The current steering.
    pub(crate) fn current(&self) -> &Steering {
        self.group.as_ref().map_or(&self.planned, SteeredGroup::steering)
    }

    /// The check of the next worker, of this bucket if buckets are assigned to workers.
    pub(crate) fn check(&mut self, bucket: Option<Bucket>) -> Check {
        let loads = self.rebalancing.as_ref().map(|_| {
            let loads = Arc::new(Loads::new(self.planned.table.size()));
            self.loads.push(Arc::clone(&loads));
            loads
        });
        Check {
            bucket,
            steerer: Arc::clone(&self.steerer),
            checked: Arc::default(),
            loads,
        }
    }

    /// Moves entries if it is time to.
    pub(crate) fn look(&mut self) {
        let (Some(rebalancing), Some(group)) = (&mut self.rebalancing, &mut self.group) else {
            return;
        };
        let measure = || {
            let mut sum = EntryLoads::default();
            for loads in &self.loads {
                sum.add(loads.entries.iter().map(Counter::get), loads.samples.get());
            }
            sum
        };
        rebalancing.look(Instant::now(), group, measure);
    }

    /// What rebalancing moved.
    pub(crate) fn rebalanced(&self) -> Option<Rebalanced> {
        self.rebalancing
            .as_ref()
            .map(|rebalancing| rebalancing.done().clone())
    }
}
