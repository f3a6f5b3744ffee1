//! What a worker notes of its connections: whether the bucket that accepted each is the one that its hash selects, and
//! its CPU the one that received it; with a policy of rebalancing, the load of each entry of the table.

use crate::loads::Meter;
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

/// Load of opening and closing a connection; an event counts 1. They cost about two more system calls.
const CONNECTION_LOAD: u64 = 2;

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
    /// Counts the load of entries; `None` if nothing is rebalanced.
    pub(crate) meter: Option<Meter>,
    /// By slot, the entry of the connection, if its load is counted.
    pub(crate) entries: Vec<Option<u16>>,
}

impl<S> Accepting<S> {
    fn opened(&mut self, ops: &Ops, id: Id, peer: SocketAddr) {
        // On a wildcard address, each connection has its own.
        let own = match self.address.ip().is_unspecified() {
            true => ops.local_address(id),
            false => Some(self.address),
        };
        let hashed = own.and_then(|own| Tuple::new(peer, own).ok()).map(|tuple| {
            let steerer = self.steerer.load();
            let hash = steerer.hash_of(&tuple);
            (steerer.table().bucket(hash), steerer.table().entry(hash))
        });
        if let Some((bucket, _)) = hashed {
            self.steered.samples.add(1);
            self.steered.right.add(u64::from(bucket == self.bucket));
        }
        // The kernel sets it when the handshake ends (`sk_clone_lock`).
        if let Some(cpu) = ops.incoming_cpu(id) {
            self.steered.received.add(1);
            self.steered.local.add(u64::from(cpu == self.cpu));
        }
        if let Some(meter) = &self.meter {
            let (slot, entry) = (id.slot(), hashed.map(|(_, entry)| entry));
            if self.entries.len() <= slot {
                self.entries.resize(slot + 1, None);
            }
            self.entries[slot] = entry.map(|entry| entry as u16);
            if let Some(entry) = entry {
                meter.add(entry, CONNECTION_LOAD);
            }
        }
    }

    fn served(&self, id: Id) {
        if let Some(meter) = &self.meter
            && let Some(entry) = self.entries.get(id.slot()).copied().flatten()
        {
            meter.add(usize::from(entry), 1);
        }
    }
}

impl<S: Handler> Handler for Accepting<S> {
    fn event(&mut self, ops: &mut Ops, now: Time, id: Id, event: Event<'_>) {
        match &event {
            Event::Opened { peer, .. } => self.opened(ops, id, *peer),
            Event::Bytes(_) | Event::Drained => self.served(id),
            _ => {}
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
