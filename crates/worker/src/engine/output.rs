//! The output of one connection: directly to the engine, or through encryption.

use super::{Full, Id, Ops};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Bytes of a file read at a time if they must be copied: the maximum plaintext of a TLS record (RFC 8446 5.1).
const FILE_PIECE: usize = 16_384;

/// The output of a protocol on one connection. Queued bytes are sent in the engine's next pass.
///
/// The provided methods copy the bytes, for outputs that transform them.
pub trait Output {
    /// Queues bytes by copying them.
    ///
    /// # Errors
    /// `OutOfMemory` ([`Full`]) if the connection would exceed its limit of copied bytes; another error if the bytes
    /// cannot be transformed. The connection is unusable afterwards.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Queues a range of shared bytes.
    ///
    /// # Errors
    /// Same as [`write`](Self::write).
    fn write_shared(&mut self, bytes: &Arc<[u8]>, range: Range<usize>) -> io::Result<()> {
        self.write(&bytes[range])
    }

    /// Queues static bytes.
    ///
    /// # Errors
    /// Same as [`write`](Self::write).
    fn write_static(&mut self, bytes: &'static [u8]) -> io::Result<()> {
        self.write(bytes)
    }

    /// Queues a range of a file, or the beginning of that range; returns the number of bytes.
    ///
    /// # Errors
    /// Same as [`write`](Self::write); also if the file cannot be read or is too short.
    fn write_file(&mut self, file: &Arc<File>, offset: u64, length: u64) -> io::Result<u64> {
        let mut piece = [0; FILE_PIECE];
        let wanted = length.min(FILE_PIECE as u64) as usize;
        let read = file.read_at(&mut piece[..wanted], offset)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.write(&piece[..read])?;
        Ok(read as u64)
    }

    /// Queues the protocol's end-of-data message, if it is distinct from the end of the connection.
    fn end(&mut self) {}

    /// The number of queued bytes that the kernel has not accepted.
    fn queued(&self) -> u64;

    /// Requests one [`Event::Drained`](super::Event::Drained) when the queue becomes empty.
    fn notify_drained(&mut self);

    /// Whether all queued bytes are copied, so that the writer should limit them.
    fn copies(&self) -> bool {
        true
    }
}

/// An output that sends the bytes unchanged.
#[derive(Debug)]
pub struct Plain<'a> {
    /// The engine's operations.
    pub ops: &'a mut Ops,
    /// The connection.
    pub id: Id,
}

impl Output for Plain<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        Ok(self.ops.write(self.id, bytes)?)
    }

    fn write_shared(&mut self, bytes: &Arc<[u8]>, range: Range<usize>) -> io::Result<()> {
        self.ops.write_shared(self.id, bytes, range);
        Ok(())
    }

    fn write_static(&mut self, bytes: &'static [u8]) -> io::Result<()> {
        self.ops.write_static(self.id, bytes);
        Ok(())
    }

    fn write_file(&mut self, file: &Arc<File>, offset: u64, length: u64) -> io::Result<u64> {
        self.ops.write_file(self.id, file, offset, length);
        Ok(length)
    }

    fn queued(&self) -> u64 {
        self.ops.queued(self.id)
    }

    fn notify_drained(&mut self) {
        self.ops.notify_drained(self.id);
    }

    fn copies(&self) -> bool {
        false
    }
}

impl From<Full> for io::Error {
    fn from(full: Full) -> Self {
        Self::new(io::ErrorKind::OutOfMemory, full)
    }
}
