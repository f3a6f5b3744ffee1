//! One worker's I/O, datagrams and TCP: operations queued in [`Ops`] go in, a [`turn`](Engine::turn) performs them and lends what arrived to
//! a [`Handler`].
//!
//! Two engines do this: over epoll and over io_uring. They are chosen once, by [`run_engine`], and the code that uses them
//! is compiled for each. A third, over a simulated network under a virtual clock, is compiled for tests only (feature
//! `simulated`).

pub(crate) mod arena;
mod cause;
mod choice;
pub(crate) mod datagrams;
mod driver;
mod epoll;
mod flush;
mod id;
mod ops;
mod output;
mod sends;
mod settings;
#[cfg(feature = "simulated")]
pub mod simulated;
mod slab;
mod sockets;
mod streams;
mod uring;
mod wake;

pub use cause::{Calls, Cause, EngineCounters, FailureCounts, StreamCounters};
pub use choice::{Chosen, EngineKind, MOST_ON_THE_RING, UnknownEngine, choose, choose_batching};
pub use datagrams::{Datagram, Datagrams};
pub use id::Id;
pub use ops::{DatagramOptions, Ops};
pub use output::{Output, Plain};
pub use sends::Full;
pub use settings::EngineSettings;
pub use sockets::{Listener, Socket, Source};
pub use streams::{ConnectOptions, StreamInformation};
pub use wake::Waker;

use crate::memory::Buffers;
use crate::time::Time;
use driver::Driven;
use ops::Backend;
use std::io;
use std::net::SocketAddr;
use wake::Wakeable;

/// The I/O of one worker. It stays on the thread that built it, which should be pinned before.
pub trait Engine {
    /// Where operations are queued and counts are read, between turns.
    fn ops(&mut self) -> &mut Ops;

    /// The engine's clock: the monotonic one, or the simulator's.
    fn now(&self) -> Time;

    /// Performs what is queued, waits until something arrives, something wakes the engine, or `until`, and lends what
    /// arrived to the handler.
    ///
    /// Work a turn is bounded (some hundred datagrams or connections), so that the caller's own timers are not late. It may return
    /// early with nothing done. With an `until` in the past it does not wait. What a handler queues is performed at the
    /// latest by the next turn.
    ///
    /// # Errors
    /// When the engine itself fails, never because of one socket.
    fn turn(&mut self, until: Time, on: &mut impl Handler) -> io::Result<()>;

    /// A handle that makes a waiting turn return.
    fn waker(&self) -> Waker;

    /// The memory that datagrams are received into and sent from.
    fn buffers(&self) -> Buffers;
}

/// What a worker does with what arrives.
pub trait Handler {
    /// Something happened on a socket. `now` is read once a batch, after it was received; for TCP it is never older than
    /// eight visits to connections, some ten microseconds. What an event lends ends with
    /// the call. [`Event::Woken`] comes under an [`Id`] that names no socket.
    fn event(&mut self, ops: &mut Ops, now: Time, id: Id, event: Event<'_>);
}

impl<F: FnMut(&mut Ops, Time, Id, Event<'_>)> Handler for F {
    fn event(&mut self, ops: &mut Ops, now: Time, id: Id, event: Event<'_>) {
        self(ops, now, id, event);
    }
}

/// What happened.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Datagrams arrived.
    Datagrams(Datagrams<'a>),
    /// A connection is open: one that came to `listener`, under a new `Id`; or, without one, that of
    /// [`Ops::connect`].
    Opened {
        /// Where it came to.
        listener: Option<Id>,
        /// The other end.
        peer: SocketAddr,
    },
    /// Bytes of a connection, in order. However the peer wrote them, they come in pieces of any length.
    Bytes(&'a [u8]),
    /// Everything queued was taken by the kernel, as [`Ops::tell_drained`] asked to be told.
    Drained,
    /// The peer has ended its side of a connection and sends nothing more; this side goes on until it is closed.
    PeerClosed,
    /// A datagram could not be sent, or the network complained about an earlier one; or a listener could not take a
    /// connection. The socket goes on.
    Failed(Cause),
    /// A socket or connection has ended: as was asked ([`Cause::Asked`]), or for another cause. Its `Id` is spent, and
    /// its slot is no other's before this has been told.
    Closed(Cause),
    /// A [`Waker`] was used.
    Woken,
}

/// The `Id` of events that concern no socket.
pub(crate) const NO_SOCKET: Id = Id::NONE;

/// Datagrams, or visits to connections, that a turn lends before it returns: half a millisecond of work at the rate of one CPU.
pub(crate) const TURN_DATAGRAMS: u64 = 256;

/// A worker's life inside its engine, whichever that is.
pub trait EngineBody<R> {
    /// Runs with the engine; when it returns, the engine and all its sockets are dropped.
    fn run<E: Engine>(self, engine: E) -> R;
}

/// Builds the engine of that kind in the calling thread, and runs the body with it.
///
/// # Errors
/// When a setting is out of range, or the kernel does not give what the engine needs (see [`choose`]).
pub fn run_engine<R>(kind: EngineKind, settings: &EngineSettings, body: impl EngineBody<R>) -> io::Result<R> {
    settings.check()?;
    Ok(match kind {
        EngineKind::Epoll => {
            let driver = epoll::Readiness::new(settings)?;
            body.run(Driven::new(
                driver,
                settings,
                Backend::Readiness,
                Wakeable::new()?,
            )?)
        }
        EngineKind::IoUring => {
            let driver = uring::Completions::new(settings)?;
            body.run(Driven::new(
                driver,
                settings,
                Backend::Completion,
                Wakeable::new()?,
            )?)
        }
    })
}
