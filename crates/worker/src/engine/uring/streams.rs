//! Connections over io_uring: multishot accepts, and multishot receives into a ring of provided buffers. What is queued goes
//! with the next submission (`sending.rs`); files and what lies in several pieces are sent as by the engine over epoll.

mod sending;

use super::ring::{BufferRing, Completion, Ring};
use crate::engine::cause::Cause;
use crate::engine::id::Id;
use crate::engine::ops::Ops;
use crate::engine::settings::EngineSettings;
use crate::engine::streams::{FlushedStream, Handle, Phase, STARVED, VISITS_PER_CLOCK, flush};
use crate::engine::{Event, Handler, TURN_DATAGRAMS};
use crate::system::memory::Pages;
use crate::system::message::stride;
use crate::system::stream;
use crate::time::Time;
use sending::Sending;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// The buffers that connections receive into: so many of at most so many bytes. Large ones are worth little: what does
/// not fit one comes in the next, and all of them together should stay in the second-level cache.
const BUFFERS: u16 = 128;
const LARGEST_BUFFER: usize = 16_384;

/// What the operation of a stream was, in bits 56 to 61 of its user data. Below it stand 24 bits of the generation, so that
/// what completes late is not taken for the next tenant's, and the slot.
const RECEIVE: u64 = 1 << 56;
const ROOM: u64 = 2 << 56;
const ACCEPT: u64 = 3 << 56;
const CONNECT: u64 = 4 << 56;
pub(super) const SEND: u64 = super::ring::TOLD_WHEN_FAILED;
const KINDS: u64 = 0x3f << 56;
const GENERATION: u64 = 0xff_ffff;

pub(super) struct Completions {
    buffers: BufferRing,
    /// What the kernel holds of each slot.
    states: Vec<State>,
    /// Completed and not told yet.
    arrived: VecDeque<Arrived>,
    sending: Sending,
    /// What was received for connections that had been turned off meanwhile, by slot, in order: copies, so that they hold
    /// no buffer that others need.
    late: HashMap<u32, VecDeque<Arrived>>,
}

/// A completion, and what it brought where that is a copy.
#[derive(Debug)]
struct Arrived {
    completion: Completion,
    copy: Option<Box<[u8]>>,
}

#[derive(Clone, Copy, Default, Debug)]
pub(super) struct State {
    /// A multishot receive or accept is in the kernel.
    armed: bool,
    /// Its cancellation is, too.
    cancelling: bool,
    /// The peer has ended its side: there is nothing more to receive.
    over: bool,
    /// The connection took no more; a look-out for room is in the kernel.
    pub(super) blocked: bool,
    /// What it has queued is in the ring, and no more may follow before that is settled.
    pub(super) sending: bool,
    /// A look-out for the end of an attempt to connect is in the kernel.
    connecting: bool,
    /// A listener for which there was no descriptor.
    starved: bool,
}

impl Completions {
    pub(super) fn new(ring: &Ring, settings: &EngineSettings) -> io::Result<Self> {
        let bytes = settings.stream_buffer_bytes.min(LARGEST_BUFFER);
        Ok(Self {
            buffers: BufferRing::new(
                ring,
                BufferRing::STREAMS,
                BUFFERS,
                stride(bytes),
                bytes as u32,
                0,
                0,
            )?,
            states: Vec::new(),
            arrived: VecDeque::new(),
            sending: Sending::default(),
            late: HashMap::new(),
        })
    }

    pub(super) fn memory(&self) -> &Pages {
        self.buffers.memory()
    }

    /// Whether there is something to do at once, so that nothing should be waited for.
    pub(super) fn has_work(&self) -> bool {
        !self.arrived.is_empty() || self.sending.is_awaited()
    }

    /// Notes a completion; it is told by [`serve`](Self::serve).
    pub(super) fn completed(&mut self, completion: Completion) {
        if completion.user_data & KINDS == SEND {
            return self.sending.refused(completion);
        }
        self.arrived.push_back(Arrived {
            completion,
            copy: None,
        });
    }

    /// Carries out what changed and sends what is queued.
    pub(super) fn perform(&mut self, ops: &mut Ops, ring: &mut Ring) -> io::Result<()> {
        if ops.streams.is_idle() && ops.streams.deadlines.is_empty() {
            return Ok(());
        }
        let mut cancelled = false;
        while let Some(slot) = ops.streams.changes.pop() {
            cancelled |= self.apply_change(ops, ring, slot)?;
        }
        if cancelled {
            // Before anything is sent, so that an answer to it is not received by what was turned off.
            ring.submit()?;
        }
        self.flush(ops, ring)?;
        // What was sent may have been all that an end waited for.
        while let Some(slot) = ops.streams.changes.pop() {
            self.apply_change(ops, ring, slot)?;
        }
        if !ops.streams.deadlines.is_empty() {
            let now = Time::now();
            while let Some(id) = ops.streams.deadlines.expired(now) {
                self.passed(ops, ring, id)?;
            }
        }
        Ok(())
    }

    /// Says whether something was cancelled.
    fn apply_change(&mut self, ops: &mut Ops, ring: &mut Ring, slot: u32) -> io::Result<bool> {
        let id = ops.streams.id(slot);
        let stream = ops.streams.at_mut(slot);
        stream.changed = false;
        if !ops.streams.is_current(id) {
            return Ok(false);
        }
        let stream = ops.streams.at(slot);
        if stream.closing && (stream.queue.is_empty() || stream.broken.is_some()) {
            let cause = stream.broken.unwrap_or(Cause::Asked);
            self.end(ops, ring, slot, cause)?;
            return Ok(false);
        }
        if stream.phase == Phase::Connecting {
            self.connect(ops, ring, slot)?;
            return Ok(false);
        }
        let wanted = stream.receiving && !stream.closing;
        let awaited = stream.closing || stream.ending || stream.tell_drained;
        let listens = stream.phase == Phase::Listening;
        let Some(descriptor) = stream.descriptor().map(|socket| socket.as_raw_fd()) else {
            return Ok(false);
        };
        if wanted && let Some(late) = self.late.remove(&slot) {
            late.into_iter()
                .rev()
                .for_each(|arrived| self.arrived.push_front(arrived));
        }
        let state = self.state(slot);
        if state.sending && awaited {
            self.sending.await_end();
        }
        let state = self.state(slot);
        let kind = if listens { ACCEPT } else { RECEIVE };
        let mut cancels = false;
        if wanted && !state.armed && !state.over && !state.starved {
            state.armed = true;
            if listens {
                ring.accept(descriptor, user_data(kind, id))?;
            } else {
                ring.receive_stream(descriptor, &self.buffers, user_data(kind, id))?;
            }
        } else if !wanted && state.armed && !state.cancelling {
            (state.cancelling, cancels) = (true, true);
            ring.cancel(user_data(kind, id))?;
        }
        ops.settle(slot);
        Ok(cancels)
    }

    fn connect(&mut self, ops: &mut Ops, ring: &mut Ring, slot: u32) -> io::Result<()> {
        if ops.streams.at(slot).descriptor().is_some() {
            return Ok(());
        }
        let id = ops.streams.id(slot);
        let begun = ops.begin_connect(slot).and_then(|()| {
            let connection = ops.streams.at(slot).descriptor();
            let connection = connection.ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))?;
            // What waits in the kernel from here on is to wait there, not to fail.
            stream::set_blocking(connection, true)?;
            Ok(connection.as_raw_fd())
        });
        match begun {
            Ok(descriptor) => {
                *self.state(slot) = State {
                    connecting: true,
                    ..State::default()
                };
                ring.await_room(descriptor, user_data(CONNECT, id))
            }
            Err(error) => {
                ops.stream_failed(slot, Cause::from_error(&error));
                Ok(())
            }
        }
    }

    pub(super) fn state(&mut self, slot: u32) -> &mut State {
        if self.states.len() <= slot as usize {
            self.states.resize(slot as usize + 1, State::default());
        }
        &mut self.states[slot as usize]
    }

    fn flush(&mut self, ops: &mut Ops, ring: &mut Ring) -> io::Result<()> {
        let mut waiting = std::mem::take(&mut ops.streams.waiting);
        let mut outcome = Ok(());
        for slot in waiting.drain(..) {
            ops.streams.at_mut(slot).waiting = false;
            outcome = outcome.and(self.flush_one(ops, ring, slot));
        }
        // Nothing queues while this sends: the list's memory is kept for the next time.
        ops.streams.waiting = waiting;
        outcome
    }

    fn flush_one(&mut self, ops: &mut Ops, ring: &mut Ring, slot: u32) -> io::Result<()> {
        if self.state(slot).sending {
            return Ok(());
        }
        if ops.streams.at(slot).phase != Phase::Open || self.state(slot).blocked {
            let (stream, outgoing) = ops.streams.parts(slot);
            outgoing.keep(&stream.queue);
            return Ok(());
        }
        if self.send(ops, ring, slot)? {
            return Ok(());
        }
        let flushed = flush(ops, slot);
        self.flushed(ops, ring, slot, flushed)
    }

    /// What became of an attempt to send a connection's queue.
    pub(super) fn flushed(
        &mut self,
        ops: &mut Ops,
        ring: &mut Ring,
        slot: u32,
        flushed: FlushedStream,
    ) -> io::Result<()> {
        match flushed {
            FlushedStream::All => {
                let stream = ops.streams.at(slot);
                if stream.closing || stream.ending || stream.tell_drained {
                    ops.streams.note_change(slot);
                }
            }
            FlushedStream::Blocked => {
                self.state(slot).blocked = true;
                let id = ops.streams.id(slot);
                if let Some(connection) = ops.streams.at(slot).descriptor() {
                    ring.await_room(connection.as_raw_fd(), user_data(ROOM, id))?;
                }
            }
            FlushedStream::Broken(cause) => {
                let armed = self.state(slot).armed;
                let stream = ops.streams.at_mut(slot);
                stream.broken = Some(cause);
                // What the peer sent before it reset the connection is lent still; then the receive ends.
                if !(armed && stream.receiving && !stream.closing && cause == Cause::Reset) {
                    self.end(ops, ring, slot, cause)?;
                }
            }
        }
        Ok(())
    }

    /// A deadline has passed: an attempt to connect ends, or a listener tries again.
    fn passed(&mut self, ops: &mut Ops, ring: &mut Ring, id: Id) -> io::Result<()> {
        if !ops.streams.is_current(id) {
            return Ok(());
        }
        let slot = id.slot() as u32;
        match ops.streams.at(slot).phase {
            Phase::Connecting => self.fail(ops, ring, slot, Cause::TimedOut),
            Phase::Listening => {
                self.state(slot).starved = false;
                ops.streams.note_change(slot);
                Ok(())
            }
            Phase::Open => Ok(()),
        }
    }

    /// Tells what has completed, from now on, until nothing is left, enough was told, or the deadline has come.
    pub(super) fn serve(
        &mut self,
        ops: &mut Ops,
        ring: &mut Ring,
        (mut now, deadline): (Time, Time),
        on: &mut impl Handler,
    ) -> io::Result<()> {
        let mut visits = 0;
        while visits < TURN_DATAGRAMS
            && let Some(arrived) = self.arrived.pop_front()
        {
            if visits > 0 && visits % VISITS_PER_CLOCK == 0 {
                now = Time::now();
            }
            visits += 1;
            self.tell(ops, ring, arrived, now, on)?;
            self.flush(ops, ring)?;
            if now >= deadline {
                break;
            }
        }
        Ok(())
    }

    fn tell(
        &mut self,
        ops: &mut Ops,
        ring: &mut Ring,
        arrived: Arrived,
        now: Time,
        on: &mut impl Handler,
    ) -> io::Result<()> {
        let completion = arrived.completion;
        let slot = completion.user_data as u32;
        let kind = completion.user_data & KINDS;
        let id = ops.streams.id(slot);
        let current = ops.streams.is_current(id) && completion.user_data == user_data(kind, id);
        match kind {
            RECEIVE if current => self.received(ops, ring, slot, arrived, now, on)?,
            ACCEPT => {
                // A connection taken for a listener that has been closed meanwhile is closed by being dropped.
                let connection = ring.accepted(&completion);
                if current {
                    self.accepted(ops, ring, slot, (completion, connection), now, on)?;
                }
            }
            CONNECT if current => self.opened(ops, ring, slot, now, on)?,
            ROOM if current => {
                self.state(slot).blocked = false;
                ops.streams.note_waiting(slot);
            }
            _ => {}
        }
        if let Some(buffer) = completion.buffer.filter(|_| kind == RECEIVE) {
            self.buffers.give(buffer);
            self.buffers.publish();
        }
        Ok(())
    }

    fn received(
        &mut self,
        ops: &mut Ops,
        ring: &mut Ring,
        slot: u32,
        arrived: Arrived,
        now: Time,
        on: &mut impl Handler,
    ) -> io::Result<()> {
        let completion = arrived.completion;
        if !completion.more {
            let state = self.state(slot);
            (state.armed, state.cancelling) = (false, false);
            ops.streams.note_change(slot);
        }
        let id = ops.streams.id(slot);
        if completion.result >= 0 && ops.streams.is_open(id) && !ops.streams.at(slot).receiving {
            self.keep_for_later(slot, arrived);
            return Ok(());
        }
        if let Some(bytes) = arrived.copy {
            ops.counters.streams.bytes_received += bytes.len() as u64;
            if ops.streams.is_open(id) {
                on.event(ops, now, id, Event::Bytes(&bytes));
            }
            return Ok(());
        }
        match (completion.result, completion.buffer) {
            // Out of buffers: armed again when some were given back. Cancelled: as was asked.
            (error, _) if error == -libc::ENOBUFS || error == -libc::ECANCELED => {}
            (error, _) if error < 0 => self.end(ops, ring, slot, Cause::from_errno(-error))?,
            (length, Some(buffer)) if length > 0 => {
                let (offset, length) = (self.buffers.offset(buffer), length as usize);
                ops.counters.streams.bytes_received += length as u64;
                if ops.streams.is_open(id) {
                    let bytes = self.buffers.memory().bytes(offset..offset + length);
                    on.event(ops, now, id, Event::Bytes(bytes));
                }
            }
            _ => {
                self.state(slot).over = true;
                match ops.streams.at(slot).broken {
                    Some(cause) => self.end(ops, ring, slot, cause)?,
                    None if ops.streams.is_open(id) => on.event(ops, now, id, Event::PeerClosed),
                    None => {}
                }
            }
        }
        Ok(())
    }

    /// Keeps what came for a connection that does not receive now.
    fn keep_for_later(&mut self, slot: u32, arrived: Arrived) {
        let completion = arrived.completion;
        let copy = arrived.copy.or_else(|| {
            let offset = self.buffers.offset(completion.buffer?);
            let length = usize::try_from(completion.result).unwrap_or(0);
            Some(self.buffers.memory().bytes(offset..offset + length).into())
        });
        // Its buffer is given back, and its end was noted, by now.
        let completion = Completion {
            buffer: None,
            more: true,
            ..completion
        };
        let late = self.late.entry(slot).or_default();
        late.push_back(Arrived { completion, copy });
    }

    fn accepted(
        &mut self,
        ops: &mut Ops,
        ring: &mut Ring,
        slot: u32,
        (completion, connection): (Completion, Option<OwnedFd>),
        now: Time,
        on: &mut impl Handler,
    ) -> io::Result<()> {
        if !completion.more {
            let state = self.state(slot);
            (state.armed, state.cancelling) = (false, false);
            ops.streams.note_change(slot);
        }
        let listener = ops.streams.id(slot);
        let Some(connection) = connection else {
            match Cause::from_errno(-completion.result) {
                _ if completion.result == -libc::ECANCELED => {}
                // It was reset before it was taken: the next one may be well (accept(2)).
                Cause::Reset => ops.counters.streams.accept_failed.add(Cause::Reset, 1),
                cause @ Cause::Other(libc::EINVAL | libc::ENOTSOCK | libc::EBADF | libc::EOPNOTSUPP) => {
                    self.end(ops, ring, slot, cause)?;
                }
                cause => {
                    let starved = std::mem::replace(&mut self.state(slot).starved, true);
                    ops.starve(slot, cause, now + STARVED, starved);
                }
            }
            return Ok(());
        };
        use std::os::fd::AsFd;
        let Some(peer) = stream::peer_address(connection.as_fd()) else {
            ops.counters.streams.accept_failed.add(Cause::Reset, 1);
            return Ok(());
        };
        if ops.streams.is_open(listener) {
            let id = ops.streams.insert(Handle::Kernel(connection), Phase::Open, true);
            *self.state(id.slot() as u32) = State::default();
            ops.streams.note_change(id.slot() as u32);
            ops.accepted(listener, id, peer, now, on);
        }
        Ok(())
    }

    /// An attempt to connect has come to its end.
    fn opened(
        &mut self,
        ops: &mut Ops,
        ring: &mut Ring,
        slot: u32,
        now: Time,
        on: &mut impl Handler,
    ) -> io::Result<()> {
        self.state(slot).connecting = false;
        let Some(connection) = ops.streams.at(slot).descriptor() else {
            return Ok(());
        };
        match stream::take_error(connection) {
            Ok(()) => ops.connected(slot, now, on),
            Err(error) => self.fail(ops, ring, slot, Cause::from_error(&error))?,
        }
        Ok(())
    }

    fn fail(&mut self, ops: &mut Ops, ring: &mut Ring, slot: u32, cause: Cause) -> io::Result<()> {
        self.release(ops, ring, slot)?;
        ops.stream_failed(slot, cause);
        Ok(())
    }

    fn end(&mut self, ops: &mut Ops, ring: &mut Ring, slot: u32, cause: Cause) -> io::Result<()> {
        self.release(ops, ring, slot)?;
        ops.stream_closed(slot, cause);
        Ok(())
    }

    /// Has the kernel let go of a stream: as long as it holds an operation, a closed descriptor is not closed for the peer.
    fn release(&mut self, ops: &mut Ops, ring: &mut Ring, slot: u32) -> io::Result<()> {
        let id = ops.streams.id(slot);
        self.late.remove(&slot);
        let state = std::mem::take(self.state(slot));
        if state.sending {
            // Its descriptor may be another's as soon as it is closed.
            ring.submit_all()?;
        }
        let kind = match ops.streams.at(slot).phase {
            Phase::Listening => ACCEPT,
            _ => RECEIVE,
        };
        let held = [
            (state.armed && !state.cancelling, kind),
            (state.blocked, ROOM),
            (state.connecting, CONNECT),
        ];
        for (_, kind) in held.into_iter().filter(|(held, _)| *held) {
            ring.cancel(user_data(kind, id))?;
        }
        Ok(())
    }

    /// Cancels all that the kernel holds.
    pub(super) fn cancel_all(&mut self, ops: &mut Ops, ring: &mut Ring) {
        for slot in 0..self.states.len() as u32 {
            // Fails only when the ring does; then its closing ends them.
            let _ = self.release(ops, ring, slot);
        }
    }
}

pub(super) fn user_data(kind: u64, id: Id) -> u64 {
    let generation = (id.to_bits() >> 32) & GENERATION;
    super::STREAM | kind | generation << 32 | id.slot() as u64
}
