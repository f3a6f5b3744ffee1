//! The engine over epoll: readiness in, batches of datagrams out. Connections are `streams/readiness.rs`.
//!
//! Sockets told ready are visited in turn, one batch a visit, until they are drained; what a visit's handler queued is
//! sent before the next visit, so that the arena's first blocks stay in the cache.

use super::cause::Cause;
use super::datagrams::{Datagrams, Message};
use super::flush::{Flushed, Flusher};
use super::id::Id;
use super::ops::{Backend, Ops};
use super::settings::EngineSettings;
use super::streams::Readiness;
use super::wake::{Wakeable, Waker};
use super::{Engine, Event, Handler, NO_SOCKET, TURN_DATAGRAMS};
use crate::memory::Buffers;
use crate::system::message::ReceiveBatch;
use crate::system::poll::{Interest, Poll, Ready};
use crate::time::Time;
use std::collections::VecDeque;
use std::io;

pub(crate) struct EpollEngine {
    ops: Ops,
    poll: Poll,
    wakeable: Wakeable,
    received: ReceiveBatch,
    messages: Vec<Message>,
    flusher: Flusher,
    /// What the kernel was told of each slot.
    states: Vec<State>,
    /// Slots that may have something to receive.
    ready: VecDeque<u32>,
    streams: Readiness,
    /// One `recvfrom` and one `sendto` a datagram.
    one_at_a_time: bool,
    /// When the last wait ended.
    taken: Time,
}

#[derive(Clone, Copy, Default, Debug)]
struct State {
    /// What epoll watches for; none before registration.
    interest: Option<Interest>,
    /// Told readable, and not drained since: it need not be told again.
    ready: bool,
    /// The socket took no more; it is told when it does again.
    blocked: bool,
}

impl EpollEngine {
    pub(crate) fn new(settings: &EngineSettings) -> io::Result<Self> {
        let batch = settings.receive_batch();
        Ok(Self {
            ops: Ops::new(settings, Backend::Readiness)?,
            poll: Poll::new(),
            wakeable: Wakeable::new()?,
            received: ReceiveBatch::new(batch, settings.receive_buffer_bytes, settings.gro)?,
            messages: Vec::with_capacity(batch),
            flusher: Flusher::new(settings),
            states: Vec::new(),
            ready: VecDeque::new(),
            streams: Readiness::new(settings)?,
            one_at_a_time: settings.datagram_batch == 1,
            taken: Time::default(),
        })
    }

    /// Sends what is queued, then tells epoll what changed.
    fn perform(&mut self) {
        self.flush();
        while let Some(slot) = self.ops.changes.pop() {
            self.apply_change(slot);
        }
        self.streams.perform(&mut self.ops, &mut self.poll);
    }

    fn apply_change(&mut self, slot: u32) {
        if self.states.len() <= slot as usize {
            self.states.resize(slot as usize + 1, State::default());
        }
        let state = &mut self.states[slot as usize];
        let token = self.ops.sockets.id(slot).to_bits();
        let entry = self.ops.sockets.at_mut(slot);
        entry.changed = false;
        let done = entry.closing && entry.queue.runs == 0 && entry.socket.is_some();
        let wanted = Interest {
            read: entry.receiving && !entry.closing,
            write: state.blocked,
        };
        if done {
            self.forget(slot);
            self.ops.closed(slot);
            return;
        }
        let Some(socket) = entry.descriptor() else {
            return;
        };
        let told = match state.interest {
            None => self.poll.add(socket, token, wanted),
            Some(interest) if interest != wanted => self.poll.change(socket, token, wanted),
            Some(_) => Ok(()),
        };
        state.interest = Some(wanted);
        if wanted.read && state.ready {
            self.ready.push_back(slot);
        }
        if let Err(error) = told {
            *state = State::default();
            self.ops.abandoned(slot, Cause::from_error(&error));
        }
    }

    fn flush(&mut self) {
        for _ in 0..self.ops.waiting.len() {
            let Some(slot) = self.ops.waiting.pop_front() else {
                return;
            };
            self.ops.sockets.at_mut(slot).waiting = false;
            if self.states.len() <= slot as usize {
                self.states.resize(slot as usize + 1, State::default());
            }
            let state = &mut self.states[slot as usize];
            if !state.blocked && self.flusher.flush(&mut self.ops, slot) == Flushed::Blocked {
                state.blocked = true;
                self.ops.note_change(slot);
            }
        }
    }

    /// Notes what epoll told.
    fn sort(&mut self, told: Ready) {
        let id = Id::from_bits(told.token);
        if id.is_stream() {
            self.streams.told(&mut self.ops, id, told);
            return;
        }
        if !self.ops.sockets.is_current(id) {
            return;
        }
        let slot = id.slot() as u32;
        let receives = self.ops.sockets.at(slot).receiving;
        let state = &mut self.states[id.slot()];
        if told.write && state.blocked {
            state.blocked = false;
            self.ops.note_change(slot);
            self.ops.note_waiting(slot);
        }
        if receives && (told.read || told.failed) && !state.ready {
            state.ready = true;
            self.ready.push_back(slot);
        }
        if told.failed && !receives {
            let error = self.ops.sockets.at(slot).socket.as_ref();
            if let Some(Ok(Some(error))) = error.map(|socket| socket.kernel().take_error()) {
                self.ops.complain(slot, Cause::from_error(&error));
            }
        }
    }

    /// Visits ready sockets until none is, enough was lent, or the deadline has come.
    fn serve(&mut self, deadline: Time, on: &mut impl Handler) {
        let mut work = 0;
        while work < TURN_DATAGRAMS
            && let Some(slot) = self.ready.pop_front()
        {
            let (lent, now) = self.visit(slot, on);
            work += lent.max(1);
            self.flush();
            if now >= deadline {
                return;
            }
        }
    }

    /// Receives one batch of a socket and lends it; returns the datagrams lent and when.
    fn visit(&mut self, slot: u32, on: &mut impl Handler) -> (u64, Time) {
        let nothing = (0, Time::default());
        let entry = self.ops.sockets.at(slot);
        let wanted = entry.receiving && !entry.closing && self.states[slot as usize].ready;
        // One that is not wanted now stays ready: it is visited when it is wanted again.
        let Some(socket) = entry.descriptor().filter(|_| wanted) else {
            return nothing;
        };
        self.ops.counters.calls.receive += 1;
        let received = if self.one_at_a_time && !self.received.merges() {
            self.received.receive_one(socket, &mut self.messages)
        } else {
            self.received.receive(socket, &mut self.messages)
        };
        match received {
            // A batch that is not full met an empty queue; whatever arrives later is told anew.
            Ok(count) if count < self.received.capacity() => self.states[slot as usize].ready = false,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.states[slot as usize].ready = false;
                return nothing;
            }
            Ok(_) => self.ready.push_back(slot),
            Err(error) => {
                self.receive_failed(slot, &error);
                return nothing;
            }
        }
        let now = Time::now();
        let lent = self.ops.count_received(&self.messages);
        let id = self.ops.sockets.id(slot);
        let datagrams = Datagrams::new(self.received.memory(), &self.messages);
        on.event(&mut self.ops, now, id, Event::Datagrams(datagrams));
        (lent, now)
    }

    fn receive_failed(&mut self, slot: u32, error: &io::Error) {
        let cause = Cause::from_error(error);
        if cause.is_final() {
            self.forget(slot);
            self.ops.abandoned(slot, cause);
            return;
        }
        self.ready.push_back(slot);
        if error.kind() != io::ErrorKind::Interrupted {
            self.ops.complain(slot, cause);
        }
    }

    /// Has epoll watch a socket no longer. Whatever it says, the socket is closed next.
    fn forget(&mut self, slot: u32) {
        let state = std::mem::take(&mut self.states[slot as usize]);
        if let (Some(_), Some(socket)) = (state.interest, self.ops.sockets.at(slot).descriptor()) {
            let _ = self.poll.remove(socket);
        }
    }

    fn wait(&mut self, until: Time) -> io::Result<()> {
        self.ops.counters.calls.wait += 1;
        let until = until.min(self.ops.streams.deadlines.next_due());
        let ready = !self.ready.is_empty() || self.streams.has_ready();
        let gathered = self.taken + std::mem::take(&mut self.ops.gathering);
        let now = Time::now();
        if ready || self.ops.has_work() || until <= now {
            self.poll.look()?;
        } else {
            if gathered > now {
                self.ops.counters.calls.wait += 1;
                self.wakeable.wait(|mask| Poll::rest(gathered.min(until), mask))?;
            }
            let poll = &mut self.poll;
            self.wakeable.wait(|mask| poll.sleep(until, mask))?;
        }
        for index in 0..self.poll.told() {
            self.sort(self.poll.event(index));
        }
        Ok(())
    }
}

impl Engine for EpollEngine {
    fn ops(&mut self) -> &mut Ops {
        &mut self.ops
    }

    fn now(&self) -> Time {
        Time::now()
    }

    fn turn(&mut self, until: Time, on: &mut impl Handler) -> io::Result<()> {
        self.perform();
        self.wait(until)?;
        if self.wakeable.take() {
            on.event(&mut self.ops, Time::now(), NO_SOCKET, Event::Woken);
        }
        // A deadline that had passed already asks for a pass without waiting, not for an empty one.
        let now = Time::now();
        self.taken = now;
        let deadline = if until <= now { Time::NEVER } else { until };
        let datagrams = !self.ready.is_empty();
        self.serve(deadline, on);
        let now = if datagrams { Time::now() } else { now };
        self.streams
            .serve(&mut self.ops, &mut self.poll, (now, deadline), on);
        self.perform();
        self.ops.deliver_notices(Time::now, on);
        Ok(())
    }

    fn buffers(&self) -> Buffers {
        Buffers::new([
            self.received.memory(),
            self.ops.sends.arena.memory(),
            self.streams.memory(),
            self.ops.streams.outgoing.memory(),
        ])
    }

    fn waker(&self) -> Waker {
        self.wakeable.waker()
    }
}
