//! Main loop of a worker: forwards bursts, waits when idle, and executes orders.

use super::forward::Forwarder;
use super::links::{LinkEvent, Order};
use corelane_link::{AnyLink, LinkError, QueueLoop};
use corelane_stage::Way;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Instant;

/// How often a worker that stops waits for others, of whom one may have failed: 20 ms each.
const LAST_WAITS: u32 = 100;

/// One worker.
pub(super) struct BridgeWorker {
    pub(super) forwarder: Forwarder<AnyLink, Way>,
    pub(super) orders: Receiver<Order>,
    pub(super) events: Sender<LinkEvent>,
}

impl BridgeWorker {
    /// Runs until stopped, or until no link can receive another frame.
    pub(super) fn forward(mut self, stop: &AtomicBool) -> Result<(), LinkError> {
        self.run(stop)?;
        self.drain();
        self.forwarder.end(Instant::now());
        self.rest()
    }

    /// Forwards what other workers still hand over.
    fn drain(&mut self) {
        self.forwarder.receives_no_more();
        let mut waits = 0;
        while !self.forwarder.mail_is_over() && waits < LAST_WAITS {
            if self.forwarder.take_mail(Instant::now()) == 0 {
                self.forwarder.wait(false);
                waits += 1;
            }
        }
    }

    fn follow_orders(&mut self) {
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Close { link } => {
                    self.forwarder.close(link);
                    let _ = self.events.send(LinkEvent::Closed { link });
                }
                Order::Restore { link, queues } => self.forwarder.restore(link, queues),
                Order::Replan(stages) => self.forwarder.replan(stages),
            }
        }
    }

    fn report_failures(&mut self) {
        for failure in self.forwarder.failures() {
            // The receiver is only dropped when the bridge stops.
            let _ = self.events.send(LinkEvent::Failed(failure));
        }
    }
}

/// A link that fails is reported, and the others go on.
impl QueueLoop for BridgeWorker {
    fn turn(&mut self, now: Instant) -> Result<usize, LinkError> {
        self.follow_orders();
        let came = self.forwarder.turn(now);
        self.report_failures();
        Ok(came)
    }

    fn rest(&mut self) -> Result<(), LinkError> {
        self.forwarder.rest();
        self.report_failures();
        Ok(())
    }

    fn is_over(&self, _stopping: bool) -> bool {
        self.forwarder.is_ended()
    }

    fn wait(&mut self) -> Result<bool, LinkError> {
        Ok(self.forwarder.wait(true))
    }
}
