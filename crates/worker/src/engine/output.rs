//! The output of one connection, as its protocol sees it.

use super::Full;
use std::io;
use std::ops::Range;
use std::sync::Arc;

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

impl From<Full> for io::Error {
    fn from(full: Full) -> Self {
        Self::new(io::ErrorKind::OutOfMemory, full)
    }
}
