//! Connections over readiness: what epoll tells goes in, connections accepted and opened, bytes lent and sent come out.
//!
//! epoll tells each thing once, when it begins. It is remembered here until a call finds it over: so a request costs one
//! receive and one send, and the wait that all requests of a turn share.

use super::flush::{FlushedStream, flush};
use super::{Handle, Phase};
use crate::engine::cause::Cause;
use crate::engine::id::Id;
use crate::engine::ops::Ops;
use crate::engine::settings::EngineSettings;
use crate::engine::{Event, Handler, TURN_DATAGRAMS};
use crate::system::memory::Pages;
use crate::system::poll::{Poll, Ready};
use crate::system::stream;
use crate::time::Time;
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// Connections accepted in one visit to a listener, so that those that are open are not kept waiting by new ones.
const ACCEPTS: usize = 32;

/// Visits between two looks at the clock: it costs some 30 ns, a visit some 2 µs.
pub(crate) const VISITS_PER_CLOCK: u64 = 8;

/// How long a listener that found no descriptor waits before it tries again, when none of ours was closed meanwhile.
pub(crate) const STARVED: Duration = Duration::from_millis(10);

pub(crate) struct Readiness {
    /// What was told of each slot.
    states: Vec<State>,
    /// Slots with something to visit for.
    ready: VecDeque<u32>,
    /// What is lent.
    memory: Pages,
    buffer_bytes: usize,
}

#[derive(Clone, Copy, Default, Debug)]
struct State {
    watched: bool,
    /// There may be something to receive or accept.
    readable: bool,
    /// The peer has ended its side: a short receive is not the last one.
    ended: bool,
    /// The end was lent: there is nothing more to receive.
    over: bool,
    /// The connection took no more; it is told when it does again.
    blocked: bool,
    /// Whether the slot is in the list of those to visit.
    listed: bool,
    /// A listener for which there was no descriptor.
    starved: bool,
}

impl Readiness {
    pub(crate) fn new(settings: &EngineSettings) -> io::Result<Self> {
        Ok(Self {
            states: Vec::new(),
            ready: VecDeque::new(),
            memory: Pages::new(settings.stream_buffer_bytes)?,
            buffer_bytes: settings.stream_buffer_bytes,
        })
    }

    pub(crate) fn memory(&self) -> &Pages {
        &self.memory
    }

    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Carries out what changed and sends what is queued.
    pub(crate) fn perform(&mut self, ops: &mut Ops, poll: &mut Poll) {
        if ops.streams.is_idle() && ops.streams.deadlines.is_empty() {
            return;
        }
        while let Some(slot) = ops.streams.changes.pop() {
            self.apply_change(ops, poll, slot);
        }
        self.flush(ops);
        // What was sent may have been all that an end waited for.
        while let Some(slot) = ops.streams.changes.pop() {
            self.apply_change(ops, poll, slot);
        }
        if !ops.streams.deadlines.is_empty() {
            let now = Time::now();
            while let Some(id) = ops.streams.deadlines.expired(now) {
                self.passed(ops, id);
            }
        }
    }

    fn apply_change(&mut self, ops: &mut Ops, poll: &mut Poll, slot: u32) {
        let stream = ops.streams.at_mut(slot);
        stream.changed = false;
        self.state(slot);
        if stream.closing && (stream.queue.is_empty() || stream.broken.is_some()) {
            let cause = stream.broken.unwrap_or(Cause::Asked);
            self.end(ops, slot, cause);
            return;
        }
        if stream.phase == Phase::Connecting
            && stream.descriptor().is_none()
            && let Err(error) = ops.begin_connect(slot)
        {
            return self.fail(ops, slot, Cause::from_error(&error));
        }
        if !self.states[slot as usize].watched
            && let Err(error) = self.watch(ops, poll, slot)
        {
            return self.fail(ops, slot, Cause::from_error(&error));
        }
        let stream = ops.streams.at_mut(slot);
        if stream.receiving && self.states[slot as usize].readable {
            self.list(slot);
        }
        ops.settle(slot);
    }

    fn watch(&mut self, ops: &Ops, poll: &mut Poll, slot: u32) -> io::Result<()> {
        if let Some(descriptor) = ops.streams.at(slot).descriptor() {
            poll.watch_stream(descriptor, ops.streams.id(slot).to_bits())?;
            self.state(slot).watched = true;
        }
        Ok(())
    }

    fn state(&mut self, slot: u32) -> &mut State {
        if self.states.len() <= slot as usize {
            self.states.resize(slot as usize + 1, State::default());
        }
        &mut self.states[slot as usize]
    }

    fn list(&mut self, slot: u32) {
        let state = &mut self.states[slot as usize];
        if !state.listed {
            state.listed = true;
            self.ready.push_back(slot);
        }
    }

    /// Sends what is queued, wherever it is not known that nothing goes.
    fn flush(&mut self, ops: &mut Ops) {
        let mut waiting = std::mem::take(&mut ops.streams.waiting);
        for slot in waiting.drain(..) {
            ops.streams.at_mut(slot).waiting = false;
            self.flush_one(ops, slot);
        }
        // Nothing queues while this sends: the list's memory is kept for the next time.
        ops.streams.waiting = waiting;
    }

    fn flush_one(&mut self, ops: &mut Ops, slot: u32) {
        let stream = ops.streams.at(slot);
        if stream.phase != Phase::Open || self.state(slot).blocked {
            let (stream, outgoing) = ops.streams.parts(slot);
            outgoing.keep(&stream.queue);
            return;
        }
        match flush(ops, slot) {
            FlushedStream::All => {
                let stream = ops.streams.at(slot);
                if stream.closing || stream.ending || stream.tell_drained {
                    ops.streams.note_change(slot);
                }
            }
            FlushedStream::Blocked => self.states[slot as usize].blocked = true,
            FlushedStream::Broken(cause) => self.broken(ops, slot, cause),
        }
    }

    /// Nothing more can be sent. What the peer sent before it broke is lent still, if the owner receives.
    fn broken(&mut self, ops: &mut Ops, slot: u32, cause: Cause) {
        let stream = ops.streams.at_mut(slot);
        stream.broken = Some(cause);
        if stream.receiving && !stream.closing && cause == Cause::Reset {
            let state = &mut self.states[slot as usize];
            (state.readable, state.ended) = (true, true);
            self.list(slot);
        } else {
            self.end(ops, slot, cause);
        }
    }

    /// Notes what epoll told.
    pub(crate) fn told(&mut self, ops: &mut Ops, id: Id, told: Ready) {
        if !ops.streams.is_current(id) {
            return;
        }
        let slot = id.slot() as u32;
        let stream = ops.streams.at(slot);
        let visited = stream.receiving || stream.phase == Phase::Connecting;
        let (connecting, cut) = (stream.phase == Phase::Connecting, told.failed);
        let state = self.state(slot);
        if told.write && state.blocked {
            state.blocked = false;
            ops.streams.note_waiting(slot);
        }
        let state = self.state(slot);
        state.ended |= told.ended || told.failed;
        state.readable |= told.read || told.ended || told.failed || (connecting && told.write);
        if state.readable && (visited || cut) {
            self.list(slot);
        }
    }

    /// A deadline has passed: an attempt to connect ends, or a listener tries again.
    fn passed(&mut self, ops: &mut Ops, id: Id) {
        if !ops.streams.is_current(id) {
            return;
        }
        let slot = id.slot() as u32;
        match ops.streams.at(slot).phase {
            Phase::Connecting => self.fail(ops, slot, Cause::TimedOut),
            Phase::Listening => {
                self.states[slot as usize].readable = true;
                self.list(slot);
            }
            Phase::Open => {}
        }
    }

    /// Visits what is ready, from now on, until nothing is, enough was done, or the deadline has come.
    pub(crate) fn serve(
        &mut self,
        ops: &mut Ops,
        poll: &mut Poll,
        (mut now, deadline): (Time, Time),
        on: &mut impl Handler,
    ) {
        let mut visits = 0;
        while visits < TURN_DATAGRAMS
            && let Some(slot) = self.ready.pop_front()
        {
            if visits > 0 && visits % VISITS_PER_CLOCK == 0 {
                now = Time::now();
                if now >= deadline {
                    self.ready.push_front(slot);
                    return;
                }
            }
            visits += 1;
            self.states[slot as usize].listed = false;
            match ops.streams.at(slot).phase {
                Phase::Listening => self.accept(ops, poll, slot, now, on),
                Phase::Connecting => self.opened(ops, slot, now, on),
                Phase::Open => self.receive(ops, slot, now, on),
            }
            self.flush(ops);
        }
    }

    fn accept(&mut self, ops: &mut Ops, poll: &mut Poll, slot: u32, now: Time, on: &mut impl Handler) {
        let listener = ops.streams.id(slot);
        for _ in 0..ACCEPTS {
            let stream = ops.streams.at(slot);
            let wanted = ops.streams.is_open(listener) && stream.receiving;
            let Some(socket) = stream.descriptor().filter(|_| wanted) else {
                return;
            };
            ops.counters.calls.receive += 1;
            match stream::accept(socket, true) {
                Ok((connection, peer)) => {
                    self.states[slot as usize].starved = false;
                    self.accepted(ops, poll, listener, (connection, peer), now, on);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.states[slot as usize].readable = false;
                    return;
                }
                Err(error) => match Cause::from_error(&error) {
                    // It was reset before it was taken, or the network failed it: the next one may be well (accept(2)).
                    Cause::Reset => ops.counters.streams.accept_failed.add(Cause::Reset, 1),
                    Cause::Other(libc::EINTR) => {}
                    cause @ Cause::Other(libc::EINVAL | libc::ENOTSOCK | libc::EBADF | libc::EOPNOTSUPP) => {
                        return self.end(ops, slot, cause);
                    }
                    cause => {
                        let starved = std::mem::replace(&mut self.states[slot as usize].starved, true);
                        return ops.starve(slot, cause, now + STARVED, starved);
                    }
                },
            }
        }
        self.list(slot);
    }

    fn accepted(
        &mut self,
        ops: &mut Ops,
        poll: &mut Poll,
        listener: Id,
        (connection, peer): (std::os::fd::OwnedFd, std::net::SocketAddr),
        now: Time,
        on: &mut impl Handler,
    ) {
        let id = ops.streams.insert(Handle::Kernel(connection), Phase::Open, true);
        let slot = id.slot() as u32;
        *self.state(slot) = State::default();
        if let Err(error) = self.watch(ops, poll, slot) {
            ops.counters
                .streams
                .accept_failed
                .add(Cause::from_error(&error), 1);
            ops.streams.remove(slot);
            return;
        }
        ops.accepted(listener, id, peer, now, on);
    }

    /// An attempt to connect has come to its end.
    fn opened(&mut self, ops: &mut Ops, slot: u32, now: Time, on: &mut impl Handler) {
        let stream = ops.streams.at_mut(slot);
        let Some(connection) = stream.descriptor() else {
            return;
        };
        if let Err(error) = stream::take_error(connection) {
            return self.fail(ops, slot, Cause::from_error(&error));
        }
        ops.connected(slot, now, on);
    }

    fn receive(&mut self, ops: &mut Ops, slot: u32, now: Time, on: &mut impl Handler) {
        let stream = ops.streams.at(slot);
        let state = self.states[slot as usize];
        let Some(connection) = stream.descriptor() else {
            return;
        };
        if !stream.receiving || stream.closing || state.over || !state.readable {
            // Whoever does not receive is told of a reset all the same.
            if state.ended
                && let Err(error) = stream::take_error(connection)
            {
                self.end(ops, slot, Cause::from_error(&error));
            }
            return;
        }
        let broken = stream.broken;
        ops.counters.calls.receive += 1;
        let buffer = self.memory.bytes_mut(0..self.buffer_bytes);
        let received = match stream::receive(connection, buffer) {
            Ok(0) => {
                let state = &mut self.states[slot as usize];
                (state.readable, state.over) = (false, true);
                let id = ops.streams.id(slot);
                return match broken {
                    Some(cause) => self.end(ops, slot, cause),
                    None => on.event(ops, now, id, Event::PeerClosed),
                };
            }
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return self.list(slot),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.states[slot as usize].readable = false;
                if let Some(cause) = broken {
                    self.end(ops, slot, cause);
                }
                return;
            }
            Err(error) => return self.end(ops, slot, Cause::from_error(&error)),
        };
        // A short receive has met the end of what was there; what arrives later is told anew.
        if received < self.buffer_bytes && !state.ended {
            self.states[slot as usize].readable = false;
        } else {
            self.list(slot);
        }
        ops.counters.streams.bytes_received += received as u64;
        let id = ops.streams.id(slot);
        on.event(ops, now, id, Event::Bytes(self.memory.bytes(0..received)));
    }

    /// A connection could not be opened, or a stream not be registered.
    fn fail(&mut self, ops: &mut Ops, slot: u32, cause: Cause) {
        self.forget(slot);
        ops.stream_failed(slot, cause);
    }

    fn end(&mut self, ops: &mut Ops, slot: u32, cause: Cause) {
        self.forget(slot);
        ops.stream_closed(slot, cause);
    }

    /// Still listed, a later visit finds whatever stands in the slot then, and nothing to do for it.
    fn forget(&mut self, slot: u32) {
        let listed = self.state(slot).listed;
        *self.state(slot) = State {
            listed,
            ..State::default()
        };
    }
}
