//! Main loop of a worker: forwards bursts, waits when idle, and executes orders concerning links.

use super::forward::Forwarder;
use super::links::{LinkEvent, Order};
use corelane_link::{AnyLink, Link, LinkError, QueueLoop};
use corelane_stage::Stage;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Instant;

/// One worker.
pub(super) struct BridgeWorker<S> {
    pub(super) forwarder: Forwarder<AnyLink, S>,
    pub(super) orders: Receiver<Order>,
    pub(super) events: Sender<LinkEvent>,
}

impl<S: Stage> BridgeWorker<S> {
    /// Runs until stopped, or until no link can receive another frame.
    pub(super) fn forward(mut self, stop: &AtomicBool) -> Result<(), LinkError> {
        self.run(stop)?;
        self.forwarder.end(Instant::now());
        self.rest()
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
}

/// A link that fails is reported, and the others go on.
impl<S: Stage> QueueLoop for BridgeWorker<S> {
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
        let open: Vec<&AnyLink> = self
            .forwarder
            .queues()
            .filter(|queue| !queue.is_ended())
            .collect();
        Ok(corelane_link::wait(open.iter().copied(), None))
    }
}
