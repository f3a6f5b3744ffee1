//! The simulated network as its users see it: sockets, groups, seats, counts.

use super::settings::{NetworkCounters, NetworkSettings};
use super::state::{EndEvent, Kind, State, Steer};
use crate::engine::id::Id;
use crate::engine::wake::Waker;
use crate::time::Time;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// A network in memory. Clones are the same network.
#[derive(Clone)]
pub struct Network {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// Notified when an engine may go on.
    scheduled: Condvar,
}

impl fmt::Debug for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Network").finish_non_exhaustive()
    }
}

impl Network {
    /// An empty network whose clock shows one second.
    #[must_use]
    pub fn new(settings: NetworkSettings) -> Self {
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(State::new(settings)),
                scheduled: Condvar::new(),
            }),
        }
    }

    /// A socket bound to an address; port 0 takes a free one.
    ///
    /// # Errors
    /// `AddrInUse`.
    pub fn socket(&self, address: SocketAddr) -> io::Result<SimulatedSocket> {
        self.alone(Kind::Datagrams, address)
    }

    /// Sockets that share an address. `steer` names the one that a datagram from a source to the address goes to; out of
    /// range drops it, where Linux would fall back to a hash of its own, so that a wrong program does not go unseen.
    ///
    /// # Errors
    /// `AddrInUse`.
    pub fn group(
        &self,
        address: SocketAddr,
        buckets: usize,
        steer: impl Fn(SocketAddr, SocketAddr) -> usize + Send + 'static,
    ) -> io::Result<Vec<SimulatedSocket>> {
        self.bind(Kind::Datagrams, address, buckets, Box::new(steer))
    }

    /// A listener on an address; port 0 takes a free one.
    ///
    /// # Errors
    /// `AddrInUse`.
    pub fn listener(&self, address: SocketAddr) -> io::Result<SimulatedSocket> {
        self.alone(Kind::Listener, address)
    }

    fn alone(&self, kind: Kind, address: SocketAddr) -> io::Result<SimulatedSocket> {
        let mut sockets = self.bind(kind, address, 1, Box::new(|_, _| 0))?;
        sockets.pop().ok_or_else(|| io::ErrorKind::AddrInUse.into())
    }

    fn bind(
        &self,
        kind: Kind,
        address: SocketAddr,
        buckets: usize,
        steer: Steer,
    ) -> io::Result<Vec<SimulatedSocket>> {
        let ends = self.state().bind(kind, address, buckets, steer)?;
        Ok(ends.into_iter().map(|end| self.end(end)).collect())
    }

    fn end(&self, number: usize) -> SimulatedSocket {
        SimulatedSocket {
            network: self.clone(),
            number,
        }
    }

    /// A place for an engine on another thread. The clock waits until every seat's engine waits: take all seats before
    /// the first thread starts, and a run is the same whatever thread starts first.
    #[must_use]
    pub fn seat(&self) -> Seat {
        Seat {
            place: self.state().add_seat(),
            network: self.clone(),
        }
    }

    /// What the clock shows.
    #[must_use]
    pub fn now(&self) -> Time {
        self.state().now
    }

    /// What happened so far.
    #[must_use]
    pub fn counters(&self) -> NetworkCounters {
        self.state().counters
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A handler that panicked did so outside: the state is whole.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A socket of a simulated network, a listener, or an end of a connection; dropping it frees its address.
#[derive(Debug)]
pub struct SimulatedSocket {
    network: Network,
    number: usize,
}

impl SimulatedSocket {
    /// The address it is bound to.
    #[must_use]
    pub fn local_address(&self) -> SocketAddr {
        self.network.state().end(self.number).local
    }

    /// Takes datagrams from this peer alone, sends to it by default, and hears when nobody listens there.
    pub fn connect(&self, peer: SocketAddr) {
        self.network.state().end(self.number).peer = Some(peer);
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }
}

impl Drop for SimulatedSocket {
    fn drop(&mut self) {
        self.network.state().close(self.number, false);
    }
}

/// A place among the engines that a network's clock waits for. Dropping it, or its engine, gives the place up.
#[derive(Debug)]
pub struct Seat {
    place: usize,
    network: Network,
}

impl Seat {
    pub(super) fn now(&self) -> Time {
        self.network.now()
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.network.state()
    }

    pub(super) fn socket(&self, number: usize) -> SimulatedSocket {
        self.network.end(number)
    }

    pub(super) fn take_place(&self, waker: Waker) {
        let mut state = self.state();
        let seat = state.seat(self.place);
        seat.thread = Some(thread::current().id());
        seat.waker = Some(waker);
    }

    /// Whether the engine may go on: at its first turn it waits until all others are there.
    pub(super) fn starts(&self) -> bool {
        let started = std::mem::replace(&mut self.state().seat(self.place).started, true);
        started || self.wait(Time::default())
    }

    /// Has the news of a socket or an end count for this seat.
    pub(super) fn watch(&self, number: usize, id: Id, receiving: bool) {
        self.state().watch(number, (self.place, id), receiving);
    }

    /// The next news of one of this seat's streams or datagram sockets.
    pub(super) fn take(
        &self,
        of_streams: bool,
        most: usize,
        most_bytes: usize,
    ) -> Option<(Id, Vec<EndEvent>)> {
        self.state().take(self.place, of_streams, most, most_bytes)
    }

    /// Whether the engine has something to do now.
    pub(super) fn has_something(&self) -> bool {
        let mut state = self.state();
        state.settle();
        state.has_something(self.place)
    }

    /// Waits for an arrival, a wake or the deadline. Returns whether this engine is the one to go on; otherwise another
    /// of its thread is, and the turn returns.
    pub(super) fn wait(&self, until: Time) -> bool {
        let own = thread::current().id();
        let mut state = self.state();
        state.seat(self.place).parked = Some(until);
        if state.all_parked() {
            state.schedule(self.place);
            self.network.shared.scheduled.notify_all();
        }
        let scheduled = &self.network.shared.scheduled;
        let waited = scheduled.wait_while(state, |state| !state.runs_on(own));
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        state.seat(self.place).parked.is_none()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.state();
        state.remove_seat(self.place);
        if state.all_parked() {
            state.schedule(self.place);
        }
        self.network.shared.scheduled.notify_all();
    }
}
