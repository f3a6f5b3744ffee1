//! The connections of one bucket: what the engine tells of them goes in, each goes on with its own part of it.

use super::access::Lines;
use super::connection::Connection;
use super::context::{ConnectionContext, Parts};
use super::counters::{Fault, HttpCounters};
use super::exchange::Stamp;
use super::files::Files;
use super::output::Output;
use super::plan::HttpPlan;
use super::tls;
use crate::listeners;
use crate::service::Service;
use corelane_worker::engine::{Event, Handler, Id, Ops};
use corelane_worker::timers::Wheel;
use corelane_worker::{CachePadded, Time};
use rustls::{ServerConfig, ServerConnection};
use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// One bucket.
pub(super) struct Bucket {
    slots: Vec<Option<Slot>>,
    parts: Parts,
    tls: Option<Arc<ServerConfig>>,
}

/// A connection, and its session if it has one.
struct Slot {
    connection: Connection,
    session: Option<Box<ServerConnection>>,
}

impl Bucket {
    pub(super) fn new(
        plan: Arc<HttpPlan>,
        tls: Option<Arc<ServerConfig>>,
        counters: Arc<CachePadded<HttpCounters>>,
        log: Option<Lines>,
    ) -> Self {
        Self {
            slots: Vec::new(),
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
            tls,
        }
    }

    /// The connection and its context; none for the listener.
    fn at_work<'a>(
        &'a mut self,
        ops: &'a mut Ops,
        now: Time,
        id: Id,
    ) -> Option<(&'a mut Connection, ConnectionContext<'a>)> {
        let slot = self.slots.get_mut(id.slot())?.as_mut()?;
        let out = Output::new(ops, id, slot.session.as_deref_mut());
        Some((&mut slot.connection, self.parts.context(out, now)))
    }
}

impl Bucket {
    fn opened(&mut self, ops: &mut Ops, id: Id, peer: SocketAddr) {
        let slot = id.slot();
        if let Some(log) = &mut self.parts.log {
            log.opened(slot, peer.ip());
        }
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, || None);
        }
        let session = match self.tls.as_ref().map(tls::session).transpose() {
            Ok(session) => session,
            Err(_) => {
                self.parts.counters.count_fault(Fault::Tls);
                ops.abort(id);
                None
            }
        };
        self.slots[slot] = Some(Slot {
            connection: Connection::new(id),
            session,
        });
    }
}

/// Feeds a connection through its session: what arrived is decrypted, and what was answered on the way handed on.
fn decrypt(connection: &mut Connection, mut bytes: &[u8], context: &mut ConnectionContext<'_>) {
    /// A record of TLS holds so much at most (RFC 8446 5.1).
    const RECORD: usize = 16_384;
    let mut plain = [0; RECORD];
    while !bytes.is_empty() {
        let Some(session) = context.out.session() else {
            return;
        };
        let before = session.is_handshaking();
        let fed = session.read_tls(&mut bytes).map(|_| ());
        let taken = fed.is_ok().then(|| session.process_new_packets());
        if before && !session.is_handshaking() {
            context.counters.count_handshake(session.handshake_kind());
        }
        if !matches!(taken, Some(Ok(_))) {
            // What the session has to say of it is still sent.
            context.out.flush();
            context.counters.count_fault(Fault::Tls);
            context.out.close_at_once();
            return;
        }
        loop {
            let Some(session) = context.out.session() else {
                return;
            };
            match session.reader().read(&mut plain) {
                Ok(0) => {
                    connection.peer_closed(context);
                    context.out.flush();
                    return;
                }
                Ok(read) => connection.receive(&plain[..read], context),
                Err(_) => break,
            }
        }
    }
    context.out.flush();
}

impl Handler for Bucket {
    fn event(&mut self, ops: &mut Ops, now: Time, id: Id, event: Event<'_>) {
        if let Event::Opened { peer, .. } = event {
            self.opened(ops, id, peer);
        }
        let Some((connection, mut context)) = self.at_work(ops, now, id) else {
            return;
        };
        match event {
            Event::Opened { .. } => connection.open(&mut context),
            Event::Bytes(bytes) if context.out.session().is_some() => {
                decrypt(connection, bytes, &mut context);
            }
            Event::Bytes(bytes) => connection.receive(bytes, &mut context),
            Event::Drained => connection.drained(&mut context),
            Event::PeerClosed => connection.peer_closed(&mut context),
            Event::Closed(_) => {
                connection.end(&mut context);
                self.slots[id.slot()] = None;
                return;
            }
            _ => {}
        }
        context.add_to_line();
    }
}

impl Service for Bucket {
    fn begin(&mut self, ops: &mut Ops, now: Time, sockets: Vec<OwnedFd>) -> io::Result<()> {
        listeners::register(ops, sockets)?;
        self.parts.wheel = Wheel::new(now);
        self.parts.stamp = Stamp::new(now);
        if let Some(log) = &mut self.parts.log {
            log.set_clock(self.parts.stamp.offset());
        }
        if let Some(root) = &self.parts.plan.root {
            // Here, as the worker may have a descriptor table of its own.
            let told =
                |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", root.display()));
            self.parts.files = Some(Files::open(root).map_err(told)?);
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
        if let Some(log) = &mut self.parts.log {
            log.hand_over();
        }
    }

    fn publish(&mut self, ops: &Ops, _last: bool) {
        self.parts.counters.publish(&ops.counters());
    }

    fn shutdown(&mut self, ops: &mut Ops) {
        for slot in self.slots.iter_mut().flatten() {
            let id = slot.connection.id;
            let session = slot.session.as_deref_mut();
            slot.connection.shutdown(&mut Output::new(ops, id, session));
        }
    }
}

#[cfg(test)]
mod slow_clients;
