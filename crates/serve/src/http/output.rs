//! Where an answer goes: a connection of the engine, through its TLS session if it has one.

use super::tls::Session;
use corelane_worker::engine::{self, Id, Ops, Plain};
use corelane_worker::tls::Encrypted;
use rustls::server::UnbufferedServerConnection;
use std::fs::File;
use std::io;
use std::sync::Arc;

/// Copied bodies and heads that one connection may have queued (`stream_queue_bytes` of the engine), and a good deal more
/// than it does: parsing stops long before.
pub(super) const QUEUE_BYTES: usize = 8 << 20;

/// Bodies up to this size are copied behind their head: a copy of so much costs less than a second piece in the send.
pub(super) const SMALL: u64 = 4_096;

/// Bytes queued on one connection before its answer waits for the client: what a socket's send buffer grows to by default
/// (`net.ipv4.tcp_wmem`), so that the kernel always has enough. Encrypted bytes are copies of the connection's own: less.
const WINDOW: u64 = 4 << 20;
const TLS_WINDOW: u64 = 256 << 10;

/// What the encrypted outputs of a worker use in turn.
#[derive(Debug, Default)]
pub(super) struct Sealing {
    pub(super) buffers: corelane_worker::tls::Buffers,
    /// Encrypted bytes; the engine counts them, too.
    sent: u64,
}

/// Where the bytes of a connection go.
enum Channel<'a> {
    Plain(Plain<'a>),
    Encrypted(Encrypted<'a, UnbufferedServerConnection>),
}

/// Writes answers to one connection.
pub(super) struct Output<'a> {
    channel: Channel<'a>,
    /// Bytes of answers' bodies queued since they were last asked for.
    body_bytes: u64,
    /// What could not be queued: the connection is then of no more use.
    pub(super) overflowed: bool,
}

impl<'a> Output<'a> {
    pub(super) fn new(
        ops: &'a mut Ops,
        id: Id,
        session: Option<&'a mut Session>,
        sealing: &'a mut Sealing,
    ) -> Self {
        let plain = Plain { ops, id };
        Self {
            channel: match session {
                None => Channel::Plain(plain),
                Some(session) => Channel::Encrypted(Encrypted {
                    plain,
                    session,
                    outgoing: &mut sealing.buffers.outgoing,
                    sent: &mut sealing.sent,
                }),
            },
            body_bytes: 0,
            overflowed: false,
        }
    }

    fn channel(&mut self) -> &mut dyn engine::Output {
        match &mut self.channel {
            Channel::Plain(plain) => plain,
            Channel::Encrypted(encrypted) => encrypted,
        }
    }

    /// The connection itself.
    fn plain(&mut self) -> &mut Plain<'a> {
        match &mut self.channel {
            Channel::Plain(plain) | Channel::Encrypted(Encrypted { plain, .. }) => plain,
        }
    }

    /// The connection's place among those of its worker.
    pub(super) fn slot(&mut self) -> usize {
        self.plain().id.slot()
    }

    /// Bytes of answers' bodies queued since this was last asked.
    pub(super) fn take_body_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.body_bytes)
    }

    /// Queues bytes of which the first `head` are no body's.
    pub(super) fn write_head(&mut self, bytes: &[u8], head: usize) {
        self.body_bytes += (bytes.len() - head) as u64;
        self.overflowed |= self.channel().write(bytes).is_err();
    }

    /// Queues bytes of a body.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        self.write_head(bytes, 0);
    }

    pub(super) fn write_static(&mut self, bytes: &'static [u8]) {
        self.body_bytes += bytes.len() as u64;
        self.overflowed |= self.channel().write_static(bytes).is_err();
    }

    /// Queues a part of a file; returns how much of it, or why the file cannot be read.
    pub(super) fn write_file(&mut self, file: &Arc<File>, offset: u64, length: u64) -> io::Result<u64> {
        let queued = match self.channel().write_file(file, offset, length) {
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
                self.overflowed = true;
                length
            }
            queued => queued?,
        };
        self.body_bytes += queued;
        Ok(queued)
    }

    /// Bytes that the kernel has not taken.
    pub(super) fn queued(&mut self) -> u64 {
        self.channel().queued()
    }

    /// Bytes that may be queued before an answer waits for the client.
    pub(super) fn window(&mut self) -> u64 {
        if self.channel().copies() {
            TLS_WINDOW
        } else {
            WINDOW
        }
    }

    /// Ends this side after what is queued. A client with TLS is notified only of an answer that is whole.
    pub(super) fn shutdown(&mut self, is_whole: bool) {
        if is_whole {
            self.notify_end();
        }
        let plain = self.plain();
        plain.ops.shutdown(plain.id);
    }

    /// Closes a connection that the client has not ended, after what is queued.
    pub(super) fn close(&mut self) {
        self.notify_end();
        self.close_at_once();
    }

    /// Closes a connection after what is queued.
    pub(super) fn close_at_once(&mut self) {
        let plain = self.plain();
        plain.ops.close(plain.id);
    }

    /// Resets a connection.
    pub(super) fn abort(&mut self) {
        let plain = self.plain();
        plain.ops.abort(plain.id);
    }

    /// Turns receiving on or off.
    pub(super) fn receive(&mut self, on: bool) {
        let plain = self.plain();
        plain.ops.receive(plain.id, on);
    }

    pub(super) fn is_receiving(&mut self) -> bool {
        let plain = self.plain();
        plain.ops.is_receiving(plain.id)
    }

    pub(super) fn notify_drained(&mut self) {
        self.channel().notify_drained();
    }

    /// Tells a client with TLS that nothing more comes (close_notify): without it the end may be an attacker's (RFC 8446 6.1).
    pub(super) fn notify_end(&mut self) {
        self.channel().end();
    }

    /// Queues what the session has to send of its own.
    pub(super) fn flush(&mut self) {
        if let Channel::Encrypted(encrypted) = &mut self.channel {
            self.overflowed |= encrypted.flush().is_err();
        }
    }
}
