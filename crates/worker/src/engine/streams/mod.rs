//! The listeners and connections of one engine: send queues, the owner's requests, and the life cycle that all engines
//! share (`drive`).
//!
//! An idle connection holds no buffer: received data is lent from the engine's memory, and queued data is sent in the
//! next pass. Only data that the kernel did not accept stays, in memory owned by the connection.

mod drive;
mod flush;
mod information;
mod ops;
mod options;
mod queue;
mod remote;

pub(crate) use drive::{
    StreamDriver, accept_failed, accepted, end, flushed, opened, peer_ended, perform, serve, unblocked,
};
#[cfg(feature = "simulated")]
pub(crate) use drive::{connected, fail};
#[cfg(feature = "simulated")]
pub(crate) use flush::flush_with;
pub(crate) use flush::{FlushedStream, flush, refused, taken};
pub use information::StreamInformation;
pub use options::ConnectOptions;
#[cfg(feature = "simulated")]
pub(crate) use queue::Front;
pub(crate) use queue::{Outgoing, Queue, Stable};
pub use remote::{NoRemote, Remote};

use super::cause::{Cause, Origin};
use super::id::Id;
use super::slab::Tenant;
use super::sockets::Source;
use crate::time::Time;
use crate::timers::Timer;
use std::os::fd::{BorrowedFd, OwnedFd};

/// The descriptor or simulated end of a stream.
pub(crate) type Handle = Source<OwnedFd>;

/// The state of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Listening,
    /// To be opened, or being opened.
    Connecting,
    Open(Origin),
}

/// How the last accept of a listener went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Accepts {
    /// It had a descriptor, or there was none yet.
    Well,
    /// It had no descriptor: the listener rests.
    Rests,
    /// The same, and the listener tries again.
    Retries,
}

/// The parameters of a connection attempt, until it is open.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) to: Remote,
    pub(crate) options: ConnectOptions,
    /// The timer of the timeout, once the attempt has started, or of the next attempt.
    pub(crate) timer: Option<Timer>,
    /// When no further attempt is made, once one found the backlog full.
    pub(crate) until: Option<Time>,
}

/// A listener or a connection. The engine itself records which operations the kernel holds for it.
#[derive(Debug)]
pub(crate) struct Stream {
    /// None before it is opened, and after it was closed.
    pub(crate) handle: Option<Handle>,
    pub(crate) queue: Queue,
    pub(crate) request: Option<Box<Request>>,
    pub(crate) phase: Phase,
    /// The owner has nothing more to send.
    pub(crate) ending: bool,
    /// The owner dropped what was queued; what the kernel does not take of the bytes lent to it follows.
    pub(crate) cut: bool,
    /// The FIN was sent to the peer.
    pub(crate) ended: bool,
    /// The owner requested a notification when the queue is empty.
    pub(crate) notify_drained: bool,
    /// The send buffer is full; the engine is notified when there is room.
    pub(crate) blocked: bool,
    /// The peer's end was reported: there is nothing more to receive.
    pub(crate) over: bool,
    /// Of a listener: how its last accept went.
    pub(crate) accepts: Accepts,
    /// Why no more can be sent; data received before is still lent.
    pub(crate) broken: Option<Cause>,
}

impl Stream {
    pub(crate) fn new(handle: Option<Handle>, phase: Phase) -> Self {
        Self {
            handle,
            queue: Queue::EMPTY,
            request: None,
            phase,
            cut: false,
            ending: false,
            ended: false,
            notify_drained: false,
            blocked: false,
            over: false,
            accepts: Accepts::Well,
            broken: None,
        }
    }

    /// The descriptor; none if simulated or not open.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.handle.as_ref()?.descriptor()
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
        // Servers and generators hold a million connections and need the rest of the budget for their own state.
        assert!(size_of::<Slot<Stream>>() <= 72, "{}", size_of::<Slot<Stream>>());
    }
}
