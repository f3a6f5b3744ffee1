//! The public interface of the simulated network: sockets, groups, seats, counters.

use super::settings::{NetworkCounters, NetworkSettings};
use super::state::{Kind, State, Steer};
use crate::engine::wake::Waker;
use crate::time::Time;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// An in-memory network. Clones refer to the same network.
#[derive(Clone)]
pub struct Network {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// Notified when an engine may continue.
    scheduled: Condvar,
}

impl fmt::Debug for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Network").finish_non_exhaustive()
    }
}

impl Network {
    /// An empty network; its clock starts at one second.
    #[must_use]
    pub fn new(settings: NetworkSettings) -> Self {
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(State::new(settings)),
                scheduled: Condvar::new(),
            }),
        }
    }

    /// A socket bound to an address; port 0 selects a free port.
    ///
    /// # Errors
    /// `AddrInUse`.
    pub fn socket(&self, address: SocketAddr) -> io::Result<SimulatedSocket> {
        self.alone(Kind::Datagrams, address)
    }

    /// Sockets that share an address. `steer` maps a datagram's source and destination to the index of a socket. An
    /// index out of range drops the datagram, so that a wrong program is noticed; Linux would fall back to its own
    /// hash.
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

    /// A listener on an address; port 0 selects a free port.
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

    pub(super) fn end(&self, number: usize) -> SimulatedSocket {
        SimulatedSocket {
            network: self.clone(),
            number,
        }
    }

    /// A seat for an engine on another thread. The clock advances only while every seat's engine waits. If all seats
    /// are created before the first thread starts, the run does not depend on which thread starts first.
    #[must_use]
    pub fn seat(&self) -> Seat {
        Seat {
            place: self.state().add_seat(),
            network: self.clone(),
        }
    }

    /// The virtual time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.state().now
    }

    /// The counters so far.
    #[must_use]
    pub fn counters(&self) -> NetworkCounters {
        self.state().counters
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Handlers run without the lock: a panic in one leaves the state consistent.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A datagram socket, listener or connection end of a simulated network. Dropping it frees its address.
#[derive(Debug)]
pub struct SimulatedSocket {
    network: Network,
    pub(super) number: usize,
}

impl SimulatedSocket {
    /// The address it is bound to.
    #[must_use]
    pub fn local_address(&self) -> SocketAddr {
        self.network.state().end(self.number).local
    }

    /// Connects the socket: it accepts datagrams only from this peer, sends to it by default, and reports an error if
    /// no socket is bound there.
    pub fn connect(&self, peer: SocketAddr) {
        self.network.state().end(self.number).peer = Some(peer);
    }
}

impl Drop for SimulatedSocket {
    fn drop(&mut self) {
        self.network.state().close(self.number, false);
    }
}

/// A slot for one of the engines that a network's clock waits for. Dropping it, or its engine, releases the slot.
#[derive(Debug)]
pub struct Seat {
    pub(super) place: usize,
    pub(super) network: Network,
}

impl Seat {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.network.state()
    }

    pub(super) fn take_place(&self, waker: Waker) {
        let mut state = self.state();
        let seat = state.seat(self.place);
        seat.thread = Some(thread::current().id());
        seat.waker = Some(waker);
    }

    /// Whether the engine may continue; at its first turn it waits until all others have started.
    pub(super) fn starts(&self) -> bool {
        let started = std::mem::replace(&mut self.state().seat(self.place).started, true);
        started || self.wait(Time::default())
    }

    /// Whether the engine has events or a wake to handle now.
    pub(super) fn has_something(&self) -> bool {
        let mut state = self.state();
        state.settle();
        state.has_something(self.place)
    }

    /// Waits for an arrival, a wake or the deadline. Returns whether this engine continues; otherwise another engine of
    /// the thread does, and the turn must return.
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
