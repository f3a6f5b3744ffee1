//! Brings lost links back: takes them from all workers, opens them again when their device is there, and hands out the new
//! queues.
//!
//! All workers have to close a link before it is opened again, because its queues share what is on the device.

use corelane_link::{AnyLink, Opener, share_out};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often a lost link is tried: soon enough that a device set down and up again is back before anyone looks.
const TRY_EVERY: Duration = Duration::from_millis(100);

/// What a worker tells.
#[derive(Debug)]
pub(super) enum News {
    /// A link failed; its queues are closed here.
    Failed { link: usize, lost: bool, why: String },
    /// A link's queues are closed here, as ordered.
    Closed { link: usize },
}

/// What a worker is told.
pub(super) enum Order {
    /// Close the queues of a link.
    Close { link: usize },
    /// Take these queues of a link that is back.
    Restore { link: usize, queues: Vec<AnyLink> },
}

/// What is known of one link.
#[derive(Debug, Clone, Default)]
pub(super) struct LinkState {
    pub(super) queues: usize,
    pub(super) up: bool,
    /// Times that it was lost.
    pub(super) lost: u64,
    /// Times that it came back.
    pub(super) returned: u64,
    pub(super) last_loss: Option<String>,
}

/// What is known of all links, and what ended the bridge if something did.
#[derive(Debug, Clone, Default)]
pub(super) struct LinkStates(Arc<Mutex<(Vec<LinkState>, Option<String>)>>);

impl LinkStates {
    pub(super) fn new(queues: impl Iterator<Item = usize>) -> LinkStates {
        let up = |queues| LinkState {
            queues,
            up: true,
            ..LinkState::default()
        };
        LinkStates(Arc::new(Mutex::new((queues.map(up).collect(), None))))
    }

    pub(super) fn read(&self) -> Vec<LinkState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Why the bridge cannot go on.
    pub(super) fn failure(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    fn change(&self, link: usize, change: impl FnOnce(&mut LinkState)) {
        let mut states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = states.0.get_mut(link) {
            change(state);
        }
    }

    fn fail(&self, why: String) {
        let mut states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        states.1.get_or_insert(why);
    }
}

/// The thread's own view.
pub(super) struct Keeper {
    /// They open a link again with the faults and the capture that it had.
    pub(super) openers: Vec<Opener>,
    pub(super) states: LinkStates,
    pub(super) news: Receiver<News>,
    pub(super) orders: Vec<Sender<Order>>,
    pub(super) stop: Arc<AtomicBool>,
}

impl Keeper {
    /// Runs until it is told to stop.
    pub(super) fn run(self) {
        // Of each lost link, how many workers still have its queues; none: it is up.
        let mut holding: Vec<Option<usize>> = vec![None; self.openers.len()];
        while !self.stop.load(Ordering::Relaxed) {
            match self.news.recv_timeout(TRY_EVERY) {
                Ok(News::Failed { lost: false, why, .. }) => {
                    self.states.fail(why);
                    return;
                }
                Ok(News::Failed { link, why, .. }) => {
                    if holding[link].is_none() {
                        self.states.change(link, |state| {
                            state.up = false;
                            state.lost += 1;
                            state.last_loss = Some(why);
                        });
                        holding[link] = Some(self.orders.len());
                        self.order_all(|| Order::Close { link });
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
        let opened = match self.openers[link].open() {
            Ok(opened) => opened,
            Err(error) => {
                self.states
                    .change(link, |state| state.last_loss = Some(error.to_string()));
                return false;
            }
        };
        if opened.len() < self.orders.len() {
            let why = format!("it has {} queues now, fewer than workers", opened.len());
            self.states.change(link, |state| state.last_loss = Some(why));
            return false;
        }
        self.states.change(link, |state| {
            state.up = true;
            state.returned += 1;
            state.queues = opened.len();
        });
        for (order, queues) in self.orders.iter().zip(share_out(opened, self.orders.len())) {
            // A worker that ended needs no queues.
            let _ = order.send(Order::Restore { link, queues });
        }
        true
    }

    fn order_all(&self, order: impl Fn() -> Order) {
        for worker in &self.orders {
            let _ = worker.send(order());
        }
    }
}
