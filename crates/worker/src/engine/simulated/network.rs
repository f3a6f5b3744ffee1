//! The simulated network as its users see it: settings, sockets, groups, seats, counts.

use super::SimulatedEngine;
use super::settings::{NetworkCounters, NetworkSettings};
use super::state::{Payload, State, StreamEvent};
use crate::engine::cause::Cause;
use crate::engine::id::Id;
use crate::engine::settings::EngineSettings;
use crate::engine::wake::Waker;
use crate::time::Time;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// A network in memory. Clones are the same network.
#[derive(Clone, Debug)]
pub struct Network {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Told when an engine may go on.
    scheduled: Condvar,
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
        let mut sockets = self.group(address, 1, |_, _| 0)?;
        sockets.pop().ok_or_else(|| io::ErrorKind::AddrInUse.into())
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
        let endpoints = self.state().bind(address, buckets, Box::new(steer))?;
        let socket = |endpoint| SimulatedSocket {
            network: self.clone(),
            endpoint,
        };
        Ok(endpoints.into_iter().map(socket).collect())
    }

    /// A listener on an address; port 0 takes a free one.
    ///
    /// # Errors
    /// `AddrInUse`.
    pub fn listener(&self, address: SocketAddr) -> io::Result<SimulatedListener> {
        let mut listeners = self.listeners(address, 1, |_, _| 0)?;
        listeners.pop().ok_or_else(|| io::ErrorKind::AddrInUse.into())
    }

    /// Listeners that share an address. `steer` names the one that a connection from a source to the address goes to;
    /// out of range refuses it.
    ///
    /// # Errors
    /// `AddrInUse`.
    pub fn listeners(
        &self,
        address: SocketAddr,
        buckets: usize,
        steer: impl Fn(SocketAddr, SocketAddr) -> usize + Send + 'static,
    ) -> io::Result<Vec<SimulatedListener>> {
        let ends = self.state().listen(address, buckets, Box::new(steer))?;
        let listener = |end| SimulatedListener {
            network: self.clone(),
            end,
        };
        Ok(ends.into_iter().map(listener).collect())
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

    /// An engine for the calling thread.
    ///
    /// # Errors
    /// A setting out of range, or no memory.
    pub fn engine(&self, settings: &EngineSettings) -> io::Result<SimulatedEngine> {
        self.seat().engine(settings)
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

/// A socket of a simulated network; dropping it frees its address.
#[derive(Debug)]
pub struct SimulatedSocket {
    network: Network,
    endpoint: usize,
}

impl SimulatedSocket {
    /// The address it is bound to.
    #[must_use]
    pub fn local_address(&self) -> SocketAddr {
        self.network.state().endpoint(self.endpoint).address
    }

    /// Takes datagrams from this peer alone, sends to it by default, and hears when nobody listens there.
    pub fn connect(&self, peer: SocketAddr) {
        self.network.state().endpoint(self.endpoint).peer = Some(peer);
    }

    pub(super) fn endpoint(&self) -> usize {
        self.endpoint
    }
}

impl Drop for SimulatedSocket {
    fn drop(&mut self) {
        self.network.state().unbind(self.endpoint);
    }
}

/// A listener of a simulated network; dropping it frees its address and resets the connections that wait at it.
#[derive(Debug)]
pub struct SimulatedListener {
    network: Network,
    end: usize,
}

impl SimulatedListener {
    /// The address it listens on.
    #[must_use]
    pub fn local_address(&self) -> SocketAddr {
        self.network.state().local_of_end(self.end)
    }

    pub(super) fn end(&self) -> usize {
        self.end
    }
}

impl Drop for SimulatedListener {
    fn drop(&mut self) {
        self.network.state().close_stream(self.end, false);
    }
}

/// An end of a connection: its number, and its address.
#[derive(Debug)]
pub(crate) struct SimulatedEnd {
    pub(super) end: usize,
    pub(crate) local: SocketAddr,
}

/// A place among the engines that a network's clock waits for. Dropping it, or its engine, gives the place up.
#[derive(Debug)]
pub struct Seat {
    place: usize,
    network: Network,
}

impl Seat {
    /// The engine of this seat, on the calling thread.
    ///
    /// # Errors
    /// A setting out of range, or no memory.
    pub fn engine(self, settings: &EngineSettings) -> io::Result<SimulatedEngine> {
        SimulatedEngine::new(self, settings)
    }

    pub(super) fn now(&self) -> Time {
        self.network.now()
    }

    pub(super) fn take_place(&self, waker: Waker) {
        let mut state = self.network.state();
        let seat = state.seat(self.place);
        seat.thread = Some(thread::current().id());
        seat.waker = Some(waker);
    }

    /// Whether the engine may go on: at its first turn it waits until all others are there.
    pub(super) fn starts(&self) -> bool {
        let started = {
            let mut state = self.network.state();
            let seat = state.seat(self.place);
            std::mem::replace(&mut seat.started, true)
        };
        started || self.wait(Time::default())
    }

    /// Has an endpoint's arrivals count for this seat.
    pub(super) fn watch(&self, endpoint: usize, id: Id, wanted: bool) {
        let watcher = wanted.then_some((self.place, id));
        self.network.state().watch(endpoint, watcher);
    }

    /// Sends a datagram; an error is an error number.
    pub(super) fn send(&self, endpoint: usize, peer: Option<SocketAddr>, payload: &[u8]) -> Result<(), i32> {
        self.network.state().send(endpoint, peer, payload)
    }

    /// Has an end's news count for this seat.
    pub(super) fn watch_end(&self, end: usize, id: Id, receiving: bool) {
        self.network.state().watch_end(end, (self.place, id), receiving);
    }

    /// Begins to open a connection; an error is an error number.
    pub(super) fn connect(&self, to: SocketAddr, local: Option<SocketAddr>) -> Result<SimulatedEnd, i32> {
        let mut state = self.network.state();
        let end = state.connect(to, local)?;
        let local = state.local_of_end(end);
        Ok(SimulatedEnd { end, local })
    }

    /// What an engine keeps of an end.
    pub(super) fn end(&self, end: usize) -> SimulatedEnd {
        let local = self.network.state().local_of_end(end);
        SimulatedEnd { end, local }
    }

    /// Sends what there is room for.
    pub(super) fn send_stream(&self, end: usize, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.network.state().send_stream(end, bytes);
        sent.map_err(io::Error::from_raw_os_error)
    }

    pub(super) fn end_stream(&self, end: usize) {
        self.network.state().end_stream(end);
    }

    pub(super) fn close_stream(&self, end: usize, reset: bool) {
        self.network.state().close_stream(end, reset);
    }

    /// The next news of this seat's streams.
    pub(super) fn next_stream_event(&self, most_bytes: usize) -> Option<(Id, StreamEvent)> {
        self.network.state().next_stream_event(self.place, most_bytes)
    }

    /// Whether the engine has something to do now.
    pub(super) fn has_something(&self) -> bool {
        let mut state = self.network.state();
        state.settle();
        state.has_something(self.place)
    }

    /// The next socket of this seat that has something.
    pub(super) fn next_ready(&self) -> Option<Id> {
        self.network.state().next_ready(self.place)
    }

    pub(super) fn receive(&self, endpoint: usize, most: usize) -> Vec<(SocketAddr, Payload)> {
        self.network.state().receive(endpoint, most)
    }

    pub(super) fn complaints(&self, endpoint: usize) -> Vec<Cause> {
        std::mem::take(&mut self.network.state().endpoint(endpoint).complaints)
    }

    /// Waits for an arrival, a wake or the deadline. Returns whether this engine is the one to go on; otherwise another
    /// of its thread is, and the turn returns.
    pub(super) fn wait(&self, until: Time) -> bool {
        let own = thread::current().id();
        let mut state = self.network.state();
        state.seat(self.place).parked = Some(until);
        if state.all_parked() {
            state.schedule(self.place);
            self.network.shared.scheduled.notify_all();
        }
        while !state.runs_on(own) {
            state = self
                .network
                .shared
                .scheduled
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.seat(self.place).parked.is_none()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.network.state();
        state.remove_seat(self.place);
        if state.all_parked() {
            state.schedule(self.place);
        }
        self.network.shared.scheduled.notify_all();
    }
}
