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
    connections: Vec<Option<Connection>>,
    parts: Parts,
    tls: Option<Arc<ServerConfig>>,
    /// With TLS, one a connection, in its slot.
    sessions: Vec<Option<Box<ServerConnection>>>,
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
pub(super) struct Room<'a> {
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
            connections: Vec::new(),
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
            sessions: Vec::new(),
        }
    }

    /// The connection and the room it works in; none for the listener.
    fn at_work<'a>(
        &'a mut self,
        ops: &'a mut Ops,
        now: Time,
        id: Id,
    ) -> Option<(&'a mut Connection, Room<'a>)> {
        let connection = self.connections.get_mut(id.slot())?.as_mut()?;
        let session = self.sessions.get_mut(id.slot()).and_then(Option::as_deref_mut);
        Some((connection, self.parts.room(Output::new(ops, id, session), now)))
    }
}

impl Bucket {
    fn opened(&mut self, ops: &mut Ops, id: Id, peer: SocketAddr) {
        let slot = id.slot();
        if let Some(log) = &mut self.parts.log {
            log.opened(slot, peer.ip());
        }
        if self.connections.len() <= slot {
            self.connections.resize_with(slot + 1, || None);
        }
        self.connections[slot] = Some(Connection::new(id));
        let Some(configuration) = &self.tls else { return };
        if self.sessions.len() <= slot {
            self.sessions.resize_with(slot + 1, || None);
        }
        match tls::session(configuration) {
            Ok(session) => self.sessions[slot] = Some(session),
            Err(_) => {
                self.parts.counters.count_fault(Fault::Tls);
                ops.abort(id);
            }
        }
    }
}

/// Feeds a connection through its session: what arrived is decrypted, and what was answered on the way handed on.
fn decrypt(connection: &mut Connection, mut bytes: &[u8], room: &mut Room<'_>) {
    /// A record of TLS holds so much at most (RFC 8446 5.1).
    const RECORD: usize = 16_384;
    let mut plain = [0; RECORD];
    while !bytes.is_empty() {
        let Some(session) = room.out.session() else { return };
        let before = session.is_handshaking();
        let fed = session.read_tls(&mut bytes).map(|_| ());
        let taken = fed.is_ok().then(|| session.process_new_packets());
        if before && !session.is_handshaking() {
            room.counters.count_handshake(session.handshake_kind());
        }
        if !matches!(taken, Some(Ok(_))) {
            // What the session has to say of it is still sent.
            room.out.flush();
            room.counters.count_fault(Fault::Tls);
            room.out.ops.close(connection.id);
            return;
        }
        loop {
            let Some(session) = room.out.session() else { return };
            match session.reader().read(&mut plain) {
                Ok(0) => {
                    connection.peer_closed(room);
                    room.out.flush();
                    return;
                }
                Ok(read) => connection.receive(&plain[..read], room),
                Err(_) => break,
            }
        }
    }
    room.out.flush();
}

impl Room<'_> {
    /// Counts an answer by its status, which is what its line in the access log says.
    pub(super) fn count_status(&mut self, status: u16) {
        self.counters.count_status(status);
        if let Some(log) = &mut self.log {
            log.status(self.out.id.slot(), status, self.now);
        }
    }

    /// A request's head was read: its line in the access log begins.
    pub(super) fn begin_line(&mut self, head: &Head<'_>) {
        if let Some(log) = &mut self.log {
            log.begin(self.out.id.slot(), head, self.now);
        }
    }

    /// Adds what was queued of an answer's body to its line.
    fn add_to_line(&mut self) {
        if let Some(log) = &mut self.log {
            log.add(self.out.id.slot(), self.out.take_body_bytes());
        }
    }

    /// The answer or the connection has ended, and with it the line.
    pub(super) fn end_line(&mut self) {
        self.add_to_line();
        if let Some(log) = &mut self.log {
            log.end(self.out.id.slot(), self.now);
        }
    }
}

impl Parts {
    fn room<'a>(&'a mut self, out: Output<'a>, now: Time) -> Room<'a> {
        Room {
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
        let Some((connection, mut room)) = self.at_work(ops, now, id) else {
            return;
        };
        match event {
            Event::Opened { .. } => connection.open(&mut room),
            Event::Bytes(bytes) if room.out.session().is_some() => decrypt(connection, bytes, &mut room),
            Event::Bytes(bytes) => connection.receive(bytes, &mut room),
            Event::Drained => connection.drained(&mut room),
            Event::PeerClosed => connection.peer_closed(&mut room),
            Event::Closed(_) => {
                connection.end(&mut room);
                self.connections[id.slot()] = None;
                if let Some(session) = self.sessions.get_mut(id.slot()) {
                    *session = None;
                }
                return;
            }
            _ => {}
        }
        room.add_to_line();
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
            if let Some((connection, mut room)) = self.at_work(ops, now, id) {
                connection.fired(&mut room);
                room.add_to_line();
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
        for (connection, session) in self.connections.iter().zip(&mut self.sessions) {
            if let Some(connection) = connection {
                connection.take_leave(&mut Output::new(ops, connection.id, session.as_deref_mut()));
            }
        }
    }
}

#[cfg(test)]
mod slow_clients;
