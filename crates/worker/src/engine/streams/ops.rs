//! TCP operations of an engine: listeners, connecting, sending, closing.

use super::information::{self, StreamInformation};
use super::options::ConnectOptions;
use super::queue::{Memory, Outgoing, Piece};
use super::{Phase, Remote, Request, Stream};
use crate::engine::cause::Cause;
use crate::engine::id::Id;
use crate::engine::ops::{Backend, Ops};
use crate::engine::sends::Full;
use crate::engine::slab::Slot;
use crate::engine::sockets::Listener;
use crate::system::stream;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// TCP.
impl Ops {
    /// Registers a listener. Each connection to it is reported as [`Event::Opened`](crate::engine::Event::Opened) with
    /// its own `Id`, and receives. The engine owns the listener until [`Event::Closed`](crate::engine::Event::Closed).
    ///
    /// If no descriptor is available for a connection, the failure is counted and reported once as
    /// [`Event::Failed`](crate::engine::Event::Failed); connections wait in the kernel's backlog until a descriptor is
    /// free.
    ///
    /// # Errors
    /// The kernel's error from setting the listener's blocking mode.
    pub fn listen(&mut self, listener: impl Into<Listener>) -> io::Result<Id> {
        let listener = listener.into();
        #[cfg(feature = "simulated")]
        self.backend.check(matches!(listener, Listener::Simulated(_)))?;
        if let Some(descriptor) = listener.descriptor() {
            stream::set_blocking(descriptor, self.backend != Backend::Readiness)?;
        }
        let id = self
            .streams
            .insert(Stream::new(Some(listener), Phase::Listening), true);
        self.streams.note_change(id.slot() as u32);
        Ok(id)
    }

    /// Opens a connection to `to` in the next pass. The result is [`Event::Opened`](crate::engine::Event::Opened), or
    /// [`Event::Closed`](crate::engine::Event::Closed) with the cause. Bytes written before it is open are sent when it
    /// is. Of the options a Unix socket has only timeout and receiving; if its backlog is full, it is tried again.
    pub fn connect(&mut self, to: impl Into<Remote>, options: ConnectOptions) -> Id {
        let mut stream = Stream::new(None, Phase::Connecting);
        stream.request = Some(Box::new(Request {
            to: to.into(),
            options,
            timer: None,
            until: None,
        }));
        let id = self.streams.insert(stream, options.receive);
        self.streams.note_change(id.slot() as u32);
        id
    }

    /// Queues bytes by copying them. Bytes queued on one connection until the next pass are sent in as few segments as
    /// possible. Does nothing on a connection that is closed or shut down.
    ///
    /// # Errors
    /// [`Full`] if the connection would hold copies of more than [`stream_queue_bytes`]; nothing is queued then.
    ///
    /// [`stream_queue_bytes`]: super::super::EngineSettings::stream_queue_bytes
    pub fn write(&mut self, id: Id, bytes: &[u8]) -> Result<(), Full> {
        self.write_with(id, bytes.len(), |room| room.copy_from_slice(bytes))
    }

    /// Like [`write`](Self::write), for `length` bytes that `fill` writes. The memory passed to `fill` has arbitrary
    /// contents.
    ///
    /// # Errors
    /// Same as [`write`](Self::write); `fill` is not called then.
    pub fn write_with(&mut self, id: Id, length: usize, fill: impl FnOnce(&mut [u8])) -> Result<(), Full> {
        let limit = self.queue_limit;
        let Some((stream, outgoing)) = self.writable(id) else {
            return Ok(());
        };
        if length > limit.saturating_sub(stream.queue.copied as usize) {
            self.counters.full += 1;
            return Err(Full);
        }
        outgoing.copy(&mut stream.queue, length, fill);
        self.streams.note_waiting(id.slot() as u32);
        Ok(())
    }

    /// Queues static bytes without copying them.
    pub fn write_static(&mut self, id: Id, bytes: &'static [u8]) {
        self.refer(id, Memory::Static(bytes), 0, bytes.len() as u64);
    }

    /// Queues a range of shared bytes without copying them.
    ///
    /// # Panics
    /// If the range is out of bounds.
    pub fn write_shared(&mut self, id: Id, bytes: &Arc<[u8]>, range: Range<usize>) {
        assert!(range.start <= range.end && range.end <= bytes.len());
        let memory = Memory::Shared(Arc::clone(bytes));
        self.refer(id, memory, range.start as u64, range.len() as u64);
    }

    /// Queues `length` bytes of a file from `offset`, without copying them (sendfile(2)). If the file is shorter, the
    /// connection is closed with [`Cause::Truncated`](super::super::Cause::Truncated).
    pub fn write_file(&mut self, id: Id, file: &Arc<File>, offset: u64, length: u64) {
        self.refer(id, Memory::File(Arc::clone(file)), offset, length);
    }

    /// The number of queued bytes that the kernel has not accepted; 0 once the connection was closed.
    #[must_use]
    pub fn queued(&self, id: Id) -> u64 {
        self.streams.open(id).map_or(0, |stream| stream.queue.bytes)
    }

    /// As [`queued`](Self::queued), also after the end of the connection, until
    /// [`Event::Closed`](crate::engine::Event::Closed) was handled.
    #[must_use]
    pub fn unsent(&self, id: Id) -> u64 {
        let stream = self.streams.current(id).or_else(|| self.streams.retired(id));
        stream.map_or(0, |stream| stream.queue.bytes)
    }

    /// Drops the bytes queued on a connection that the kernel has not been given; returns their number. The connection
    /// stays open, so its protocol must tolerate a cut at any point. Bytes that the kernel has been given and does not
    /// accept are dropped, too: if nothing is written after them, [`unsent`](Self::unsent) counts them.
    pub fn discard(&mut self, id: Id) -> u64 {
        let Some((stream, outgoing)) = self.writable(id) else {
            return 0;
        };
        let bytes = outgoing.cut(&mut stream.queue);
        stream.cut = !stream.queue.is_empty();
        // A pending drain notification, shutdown or close can proceed.
        self.streams.note_change(id.slot() as u32);
        bytes
    }

    /// The kernel's statistics of a connection: retransmissions, reordering, round-trip time. Costs a system call.
    /// `None` in the simulated network.
    #[must_use]
    pub fn information(&self, id: Id) -> Option<StreamInformation> {
        information::of(&self.streams.open(id)?.descriptor()?)
    }

    /// Whether a connection receives, as last set by [`receive`](Self::receive).
    #[must_use]
    pub fn is_receiving(&self, id: Id) -> bool {
        self.streams.open(id).is_some_and(|stream| stream.receiving)
    }

    /// Requests one [`Event::Drained`](crate::engine::Event::Drained) as soon as the queue is empty.
    pub fn notify_drained(&mut self, id: Id) {
        if let Some(stream) = self.streams.open_mut(id) {
            stream.notify_drained = true;
            self.streams.note_change(id.slot() as u32);
        }
    }

    /// Ends this side of a connection after the queued bytes; data from the peer is still received.
    pub fn shutdown(&mut self, id: Id) {
        if let Some((stream, _)) = self.writable(id) {
            stream.ending = true;
            self.streams.note_change(id.slot() as u32);
        }
    }

    /// Closes a connection with a reset (RST) at once: queued bytes are dropped, and no TIME_WAIT state remains. The
    /// last event of the `Id` is [`Event::Closed`](crate::engine::Event::Closed).
    pub fn abort(&mut self, id: Id) {
        let Some(stream) = self.streams.open_mut(id) else {
            return;
        };
        self.outgoing.abandon(&mut stream.queue);
        stream.closing = true;
        stream.broken = Some(Cause::Asked);
        if let Some(connection) = stream.descriptor() {
            stream::reset_on_close(connection);
        }
        self.streams.note_change(id.slot() as u32);
    }

    fn refer(&mut self, id: Id, memory: Memory, start: u64, left: u64) {
        if let Some((stream, outgoing)) = self.writable(id) {
            outgoing.refer(&mut stream.queue, Piece { memory, start, left });
            self.streams.note_waiting(id.slot() as u32);
        }
    }

    /// The stream, if more may be sent on it, and the queues of all streams.
    fn writable(&mut self, id: Id) -> Option<(&mut Slot<Stream>, &mut Outgoing)> {
        let stream = self
            .streams
            .open_mut(id)
            .filter(|stream| stream.phase != Phase::Listening && !stream.ending && stream.broken.is_none())?;
        Some((stream, &mut self.outgoing))
    }
}
