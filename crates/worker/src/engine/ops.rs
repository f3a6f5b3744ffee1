//! What a worker asks of its engine: sockets to register, datagrams to send, receiving on and off, sockets to close. What
//! it asks about TCP is in `streams/ops.rs`.
//!
//! Everything is queued here and performed by the engine's next pass. The same type serves every engine.

use super::cause::{Cause, EngineCounters};
use super::datagrams::Message;
use super::id::Id;
use super::sends::{Full, Sends};
use super::settings::EngineSettings;
use super::slab::Slab;
use super::sockets::{Entry, Socket};
use super::streams::{Outgoing, Stream};
use super::{Event, Handler};
use crate::system::{option, stream};
use crate::time::Time;
use crate::timers::Wheel;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

/// The queue of an engine's operations, the sockets it serves and the counts of what it did.
#[derive(Debug)]
pub struct Ops {
    pub(crate) sockets: Slab<Entry>,
    pub(crate) sends: Sends,
    pub(crate) streams: Slab<Stream>,
    pub(crate) outgoing: Outgoing,
    /// When attempts to connect end, and when listeners without a descriptor try again.
    pub(crate) deadlines: Wheel<Id>,
    /// The most bytes that a connection may hold copies of.
    pub(crate) queue_limit: usize,
    notices: Vec<(Id, Notice)>,
    pub(crate) counters: EngineCounters,
    pub(crate) backend: Backend,
    /// How long the next wait lets what arrives gather.
    pub(crate) gathering: Duration,
    merge_received: bool,
}

/// How one socket is registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DatagramOptions {
    /// Whether to receive from the start; true by default. Otherwise the kernel keeps what arrives until its buffer is
    /// full, and [`Ops::receive`] begins.
    pub receive: bool,
}

impl Default for DatagramOptions {
    fn default() -> Self {
        Self { receive: true }
    }
}

/// What an engine expects of a socket it is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Backend {
    /// Calls that must not block.
    Readiness,
    /// Operations that wait in the kernel: a non-blocking socket would make them fail instead.
    Completion,
    #[cfg(feature = "simulated")]
    Simulated,
}

/// What the handler is notified of at the next occasion.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Notice {
    Drained,
    Failed(Cause),
    Closed(Cause),
    /// It could not be registered and is closed.
    Abandoned(Cause),
}

impl Ops {
    pub(crate) fn new(settings: &EngineSettings, backend: Backend) -> io::Result<Self> {
        Ok(Self {
            sockets: Slab::default(),
            sends: Sends::new(settings.arena_bytes, settings.coalesce)?,
            streams: Slab::default(),
            outgoing: Outgoing::new(settings.arena_bytes)?,
            deadlines: Wheel::new(Time::default()),
            queue_limit: settings.stream_queue_bytes,
            notices: Vec::new(),
            counters: EngineCounters::default(),
            backend,
            gathering: Duration::ZERO,
            merge_received: settings.gro,
        })
    }

    /// Registers a bound or connected socket; events come under the `Id` from the next turn on. The engine owns the
    /// socket until [`Event::Closed`].
    ///
    /// # Errors
    /// What the kernel says to the socket's blocking mode or to `UDP_GRO`.
    pub fn datagrams(&mut self, socket: impl Into<Socket>, options: DatagramOptions) -> io::Result<Id> {
        let socket = socket.into();
        #[cfg(feature = "simulated")]
        self.backend.check(matches!(socket, Socket::Simulated(_)))?;
        match &socket {
            Socket::Kernel(socket) => {
                socket.set_nonblocking(self.backend == Backend::Readiness)?;
                self.choose_merging(socket)?;
            }
            #[cfg(feature = "simulated")]
            Socket::Simulated(_) => {}
        }
        let id = self.sockets.insert(Entry::new(socket), options.receive);
        self.sockets.note_change(id.slot() as u32);
        Ok(id)
    }

    /// Queues one datagram of `length` bytes, written by `fill` into memory that holds whatever was there before. `peer`
    /// is none on a connected socket, and required on any other.
    ///
    /// Datagrams of one socket leave in the order in which they were queued. One that the kernel refuses is counted by
    /// cause and told as [`Event::Failed`]; so is one over 65,535 bytes, for which `fill` is not called. On a socket
    /// that is closed nothing happens but the count.
    ///
    /// # Errors
    /// [`Full`] when the arena has no room; `fill` was not called then.
    pub fn send_to(
        &mut self,
        id: Id,
        peer: Option<SocketAddr>,
        length: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), Full> {
        let Some(entry) = self.sockets.open_mut(id) else {
            self.counters.send_failed.add(Cause::Asked, 1);
            return Ok(());
        };
        let Ok(length) = u16::try_from(length) else {
            self.counters.send_failed.add(Cause::TooLarge, 1);
            self.notify(id, Notice::Failed(Cause::TooLarge));
            return Ok(());
        };
        let limit = entry.segment_limit;
        let queued = self.sends.push(&mut entry.queue, limit, peer, length, fill);
        match queued {
            Ok(()) => self.sockets.note_waiting(id.slot() as u32),
            Err(Full) => self.counters.full += 1,
        }
        queued
    }

    /// Turns receiving on or off. What the engine had taken from the socket already is lent still.
    pub fn receive(&mut self, id: Id, on: bool) {
        match id.is_stream() {
            true => self.streams.receive(id, on),
            false => self.sockets.receive(id, on),
        }
    }

    /// Closes a socket. What is queued on it is sent first, nothing more is lent, and the last event of the `Id` is
    /// [`Event::Closed`]. A connection that the peer still sends on is reset by that: [`Ops::shutdown`] ends it gently.
    pub fn close(&mut self, id: Id) {
        match id.is_stream() {
            true => self.streams.close(id),
            false => self.sockets.close(id),
        }
    }

    /// Has the next turn, where it would wait, first let what arrives gather until that long after the last wait ended, so
    /// that one sleep serves many events instead of each waking the thread. What arrives may be told that much late: it
    /// is for who is asked for work, not for haste. It holds for one turn; the simulator does not gather.
    pub fn gather(&mut self, at_most: Duration) {
        self.gathering = at_most;
    }

    /// What the engine did so far.
    #[must_use]
    #[inline]
    pub fn counters(&self) -> EngineCounters {
        self.counters
    }

    /// The local address of a socket that is open: of a connection, once it is being opened.
    #[must_use]
    pub fn local_address(&self, id: Id) -> Option<SocketAddr> {
        let descriptor = match id.is_stream() {
            true => {
                let stream = self.streams.open(id)?;
                #[cfg(feature = "simulated")]
                if let Some(socket) = stream.simulated() {
                    return Some(socket.local_address());
                }
                stream.descriptor()
            }
            false => {
                let entry = self.sockets.open(id)?;
                #[cfg(feature = "simulated")]
                if let Some(Socket::Simulated(socket)) = &entry.socket {
                    return Some(socket.local_address());
                }
                entry.descriptor()
            }
        };
        stream::local_address(descriptor?)
    }

    /// Makes a socket merge what it receives or not, as the engine expects.
    fn choose_merging(&self, socket: &UdpSocket) -> io::Result<()> {
        let merges = option::get(socket, libc::SOL_UDP, libc::UDP_GRO);
        match (merges, self.merge_received) {
            (Ok(0) | Err(_), false) => Ok(()),
            (_, wanted) => option::set(socket, libc::SOL_UDP, libc::UDP_GRO, u32::from(wanted)),
        }
    }

    /// Has the handler notified at the next occasion.
    pub(crate) fn notify(&mut self, id: Id, notice: Notice) {
        self.notices.push((id, notice));
    }

    /// The kernel took the first run of a socket's queue.
    pub(crate) fn sent_first(&mut self, slot: u32) {
        let entry = self.sockets.at_mut(slot);
        if let Some(run) = self.sends.pop(&mut entry.queue) {
            self.counters.sent += u64::from(run.datagrams);
        }
        self.closing_may_end(slot);
    }

    /// The kernel answered the first run of a socket's queue with an error. A run that could not be cut is queued again
    /// as single datagrams; an error that belongs to an earlier datagram leaves this one queued; all else drops it.
    pub(crate) fn refused_first(&mut self, slot: u32, errno: i32) {
        let cause = Cause::from_errno(errno);
        if cause == Cause::Refused {
            // Only ICMP brings this: the kernel tells it on the next call and forgets it, without sending.
            self.complain(slot, cause);
            return;
        }
        let entry = self.sockets.at_mut(slot);
        let segment = self.sends.iter(&entry.queue).next().and_then(|run| run.segment());
        // EINVAL and EMSGSIZE: a segment larger than the path allows. EIO: a device that cannot compute checksums.
        if let (Some(segment), libc::EINVAL | libc::EMSGSIZE | libc::EIO) = (segment, errno) {
            entry.segment_limit = entry.segment_limit.min(segment - 1);
            self.sends.split_first(&mut entry.queue);
            return;
        }
        if let Some(run) = self.sends.pop(&mut entry.queue) {
            self.counters.send_failed.add(cause, u64::from(run.datagrams));
            self.notify(self.sockets.id(slot), Notice::Failed(cause));
        }
        self.closing_may_end(slot);
    }

    /// A socket reported an error that belongs to no datagram at hand.
    pub(crate) fn complain(&mut self, slot: u32, cause: Cause) {
        self.counters.errors.add(cause, 1);
        self.notify(self.sockets.id(slot), Notice::Failed(cause));
    }

    /// The kernel is done with a closing socket.
    pub(crate) fn closed(&mut self, slot: u32) {
        self.retire_socket(slot, Notice::Closed(Cause::Asked));
    }

    /// The kernel would not have a socket: closes it.
    pub(crate) fn abandoned(&mut self, slot: u32, cause: Cause) {
        self.counters.errors.add(cause, 1);
        self.retire_socket(slot, Notice::Abandoned(cause));
    }

    fn retire_socket(&mut self, slot: u32, notice: Notice) {
        self.notify(self.sockets.id(slot), notice);
        let entry = self.sockets.retire(slot);
        entry.socket = None;
        while let Some(run) = self.sends.pop(&mut entry.queue) {
            let dropped = u64::from(run.datagrams);
            self.counters.send_failed.add(Cause::Asked, dropped);
        }
    }

    /// Counts messages about to be lent; returns the datagrams in them.
    pub(crate) fn count_received(&mut self, messages: &[Message]) -> u64 {
        let received = messages.iter().map(Message::datagrams).sum();
        let truncated = messages.iter().filter(|message| message.truncated).count();
        self.counters.received += received;
        self.counters.truncated += truncated as u64;
        received
    }

    /// Notifies the handler of what came up since the last time; what comes up meanwhile waits for the next. A slot is free
    /// once its owner knows of its end, so that who keeps something by slot never hears of the next tenant before.
    pub(crate) fn deliver_notices(&mut self, now: Time, on: &mut impl Handler) {
        for (id, notice) in std::mem::take(&mut self.notices) {
            let is_open = self.streams.is_open(id) || self.sockets.is_open(id);
            match notice {
                Notice::Failed(cause) if is_open => on.event(self, now, id, Event::Failed(cause)),
                Notice::Drained if is_open => on.event(self, now, id, Event::Drained),
                Notice::Failed(_) | Notice::Drained => {}
                Notice::Closed(cause) | Notice::Abandoned(cause) => {
                    if matches!(notice, Notice::Abandoned(_)) {
                        on.event(self, now, id, Event::Failed(cause));
                    }
                    on.event(self, now, id, Event::Closed(cause));
                    match id.is_stream() {
                        true => self.streams.free(id.slot() as u32),
                        false => self.sockets.free(id.slot() as u32),
                    }
                }
            }
        }
    }

    pub(crate) fn has_notices(&self) -> bool {
        !self.notices.is_empty()
    }

    /// Whether something waits for [`Ops::deliver_notices`] or for the engine's next pass: no time to sleep. Sends still
    /// waiting after a pass wait for the kernel.
    pub(crate) fn has_work(&self) -> bool {
        self.has_notices() || self.sockets.has_changes() || self.streams.has_changes()
    }

    fn closing_may_end(&mut self, slot: u32) {
        let entry = self.sockets.at(slot);
        if entry.closing && entry.queue.runs == 0 {
            self.sockets.note_change(slot);
        }
    }
}
