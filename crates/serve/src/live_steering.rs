//! The steering of a running server: its current table, and what moves entries of it.

use crate::loads::{Balance, Meter};
use crate::server::ServeError;
use corelane_rss::balance::Policy;
use corelane_rss::{Steerer, Steering};
use corelane_worker::rebalancing::{Rebalanced, Rebalancing};
use corelane_worker::steered::{Moved, SteeredGroup};
use std::sync::Arc;

/// The steering of a running server.
pub(crate) struct LiveSteering {
    planned: Steering,
    /// `None` without a steering program.
    pub(crate) group: Option<SteeredGroup>,
    /// `None` if the table stays as it is.
    balance: Option<Balance>,
}

impl LiveSteering {
    /// Steering as `planned`, of this group of sockets if a program steers. `changed` gets the steerer of each new
    /// table.
    pub(crate) fn new(
        planned: &Steering,
        rebalance: Option<Policy>,
        mut group: Option<SteeredGroup>,
        changed: impl Fn(Arc<Steerer>) + Send + 'static,
    ) -> Result<Self, ServeError> {
        if let Some(group) = &mut group {
            group.on_move(move |moved: &Moved<'_>| changed(Arc::new(moved.steering.steerer())));
        }
        Ok(Self {
            planned: planned.clone(),
            balance: Balance::new(rebalance, group.as_ref())?,
            group,
        })
    }

    /// The current steering.
    pub(crate) fn current(&self) -> &Steering {
        self.group.as_ref().map_or(&self.planned, SteeredGroup::steering)
    }

    /// The meter of the next worker, if the table is rebalanced.
    pub(crate) fn meter(&mut self) -> Option<Meter> {
        self.balance.as_mut().map(Balance::meter)
    }

    /// Moves entries if it is time to.
    pub(crate) fn look(&mut self) {
        if let (Some(balance), Some(group)) = (&mut self.balance, &mut self.group) {
            balance.look(group);
        }
    }

    /// What rebalances the table.
    pub(crate) fn rebalancing(&mut self) -> Option<&mut Rebalancing> {
        self.balance.as_mut().map(|balance| &mut balance.rebalancing)
    }

    /// What rebalancing moved.
    pub(crate) fn rebalanced(&self) -> Option<Rebalanced> {
        let balance = self.balance.as_ref();
        balance.map(|balance| balance.rebalancing.done().clone())
    }
}
