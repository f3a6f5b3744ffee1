//! What a worker does with connections over TLS: shakes hands before the first request, decrypts what comes and encrypts
//! what goes. Everything in between is as on plain connections.

use super::connection::State;
use super::generator::Generator;
use super::tls::session::Session;
use crate::failure::Failure;
use corelane_worker::Time;
use corelane_worker::engine::{Id, Ops};
use std::time::Duration;

/// How long a server has to close a connection on which it was told why, or has said itself that nothing follows.
const LINGER: Duration = Duration::from_secs(1);

impl Generator {
    /// The TCP connection is open. Without TLS it is of use at once.
    pub(super) fn connected(&mut self, ops: &mut Ops, index: usize, now: Time) {
        let connection = &mut self.connections[index];
        let group = &mut self.groups[usize::from(connection.group)];
        let Some(encryption) = &mut group.encryption else {
            self.opened(ops, index, now);
            return;
        };
        connection.state = State::Handshaking;
        match Session::new(&encryption.configuration, &encryption.server_name, now) {
            Ok(session) => {
                let deadline = connection.since + self.plan.timeouts.connect();
                self.sessions[index] = Some(Box::new(session));
                self.wake_at(index, deadline);
                self.decrypt(ops, index, &[], now);
            }
            Err(error) => {
                let failure = encryption.counts.count_error(&error);
                self.handshake_failed(index, failure, now);
            }
        }
    }

    /// Whether what arrives on a connection is encrypted.
    pub(super) fn is_encrypted(&self, index: usize) -> bool {
        self.sessions.get(index).is_some_and(Option::is_some)
    }

    /// Takes in what the server sent, at first nothing.
    pub(super) fn decrypt(&mut self, ops: &mut Ops, index: usize, bytes: &[u8], now: Time) {
        let connection = &self.connections[index];
        let encryption = &mut self.groups[usize::from(connection.group)].encryption;
        let (Some(Some(session)), Some(encryption), Some(id)) =
            (self.sessions.get_mut(index), encryption, connection.id)
        else {
            return;
        };
        if connection.has_failed_handshake() {
            return;
        }
        encryption.counts.bytes_received += bytes.len() as u64;
        let (failure, news) = match session.receive(bytes, &mut self.buffers) {
            Ok(news) => (None, news),
            Err(error) => (Some(encryption.counts.count_error(&error)), Default::default()),
        };
        if let Some(handshake) = news.opened {
            encryption.counts.count_handshake(handshake, session);
            let took = now.since(session.began());
            encryption.handshake.record(took.as_nanos() as u64);
        }
        let sent = self.send_encrypted(ops, index, id);
        if news.opened.is_some() {
            self.opened(ops, index, now);
        }
        let mut plain = std::mem::take(&mut self.buffers.plain);
        if !plain.is_empty() {
            self.take(ops, index, &plain, now);
        }
        plain.clear();
        self.buffers.plain = plain;
        if let Some(failure) = failure.or(sent.err()) {
            self.session_failed(ops, index, failure, now);
        } else if news.ended {
            self.session_ended(ops, index, now);
        }
    }

    /// Queues bytes on a connection; those of a session wait for [`send_encrypted`](Self::send_encrypted).
    pub(super) fn put(&mut self, ops: &mut Ops, index: usize, id: Id, bytes: &[u8]) -> Result<(), Failure> {
        match self.sessions.get_mut(index) {
            Some(Some(session)) => session
                .encrypt(bytes, &mut self.buffers.outgoing)
                .map_err(|_| Failure::Tls),
            // The outbox is full: more than megabytes of requests in one turn.
            _ => ops.write(id, bytes).map_err(|_| Failure::NoMemory),
        }
    }

    /// Queues what sessions have encrypted, all of it for this connection.
    pub(super) fn send_encrypted(&mut self, ops: &mut Ops, index: usize, id: Id) -> Result<(), Failure> {
        let outgoing = &mut self.buffers.outgoing;
        if outgoing.is_empty() {
            return Ok(());
        }
        let written = ops.write(id, outgoing).map_err(|_| Failure::NoMemory);
        let group = usize::from(self.connections[index].group);
        if let Some(encryption) = &mut self.groups[group].encryption {
            encryption.counts.bytes_sent += outgoing.len() as u64;
        }
        outgoing.clear();
        written
    }

    /// Tells the server that nothing more follows.
    pub(super) fn end_session(&mut self, ops: &mut Ops, index: usize, id: Id) {
        if let Some(Some(session)) = self.sessions.get_mut(index)
            && session.end(&mut self.buffers.outgoing).is_ok()
        {
            // Where there is no room for it, the end of the connection says the same.
            let _ = self.send_encrypted(ops, index, id);
        }
    }

    /// Whether the end of a connection is the server's word: without TLS always, with it only what was encrypted
    /// (RFC 9112 9.8).
    pub(super) fn end_is_told(&self, index: usize) -> bool {
        let session = self.sessions.get(index).and_then(Option::as_deref);
        session.is_none_or(Session::has_ended)
    }

    /// A handshake comes to nothing: the server, which has been told why, closes first.
    pub(super) fn handshake_failed(&mut self, index: usize, failure: Failure, now: Time) {
        self.connections[index].verdict.get_or_insert(failure);
        self.wake_at(index, now + LINGER);
    }

    /// A handshake took too long, or the server does not close after one that failed.
    pub(super) fn handshake_over(&mut self, ops: &mut Ops, index: usize) {
        let connection = &mut self.connections[index];
        connection.verdict.get_or_insert(Failure::HandshakeTimeout);
        connection.wake = Time::NEVER;
        if let Some(id) = connection.id {
            ops.abort(id);
        }
    }

    fn session_failed(&mut self, ops: &mut Ops, index: usize, failure: Failure, now: Time) {
        match self.connections[index].state {
            State::Handshaking => self.handshake_failed(index, failure, now),
            State::Closing | State::Closed | State::Opening => {}
            _ => self.give_up(ops, index, failure),
        }
    }

    /// The server has ended its side of a session; the connection it closes next, so that TIME_WAIT is the server's.
    fn session_ended(&mut self, ops: &mut Ops, index: usize, now: Time) {
        match self.connections[index].state {
            State::Handshaking => self.handshake_failed(index, Failure::ClosedEarly, now),
            State::Closing | State::Closed | State::Opening | State::Lingering => {}
            _ => {
                self.settle_end(ops, index, now);
                self.connections[index].state = State::Lingering;
                self.wake_at(index, now + LINGER);
            }
        }
    }
}
