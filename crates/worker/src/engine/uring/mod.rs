//! The engine over io_uring: one multishot receive per socket into a ring of provided buffers, so that one system call
//! waits, receives and registers. Batches are sent like by the engine over epoll.

#[allow(unsafe_code)]
mod ring;
mod shortage;
mod streams;

use super::cause::Cause;
use super::datagrams::{Datagrams, Message};
use super::driver::{Driver, Patience, unblocked};
use super::flush::{Flushed, Flusher};
use super::id::Id;
use super::ops::Ops;
use super::settings::EngineSettings;
use super::slab::PerSlot;
use super::streams::StreamDriver;
use super::wake::Wakeable;
use super::{Event, Handler};
use crate::system::address::{ADDRESS_BYTES, Control, read_address};
use crate::system::memory::Pages;
use crate::system::poll::Poll;
use crate::time::Time;
use ring::{BufferRing, Completion, Ring};
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::thread;
use streams::Connections;

/// Operations queued before a submission is forced.
const SUBMISSIONS: u32 = 256;

/// Completions the kernel can post before it uses its overflow list: twice the number of sockets, within these bounds.
const FEWEST_COMPLETIONS: usize = 512;
const MOST_COMPLETIONS: usize = 4_096;

/// Provided buffers per message of a batch: one is lent, the others can fill meanwhile.
const BUFFERS_PER_MESSAGE: usize = 4;

/// The minimum number of provided buffers: twice what the kernel receives from one socket before it polls the next
/// (32).
const FEWEST_BUFFERS: usize = 64;

/// `struct io_uring_recvmsg_out`: four words (lengths of name, control and payload; flags) before the received data.
const RECEIVED_HEADER_BYTES: usize = 16;

/// The kind of an operation, in the two highest bits of its user data.
const RECEIVE: u64 = 1 << 62;
const ROOM: u64 = 2 << 62;
const STREAM: u64 = 3 << 62;
const KINDS: u64 = 3 << 62;

pub(crate) struct Completions {
    ring: Ring,
    buffers: BufferRing,
    connections: Connections,
    /// The operations that the kernel holds for each slot.
    states: PerSlot<State>,
    /// Received and not lent yet.
    arrived: VecDeque<Arrival>,
    messages: Vec<Message>,
    flusher: Flusher,
    batch: usize,
    control_bytes: usize,
}

/// The operations of a socket, listener or connection that the kernel holds.
#[derive(Clone, Copy, Default, Debug)]
struct State {
    /// A receive (multishot, or single before Linux 6.17, see [`Ring::cannot_bound`]) or a multishot accept.
    armed: bool,
    /// That receive was bounded by the kernel, see [`Ring::bounds`].
    bounded: bool,
    /// The cancellation of that operation.
    cancelling: bool,
    /// A poll for room to send.
    awaiting: bool,
    /// Of connections: a poll for a reset, which a connection that does not receive would not notice.
    guarded: bool,
    /// Of connections: a poll for the end of the attempt to open it.
    connecting: bool,
}

/// One completed receive: a buffer, and the number of bytes filled.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    id: Id,
    buffer: u16,
    filled: i32,
}

impl Completions {
    pub(crate) fn new(settings: &EngineSettings) -> io::Result<Self> {
        let batch = settings.receive_batch();
        let control_bytes = settings.control_bytes();
        let buffer_bytes =
            RECEIVED_HEADER_BYTES + ADDRESS_BYTES + control_bytes + settings.receive_buffer_bytes;
        let count = datagram_buffers(settings);
        let mut ring = Ring::new(SUBMISSIONS, completions(settings))?;
        ring.burst_bytes = settings.stream_burst_bytes;
        let (group, beside) = (BufferRing::DATAGRAMS, [ADDRESS_BYTES, control_bytes]);
        Ok(Self {
            connections: Connections::new(&ring, settings)?,
            buffers: BufferRing::new(&ring, group, (count, 1), buffer_bytes, beside)?,
            ring,
            states: PerSlot::default(),
            arrived: VecDeque::with_capacity(usize::from(count)),
            messages: Vec::with_capacity(batch),
            flusher: Flusher::new(settings),
            batch,
            control_bytes,
        })
    }

    /// Takes all completions; received data is queued to be lent.
    fn take_completions(&mut self, ops: &mut Ops) {
        self.buffers.shortage.submitted();
        self.connections.buffers.shortage.submitted();
        while let Some(completion) = self.ring.take() {
            let slot = completion.user_data as u32;
            match completion.user_data & KINDS {
                STREAM => self.connections.completed(ops, completion),
                RECEIVE => self.received(ops, slot, completion),
                ROOM => {
                    self.states.at(slot).awaiting = false;
                    unblocked(ops, slot);
                }
                _ => {}
            }
        }
        self.buffers.shortage.resume(&mut ops.sockets);
        self.connections.buffers.shortage.resume(&mut ops.streams);
    }

    fn received(&mut self, ops: &mut Ops, slot: u32, completion: Completion) {
        if let Some(buffer) = completion.buffer {
            self.buffers.shortage.took();
            self.arrived.push_back(Arrival {
                id: ops.sockets.id(slot),
                buffer,
                filled: completion.result,
            });
        }
        if !completion.more {
            let state = self.states.at(slot);
            (state.armed, state.cancelling) = (false, false);
            if completion.result == -libc::ENOBUFS {
                ops.counters.starved += 1;
                return self.buffers.shortage.waits(slot);
            }
            ops.sockets.note_change(slot);
        }
        match -completion.result {
            // Cancelled on request.
            libc::ECANCELED => {}
            error if error > 0 => {
                let cause = Cause::from_errno(error);
                if cause.is_final() {
                    ops.abandoned(slot, cause);
                } else {
                    ops.report_error(slot, cause);
                }
            }
            _ => {}
        }
    }
}

/// The number of provided buffers for datagrams.
fn datagram_buffers(settings: &EngineSettings) -> u16 {
    let count = FEWEST_BUFFERS.max(settings.receive_batch() * BUFFERS_PER_MESSAGE);
    count.next_power_of_two() as u16
}

fn completions(settings: &EngineSettings) -> u32 {
    let wanted = match settings.sockets {
        0 => MOST_COMPLETIONS,
        sockets => sockets.saturating_mul(2),
    };
    let wanted = wanted.clamp(FEWEST_COMPLETIONS, MOST_COMPLETIONS);
    wanted.next_power_of_two() as u32
}

/// The locked memory of one engine: submissions, completions, and the rings of both groups of buffers.
pub(crate) fn locked_bytes(settings: &EngineSettings) -> u64 {
    ring::locked_bytes(
        SUBMISSIONS,
        completions(settings),
        &[datagram_buffers(settings), streams::BUFFERS],
    )
}

impl Driver for Completions {
    fn apply(&mut self, ops: &mut Ops, slot: u32) {
        let state = self.states.at(slot);
        let entry = ops.sockets.at(slot);
        let wanted = entry.receiving && !entry.closing;
        let user_data = RECEIVE | u64::from(slot);
        if wanted && !state.armed {
            if let Some(socket) = entry.descriptor() {
                state.armed = true;
                self.ring.receive(socket.as_raw_fd(), &self.buffers, user_data);
            }
        } else if !wanted && state.armed && !state.cancelling {
            state.cancelling = true;
            self.ring.cancel(user_data);
        }
    }

    fn stop(&mut self, _ops: &mut Ops, slot: u32) -> bool {
        !self.states.at(slot).armed
    }

    fn send(&mut self, ops: &mut Ops, slot: u32) -> Flushed {
        self.flusher.flush(ops, slot)
    }

    fn await_room(&mut self, ops: &mut Ops, slot: u32) {
        if let Some(socket) = ops.sockets.at(slot).descriptor() {
            self.states.at(slot).awaiting = true;
            self.ring.await_room(socket.as_raw_fd(), ROOM | u64::from(slot));
        }
    }

    fn has_work(&mut self) -> bool {
        !self.arrived.is_empty() || self.connections.has_work()
    }

    fn wait(&mut self, ops: &mut Ops, wakeable: &Wakeable, patience: Option<Patience>) -> io::Result<bool> {
        match patience {
            None => self.ring.submit()?,
            Some(Patience { now, until, gathered }) => {
                if gathered > now && !self.ring.gathers {
                    self.ring.submit()?;
                    wakeable.wait(|mask| Poll::rest(gathered.min(until), mask))?;
                }
                wakeable.wait(|mask| self.ring.wait(until, gathered, mask))?;
            }
        }
        self.take_completions(ops);
        self.settle(ops);
        Ok(true)
    }

    /// Lends the next arrivals of one socket.
    fn lend(&mut self, ops: &mut Ops, on: &mut impl Handler) -> Option<(u64, Time)> {
        let id = self.arrived.front()?.id;
        self.messages.clear();
        let same = self.arrived.iter().take(self.batch);
        let count = same.take_while(|arrival| arrival.id == id).count();
        for arrival in self.arrived.range(..count) {
            let offset = self.buffers.offset(arrival.buffer);
            let filled = self.buffers.filled(arrival.buffer, arrival.filled);
            self.messages.extend(decode(filled, offset, self.control_bytes));
        }
        let now = Time::now();
        let mut lent = 0;
        if ops.sockets.is_open(id) {
            lent = ops.count_received(&self.messages);
            let port = ops.sockets.at(id.slot() as u32).port;
            let datagrams = Datagrams::new(self.buffers.memory(), &self.messages, port);
            on.event(ops, now, id, Event::Datagrams(datagrams));
        }
        for arrival in self.arrived.drain(..count) {
            self.buffers.recycle(arrival.buffer);
        }
        self.buffers.publish();
        self.buffers.shortage.resume(&mut ops.sockets);
        Some((lent, now))
    }

    fn memory(&self) -> [&Pages; 2] {
        [self.buffers.memory(), self.connections.memory()]
    }

    /// Cancels the kernel's operations one by one: cancelling all at once takes time quadratic in their number.
    fn close(&mut self, ops: &mut Ops) {
        for slot in 0..self.states.len() {
            let state = self.states.at(slot);
            let held = [(state.armed, RECEIVE), (state.awaiting, ROOM)];
            for (_, kind) in held.into_iter().filter(|(held, _)| *held) {
                self.ring.cancel(kind | u64::from(slot));
            }
        }
        for slot in 0..self.connections.states.len() {
            self.release(ops, slot);
        }
        self.ring.drain();
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
    let control = Control::read(filled.get(control..control + control_used.min(control_bytes))?);
    Some(Message {
        peer: read_address(filled.get(address..)?)?,
        offset: offset + payload,
        length: filled.len().checked_sub(payload)? as u32,
        segment: control.segment,
        destination: control.destination,
        broadcast: control.broadcast,
        truncated: flags & libc::MSG_TRUNC as u32 != 0,
    })
}

const NO_MEMORY: &str =
    "io_uring could not lock memory: raise the limit of locked memory (ulimit -l), or use epoll";

/// The error of an engine that could not be built: names the limit if memory could not be locked. Other processes of the
/// user may have used it up.
pub(crate) fn not_built(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ENOMEM) => io::Error::new(error.kind(), NO_MEMORY),
        _ => error,
    }
}

/// Whether connections can batch here: sends go with the submission of a turn (Linux 6.10), and a wait batches
/// completions in the kernel (6.12). The error is why this process cannot use io_uring.
pub(crate) fn probe() -> Result<bool, String> {
    let settings = EngineSettings {
        datagram_batch: 1,
        arena_bytes: 1,
        ..EngineSettings::default()
    };
    // On a separate thread: the kernel destroys a ring after its descriptor was closed, and interrupts the thread that
    // owned it then, which makes the caller's reads with a timeout fail with EINTR.
    let tried = thread::scope(|scope| {
        let attempt = thread::Builder::new().spawn_scoped(scope, || {
            Completions::new(&settings).map(|engine| engine.ring.sends && engine.ring.gathers)
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
        Some(libc::ENOMEM) => NO_MEMORY.to_owned(),
        Some(libc::EINVAL) | None => "this kernel's io_uring is older than Linux 6.0".to_owned(),
        Some(_) => format!("io_uring could not be set up: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_as_long_as_the_sockets_need() {
        let of = |sockets| {
            let settings = EngineSettings {
                sockets,
                ..EngineSettings::default()
            };
            (completions(&settings), locked_bytes(&settings) >> 10)
        };
        // 16 KiB of submissions, completions of 16 bytes each with a head and an index, and two pages of buffers.
        assert_eq!(of(0), (4_096, 92));
        assert_eq!(of(1), (512, 36));
        assert_eq!(of(1_000), (2_048, 60));
        assert_eq!(of(1 << 40), (4_096, 92));
    }

    #[test]
    fn a_buffer_too_short_for_its_header_is_no_message() {
        assert!(decode(&[0; 15], 0, 0).is_none());
        assert!(decode(&[0; 60], 0, 24).is_none());
    }
}
