//! The engine over epoll. Input: readiness events. Output: batches of datagrams.
//!
//! Ready sockets are visited in turn, one batch per visit, until they are drained. Datagrams that the handler queued
//! during a visit are sent before the next visit, so that the arena's first blocks stay in the cache.

mod streams;

use super::cause::Cause;
use super::datagrams::{Datagrams, Message};
use super::driver::{Driver, Patience, unblocked};
use super::flush::{Flushed, Flusher};
use super::id::Id;
use super::ops::Ops;
use super::settings::EngineSettings;
use super::slab::PerSlot;
use super::wake::Wakeable;
use super::{Event, Handler};
use crate::system::memory::Pages;
use crate::system::message::ReceiveBatch;
use crate::system::poll::{Poll, Ready};
use crate::system::stream;
use crate::time::Time;
use nix::sys::epoll::EpollFlags;
use std::collections::VecDeque;
use std::io;
use streams::Connections;

pub(crate) struct Readiness {
    poll: Poll,
    received: ReceiveBatch,
    messages: Vec<Message>,
    flusher: Flusher,
    states: PerSlot<State>,
    /// Slots that may have something to receive.
    ready: VecDeque<u32>,
    connections: Connections,
    /// One `recvfrom` and one `sendto` per datagram.
    one_at_a_time: bool,
}

#[derive(Clone, Copy, Default, Debug)]
struct State {
    /// The events that epoll watches for; none before registration.
    interest: Option<EpollFlags>,
    /// Reported readable, and not drained since.
    ready: bool,
}

impl Readiness {
    pub(crate) fn new(settings: &EngineSettings) -> io::Result<Self> {
        let batch = settings.receive_batch();
        Ok(Self {
            poll: Poll::new(),
            received: ReceiveBatch::new(batch, settings.receive_buffer_bytes, settings.control_bytes())?,
            messages: Vec::with_capacity(batch),
            flusher: Flusher::new(settings),
            states: PerSlot::default(),
            ready: VecDeque::new(),
            connections: Connections::new(settings)?,
            one_at_a_time: settings.datagram_batch == 1,
        })
    }

    /// Records an event of epoll.
    fn note(&mut self, ops: &mut Ops, event: Ready) {
        let id = Id::from_bits(event.token);
        if id.is_stream() {
            return self.connections.note(ops, id, event);
        }
        if !ops.sockets.is_current(id) {
            return;
        }
        let slot = id.slot() as u32;
        let entry = ops.sockets.at(slot);
        let receives = entry.receiving;
        if event.write && entry.blocked {
            unblocked(ops, slot);
            ops.sockets.note_change(slot);
        }
        let state = self.states.at(slot);
        if receives && (event.read || event.failed) && !state.ready {
            state.ready = true;
            self.ready.push_back(slot);
        }
        if event.failed && !receives {
            let socket = ops.sockets.at(slot).descriptor();
            if let Some(Err(error)) = socket.map(stream::take_error) {
                ops.report_error(slot, Cause::from_error(&error));
            }
        }
    }

    /// Receives one batch of a socket and lends it; returns the number of datagrams and the time.
    fn visit_socket(&mut self, ops: &mut Ops, slot: u32, on: &mut impl Handler) -> (u64, Time) {
        let nothing = (0, Time::default());
        let entry = ops.sockets.at(slot);
        let state = self.states.at(slot);
        let wanted = entry.receiving && !entry.closing && state.ready;
        // A socket that does not receive now stays ready: it is visited when it receives again.
        let Some(socket) = entry.descriptor().filter(|_| wanted) else {
            return nothing;
        };
        ops.counters.calls.receive += 1;
        let received = if self.one_at_a_time && !self.received.has_control() {
            self.received.receive_one(socket, &mut self.messages)
        } else {
            self.received.receive(socket, &mut self.messages)
        };
        match received {
            // A batch that is not full emptied the socket; epoll reports later arrivals.
            Ok(count) if count < self.received.capacity() => state.ready = false,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                state.ready = false;
                return nothing;
            }
            Ok(_) => self.ready.push_back(slot),
            Err(error) => {
                self.receive_failed(ops, slot, &error);
                return nothing;
            }
        }
        let now = Time::now();
        let lent = ops.count_received(&self.messages);
        let id = ops.sockets.id(slot);
        let datagrams = Datagrams::new(self.received.memory(), &self.messages, ops.sockets.at(slot).port);
        on.event(ops, now, id, Event::Datagrams(datagrams));
        (lent, now)
    }

    fn receive_failed(&mut self, ops: &mut Ops, slot: u32, error: &io::Error) {
        let cause = Cause::from_error(error);
        if cause.is_final() {
            self.stop(ops, slot);
            ops.abandoned(slot, cause);
            return;
        }
        self.ready.push_back(slot);
        if error.kind() != io::ErrorKind::Interrupted {
            ops.report_error(slot, cause);
        }
    }
}

impl Driver for Readiness {
    fn apply(&mut self, ops: &mut Ops, slot: u32) {
        let entry = ops.sockets.at(slot);
        let state = self.states.at(slot);
        let mut wanted = EpollFlags::empty();
        wanted.set(EpollFlags::EPOLLIN, entry.receiving && !entry.closing);
        wanted.set(EpollFlags::EPOLLOUT, entry.blocked);
        let Some(socket) = entry.descriptor() else {
            return;
        };
        let token = ops.sockets.id(slot).to_bits();
        let watched = match state.interest {
            None => self.poll.add(socket, token, wanted),
            Some(interest) if interest != wanted => self.poll.change(socket, token, wanted),
            Some(_) => Ok(()),
        };
        state.interest = Some(wanted);
        if wanted.contains(EpollFlags::EPOLLIN) && state.ready {
            self.ready.push_back(slot);
        }
        if let Err(error) = watched {
            *state = State::default();
            ops.abandoned(slot, Cause::from_error(&error));
        }
    }

    /// Removes a socket from epoll. An error is ignored because the socket is closed next.
    fn stop(&mut self, ops: &mut Ops, slot: u32) -> bool {
        let state = std::mem::take(self.states.at(slot));
        if let (Some(_), Some(socket)) = (state.interest, ops.sockets.at(slot).descriptor()) {
            let _ = self.poll.remove(socket);
        }
        true
    }

    fn send(&mut self, ops: &mut Ops, slot: u32) -> Flushed {
        self.flusher.flush(ops, slot)
    }

    fn await_room(&mut self, ops: &mut Ops, slot: u32) {
        ops.sockets.note_change(slot);
    }

    fn has_work(&mut self) -> bool {
        !self.ready.is_empty() || !self.connections.ready.is_empty()
    }

    fn wait(&mut self, ops: &mut Ops, wakeable: &Wakeable, patience: Option<Patience>) -> io::Result<bool> {
        match patience {
            None => self.poll.check()?,
            Some(Patience { now, until, gathered }) => {
                if gathered > now {
                    ops.counters.calls.wait += 1;
                    wakeable.wait(|mask| Poll::rest(gathered.min(until), mask))?;
                }
                wakeable.wait(|mask| self.poll.sleep(until, mask))?;
            }
        }
        for index in 0..self.poll.reported() {
            self.note(ops, self.poll.event(index));
        }
        Ok(true)
    }

    fn lend(&mut self, ops: &mut Ops, on: &mut impl Handler) -> Option<(u64, Time)> {
        let slot = self.ready.pop_front()?;
        Some(self.visit_socket(ops, slot, on))
    }

    fn memory(&self) -> [&Pages; 2] {
        [self.received.memory(), self.connections.memory()]
    }
}
