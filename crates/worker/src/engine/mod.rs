//! One worker's I/O, datagrams and TCP: a [`turn`](Engine::turn) performs the operations queued in [`Ops`] and passes
//! received data to a [`Handler`].
//!
//! There are two engines: epoll and io_uring. [`run_engine`] chooses one, and the code that uses it is compiled for
//! each. A third one, over a simulated network with a virtual clock, exists for tests only (feature `simulated`).

pub(crate) mod arena;
mod cause;
mod chains;
mod choice;
pub(crate) mod datagrams;
mod driver;
mod epoll;
mod flush;
mod id;
mod ops;
mod output;
mod received;
pub(crate) mod sends;
mod settings;
#[cfg(feature = "simulated")]
pub mod simulated;
mod slab;
mod slots;
mod sockets;
mod streams;
mod uring;
mod wake;

pub use cause::{Calls, Cause, EngineCounters, FailureCounts, OriginCounters, StreamCounters};
pub use choice::{Chosen, EngineKind, MOST_ON_THE_RING, NoEngine, choose, choose_batching};
pub use datagrams::{Datagram, Datagrams};
pub use id::Id;
pub use ops::Ops;
pub use output::Output;
pub use received::LastReceived;
pub use sends::Full;
pub use settings::EngineSettings;
pub use slots::Slots;
pub use sockets::{Listener, Socket, Source};
pub use streams::{ConnectOptions, NoRemote, Remote, StreamInformation};
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

    /// Performs queued operations, waits for an arrival, a wake-up or `until`, and passes received data to the handler.
    ///
    /// The work per turn is bounded (some hundred datagrams or connections), so that the caller's own timers are not
    /// late. It may return early with nothing done. If `until` is in the past it does not wait. Operations queued by a
    /// handler are performed by the next turn at the latest.
    ///
    /// # Errors
    /// If the engine itself fails, never because of one socket.
    fn turn(&mut self, until: Time, on: &mut impl Handler) -> io::Result<()>;

    /// Ends all operations, as dropping the engine does, and returns the counters, which include what was sent
    /// meanwhile. No turn may follow.
    fn finish(&mut self) -> EngineCounters;

    /// A handle that ends a waiting turn.
    fn waker(&self) -> Waker;

    /// The memory that datagrams are received into and sent from.
    fn buffers(&self) -> Buffers;
}

/// What a worker does with what arrives.
pub trait Handler {
    /// An event on a socket. `now` is read once per batch, after it was received; for TCP it is at most eight
    /// connection visits (some ten microseconds) old. Borrowed data is valid during the call. [`Event::Woken`] has an
    /// [`Id`] that names no socket.
    fn event(&mut self, ops: &mut Ops, now: Time, id: Id, event: Event<'_>);

    /// Bytes that have been received on a connection, whose event follows some events later: what handling them needs can be
    /// loaded into the cache meanwhile. An engine that receives one connection after the other does not call it.
    #[inline]
    fn upcoming(&mut self, _bytes: &[u8]) {}
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
    /// A connection is open: one accepted by `listener`, under a new `Id`; or, without a listener, one of
    /// [`Ops::connect`].
    Opened {
        /// The local address.
        listener: Option<Id>,
        /// The other end; `None` of a Unix socket.
        peer: Option<SocketAddr>,
    },
    /// Bytes of a connection, in order, in pieces of any length.
    Bytes(&'a [u8]),
    /// The kernel accepted everything queued, after [`Ops::notify_drained`] requested this event.
    Drained,
    /// The peer has ended its side of a connection and sends nothing more; this side stays open until it is closed.
    PeerClosed,
    /// A datagram could not be sent, or an ICMP error about an earlier one arrived; or a listener could not accept a
    /// connection. The socket stays open.
    Failed(Cause),
    /// A socket or connection has ended: by request ([`Cause::Asked`]), or for another cause. Its `Id` is invalid from
    /// now on, and its slot is not reused before this event.
    Closed(Cause),
    /// A [`Waker`] was used.
    Woken,
}

/// Datagrams or connection visits per turn: half a millisecond of work on one CPU.
pub(crate) const TURN_DATAGRAMS: u64 = 256;

/// A worker's life inside its engine, whichever that is.
pub trait EngineBody<R> {
    /// Runs with the engine; when it returns, the engine and all its sockets are dropped.
    fn run<E: Engine>(self, engine: E) -> R;
}

/// Builds the engine of that kind in the calling thread, and runs the body with it.
///
/// # Errors
/// If a setting is out of range, or the kernel does not provide what the engine needs (see [`choose`]).
pub fn run_engine<R>(kind: EngineKind, settings: &EngineSettings, body: impl EngineBody<R>) -> io::Result<R> {
    settings.check()?;
    Ok(match kind {
        EngineKind::Epoll => {
            let (driver, wakeable) = (epoll::Readiness::new(settings)?, Wakeable::new()?);
            body.run(Driven::new(driver, settings, Backend::Readiness, wakeable)?)
        }
        EngineKind::IoUring => {
            let driver = uring::Completions::new(settings).map_err(uring::not_built)?;
            let wakeable = Wakeable::new()?;
            body.run(Driven::new(driver, settings, Backend::Completion, wakeable)?)
        }
    })
}
