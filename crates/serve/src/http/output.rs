//! Output of a response: a connection, encrypted or not.

use corelane_worker::engine::{Id, Ops, Output as _};
use corelane_worker::tls::{self, ServerChannel};
use std::fs::File;
use std::io;
use std::sync::Arc;

/// Maximum bytes of copied bodies and heads queued per connection (`stream_queue_bytes` of the engine); well above
/// normal use, because parsing pauses much earlier.
pub(super) const QUEUE_BYTES: usize = 8 << 20;

/// Bodies up to this size are copied after their head: the copy is cheaper than a second piece in the send.
pub(super) const SMALL: u64 = 4_096;

/// Maximum bytes of one connection read at once, which may all have to wait for the client to read.
pub(super) const INPUT_BYTES: usize = 32 << 10;

/// Maximum bytes queued on a connection before its response waits for the client: the default maximum of a socket's
/// send buffer (`net.ipv4.tcp_wmem`), so that the kernel always has enough. Less with TLS ([`tls::WINDOW`]).
const WINDOW: u64 = 4 << 20;

/// Writes responses to one connection.
pub(super) struct Output<'a> {
    channel: ServerChannel<'a>,
    /// Body bytes queued since the last read of this counter.
    body_bytes: u64,
    /// The output could not be queued: the connection is unusable.
    pub(super) overflowed: bool,
}

impl<'a> Output<'a> {
    pub(super) fn new(channel: ServerChannel<'a>) -> Self {
        Self {
            channel,
            body_bytes: 0,
            overflowed: false,
        }
    }

    /// Whether the TLS handshake is not complete.
    pub(super) fn is_handshaking(&self) -> bool {
        self.channel.is_handshaking()
    }

    /// The connection in its engine.
    pub(super) fn engine(&mut self) -> (&mut Ops, Id) {
        self.channel.engine()
    }

    /// Returns and resets the number of body bytes queued.
    pub(super) fn take_body_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.body_bytes)
    }

    /// Queues bytes; the first `head` of them do not count as body.
    pub(super) fn write_head(&mut self, bytes: &[u8], head: usize) {
        self.body_bytes += (bytes.len() - head) as u64;
        self.overflowed |= self.channel.write(bytes).is_err();
    }

    /// Queues body bytes.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        self.write_head(bytes, 0);
    }

    pub(super) fn write_static(&mut self, bytes: &'static [u8]) {
        self.body_bytes += bytes.len() as u64;
        self.overflowed |= self.channel.write_static(bytes).is_err();
    }

    /// Queues a part of a file; returns the number of bytes queued, or the read error.
    pub(super) fn write_file(&mut self, file: &Arc<File>, offset: u64, length: u64) -> io::Result<u64> {
        let queued = match self.channel.write_file(file, offset, length) {
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
                self.overflowed = true;
                length
            }
            queued => queued?,
        };
        self.body_bytes += queued;
        Ok(queued)
    }

    /// Bytes not yet accepted by the kernel.
    pub(super) fn queued(&mut self) -> u64 {
        self.channel.queued()
    }

    /// Maximum bytes queued before a response waits for the client.
    pub(super) fn window(&mut self) -> u64 {
        if self.channel.copies() {
            tls::WINDOW
        } else {
            WINDOW
        }
    }

    /// Closes this side after queued bytes are sent. A TLS client gets close_notify only after a complete response.
    pub(super) fn shutdown(&mut self, is_whole: bool) {
        if is_whole {
            self.notify_end();
        }
        let (ops, id) = self.engine();
        ops.shutdown(id);
    }

    /// Closes a connection that the client has not closed, after queued bytes are sent.
    pub(super) fn close(&mut self) {
        self.notify_end();
        self.close_at_once();
    }

    /// Closes a connection after queued bytes are sent.
    pub(super) fn close_at_once(&mut self) {
        let (ops, id) = self.engine();
        ops.close(id);
    }

    /// Resets a connection.
    pub(super) fn abort(&mut self) {
        let (ops, id) = self.engine();
        ops.abort(id);
    }

    /// Pauses or resumes receiving.
    pub(super) fn receive(&mut self, on: bool) {
        let (ops, id) = self.engine();
        ops.receive(id, on);
    }

    pub(super) fn is_receiving(&mut self) -> bool {
        let (ops, id) = self.engine();
        ops.is_receiving(id)
    }

    pub(super) fn notify_drained(&mut self) {
        self.channel.notify_drained();
    }

    /// Sends close_notify to a TLS client; without it, the end may be a truncation attack (RFC 8446 6.1).
    pub(super) fn notify_end(&mut self) {
        self.channel.end();
    }
}
