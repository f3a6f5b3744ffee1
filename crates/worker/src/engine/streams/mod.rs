//! The listeners and connections of one engine: a slab whose slots are reused under a new generation, what each has queued
//! to be sent, and what its owner wants of it.
//!
//! An idle connection holds no buffer: what arrives is lent from the engine's own memory, and what is sent leaves in the
//! pass that follows. Only what the kernel did not take stays, in memory of the connection's own.

mod flush;
mod information;
mod life;
mod ops;
mod options;
mod queue;
mod readiness;

#[cfg(feature = "simulated")]
pub(crate) use flush::flush_with;
pub(crate) use flush::{FlushedStream, flush, refused, taken};
pub use information::StreamInformation;
pub use options::{ConnectOptions, Listener};
#[cfg(feature = "simulated")]
pub(crate) use queue::Front;
pub(crate) use queue::{Outgoing, Queue, Stable};
pub(crate) use readiness::{Readiness, STARVED, VISITS_PER_CLOCK};

use super::cause::Cause;
use super::id::Id;
#[cfg(feature = "simulated")]
use super::simulated::{SimulatedEnd, SimulatedListener};
use crate::system::stream::Binding;
use crate::time::Time;
use crate::timers::{Timer, Wheel};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// What stands behind an `Id`.
#[derive(Debug)]
pub(crate) enum Handle {
    /// Nothing yet, or nothing any more.
    None,
    Kernel(OwnedFd),
    /// An end of a connection in the simulated network.
    #[cfg(feature = "simulated")]
    Simulated(Box<SimulatedEnd>),
    #[cfg(feature = "simulated")]
    SimulatedListener(Box<SimulatedListener>),
}

/// How far a connection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Listening,
    /// To be opened, or being opened.
    Connecting,
    Open,
}

/// What a connection needs until it is open.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) to: SocketAddr,
    pub(crate) binding: Binding,
    pub(crate) timeout: Option<Duration>,
    /// Its end, once it has begun.
    pub(crate) timer: Option<Timer>,
}

/// A listener or a connection, and what its owner wants of it. What the kernel was told so far is the engine's to know.
#[derive(Debug)]
pub(crate) struct Stream {
    generation: u32,
    pub(crate) handle: Handle,
    pub(crate) queue: Queue,
    pub(crate) request: Option<Box<Request>>,
    pub(crate) phase: Phase,
    /// Whether the slot has a tenant.
    live: bool,
    pub(crate) receiving: bool,
    /// Closed by its owner: it lives on until what is queued was sent.
    pub(crate) closing: bool,
    /// The owner has nothing more to send.
    pub(crate) ending: bool,
    /// The peer was told so.
    pub(crate) ended: bool,
    /// The owner wants to know when the queue is empty.
    pub(crate) tell_drained: bool,
    /// Why no more can be sent; what was received before is lent still.
    pub(crate) broken: Option<Cause>,
    /// Whether the slot is in the list of those with something to send.
    pub(crate) waiting: bool,
    /// Whether the slot is in the list of those whose wishes changed.
    pub(crate) changed: bool,
}

impl Stream {
    /// The descriptor of one of the kernel's.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.handle {
            Handle::Kernel(descriptor) => Some(descriptor.as_fd()),
            _ => None,
        }
    }
}

/// Something to tell the handler at the next occasion.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StreamNotice {
    Drained,
    Failed(Cause),
    Closed(Cause),
}

#[derive(Debug)]
pub(crate) struct Streams {
    entries: Vec<Stream>,
    free: Vec<u32>,
    pub(crate) outgoing: Outgoing,
    /// Slots with something to send.
    pub(crate) waiting: Vec<u32>,
    /// Slots whose wishes changed.
    pub(crate) changes: Vec<u32>,
    pub(crate) notices: Vec<(Id, StreamNotice)>,
    /// When attempts to connect end, and when listeners without a descriptor try again.
    pub(crate) deadlines: Wheel<Id>,
    /// The most bytes that a connection may hold copies of.
    pub(crate) queue_limit: usize,
}

impl Streams {
    pub(crate) fn new(outbox_bytes: usize, queue_limit: usize) -> io::Result<Self> {
        Ok(Self {
            entries: Vec::new(),
            free: Vec::new(),
            outgoing: Outgoing::new(outbox_bytes)?,
            waiting: Vec::new(),
            changes: Vec::new(),
            notices: Vec::new(),
            deadlines: Wheel::new(Time::default()),
            queue_limit,
        })
    }

    pub(crate) fn insert(&mut self, handle: Handle, phase: Phase, receiving: bool) -> Id {
        let stream = Stream {
            generation: Id::FIRST_STREAM,
            handle,
            queue: Queue::EMPTY,
            request: None,
            phase,
            live: true,
            receiving,
            closing: false,
            ending: false,
            ended: false,
            tell_drained: false,
            broken: None,
            waiting: false,
            changed: false,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                let old = &mut self.entries[slot as usize];
                *old = Stream {
                    generation: old.generation,
                    ..stream
                };
                slot
            }
            None => {
                self.entries.push(stream);
                (self.entries.len() - 1) as u32
            }
        };
        self.id(slot)
    }

    /// Drops what stands in a slot, and frees the slot for the next generation.
    pub(crate) fn remove(&mut self, slot: u32) {
        self.retire(slot);
        self.free(slot);
    }

    /// Lets a slot be used again.
    pub(crate) fn free(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// Drops what stands in a slot, its descriptor and its queue. The slot stays taken until it is freed.
    pub(crate) fn retire(&mut self, slot: u32) {
        let stream = &mut self.entries[slot as usize];
        self.outgoing.clear(&mut stream.queue);
        stream.handle = Handle::None;
        stream.request = None;
        stream.live = false;
        stream.generation = Id::next_stream(stream.generation);
    }

    pub(crate) fn at(&self, slot: u32) -> &Stream {
        &self.entries[slot as usize]
    }

    pub(crate) fn at_mut(&mut self, slot: u32) -> &mut Stream {
        &mut self.entries[slot as usize]
    }

    /// The stream in a slot and the queues of all.
    pub(crate) fn parts(&mut self, slot: u32) -> (&mut Stream, &mut Outgoing) {
        (&mut self.entries[slot as usize], &mut self.outgoing)
    }

    pub(crate) fn id(&self, slot: u32) -> Id {
        Id::of_stream(slot, self.at(slot).generation)
    }

    /// Whether nothing waits for the engine's next pass.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.changes.is_empty()
    }

    /// Whether it is there still, closing or not.
    pub(crate) fn is_current(&self, id: Id) -> bool {
        self.entries
            .get(id.slot())
            .is_some_and(|stream| stream.live && id == Id::of_stream(id.slot() as u32, stream.generation))
    }

    /// The stream, unless its owner closed it.
    pub(crate) fn open_mut(&mut self, id: Id) -> Option<&mut Stream> {
        if !self.is_open(id) {
            return None;
        }
        self.entries.get_mut(id.slot())
    }

    pub(crate) fn is_open(&self, id: Id) -> bool {
        self.is_current(id) && !self.entries[id.slot()].closing
    }

    /// Has the engine look at a stream's wishes again.
    pub(crate) fn note_change(&mut self, slot: u32) {
        let stream = self.at_mut(slot);
        if !stream.changed {
            stream.changed = true;
            self.changes.push(slot);
        }
    }

    /// Has the engine send what a stream has queued.
    pub(crate) fn note_waiting(&mut self, slot: u32) {
        let stream = self.at_mut(slot);
        if !stream.waiting && !stream.queue.is_empty() {
            stream.waiting = true;
            self.waiting.push(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_connection_costs_at_most_100_bytes() {
        // A million connections are what servers and generators are asked for; their own state needs the room.
        assert!(size_of::<Stream>() <= 72, "{}", size_of::<Stream>());
    }

    #[test]
    fn a_slot_reused_has_another_id() {
        let mut streams = Streams::new(1, 1).unwrap();
        let first = streams.insert(Handle::None, Phase::Connecting, true);
        streams.remove(first.slot() as u32);
        assert!(!streams.is_current(first));
        let second = streams.insert(Handle::None, Phase::Connecting, true);
        assert_eq!(first.slot(), second.slot());
        assert!(!streams.is_open(first) && streams.is_open(second));
        assert_eq!(Id::from_bits(second.to_bits()), second);
        assert!(second.is_stream());
    }
}
