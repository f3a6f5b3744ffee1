//! The listeners and connections of one engine: what each has queued to be sent, what its owner wants of it, and what
//! happens in its life, whichever engine moves it (`drive`).
//!
//! An idle connection holds no buffer: what arrives is lent from the engine's own memory, and what is sent leaves in the
//! pass that follows. Only what the kernel did not take stays, in memory of the connection's own.

mod drive;
mod flush;
mod information;
mod ops;
mod options;
mod queue;

pub(crate) use drive::{
    StreamDriver, accept_failed, accepted, connected, end, fail, flushed, opened, perform, serve, unblocked,
};
#[cfg(feature = "simulated")]
pub(crate) use flush::flush_with;
pub(crate) use flush::{FlushedStream, flush, refused, taken};
pub use information::StreamInformation;
pub use options::ConnectOptions;
#[cfg(feature = "simulated")]
pub(crate) use queue::Front;
pub(crate) use queue::{Outgoing, Queue, Stable};

use super::cause::Cause;
use super::id::Id;
#[cfg(feature = "simulated")]
use super::simulated::SimulatedSocket;
use super::slab::Tenant;
use crate::system::stream::Binding;
use crate::timers::Timer;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// What stands behind an `Id`.
#[derive(Debug)]
pub(crate) enum Handle {
    /// Nothing yet, or nothing any more.
    None,
    Kernel(OwnedFd),
    /// A listener, or an end of a connection, in the simulated network.
    #[cfg(feature = "simulated")]
    Simulated(Box<SimulatedSocket>),
}

/// How far a connection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Listening,
    /// To be opened, or being opened.
    Connecting,
    Open,
}

/// What a connection needs until it is open.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) to: SocketAddr,
    pub(crate) binding: Binding,
    pub(crate) timeout: Option<Duration>,
    /// Its end, once it has begun.
    pub(crate) timer: Option<Timer>,
}

/// A listener or a connection. What the kernel knows of it so far is recorded by the engine.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) handle: Handle,
    pub(crate) queue: Queue,
    pub(crate) request: Option<Box<Request>>,
    pub(crate) phase: Phase,
    /// The owner has nothing more to send.
    pub(crate) ending: bool,
    /// The FIN was sent to the peer.
    pub(crate) ended: bool,
    /// The owner requested a notification when the queue is empty.
    pub(crate) notify_drained: bool,
    /// The send buffer is full; the engine is notified when there is room.
    pub(crate) blocked: bool,
    /// The peer's end was lent: there is nothing more to receive.
    pub(crate) over: bool,
    /// A listener for which there was no descriptor at the last attempt.
    pub(crate) starved: bool,
    /// Such a listener until it tries again.
    pub(crate) resting: bool,
    /// Why no more can be sent; what was received before is lent still.
    pub(crate) broken: Option<Cause>,
}

impl Stream {
    pub(crate) fn new(handle: Handle, phase: Phase) -> Self {
        Self {
            handle,
            queue: Queue::EMPTY,
            request: None,
            phase,
            ending: false,
            ended: false,
            notify_drained: false,
            blocked: false,
            over: false,
            starved: false,
            resting: false,
            broken: None,
        }
    }

    /// The descriptor of one of the kernel's.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.handle {
            Handle::Kernel(descriptor) => Some(descriptor.as_fd()),
            _ => None,
        }
    }
}

#[cfg(feature = "simulated")]
impl Stream {
    /// What stands behind it in the simulated network.
    pub(crate) fn simulated(&self) -> Option<&SimulatedSocket> {
        match &self.handle {
            Handle::Simulated(socket) => Some(socket),
            _ => None,
        }
    }
}

impl Tenant for Stream {
    const KIND: u32 = Id::STREAM;

    fn has_queued(&self) -> bool {
        !self.queue.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::slab::Slot;

    #[test]
    fn an_idle_connection_costs_at_most_100_bytes() {
        // Servers and generators need a million connections; their own state needs the space.
        assert!(size_of::<Slot<Stream>>() <= 72, "{}", size_of::<Slot<Stream>>());
    }
}
