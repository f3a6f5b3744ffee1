//! What the thread of one worker runs: bursts while they come, a wait when none does, and orders about links in between.

use super::classify::Classifier;
use super::forward::Forwarder;
use super::links::{News, Order};
use corelane_link::{AnyLink, Link};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

/// Turns without a frame before the worker waits: a poll costs about as much.
const IDLE_TURNS: u32 = 16;
/// How often links are asked whether they are there, and counts are published.
const REST_EVERY: Duration = Duration::from_millis(50);

/// One worker.
pub(super) struct BridgeWorker {
    pub(super) forwarder: Forwarder<AnyLink, Classifier>,
    pub(super) orders: Receiver<Order>,
    pub(super) news: Sender<News>,
    pub(super) stop: Arc<AtomicBool>,
}

impl BridgeWorker {
    /// Runs until it is asked to stop, or no link can have another frame.
    pub(super) fn run(mut self) {
        let mut idle = 0;
        let mut rested = Instant::now();
        while !self.stop.load(Ordering::Relaxed) {
            self.follow_orders();
            let came = self.forwarder.turn();
            self.report_failures();
            if came > 0 {
                idle = 0;
                if rested.elapsed() > REST_EVERY {
                    self.rest(&mut rested);
                }
                continue;
            }
            idle += 1;
            if idle < IDLE_TURNS {
                std::hint::spin_loop();
                continue;
            }
            if self.forwarder.is_ended() {
                break;
            }
            if self.wait() || rested.elapsed() > REST_EVERY {
                self.rest(&mut rested);
            }
        }
        self.rest(&mut rested);
    }

    fn rest(&mut self, rested: &mut Instant) {
        self.forwarder.rest();
        self.report_failures();
        *rested = Instant::now();
    }

    fn follow_orders(&mut self) {
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Close { link } => {
                    self.forwarder.close(link);
                    let _ = self.news.send(News::Closed { link });
                }
                Order::Restore { link, queues } => self.forwarder.restore(link, queues),
            }
        }
    }

    fn report_failures(&mut self) {
        for failure in self.forwarder.failures() {
            // Who listens is gone only when the bridge stops.
            let _ = self.news.send(News::Failed(failure));
        }
    }

    /// Waits until frames come, or a little while; says whether a link is in error.
    fn wait(&self) -> bool {
        let open: Vec<&AnyLink> = self
            .forwarder
            .queues()
            .filter(|queue| !queue.is_ended())
            .collect();
        corelane_link::wait(open.iter().copied())
    }
}
