//! Connections over io_uring: multishot accepts, and receives into a ring of provided buffers, multishot where the kernel
//! can bound them. Queued bytes are sent with the next submission (`sending.rs`); files and queues of several pieces are
//! sent like by the engine over epoll.

mod sending;

use super::ring::{BufferRing, Completion, Ring};
use super::{Completions, State};
use crate::engine::cause::Cause;
use crate::engine::id::Id;
use crate::engine::ops::Ops;
use crate::engine::settings::EngineSettings;
use crate::engine::slab::PerSlot;
use crate::engine::streams::{
    Accepts, FlushedStream, Handle, Phase, StreamDriver, accept_failed, accepted, end, flush, opened,
    peer_ended, unblocked,
};
use crate::engine::{Event, Handler};
use crate::system::memory::Pages;
use crate::system::stream;
use crate::time::Time;
use sending::Sending;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Number and maximum size of the buffers that connections receive into. Larger ones gain little: data that does not
/// fit one continues in the next, and all of them together should fit the second-level cache.
pub(super) const BUFFERS: u16 = 128;
const LARGEST_BUFFER: usize = 16_384;

/// Completions ahead of the handled one whose bytes the handler may look at.
const AHEAD: usize = 8;

/// The kind of a stream's operation, in bits 56 to 61 of its user data. The lower bits hold the slot and 24 bits of its
/// generation, so that a late completion is not attributed to the slot's next stream.
const RECEIVE: u64 = 1 << 56;
const ROOM: u64 = 2 << 56;
const ACCEPT: u64 = 3 << 56;
const CONNECT: u64 = 4 << 56;
const RESET: u64 = 5 << 56;
const SEND: u64 = super::ring::COMPLETES_ON_FAILURE;
const KINDS: u64 = 0x3f << 56;
const GENERATION: u64 = 0xff_ffff;

pub(super) struct Connections {
    pub(super) buffers: BufferRing,
    /// The operations that the kernel holds for each slot.
    pub(super) states: PerSlot<State>,
    /// Completed and not handled yet.
    arrived: VecDeque<Arrived>,
    /// How many of the first of them the handler has looked at.
    shown: usize,
    sending: Sending,
    /// Data received after receiving was turned off, by slot, in order. Copies, so that they occupy no shared buffer.
    late: HashMap<u32, VecDeque<Arrived>>,
    /// A cancellation is queued but not submitted.
    cancelled: bool,
}

/// A completion, and a copy of its data if it was kept for later.
#[derive(Debug)]
struct Arrived {
    completion: Completion,
    copy: Option<Box<[u8]>>,
}

impl Connections {
    pub(super) fn new(ring: &Ring, settings: &EngineSettings) -> io::Result<Self> {
        let bytes = settings.stream_buffer_bytes.min(LARGEST_BUFFER);
        let burst = (settings.stream_burst_bytes as usize).div_ceil(bytes);
        Ok(Self {
            buffers: BufferRing::new(ring, BufferRing::STREAMS, (BUFFERS, burst), bytes, [0, 0])?,
            states: PerSlot::default(),
            arrived: VecDeque::new(),
            shown: 0,
            sending: Sending::default(),
            late: HashMap::new(),
            cancelled: false,
        })
    }

    pub(super) fn memory(&self) -> &Pages {
        self.buffers.memory()
    }

    /// Whether there is work that must not wait.
    pub(super) fn has_work(&self) -> bool {
        !self.arrived.is_empty() || self.sending.awaited
    }

    /// Queues a completion for the next visit.
    pub(super) fn completed(&mut self, ops: &mut Ops, completion: Completion) {
        let Completion {
            user_data, result, ..
        } = completion;
        let kind = user_data & KINDS;
        if kind == SEND {
            self.sending.refused.insert(user_data, result);
            return;
        }
        if completion.buffer.is_some() {
            self.buffers.shortage.took();
        }
        if kind == RECEIVE && result == -libc::ENOBUFS {
            return self.missed(ops, user_data);
        }
        self.arrived.push_back(Arrived {
            completion,
            copy: None,
        });
    }

    /// A receive found no buffer. What it received before is visited first.
    fn missed(&mut self, ops: &mut Ops, user_data: u64) {
        let slot = user_data as u32;
        if user_data == self::user_data(RECEIVE, ops.streams.id(slot)) {
            let state = self.states.at(slot);
            (state.armed, state.cancelling) = (false, false);
            ops.counters.starved += 1;
            self.buffers.shortage.waits(slot);
        }
    }

    /// Handles the end of an operation: one without further completions is rearmed if still wanted. A receive that took
    /// buffers waits behind those that found none.
    fn note_end(&mut self, ops: &mut Ops, slot: u32, completion: &Completion) {
        if completion.more {
            return;
        }
        let state = self.states.at(slot);
        (state.armed, state.cancelling) = (false, false);
        if completion.buffer.is_some() && self.buffers.shortage.lasts() {
            self.buffers.shortage.waits(slot);
        } else {
            ops.streams.note_change(slot);
        }
    }

    /// Lets the handler look at what it handles soon. What is put in front, because it was received earlier, it does not see.
    fn show_next(&mut self, on: &mut impl Handler) {
        while self.shown < AHEAD
            && let Some(arrived) = self.arrived.get(self.shown)
        {
            self.shown += 1;
            let completion = &arrived.completion;
            if completion.user_data & KINDS == RECEIVE
                && completion.result > 0
                && let Some(buffer) = completion.buffer
            {
                on.upcoming(self.buffers.filled(buffer, completion.result));
            }
        }
        self.shown = self.shown.saturating_sub(1);
    }

    /// Whether something was kept that is not delivered yet.
    fn has_late(&self, slot: u32) -> bool {
        !self.late.is_empty() && self.late.contains_key(&slot)
    }

    /// Keeps data that arrived for a connection that does not receive now.
    fn keep_for_later(&mut self, slot: u32, arrived: Arrived) {
        let completion = arrived.completion;
        let copy = arrived.copy.or_else(|| {
            let bytes = self.buffers.filled(completion.buffer?, completion.result);
            Some(bytes.into())
        });
        // Its buffer is returned by the caller, and its end was already noted.
        let completion = Completion {
            buffer: None,
            more: true,
            ..completion
        };
        let late = self.late.entry(slot).or_default();
        late.push_back(Arrived { completion, copy });
    }
}

impl Completions {
    fn receive(&mut self, ops: &mut Ops, slot: u32, arrived: Arrived, now: Time, on: &mut impl Handler) {
        let completion = arrived.completion;
        self.connections.note_end(ops, slot, &completion);
        let id = ops.streams.id(slot);
        let is_open = ops.streams.is_open(id);
        // What is kept comes first, also if its owner has just turned receiving on.
        let waits = !ops.streams.at(slot).receiving || self.connections.has_late(slot);
        if completion.result >= 0 && is_open && waits {
            return self.connections.keep_for_later(slot, arrived);
        }
        let bytes = match (completion.result, &arrived.copy, completion.buffer) {
            (_, Some(copy), _) => copy,
            (length, None, Some(buffer)) if length > 0 => self.connections.buffers.filled(buffer, length),
            // Cancelled on request.
            (error, ..) if error == -libc::ECANCELED => return,
            (error, ..) if error < 0 => return end(self, ops, slot, Cause::from_errno(-error)),
            _ => return peer_ended(self, ops, slot, now, on),
        };
        ops.counters.streams.bytes_received += bytes.len() as u64;
        if is_open {
            on.event(ops, now, id, Event::Bytes(bytes));
        }
    }

    /// The poll for a reset has completed.
    fn reset(&mut self, ops: &mut Ops, slot: u32) {
        let stream = ops.streams.at(slot);
        if stream.receiving || stream.closing {
            // The receive or the send reports it.
            self.connections.states.at(slot).guarded = false;
        } else if let Some(Err(error)) = stream.descriptor().map(stream::take_error) {
            end(self, ops, slot, Cause::from_error(&error));
        }
    }

    fn accept(
        &mut self,
        ops: &mut Ops,
        slot: u32,
        completion: &Completion,
        now: Time,
        on: &mut impl Handler,
    ) {
        let listener = ops.streams.id(slot);
        // If the listener has been closed meanwhile, dropping the connection closes it.
        let connection = self.ring.accepted(completion);
        if !ops.streams.is_current(listener) || completion.user_data != user_data(ACCEPT, listener) {
            return;
        }
        self.connections.note_end(ops, slot, completion);
        let Some(connection) = connection else {
            accept_failed(self, ops, slot, Cause::from_errno(-completion.result), now);
            return;
        };
        match stream::peer_address(connection.as_fd()) {
            Err(_) => ops.counters.streams.accepted.failed.add(Cause::Reset, 1),
            Ok(peer) if ops.streams.is_open(listener) => {
                let connection = (Handle::Kernel(connection), peer);
                accepted(self, ops, listener, connection, now, on);
            }
            Ok(_) => {}
        }
    }
}

impl StreamDriver for Completions {
    fn now(&self) -> Time {
        Time::now()
    }

    fn watch(&mut self, ops: &mut Ops, slot: u32) -> io::Result<()> {
        let stream = ops.streams.at(slot);
        let state = self.connections.states.at(slot);
        *state = State::default();
        if matches!(stream.phase, Phase::Open(_)) {
            ops.streams.note_change(slot);
        } else if let Some(connection) = stream.descriptor() {
            // Operations in the kernel must wait there instead of failing with EAGAIN.
            stream::set_blocking(connection, true)?;
            state.connecting = true;
            let user_data = user_data(CONNECT, ops.streams.id(slot));
            self.ring.await_room(connection.as_raw_fd(), user_data);
        }
        Ok(())
    }

    fn apply_stream(&mut self, ops: &mut Ops, slot: u32, wanted: bool) -> io::Result<()> {
        let stream = ops.streams.at(slot);
        let Some(descriptor) = stream.descriptor().map(|socket| socket.as_raw_fd()) else {
            return Ok(());
        };
        let Connections {
            states,
            arrived,
            sending,
            late,
            ..
        } = &mut self.connections;
        if wanted && let Some(late) = late.remove(&slot) {
            late.into_iter().rev().for_each(|late| arrived.push_front(late));
        }
        let state = states.at(slot);
        if stream.queue.lent > 0 && (stream.closing || stream.ending || stream.notify_drained) {
            sending.awaited = true;
        }
        let listens = stream.phase == Phase::Listening;
        if !listens && !stream.receiving && !stream.closing && !state.guarded {
            state.guarded = true;
            self.ring
                .await_reset(descriptor, user_data(RESET, ops.streams.id(slot)));
        }
        let kind = if listens { ACCEPT } else { RECEIVE };
        let user_data = user_data(kind, ops.streams.id(slot));
        if wanted && !state.armed && !stream.over && stream.accepts != Accepts::Rests {
            state.armed = true;
            if listens {
                self.ring.accept(descriptor, user_data);
            } else {
                state.bounded = self.ring.bounds();
                self.ring
                    .receive_stream(descriptor, &self.connections.buffers, user_data);
            }
        } else if !wanted && state.armed && !state.cancelling {
            state.cancelling = true;
            self.ring.cancel(user_data);
            self.connections.cancelled = true;
        }
        Ok(())
    }

    /// Submits cancellations before any send, so that a receive that was turned off does not receive the response.
    fn changes_applied(&mut self) {
        if std::mem::take(&mut self.connections.cancelled) {
            self.ring.submit_now();
        }
    }

    fn send_stream(&mut self, ops: &mut Ops, slot: u32) -> Option<FlushedStream> {
        let under_way = ops.streams.at(slot).queue.lent > 0 || self.send_whole(ops, slot);
        (!under_way).then(|| flush(ops, slot))
    }

    fn await_stream_room(&mut self, ops: &mut Ops, slot: u32) {
        if let Some(connection) = ops.streams.at(slot).descriptor() {
            self.connections.states.at(slot).awaiting = true;
            let user_data = user_data(ROOM, ops.streams.id(slot));
            self.ring.await_room(connection.as_raw_fd(), user_data);
        }
    }

    /// Cancels the operations: while the kernel holds one, closing the descriptor does not close the connection.
    fn release(&mut self, ops: &mut Ops, slot: u32) {
        let id = ops.streams.id(slot);
        self.connections.late.remove(&slot);
        let state = std::mem::take(self.connections.states.at(slot));
        if std::mem::take(&mut ops.streams.at_mut(slot).queue.lent) > 0 {
            // Once the descriptor is closed, its number may be reused. What the kernel takes is counted before the owner
            // is notified of the end.
            self.ring.submit_all();
            self.take_completions(ops);
            self.settle(ops);
        }
        let kind = match ops.streams.at(slot).phase {
            Phase::Listening => ACCEPT,
            _ => RECEIVE,
        };
        let held = [
            (state.armed && !state.cancelling, kind),
            (state.awaiting, ROOM),
            (state.connecting, CONNECT),
            (state.guarded, RESET),
        ];
        for (_, kind) in held.into_iter().filter(|(held, _)| *held) {
            self.ring.cancel(user_data(kind, id));
        }
    }

    fn visit(&mut self, ops: &mut Ops, now: Time, on: &mut impl Handler) -> bool {
        self.connections.show_next(on);
        let Some(arrived) = self.connections.arrived.pop_front() else {
            return false;
        };
        let completion = arrived.completion;
        let slot = completion.user_data as u32;
        let kind = completion.user_data & KINDS;
        let id = ops.streams.id(slot);
        let current = ops.streams.is_current(id) && completion.user_data == user_data(kind, id);
        match kind {
            // No feature flag says whether the kernel can bound a receive: an earlier one rejects the first ones.
            RECEIVE
                if current
                    && completion.result == -libc::EINVAL
                    && std::mem::take(&mut self.connections.states.at(slot).bounded) =>
            {
                self.ring.cannot_bound();
                self.connections.note_end(ops, slot, &completion);
            }
            RECEIVE if current => self.receive(ops, slot, arrived, now, on),
            RESET if current => self.reset(ops, slot),
            ACCEPT => self.accept(ops, slot, &completion, now, on),
            CONNECT if current => {
                self.connections.states.at(slot).connecting = false;
                opened(self, ops, slot, now, on);
            }
            ROOM if current => {
                self.connections.states.at(slot).awaiting = false;
                unblocked(ops, slot);
            }
            _ => {}
        }
        if let Some(buffer) = completion.buffer.filter(|_| kind == RECEIVE) {
            let buffers = &mut self.connections.buffers;
            buffers.recycle(buffer);
            buffers.publish();
            buffers.shortage.resume(&mut ops.streams);
        }
        true
    }
}

fn user_data(kind: u64, id: Id) -> u64 {
    let generation = (id.to_bits() >> 32) & GENERATION;
    super::STREAM | kind | generation << 32 | id.slot() as u64
}
