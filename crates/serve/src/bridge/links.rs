//! Orders to workers, and restoring of lost links: closes them in all workers, reopens them when the device is back, and distributes the new
//! queues.
//!
//! All workers must close a link before it is reopened, because its queues share state on the device.

use super::document::Known;
use super::forward::Failure;
use crate::shared::lock;
use corelane_link::{AnyLink, Opener, share_out};
use corelane_rss::Bucket;
use corelane_stage::Way;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Interval between attempts to reopen a lost link: short enough that a device set down and up again is back quickly.
const TRY_EVERY: Duration = Duration::from_millis(100);

/// Report of a worker.
#[derive(Debug)]
pub(super) enum LinkEvent {
    /// A link failed; its queues are closed in this worker.
    Failed(Failure),
    /// A link's queues are closed in this worker, as ordered.
    Closed { link: usize },
}

/// Order to a worker.
pub(super) enum Order {
    /// Close the queues of a link.
    Close { link: usize },
    /// Install these queues of a restored link.
    Restore { link: usize, queues: Vec<AnyLink> },
    /// Run other stages from the next batch on, made of a new plan for each bucket.
    Replan(Box<dyn FnMut(Bucket) -> Way + Send>),
}

/// State of the thread.
pub(super) struct Keeper {
    /// Specifications to reopen a link with the same faults and capture.
    pub(super) openers: Vec<Opener>,
    pub(super) known: Known,
    /// Why the bridge cannot continue.
    pub(super) failure: Arc<OnceLock<String>>,
    pub(super) events: Receiver<LinkEvent>,
    pub(super) orders: Vec<Sender<Order>>,
    pub(super) stop: Arc<AtomicBool>,
}

impl Keeper {
    /// Runs until stopped.
    pub(super) fn run(self) {
        // By link: the number of workers that still have its queues, if it is lost; `None` if it is up.
        let mut holding: Vec<Option<usize>> = vec![None; self.openers.len()];
        while !self.stop.load(Ordering::Relaxed) {
            match self.events.recv_timeout(TRY_EVERY) {
                Ok(LinkEvent::Failed(Failure { error, .. })) if !error.is_lost() => {
                    let _ = self.failure.set(error.to_string());
                    return;
                }
                Ok(LinkEvent::Failed(Failure { link, error })) => {
                    if holding[link].is_none() {
                        let state = &mut lock(&self.known).links[link];
                        state.up = false;
                        state.lost += 1;
                        state.last_loss = Some(error.to_string());
                        holding[link] = Some(self.orders.len());
                        for worker in &self.orders {
                            let _ = worker.send(Order::Close { link });
                        }
                    }
                }
                Ok(LinkEvent::Closed { link }) => {
                    holding[link] = holding[link].map(|workers| workers.saturating_sub(1));
                }
                Err(RecvTimeoutError::Timeout) => {
                    for (link, holding) in holding.iter_mut().enumerate() {
                        if *holding == Some(0) && self.reopen(link) {
                            *holding = None;
                        }
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Reopens a link and distributes its queues; returns whether that succeeded.
    fn reopen(&self, link: usize) -> bool {
        let workers = self.orders.len();
        let opened = match self.openers[link].open() {
            Ok(opened) if opened.len() >= workers => Ok(opened),
            Ok(opened) => Err(format!("it has {} queues now, fewer than workers", opened.len())),
            Err(error) => Err(error.to_string()),
        };
        let state = &mut lock(&self.known).links[link];
        let opened = match opened {
            Ok(opened) => opened,
            Err(why) => {
                state.last_loss = Some(why);
                return false;
            }
        };
        state.up = true;
        state.returned += 1;
        state.queues = opened.len();
        for (order, queues) in self.orders.iter().zip(share_out(opened, workers)) {
            // A worker that ended needs no queues.
            let _ = order.send(Order::Restore { link, queues });
        }
        true
    }
}
