//! Brings lost links back: takes them from all workers, opens them again when their device is there, and hands out the new
//! queues.
//!
//! All workers have to close a link before it is opened again, because its queues share what is on the device.

use super::document::Known;
use super::forward::Failure;
use corelane_link::{AnyLink, Opener, share_out};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How often a lost link is tried: soon enough that a device set down and up again is back before anyone looks.
const TRY_EVERY: Duration = Duration::from_millis(100);

/// What a worker reports.
#[derive(Debug)]
pub(super) enum News {
    /// A link failed; its queues are closed here.
    Failed(Failure),
    /// A link's queues are closed here, as ordered.
    Closed { link: usize },
}

/// What a worker is ordered.
pub(super) enum Order {
    /// Close the queues of a link.
    Close { link: usize },
    /// Take these queues of a link that is back.
    Restore { link: usize, queues: Vec<AnyLink> },
}

/// The thread's own view.
pub(super) struct Keeper {
    /// They open a link again with the faults and the capture that it had.
    pub(super) openers: Vec<Opener>,
    pub(super) known: Known,
    /// Why the bridge cannot go on.
    pub(super) failure: Arc<OnceLock<String>>,
    pub(super) news: Receiver<News>,
    pub(super) orders: Vec<Sender<Order>>,
    pub(super) stop: Arc<AtomicBool>,
}

impl Keeper {
    /// Runs until it is asked to stop.
    pub(super) fn run(self) {
        // Of each lost link, how many workers still have its queues; none: it is up.
        let mut holding: Vec<Option<usize>> = vec![None; self.openers.len()];
        while !self.stop.load(Ordering::Relaxed) {
            match self.news.recv_timeout(TRY_EVERY) {
                Ok(News::Failed(Failure { error, .. })) if !error.is_lost() => {
                    let _ = self.failure.set(error.to_string());
                    return;
                }
                Ok(News::Failed(Failure { link, error })) => {
                    if holding[link].is_none() {
                        let state = &mut self.known.lock().links[link];
                        state.up = false;
                        state.lost += 1;
                        state.last_loss = Some(error.to_string());
                        holding[link] = Some(self.orders.len());
                        for worker in &self.orders {
                            let _ = worker.send(Order::Close { link });
                        }
                    }
                }
                Ok(News::Closed { link }) => {
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

    /// Opens a link again and hands out its queues; says whether that was possible.
    fn reopen(&self, link: usize) -> bool {
        let workers = self.orders.len();
        let opened = match self.openers[link].open() {
            Ok(opened) if opened.len() >= workers => Ok(opened),
            Ok(opened) => Err(format!("it has {} queues now, fewer than workers", opened.len())),
            Err(error) => Err(error.to_string()),
        };
        let state = &mut self.known.lock().links[link];
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
