//! Connections over epoll. Input: readiness events. Output: connections accepted and opened, bytes lent and sent.
//!
//! Events are edge-triggered: epoll reports each condition once, when it begins. The state is kept here until a call
//! finds that the condition has ended. A request therefore costs one receive, one send, and a share of the turn's wait.

use super::Readiness;
use crate::engine::cause::Cause;
use crate::engine::id::Id;
use crate::engine::ops::Ops;
use crate::engine::settings::EngineSettings;
use crate::engine::slab::PerSlot;
use crate::engine::streams::{
    FlushedStream, Handle, Phase, StreamDriver, accept_failed, accepted, end, flush, opened, peer_ended,
    unblocked,
};
use crate::engine::{Event, Handler};
use crate::system::memory::Pages;
use crate::system::poll::Ready;
use crate::system::stream;
use crate::time::Time;
use std::collections::VecDeque;
use std::io;

/// Connections accepted per visit to a listener, so that new connections do not delay open ones.
const ACCEPTS: usize = 32;

pub(super) struct Connections {
    /// The reported state of each slot.
    states: PerSlot<State>,
    /// Slots to visit.
    pub(super) ready: VecDeque<u32>,
    /// The receive buffer, lent to the handler.
    memory: Pages,
    buffer_bytes: usize,
}

#[derive(Clone, Copy, Default, Debug)]
struct State {
    watched: bool,
    /// A receive or accept may succeed.
    readable: bool,
    /// The peer has ended its side: after a short receive, another one must follow.
    ended: bool,
    /// Whether the slot is in `ready`.
    listed: bool,
}

impl Connections {
    pub(super) fn new(settings: &EngineSettings) -> io::Result<Self> {
        Ok(Self {
            states: PerSlot::default(),
            ready: VecDeque::new(),
            memory: Pages::new(settings.stream_buffer_bytes)?,
            buffer_bytes: settings.stream_buffer_bytes,
        })
    }

    pub(super) fn memory(&self) -> &Pages {
        &self.memory
    }

    fn list(&mut self, slot: u32) {
        let state = self.states.at(slot);
        if !state.listed {
            state.listed = true;
            self.ready.push_back(slot);
        }
    }

    /// Records an event of epoll.
    pub(super) fn note(&mut self, ops: &mut Ops, id: Id, event: Ready) {
        if !ops.streams.is_current(id) {
            return;
        }
        let slot = id.slot() as u32;
        let stream = ops.streams.at(slot);
        let connecting = stream.phase == Phase::Connecting;
        let visited = stream.receiving || connecting;
        if event.write && stream.blocked {
            unblocked(ops, slot);
        }
        let state = self.states.at(slot);
        state.ended |= event.ended || event.failed;
        state.readable |= event.read || event.ended || event.failed || (connecting && event.write);
        if state.readable && (visited || event.failed) {
            self.list(slot);
        }
    }
}

impl Readiness {
    fn accept(&mut self, ops: &mut Ops, slot: u32, now: Time, on: &mut impl Handler) {
        let listener = ops.streams.id(slot);
        for _ in 0..ACCEPTS {
            let Some(stream) = ops.streams.open(listener).filter(|stream| stream.receiving) else {
                return;
            };
            let Some(socket) = stream.descriptor() else { return };
            ops.counters.calls.receive += 1;
            match stream::accept(socket) {
                Ok((connection, peer)) => {
                    let connection = (Handle::Kernel(connection), peer);
                    accepted(self, ops, listener, connection, now, on);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.connections.states.at(slot).readable = false;
                    return;
                }
                Err(error) => {
                    if !accept_failed(self, ops, slot, Cause::from_error(&error), now) {
                        return;
                    }
                }
            }
        }
        self.connections.list(slot);
    }

    fn receive(&mut self, ops: &mut Ops, slot: u32, now: Time, on: &mut impl Handler) {
        let Connections {
            states,
            memory,
            buffer_bytes,
            ..
        } = &mut self.connections;
        let stream = ops.streams.at(slot);
        let state = states.at(slot);
        let Some(connection) = stream.descriptor() else {
            return;
        };
        if !stream.receiving || stream.closing || stream.over || !state.readable {
            // A reset is reported even if the owner does not receive.
            if state.ended
                && let Err(error) = stream::take_error(connection)
            {
                end(self, ops, slot, Cause::from_error(&error));
            }
            return;
        }
        let (id, broken) = (ops.streams.id(slot), stream.broken);
        ops.counters.calls.receive += 1;
        let received = match stream::receive(connection, memory.bytes_mut(0..*buffer_bytes)) {
            Ok(0) => {
                state.readable = false;
                return peer_ended(self, ops, slot, now, on);
            }
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return self.connections.list(slot),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                state.readable = false;
                if let Some(cause) = broken {
                    end(self, ops, slot, cause);
                }
                return;
            }
            Err(error) => return end(self, ops, slot, Cause::from_error(&error)),
        };
        // A short receive emptied the socket; epoll reports later arrivals.
        if received < *buffer_bytes && !state.ended {
            state.readable = false;
        } else {
            self.connections.list(slot);
        }
        ops.counters.streams.bytes_received += received as u64;
        let bytes = self.connections.memory.bytes(0..received);
        on.event(ops, now, id, Event::Bytes(bytes));
    }
}

impl StreamDriver for Readiness {
    fn now(&self) -> Time {
        Time::now()
    }

    fn watch(&mut self, ops: &mut Ops, slot: u32) -> io::Result<()> {
        if let Some(descriptor) = ops.streams.at(slot).descriptor() {
            self.poll
                .watch_stream(descriptor, ops.streams.id(slot).to_bits())?;
            self.connections.states.at(slot).watched = true;
        }
        Ok(())
    }

    fn apply_stream(&mut self, ops: &mut Ops, slot: u32, wanted: bool) -> io::Result<()> {
        if !self.connections.states.at(slot).watched {
            self.watch(ops, slot)?;
        }
        if wanted && self.connections.states.at(slot).readable {
            self.connections.list(slot);
        }
        Ok(())
    }

    fn send_stream(&mut self, ops: &mut Ops, slot: u32) -> Option<FlushedStream> {
        Some(flush(ops, slot))
    }

    fn lend_rest(&mut self, slot: u32) {
        let state = self.connections.states.at(slot);
        (state.readable, state.ended) = (true, true);
        self.connections.list(slot);
    }

    /// The slot may stay listed: a later visit to its next stream finds nothing to do.
    fn release(&mut self, _ops: &mut Ops, slot: u32) {
        let state = self.connections.states.at(slot);
        *state = State {
            listed: state.listed,
            ..State::default()
        };
    }

    fn visit(&mut self, ops: &mut Ops, now: Time, on: &mut impl Handler) -> bool {
        let Some(slot) = self.connections.ready.pop_front() else {
            return false;
        };
        self.connections.states.at(slot).listed = false;
        match ops.streams.at(slot).phase {
            Phase::Listening => self.accept(ops, slot, now, on),
            Phase::Connecting => opened(self, ops, slot, now, on),
            Phase::Open(_) => self.receive(ops, slot, now, on),
        }
        true
    }
}
