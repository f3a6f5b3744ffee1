//! Changes a running bridge: reads tables again, and takes another plan, which every worker runs from its next batch on.

use super::check;
use super::document::{Dispatched, Known};
use super::error::BridgeError;
use super::links::Order;
use super::lists::Lists;
use super::plan::BridgePlan;
use super::ways::Ways;
use crate::shared::lock;
use corelane_stage::dispatch::Workstreams;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// How often the thread looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(20);

/// What is to be done.
pub(super) enum Request {
    /// Read all tables again.
    Reload,
    /// Read all tables again, and take this plan, or count why there is none.
    Replan(Result<Box<BridgePlan>, String>),
}

/// State of the thread.
pub(super) struct Planner {
    /// The plan that runs.
    pub(super) plan: BridgePlan,
    pub(super) lists: Lists,
    pub(super) known: Known,
    pub(super) streams: Option<Arc<Workstreams>>,
    /// By worker.
    pub(super) workers: Vec<(Ways, Sender<Order>)>,
    pub(super) requests: Receiver<Request>,
}

impl Planner {
    /// Runs until stopped.
    pub(super) fn run(mut self, stop: &AtomicBool) {
        let most_waiting = self.limit();
        let mut looked = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let request = match self.requests.recv_timeout(LOOK) {
                Ok(request) => Some(request),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let is_due = |every| looked.elapsed() >= every;
            if request.is_some() || self.plan.reload_every.is_some_and(is_due) {
                self.lists.refresh(request.is_some());
                looked = Instant::now();
            }
            if let Some(Request::Replan(plan)) = request {
                let taken =
                    plan.and_then(|plan| self.take(*plan, most_waiting).map_err(|error| error.to_string()));
                let known = &mut lock(&self.known);
                match taken {
                    Ok(()) => known.plans_taken += 1,
                    Err(why) => {
                        known.plans_refused += 1;
                        known.last_plan_refusal = Some(why);
                    }
                }
            }
        }
    }

    fn limit(&self) -> u32 {
        let buckets = self.plan.buckets.as_ref();
        buckets.map_or(0, |buckets| buckets.dispatch.limit)
    }

    /// Takes a plan, or leaves everything as it is. The mailboxes have been made for queues of `most_waiting` frames.
    fn take(&mut self, mut plan: BridgePlan, most_waiting: u32) -> Result<(), BridgeError> {
        plan.check()?;
        self.plan.check_change(&plan)?;
        // Not read again: what their associations have received stays refused.
        if let (Some(now), Some(next)) = (&self.plan.stages.decapsulate, &mut plan.stages.decapsulate) {
            next.keys.clone_from(&now.keys);
        }
        let read = self.lists.read_new(&plan)?;
        let limit = plan.buckets.as_ref().map(|buckets| buckets.dispatch.limit);
        if let Some(limit) = limit.filter(|limit| *limit > most_waiting) {
            let why = format!("a queue limit of {limit}: the bridge was started for at most {most_waiting}");
            return check::refused("dispatch", why);
        }
        // The document has the tables and the counts of one plan.
        let mut known = lock(&self.known);
        self.lists.take(&plan, read, &mut known.tables);
        known.dispatch = Dispatched::planned(&plan);
        if let Some((streams, limit)) = self.streams.as_ref().zip(limit) {
            streams.set_limit(limit);
        }
        for (worker, (ways, orders)) in self.workers.iter().enumerate() {
            let stages = ways.by(&plan, self.lists.rules(worker));
            // A worker that ended runs no stages.
            let _ = orders.send(Order::Replan(Box::new(stages)));
        }
        self.plan = plan;
        Ok(())
    }
}
