//! The connections of one bucket: what the engine tells of them goes in, each goes on with its own part of it.

use super::access::Lines;
use super::connection::Connection;
use super::counters::{Fault, HttpCounters};
use super::exchange::Stamp;
use super::files::Files;
use super::output::Output;
use super::plan::HttpPlan;
use super::tls;
use crate::listeners;
use crate::service::Service;
use corelane_proto::http::request::{Head, Limits};
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

/// What all connections of a bucket use.
struct Parts {
    plan: Arc<HttpPlan>,
    head_limits: Limits,
    counters: Arc<CachePadded<HttpCounters>>,
    wheel: Wheel<Id>,
    stamp: Stamp,
    scratch: Vec<u8>,
    files: Option<Files>,
    log: Option<Lines>,
}

/// What a connection has to do with while it is at work.
pub(super) struct ConnectionContext<'a> {
    pub(super) plan: &'a HttpPlan,
    pub(super) head_limits: Limits,
    pub(super) counters: &'a HttpCounters,
    pub(super) wheel: &'a mut Wheel<Id>,
    pub(super) stamp: &'a mut Stamp,
    /// Where heads are put together.
    pub(super) scratch: &'a mut Vec<u8>,
    /// The folder that is served; none where objects are.
    pub(super) files: Option<&'a mut Files>,
    /// The access log; none where none is kept.
    log: Option<&'a mut Lines>,
    pub(super) now: Time,
    pub(super) out: Output<'a>,
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

impl ConnectionContext<'_> {
    /// Counts an answer by its status, which is what its line in the access log says.
    pub(super) fn count_status(&mut self, status: u16) {
        self.counters.count_status(status);
        let slot = self.out.plain().id.slot();
        if let Some(log) = &mut self.log {
            log.status(slot, status, self.now);
        }
    }

    /// A request's head was read: its line in the access log begins.
    pub(super) fn begin_line(&mut self, head: &Head<'_>) {
        let slot = self.out.plain().id.slot();
        if let Some(log) = &mut self.log {
            log.begin(slot, head, self.now);
        }
    }

    /// Adds what was queued of an answer's body to its line.
    fn add_to_line(&mut self) {
        let slot = self.out.plain().id.slot();
        if let Some(log) = &mut self.log {
            log.add(slot, self.out.take_body_bytes());
        }
    }

    /// The answer or the connection has ended, and with it the line.
    pub(super) fn end_line(&mut self) {
        self.add_to_line();
        let slot = self.out.plain().id.slot();
        if let Some(log) = &mut self.log {
            log.end(slot, self.now);
        }
    }
}

impl Parts {
    fn context<'a>(&'a mut self, out: Output<'a>, now: Time) -> ConnectionContext<'a> {
        ConnectionContext {
            plan: &self.plan,
            head_limits: self.head_limits,
            counters: &self.counters,
            wheel: &mut self.wheel,
            stamp: &mut self.stamp,
            scratch: &mut self.scratch,
            files: self.files.as_mut(),
            log: self.log.as_mut(),
            now,
            out,
        }
    }
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
