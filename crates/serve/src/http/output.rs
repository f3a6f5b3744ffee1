//! Where an answer goes: a connection of the engine, through its TLS session if it has one.

use corelane_worker::engine::{Id, Ops};
use rustls::ServerConnection;
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;

/// Copied bodies and heads that one connection may have queued (`stream_queue_bytes` of the engine), and a good deal more
/// than it does: parsing stops long before.
pub(super) const QUEUE_BYTES: usize = 8 << 20;

/// Bytes queued on one connection before its answer waits for the client: what a socket's send buffer grows to by default
/// (`net.ipv4.tcp_wmem`), so that the kernel always has enough. Encrypted bytes are copies of the connection's own: less.
const WINDOW: u64 = 4 << 20;
const TLS_WINDOW: u64 = 256 << 10;

/// Writes to one connection.
pub(super) struct Output<'a> {
    pub(super) ops: &'a mut Ops,
    pub(super) id: Id,
    session: Option<&'a mut ServerConnection>,
    /// Bytes of answers' bodies queued since they were last asked for.
    body_bytes: u64,
    /// What could not be queued: the connection is then of no more use.
    pub(super) overflowed: bool,
}

impl<'a> Output<'a> {
    pub(super) fn new(ops: &'a mut Ops, id: Id, session: Option<&'a mut ServerConnection>) -> Self {
        Self {
            ops,
            id,
            session,
            body_bytes: 0,
            overflowed: false,
        }
    }

    /// Bytes of answers' bodies queued since this was last asked.
    pub(super) fn take_body_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.body_bytes)
    }

    /// Queues bytes of which the first `head` are no body's.
    pub(super) fn write_head(&mut self, bytes: &[u8], head: usize) {
        self.body_bytes += (bytes.len() - head) as u64;
        self.queue(bytes);
    }

    /// Queues bytes of a body.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        self.write_head(bytes, 0);
    }

    fn queue(&mut self, bytes: &[u8]) {
        if let Some(session) = self.session.as_mut() {
            self.overflowed |= session.writer().write_all(bytes).is_err();
            self.flush();
        } else {
            self.overflowed |= self.ops.write(self.id, bytes).is_err();
        }
    }

    pub(super) fn write_static(&mut self, bytes: &'static [u8]) {
        if self.session.is_some() {
            self.write(bytes);
        } else {
            self.body_bytes += bytes.len() as u64;
            self.ops.write_static(self.id, bytes);
        }
    }

    /// Queues a part of a file; returns how much of it, or what the file said. Of what is encrypted a piece is read at a
    /// time.
    pub(super) fn write_file(&mut self, file: &Arc<File>, offset: u64, length: u64) -> io::Result<u64> {
        use std::os::unix::fs::FileExt;
        if self.session.is_none() {
            self.body_bytes += length;
            self.ops.write_file(self.id, file, offset, length);
            return Ok(length);
        }
        let mut piece = [0; 16_384];
        let wanted = length.min(piece.len() as u64) as usize;
        let read = file.read_at(&mut piece[..wanted], offset)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.write(&piece[..read]);
        Ok(read as u64)
    }

    /// Bytes that the kernel has not taken.
    pub(super) fn queued(&self) -> u64 {
        self.ops.queued(self.id)
    }

    pub(super) fn window(&self) -> u64 {
        if self.session.is_some() {
            TLS_WINDOW
        } else {
            WINDOW
        }
    }

    /// Ends this side after what is queued. A client with TLS is told only of an answer that is whole.
    pub(super) fn shutdown(&mut self, is_whole: bool) {
        if is_whole {
            self.notify_end();
        }
        self.ops.shutdown(self.id);
    }

    /// Closes a connection that the client has not ended, after what is queued.
    pub(super) fn close(&mut self) {
        self.notify_end();
        self.ops.close(self.id);
    }

    /// Tells a client with TLS that nothing more comes (close_notify): without it the end may be an attacker's (RFC 8446 6.1).
    pub(super) fn notify_end(&mut self) {
        if let Some(session) = self.session.as_mut() {
            session.send_close_notify();
            self.flush();
        }
    }

    /// The session, to be fed with what arrives.
    pub(super) fn session(&mut self) -> Option<&mut ServerConnection> {
        self.session.as_deref_mut()
    }

    /// Hands to the engine what the session has encrypted.
    pub(super) fn flush(&mut self) {
        let Some(session) = self.session.as_mut() else {
            return;
        };
        let mut engine = Encrypted {
            ops: self.ops,
            id: self.id,
        };
        while session.wants_write() {
            if session.write_tls(&mut engine).is_err() {
                self.overflowed = true;
                return;
            }
        }
    }
}

/// The engine's connection as the session writes to it.
struct Encrypted<'a> {
    ops: &'a mut Ops,
    id: Id,
}

impl Write for Encrypted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.ops.write(self.id, bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(full) => Err(io::Error::other(full)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
