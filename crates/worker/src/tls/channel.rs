//! The output of one connection: directly to the engine, or through its TLS session.

use super::session::{Buffers, RECORD, Session, Side};
use crate::engine::{Id, Ops, Output};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// The output of a connection, encrypted or not.
#[derive(Debug)]
pub struct Channel<'a, S> {
    ops: &'a mut Ops,
    id: Id,
    encryption: Option<(&'a mut Session<S>, &'a mut Buffers)>,
}

impl<'a, S: Side> Channel<'a, S> {
    /// Sends the bytes unchanged.
    pub fn plain(ops: &'a mut Ops, id: Id) -> Self {
        Self {
            ops,
            id,
            encryption: None,
        }
    }

    /// Sends the records of a session.
    pub(super) fn encrypted(
        ops: &'a mut Ops,
        id: Id,
        session: &'a mut Session<S>,
        buffers: &'a mut Buffers,
    ) -> Self {
        Self {
            ops,
            id,
            encryption: Some((session, buffers)),
        }
    }

    /// The connection in its engine.
    pub fn engine(&mut self) -> (&mut Ops, Id) {
        (self.ops, self.id)
    }

    /// Whether it has a TLS handshake that is not complete.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        self.encryption
            .as_ref()
            .is_some_and(|(session, _)| session.is_handshaking())
    }

    /// Queues a range of a file, or with TLS the beginning of that range, which is copied; returns the number of bytes.
    ///
    /// # Errors
    /// As [`write`](Output::write); also if the file cannot be read or is too short.
    pub fn write_file(&mut self, file: &Arc<File>, offset: u64, length: u64) -> io::Result<u64> {
        if !self.copies() {
            self.ops.write_file(self.id, file, offset, length);
            return Ok(length);
        }
        let mut piece = [0; RECORD];
        let wanted = length.min(RECORD as u64) as usize;
        let read = file.read_at(&mut piece[..wanted], offset)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.write(&piece[..read])?;
        Ok(read as u64)
    }
}

impl<S: Side> Output for Channel<'_, S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.encryption {
            None => Ok(self.ops.write(self.id, bytes)?),
            Some((session, buffers)) => write_records(self.ops, self.id, session, buffers, bytes),
        }
    }

    fn write_shared(&mut self, bytes: &Arc<[u8]>, range: Range<usize>) -> io::Result<()> {
        if self.copies() {
            return self.write(&bytes[range]);
        }
        self.ops.write_shared(self.id, bytes, range);
        Ok(())
    }

    fn write_static(&mut self, bytes: &'static [u8]) -> io::Result<()> {
        if self.copies() {
            return self.write(bytes);
        }
        self.ops.write_static(self.id, bytes);
        Ok(())
    }

    fn end(&mut self) {
        let Some((session, buffers)) = &mut self.encryption else {
            return;
        };
        // If it cannot be sent, as before a handshake is complete, the end of the connection has the same meaning.
        if session.end(&mut buffers.outgoing).is_ok() {
            let _ = buffers.flush(self.ops, self.id);
        }
        buffers.outgoing.clear();
    }

    fn queued(&self) -> u64 {
        self.ops.queued(self.id)
    }

    fn notify_drained(&mut self) {
        self.ops.notify_drained(self.id);
    }

    fn copies(&self) -> bool {
        self.encryption.is_some()
    }
}

/// Encrypts and queues bytes, record by record, so that they are still in the cache when they are queued. Not inlined into
/// writers, which are laid out for plain connections.
#[inline(never)]
fn write_records<S: Side>(
    ops: &mut Ops,
    id: Id,
    session: &mut Session<S>,
    buffers: &mut Buffers,
    bytes: &[u8],
) -> io::Result<()> {
    for record in bytes.chunks(RECORD) {
        let encrypted = session.encrypt(record, &mut buffers.outgoing);
        buffers.flush(ops, id)?;
        encrypted.map_err(io::Error::other)?;
    }
    Ok(())
}
