//! The connections of one bucket: dispatches engine events to connections.

use super::access::{Client, Lines};
use super::connection::Connection;
use super::context::{ConnectionContext, HttpCounters, Parts, Stamp};
use super::files::Files;
use super::output::{Output, Sealing};
use super::plan::HttpPlan;
use super::tls::{self, Session};
use crate::service::Service;
use crate::streams;
use corelane_worker::engine::{Event, Handler, Id, Ops};
use corelane_worker::timers::Wheel;
use corelane_worker::{CachePadded, Time};
use rustls::ServerConfig;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// One bucket.
pub struct Bucket {
    slots: Vec<Option<Slot>>,
    parts: Parts,
    /// `None` for plaintext.
    tls: Option<Arc<ServerConfig>>,
    sealing: Sealing,
}

/// A connection, and its TLS session if any.
struct Slot {
    connection: Connection,
    session: Option<Box<Session>>,
    /// Its access log lines, if enabled.
    client: Option<Box<Client>>,
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
            sealing: Sealing::default(),
        }
    }

    /// The connection and its context; `None` for the listener.
    fn at_work<'a>(
        &'a mut self,
        ops: &'a mut Ops,
        now: Time,
        id: Id,
    ) -> Option<(&'a mut Connection, ConnectionContext<'a>)> {
        let slot = self.slots.get_mut(id.slot())?.as_mut()?;
        let context = ConnectionContext {
            parts: &mut self.parts,
            now,
            out: Output::new(ops, id, slot.session.as_deref_mut(), &mut self.sealing),
            client: slot.client.as_deref_mut(),
        };
        Some((&mut slot.connection, context))
    }

    fn opened(&mut self, ops: &mut Ops, id: Id, peer: SocketAddr) {
        let slot = id.slot();
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, || None);
        }
        let session = match self.tls.as_ref().map(tls::session).transpose() {
            Ok(session) => session,
            Err(_) => {
                self.parts.counters.count_fault("tls");
                ops.abort(id);
                None
            }
        };
        self.slots[slot] = Some(Slot {
            connection: Connection::new(id),
            session,
            client: self.parts.log.as_ref().map(|_| Box::new(Client::new(peer.ip()))),
        });
    }

    /// Passes received bytes through the TLS session: decrypts them, and sends what the session produces.
    fn decrypt(&mut self, ops: &mut Ops, now: Time, id: Id, bytes: &[u8]) {
        let slot = self.slots.get_mut(id.slot()).and_then(Option::as_mut);
        let Some(session) = slot.and_then(|slot| slot.session.as_deref_mut()) else {
            return;
        };
        let received = session.receive(bytes, &mut self.sealing.buffers);
        let mut plain = std::mem::take(&mut self.sealing.buffers.plain);
        if let Some((connection, mut context)) = self.at_work(ops, now, id) {
            context.out.flush();
            match received {
                Ok(news) => {
                    if let Some(kind) = news.opened {
                        context.parts.counters.count_handshake(kind);
                        connection.open(&mut context);
                    }
                    if !plain.is_empty() {
                        connection.receive(&plain, &mut context);
                    }
                    if news.ended {
                        connection.peer_closed(&mut context);
                    }
                }
                Err(_) => {
                    context.parts.counters.count_fault("tls");
                    context.out.close_at_once();
                }
            }
            context.add_to_line();
        }
        plain.clear();
        self.sealing.buffers.plain = plain;
    }
}

impl Handler for Bucket {
    fn event(&mut self, ops: &mut Ops, now: Time, id: Id, event: Event<'_>) {
        match event {
            Event::Opened { peer, .. } => self.opened(ops, id, peer),
            Event::Bytes(bytes) if self.tls.is_some() => return self.decrypt(ops, now, id, bytes),
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
        streams::register(ops, sockets)?;
        self.parts.wheel = Wheel::new(now);
        self.parts.stamp = Stamp::new(now);
        if let Some(log) = &mut self.parts.log {
            log.offset = self.parts.stamp.offset;
        }
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
        for slot in self.slots.iter_mut().flatten() {
            let id = slot.connection.id;
            let session = slot.session.as_deref_mut();
            let mut out = Output::new(ops, id, session, &mut self.sealing);
            slot.connection.shutdown(&mut out);
        }
    }
}

#[cfg(test)]
mod slow_clients;
