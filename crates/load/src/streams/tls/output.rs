//! The output of a connection over TLS: what is written to it is encrypted on its way to the engine.

use super::session::Session;
use crate::streams::transport::Transport;
use corelane_worker::engine::{Output, Plain};
use std::io;

/// A connection's bytes through its session.
pub(in crate::streams) struct Encrypted<'a> {
    pub(in crate::streams) plain: Plain<'a>,
    pub(in crate::streams) session: &'a mut Session,
    /// What the session has to send; empty between calls.
    pub(in crate::streams) outgoing: &'a mut Vec<u8>,
    /// Counts the bytes sent.
    pub(in crate::streams) sent: &'a mut u64,
}

impl Encrypted<'_> {
    /// Queues what the session has to send.
    pub(in crate::streams) fn flush(&mut self) -> io::Result<()> {
        let written = self.plain.write(self.outgoing);
        *self.sent += self.outgoing.len() as u64;
        self.outgoing.clear();
        written
    }
}

impl Output for Encrypted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let encrypted = self.session.encrypt(bytes, self.outgoing);
        self.flush()?;
        encrypted.map_err(io::Error::other)
    }

    fn end(&mut self) {
        // Where it cannot be said, as before a handshake is complete, the end of the connection says the same.
        if self.session.end(self.outgoing).is_ok() {
            let _ = self.flush();
        }
        self.outgoing.clear();
    }

    fn queued(&self) -> u64 {
        self.plain.queued()
    }

    fn notify_drained(&mut self) {
        self.plain.notify_drained();
    }
}

impl Transport for Encrypted<'_> {}
