//! The engine over io_uring: one multishot receive a socket into a ring of provided buffers, so that one system call
//! waits, receives and registers; batches are sent as by the engine over epoll.

#[allow(unsafe_code)]
mod ring;
mod streams;

use super::cause::Cause;
use super::datagrams::{Datagrams, Message};
use super::flush::{Flushed, Flusher};
use super::id::Id;
use super::ops::{Backend, Ops};
use super::settings::EngineSettings;
use super::wake::{Wakeable, Waker};
use super::{Engine, Event, Handler, NO_SOCKET, TURN_DATAGRAMS};
use crate::memory::Buffers;
use crate::system::address::{ADDRESS_BYTES, CONTROL_BYTES, read_address, read_segment};
use crate::system::message::stride;
use crate::system::poll::Poll;
use crate::time::Time;
use ring::{BufferRing, Completion, Ring};
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::thread;
use streams::Completions;

/// Operations queued before a submission is forced.
const SUBMISSIONS: u32 = 256;

/// Completions the kernel can post before it keeps them in a list of its own.
const COMPLETIONS: u32 = 4_096;

/// Provided buffers for each message of a batch: one being lent, and some that fill meanwhile.
const BUFFERS_PER_MESSAGE: usize = 4;

/// The fewest provided buffers: what the kernel takes from one socket before it looks at the next (32), twice.
const FEWEST_BUFFERS: usize = 64;

/// `struct io_uring_recvmsg_out`: four words (lengths of name, control and payload; flags) before what was received.
const RECEIVED_HEADER_BYTES: usize = 16;

/// What an operation was, in the two highest bits of its user data.
const RECEIVE: u64 = 1 << 62;
const ROOM: u64 = 2 << 62;
const STREAM: u64 = 3 << 62;
const KINDS: u64 = 3 << 62;

pub(crate) struct UringEngine {
    ring: Ring,
    buffers: BufferRing,
    streams: Completions,
    ops: Ops,
    wakeable: Wakeable,
    /// What the kernel holds of each slot.
    states: Vec<State>,
    /// Received and not lent yet.
    arrived: VecDeque<Arrival>,
    messages: Vec<Message>,
    flusher: Flusher,
    batch: usize,
    control_bytes: usize,
    /// When the last wait ended.
    taken: Time,
}

#[derive(Clone, Copy, Default, Debug)]
struct State {
    /// A multishot receive is in the kernel.
    armed: bool,
    /// Its cancellation is, too.
    cancelling: bool,
    /// The socket took no more; a look-out for room is in the kernel.
    blocked: bool,
}

/// One completed receive.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    id: Id,
    buffer: u16,
    /// Bytes of the buffer that are filled.
    filled: usize,
}

impl UringEngine {
    pub(crate) fn new(settings: &EngineSettings) -> io::Result<Self> {
        let batch = settings.receive_batch();
        let control_bytes = if settings.gro { CONTROL_BYTES } else { 0 };
        let buffer_bytes =
            RECEIVED_HEADER_BYTES + ADDRESS_BYTES + control_bytes + settings.receive_buffer_bytes;
        let count = FEWEST_BUFFERS.max(batch * BUFFERS_PER_MESSAGE);
        let count = count.next_power_of_two() as u16;
        let ring = Ring::new(SUBMISSIONS, COMPLETIONS)?;
        let buffers = BufferRing::new(
            &ring,
            BufferRing::DATAGRAMS,
            count,
            stride(buffer_bytes),
            buffer_bytes as u32,
            ADDRESS_BYTES,
            control_bytes,
        )?;
        Ok(Self {
            streams: Completions::new(&ring, settings)?,
            ring,
            buffers,
            ops: Ops::new(settings, Backend::Completion)?,
            wakeable: Wakeable::new()?,
            states: Vec::new(),
            arrived: VecDeque::with_capacity(usize::from(count)),
            messages: Vec::with_capacity(batch),
            flusher: Flusher::new(settings),
            batch,
            control_bytes,
            taken: Time::default(),
        })
    }

    /// Sends what is queued, then queues receives and cancellations for the kernel.
    fn perform(&mut self) -> io::Result<()> {
        self.flush()?;
        while let Some(slot) = self.ops.changes.pop() {
            self.apply_change(slot)?;
        }
        self.streams.perform(&mut self.ops, &mut self.ring)
    }

    fn flush(&mut self) -> io::Result<()> {
        for _ in 0..self.ops.waiting.len() {
            let Some(slot) = self.ops.waiting.pop_front() else {
                return Ok(());
            };
            self.ops.sockets.at_mut(slot).waiting = false;
            if self.states.len() <= slot as usize {
                self.states.resize(slot as usize + 1, State::default());
            }
            let state = &mut self.states[slot as usize];
            if state.blocked || self.flusher.flush(&mut self.ops, slot) == Flushed::All {
                continue;
            }
            state.blocked = true;
            if let Some(socket) = self.ops.sockets.at(slot).descriptor() {
                self.ring.await_room(socket.as_raw_fd(), ROOM | u64::from(slot))?;
            }
        }
        Ok(())
    }

    fn apply_change(&mut self, slot: u32) -> io::Result<()> {
        if self.states.len() <= slot as usize {
            self.states.resize(slot as usize + 1, State::default());
        }
        let state = &mut self.states[slot as usize];
        let entry = self.ops.sockets.at_mut(slot);
        entry.changed = false;
        let wanted = entry.receiving && !entry.closing;
        let Some(descriptor) = entry.descriptor().map(|socket| socket.as_raw_fd()) else {
            return Ok(());
        };
        let user_data = RECEIVE | u64::from(slot);
        if wanted && !state.armed {
            state.armed = true;
            self.ring.receive(descriptor, &self.buffers, user_data)?;
        } else if !wanted && state.armed && !state.cancelling {
            state.cancelling = true;
            self.ring.cancel(user_data)?;
        } else if entry.closing && !state.armed && entry.queue.runs == 0 {
            self.ops.closed(slot);
        }
        Ok(())
    }

    /// Takes what completed; what was received waits to be lent.
    fn take_completions(&mut self) {
        while let Some(completion) = self.ring.take() {
            let slot = completion.user_data as u32;
            match completion.user_data & KINDS {
                STREAM => self.streams.completed(completion),
                RECEIVE => self.received(slot, completion),
                ROOM => {
                    self.states[slot as usize].blocked = false;
                    self.ops.note_waiting(slot);
                }
                _ => {}
            }
        }
    }

    fn received(&mut self, slot: u32, completion: Completion) {
        if let Some(buffer) = completion.buffer {
            self.arrived.push_back(Arrival {
                id: self.ops.sockets.id(slot),
                buffer,
                filled: usize::try_from(completion.result).unwrap_or(0),
            });
        }
        if !completion.more {
            let state = &mut self.states[slot as usize];
            (state.armed, state.cancelling) = (false, false);
            self.ops.note_change(slot);
        }
        match -completion.result {
            // Out of buffers: armed again when some were given back. Cancelled: as was asked.
            libc::ENOBUFS | libc::ECANCELED => {}
            error if error > 0 => {
                let cause = Cause::from_errno(error);
                if cause.is_final() {
                    self.ops.abandoned(slot, cause);
                } else {
                    self.ops.complain(slot, cause);
                }
            }
            _ => {}
        }
    }

    /// Lends what arrived, in batches of one socket, until nothing is left, enough was lent, or the deadline has come.
    fn serve(&mut self, deadline: Time, on: &mut impl Handler) -> io::Result<()> {
        let mut work = 0;
        while work < TURN_DATAGRAMS
            && let Some(first) = self.arrived.front().copied()
        {
            let (lent, now) = self.lend(first.id, on);
            work += lent.max(1);
            self.flush()?;
            if now >= deadline {
                break;
            }
        }
        Ok(())
    }

    /// Lends the next arrivals, as far as they are of one socket; returns the datagrams lent and when.
    fn lend(&mut self, id: Id, on: &mut impl Handler) -> (u64, Time) {
        self.messages.clear();
        let same = self.arrived.iter().take(self.batch);
        let count = same.take_while(|arrival| arrival.id == id).count();
        for arrival in self.arrived.range(..count) {
            let offset = self.buffers.offset(arrival.buffer);
            let filled = self.buffers.memory().bytes(offset..offset + arrival.filled);
            self.messages.extend(decode(filled, offset, self.control_bytes));
        }
        let now = Time::now();
        let mut lent = 0;
        if self.ops.sockets.is_open(id) {
            lent = self.ops.count_received(&self.messages);
            let datagrams = Datagrams::new(self.buffers.memory(), &self.messages);
            on.event(&mut self.ops, now, id, Event::Datagrams(datagrams));
        }
        for arrival in self.arrived.drain(..count) {
            self.buffers.give(arrival.buffer);
        }
        self.buffers.publish();
        (lent, now)
    }
}

/// Reads a buffer that a multishot receive filled: header, address, control messages, payload.
fn decode(filled: &[u8], offset: usize, control_bytes: usize) -> Option<Message> {
    let word = |index: usize| -> Option<u32> {
        let bytes = filled.get(index * 4..index * 4 + 4)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    };
    let (control_used, flags) = (word(1)? as usize, word(3)?);
    let address = RECEIVED_HEADER_BYTES;
    let control = address + ADDRESS_BYTES;
    let payload = control + control_bytes;
    let control = filled.get(control..control + control_used.min(control_bytes))?;
    Some(Message {
        peer: read_address(filled.get(address..)?)?,
        offset: offset + payload,
        length: filled.len().checked_sub(payload)? as u32,
        segment: read_segment(control).unwrap_or(0),
        truncated: flags & libc::MSG_TRUNC as u32 != 0,
    })
}

impl Engine for UringEngine {
    fn ops(&mut self) -> &mut Ops {
        &mut self.ops
    }

    fn now(&self) -> Time {
        Time::now()
    }

    fn turn(&mut self, until: Time, on: &mut impl Handler) -> io::Result<()> {
        self.perform()?;
        self.ops.counters.calls.wait += 1;
        let until = until.min(self.ops.streams.deadlines.next_due());
        let gathered = self.taken + std::mem::take(&mut self.ops.gathering);
        let arrived = !self.arrived.is_empty() || self.streams.has_work();
        let now = Time::now();
        if arrived || self.ops.has_work() || until <= now {
            self.ring.submit()?;
        } else {
            if gathered > now && !self.ring.can_gather() {
                self.ring.submit()?;
                self.wakeable.wait(|mask| Poll::rest(gathered.min(until), mask))?;
            }
            let ring = &mut self.ring;
            self.wakeable.wait(|mask| ring.wait(until, gathered, mask))?;
        }
        self.take_completions();
        self.streams.settle(&mut self.ops, &mut self.ring)?;
        if self.wakeable.take() {
            on.event(&mut self.ops, Time::now(), NO_SOCKET, Event::Woken);
        }
        // A deadline that had passed already asks for a pass without waiting, not for an empty one.
        self.taken = Time::now();
        let deadline = if until <= self.taken { Time::NEVER } else { until };
        let datagrams = !self.arrived.is_empty();
        self.serve(deadline, on)?;
        let now = if datagrams { Time::now() } else { self.taken };
        let times = (now, deadline);
        self.streams.serve(&mut self.ops, &mut self.ring, times, on)?;
        self.perform()?;
        self.ops.deliver_notices(Time::now, on);
        Ok(())
    }

    fn buffers(&self) -> Buffers {
        Buffers::new([
            self.buffers.memory(),
            self.ops.sends.arena.memory(),
            self.streams.memory(),
            self.ops.streams.outgoing.memory(),
        ])
    }

    fn waker(&self) -> Waker {
        self.wakeable.waker()
    }
}

impl Drop for UringEngine {
    /// Ends what the kernel holds, one by one: cancelling all at once takes it a time quadratic in their number.
    fn drop(&mut self) {
        for (slot, state) in (0u64..).zip(&self.states) {
            let held = [(state.armed, RECEIVE), (state.blocked, ROOM)];
            for (_, kind) in held.into_iter().filter(|(held, _)| *held) {
                // Fails only when the ring does; then its closing ends them.
                let _ = self.ring.cancel(kind | slot);
            }
        }
        self.streams.cancel_all(&mut self.ops, &mut self.ring);
        self.ring.drain();
    }
}

/// What this kernel's io_uring can do for connections, beyond what the engine needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Abilities {
    /// Sends go along with the submission of a turn (Linux 6.10), and completions gather in the kernel (6.12).
    pub(crate) batches: bool,
}

/// What io_uring can do here, or why this process may not use it as the engine does.
pub(crate) fn probe() -> Result<Abilities, String> {
    let settings = EngineSettings {
        datagram_batch: 1,
        arena_bytes: 1,
        ..EngineSettings::default()
    };
    // On a thread of its own: the kernel takes a ring down after its descriptor was closed, and interrupts the thread that
    // had it then, which makes the caller's reads with a time limit fail with EINTR.
    let tried = thread::scope(|scope| {
        let attempt = thread::Builder::new().spawn_scoped(scope, || {
            UringEngine::new(&settings).map(|engine| Abilities {
                batches: engine.ring.can_send() && engine.ring.can_gather(),
            })
        })?;
        attempt
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the attempt panicked")))
    });
    tried.map_err(|error| match error.raw_os_error() {
        Some(libc::ENOSYS) => "this kernel has no io_uring, or a filter hides it".to_owned(),
        Some(libc::EPERM) => match std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled") {
            Ok(text) if text.trim() != "0" => format!(
                "kernel.io_uring_disabled is {}: set it to 0 to allow io_uring",
                text.trim()
            ),
            _ => "io_uring is denied, as container runtimes do by default: allow io_uring_setup, \
                  io_uring_enter and io_uring_register in the seccomp profile"
                .to_owned(),
        },
        Some(libc::ENOMEM) => "io_uring found no lockable memory: raise the limit of locked memory \
                               (ulimit -l)"
            .to_owned(),
        Some(libc::EINVAL) | None => "this kernel's io_uring is older than Linux 6.0".to_owned(),
        Some(_) => format!("io_uring could not be set up: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_too_short_for_its_header_is_no_message() {
        assert!(decode(&[0; 15], 0, 0).is_none());
        assert!(decode(&[0; 60], 0, CONTROL_BYTES).is_none());
    }
}
