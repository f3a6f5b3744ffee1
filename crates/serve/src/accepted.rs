//! Compares the bucket that accepted each connection with the one that its hash selects, and the CPU that received it with
//! that of the bucket's worker.

use crate::service::Service;
use arc_swap::ArcSwap;
use corelane_rss::{Bucket, Steerer, Tuple};
use corelane_worker::engine::{Event, Handler, Id, Ops};
use corelane_worker::{CachePadded, Counter, Time};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The connections of one worker: written by it, readable by any thread.
#[derive(Debug, Default)]
pub(crate) struct Steered {
    /// Connections whose addresses are known.
    pub(crate) samples: Counter,
    /// Those that the current table assigns to the worker's bucket.
    pub(crate) right: Counter,
    /// Connections of which the kernel knows the CPU that received their last packet.
    pub(crate) received: Counter,
    /// Those received on the worker's CPU.
    pub(crate) local: Counter,
}

/// A service of connections that checks each as it is accepted: that costs a system call, on a wildcard address two.
pub(crate) struct Accepting<S> {
    pub(crate) service: S,
    pub(crate) bucket: Bucket,
    /// The CPU of the worker.
    pub(crate) cpu: u32,
    /// The listen address.
    pub(crate) address: SocketAddr,
    pub(crate) steerer: Arc<ArcSwap<Steerer>>,
    pub(crate) steered: Arc<CachePadded<Steered>>,
}

impl<S> Accepting<S> {
    fn check(&self, ops: &Ops, id: Id, peer: SocketAddr) {
        // On a wildcard address, each connection has its own.
        let own = match self.address.ip().is_unspecified() {
            true => ops.local_address(id),
            false => Some(self.address),
        };
        // The hash takes neither mapped addresses nor scopes.
        let on_wire = |at: SocketAddr| SocketAddr::new(at.ip().to_canonical(), at.port());
        if let Some(Ok(tuple)) = own.map(|own| Tuple::new(on_wire(peer), on_wire(own))) {
            let right = self.steerer.load().bucket_of(&tuple) == self.bucket;
            self.steered.samples.add(1);
            self.steered.right.add(u64::from(right));
        }
        // The kernel sets it when the handshake ends (`sk_clone_lock`).
        if let Some(cpu) = ops.incoming_cpu(id) {
            self.steered.received.add(1);
            self.steered.local.add(u64::from(cpu == self.cpu));
        }
    }
}

impl<S: Handler> Handler for Accepting<S> {
    fn event(&mut self, ops: &mut Ops, now: Time, id: Id, event: Event<'_>) {
        if let Event::Opened { peer, .. } = &event {
            self.check(ops, id, *peer);
        }
        self.service.event(ops, now, id, event);
    }
}

impl<S: Service> Service for Accepting<S> {
    fn begin(&mut self, ops: &mut Ops, now: Time, sockets: Vec<OwnedFd>) -> io::Result<()> {
        self.service.begin(ops, now, sockets)
    }

    fn next_due(&self) -> Time {
        self.service.next_due()
    }

    fn turned(&mut self, ops: &mut Ops, now: Time) {
        self.service.turned(ops, now);
    }

    fn is_done(&self, stopping: bool) -> bool {
        self.service.is_done(stopping)
    }

    fn shutdown(&mut self, ops: &mut Ops) {
        self.service.shutdown(ops);
    }
}
