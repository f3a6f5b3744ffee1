//! The connections of one bucket: dispatches engine events to connections.

use super::access::{Client, Lines};
use super::connection::Connection;
use super::context::{ConnectionContext, HttpCounters, Parts, Stamp};
use super::files::Files;
use super::output::Output;
use super::plan::HttpPlan;
use crate::service::Service;
use crate::streams;
use corelane_worker::engine::{Event, Handler, Id, Ops};
use corelane_worker::timers::Wheel;
use corelane_worker::tls::{Connections, Plaintext, ServerSettings};
use corelane_worker::{CachePadded, Time};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// One bucket.
pub struct Bucket {
    connections: Connections<Slot, ServerSettings>,
    parts: Parts,
}

/// A connection.
struct Slot {
    connection: Connection,
    /// Its access log lines, if enabled.
    client: Option<Box<Client>>,
}

impl Bucket {
    pub(super) fn new(
        plan: Arc<HttpPlan>,
        tls: Option<ServerSettings>,
        counters: Arc<CachePadded<HttpCounters>>,
        log: Option<Lines>,
    ) -> Self {
        Self {
            connections: Connections::new(tls),
            parts: Parts {
                head_limits: plan.limits.head(),
                plan,
                counters,
                wheel: Wheel::new(Time::default()),
                stamp: Stamp::new(Time::default()),
                scratch: Vec::new(),
                files: None,
                log,
            },
        }
    }

    /// The connection and its context; `None` for the listener.
    fn at_work<'a>(
        &'a mut self,
        ops: &'a mut Ops,
        now: Time,
        id: Id,
    ) -> Option<(&'a mut Connection, ConnectionContext<'a>)> {
        let (slot, channel) = self.connections.at(ops, id)?;
        let context = ConnectionContext {
            parts: &mut self.parts,
            now,
            out: Output::new(channel),
            client: slot.client.as_deref_mut(),
        };
        Some((&mut slot.connection, context))
    }

    fn opened(&mut self, ops: &mut Ops, id: Id, peer: SocketAddr) {
        let slot = Slot {
            connection: Connection::new(),
            client: self.parts.log.as_ref().map(|_| Box::new(Client::new(peer.ip()))),
        };
        if self.connections.open(ops, id, slot).is_err() {
            self.parts.counters.count_fault("tls");
        }
    }

    /// Handles bytes received over TLS.
    fn decrypt(&mut self, ops: &mut Ops, now: Time, id: Id, bytes: &[u8]) {
        let Some(received) = self.connections.receive(ops, id, bytes) else {
            return;
        };
        if let Some((connection, mut context)) = self.at_work(ops, now, id) {
            for event in received.events() {
                match event {
                    Plaintext::Opened(kind) => {
                        context.parts.counters.handshakes.count(kind);
                        connection.open(&mut context);
                    }
                    Plaintext::Bytes(bytes) => connection.receive(bytes, &mut context),
                    Plaintext::Ended => connection.peer_closed(&mut context),
                    Plaintext::Failed(_) => {
                        context.parts.counters.count_fault("tls");
                        context.out.close_at_once();
                    }
                }
            }
            context.add_to_line();
        }
        self.connections.recycle(received);
    }
}

impl Handler for Bucket {
    fn event(&mut self, ops: &mut Ops, now: Time, id: Id, event: Event<'_>) {
        match event {
            Event::Opened { peer: Some(peer), .. } => self.opened(ops, id, peer),
            Event::Bytes(bytes) if self.connections.are_encrypted() => {
                return self.decrypt(ops, now, id, bytes);
            }
            _ => {}
        }
        let Some((connection, mut context)) = self.at_work(ops, now, id) else {
            return;
        };
        match event {
            Event::Opened { .. } => connection.open(&mut context),
            Event::Bytes(bytes) => connection.receive(bytes, &mut context),
            Event::Drained => connection.drained(&mut context),
            Event::PeerClosed => connection.peer_closed(&mut context),
            Event::Closed(_) => {
                connection.end(&mut context);
                self.connections.remove(id);
                return;
            }
            _ => {}
        }
        context.add_to_line();
    }
}

impl Service for Bucket {
    fn begin(&mut self, ops: &mut Ops, now: Time, sockets: Vec<OwnedFd>) -> io::Result<()> {
        streams::register(ops, sockets)?;
        self.parts.wheel = Wheel::new(now);
        self.parts.stamp = Stamp::new(now);
        if let Some(root) = &self.parts.plan.root {
            // Opened here, because the worker may have its own descriptor table.
            let error =
                |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", root.display()));
            self.parts.files = Some(Files::open(root).map_err(error)?);
        }
        Ok(())
    }

    fn next_due(&self) -> Time {
        self.parts.wheel.next_due()
    }

    fn turned(&mut self, ops: &mut Ops, now: Time) {
        while let Some(id) = self.parts.wheel.expired(now) {
            if let Some((connection, mut context)) = self.at_work(ops, now, id) {
                connection.fired(&mut context);
                context.add_to_line();
            }
        }
    }

    fn shutdown(&mut self, ops: &mut Ops) {
        self.connections.for_each(ops, |slot, channel| {
            slot.connection.shutdown(Output::new(channel));
        });
    }
}

#[cfg(test)]
mod files_tests;
#[cfg(test)]
mod tests;
