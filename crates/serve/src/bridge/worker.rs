//! Main loop of a worker: forwards bursts, waits when idle, and executes orders concerning links.

use super::classify::Classifier;
use super::forward::Forwarder;
use super::links::{LinkEvent, Order};
use corelane_link::{AnyLink, Link};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

/// Idle turns before the worker waits: a poll costs about as much.
const IDLE_TURNS: u32 = 16;
/// Interval between link checks, and between publications of counters.
const REST_EVERY: Duration = Duration::from_millis(50);

/// One worker.
pub(super) struct BridgeWorker {
    pub(super) forwarder: Forwarder<AnyLink, Classifier>,
    pub(super) orders: Receiver<Order>,
    pub(super) events: Sender<LinkEvent>,
    pub(super) stop: Arc<AtomicBool>,
}

impl BridgeWorker {
    /// Runs until stopped, or until no link can receive another frame.
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
                    let _ = self.events.send(LinkEvent::Closed { link });
                }
                Order::Restore { link, queues } => self.forwarder.restore(link, queues),
            }
        }
    }

    fn report_failures(&mut self) {
        for failure in self.forwarder.failures() {
            // The receiver is only dropped when the bridge stops.
            let _ = self.events.send(LinkEvent::Failed(failure));
        }
    }

    /// Waits for frames, up to a time limit; returns whether a link has an error.
    fn wait(&self) -> bool {
        let open: Vec<&AnyLink> = self
            .forwarder
            .queues()
            .filter(|queue| !queue.is_ended())
            .collect();
        corelane_link::wait(open.iter().copied())
    }
}
