//! The operations of an engine: register sockets, send datagrams, turn receiving on and off, close sockets. TCP
//! operations are in `streams/ops.rs`.
//!
//! Operations are queued here and performed by the engine's next pass. The same type serves every engine.

use super::cause::{Cause, EngineCounters};
use super::datagrams::Message;
use super::id::Id;
use super::received::{self, LastReceived};
use super::sends::{Ends, Full, Sends};
use super::settings::EngineSettings;
use super::slab::Slab;
use super::sockets::{Entry, Socket};
use super::streams::{Outgoing, Stream};
use super::{Event, Handler};
use crate::group;
use crate::system::option;
use crate::time::Time;
use crate::timers::Wheel;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// The queue of an engine's operations, the sockets it serves and the counts of what it did.
#[derive(Debug)]
pub struct Ops {
    pub(crate) sockets: Slab<Entry>,
    pub(crate) sends: Sends,
    pub(crate) streams: Slab<Stream>,
    pub(crate) outgoing: Outgoing,
    /// Timeouts of connection attempts, and retries of listeners that ran out of descriptors.
    pub(crate) deadlines: Wheel<Id>,
    /// The maximum bytes of copies per connection.
    pub(crate) queue_limit: usize,
    notices: Vec<(Id, Notice)>,
    pub(crate) counters: EngineCounters,
    pub(crate) backend: Backend,
    /// How long the next wait lets arrivals gather.
    pub(crate) gathering: Duration,
    merge_received: bool,
    destinations: bool,
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

/// A pending notification of the handler.
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
            destinations: settings.destinations,
        })
    }

    /// Registers a bound or connected socket; events use the returned `Id` from the next turn on. It receives unless
    /// [`Ops::receive`] turns that off. The engine owns the socket until [`Event::Closed`].
    ///
    /// # Errors
    /// The kernel's error from setting the blocking mode or `UDP_GRO`.
    pub fn datagrams(&mut self, socket: impl Into<Socket>) -> io::Result<Id> {
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
        let mut entry = Entry::new(socket);
        if self.destinations {
            let local = entry.socket.as_ref().and_then(Socket::local_address);
            entry.port = local.map_or(0, |address| address.port());
        }
        let id = self.sockets.insert(entry, true);
        self.sockets.note_change(id.slot() as u32);
        Ok(id)
    }

    /// Queues one datagram of `length` bytes, written by `fill` into memory with arbitrary content. `peer` is `None` on
    /// a connected socket, and required on any other.
    ///
    /// Datagrams of one socket are sent in the order in which they were queued. A datagram that the kernel rejects is
    /// counted by cause and reported as [`Event::Failed`]; so is one over 65,535 bytes, for which `fill` is not called.
    /// On a closed socket it is only counted.
    ///
    /// # Errors
    /// [`Full`] if the arena has no room; `fill` is not called then.
    pub fn send_to(
        &mut self,
        id: Id,
        peer: Option<SocketAddr>,
        length: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), Full> {
        self.send_from(id, None, peer, length, fill)
    }

    /// Like [`send_to`](Self::send_to), from an address of this machine, whose port is ignored. On a wildcard address,
    /// answers need the [`destination`](super::Datagram::destination) of the datagram as their `source`: without one
    /// the routing table selects an address, and a peer that asked another one does not recognise the answer.
    ///
    /// # Errors
    /// As `send_to`. An address that this machine does not have is a failed send.
    pub fn send_from(
        &mut self,
        id: Id,
        source: Option<SocketAddr>,
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
        let queued = self
            .sends
            .push(&mut entry.queue, limit, Ends { peer, source }, length, fill);
        match queued {
            Ok(()) => self.sockets.note_waiting(id.slot() as u32),
            Err(Full) => self.counters.full += 1,
        }
        queued
    }

    /// Turns receiving on or off. Datagrams that the engine has already received are still delivered; while it is off,
    /// the kernel queues others until its buffer is full.
    pub fn receive(&mut self, id: Id, on: bool) {
        match id.is_stream() {
            true => self.streams.receive(id, on),
            false => self.sockets.receive(id, on),
        }
    }

    /// Closes a socket. Queued datagrams are sent first, nothing more is delivered, and the last event of the `Id` is
    /// [`Event::Closed`]. If the peer of a connection is still sending, this resets the connection: [`Ops::shutdown`]
    /// ends it gracefully.
    pub fn close(&mut self, id: Id) {
        match id.is_stream() {
            true => self.streams.close(id),
            false => self.sockets.close(id),
        }
    }

    /// If the next turn would wait, lets arrivals gather until that long after the last wait ended, so that one sleep
    /// serves many events instead of one wake-up each. Events may be delayed by that much: use it for throughput, not
    /// for latency. It applies to one turn; the simulator ignores it.
    pub fn gather(&mut self, at_most: Duration) {
        self.gathering = at_most;
    }

    /// The counters since the engine was built.
    #[must_use]
    #[inline]
    pub fn counters(&self) -> EngineCounters {
        self.counters
    }

    /// The local address of an open socket; for a connection, once it is being opened.
    #[must_use]
    pub fn local_address(&self, id: Id) -> Option<SocketAddr> {
        match id.is_stream() {
            true => self.streams.open(id)?.handle.as_ref()?.local_address(),
            false => self.sockets.open(id)?.socket.as_ref()?.local_address(),
        }
    }

    /// Where the kernel received the last packet of an open connection or connected socket. Costs two system calls.
    #[must_use]
    pub fn last_received(&self, id: Id) -> LastReceived {
        self.descriptor(id).map(LastReceived::of).unwrap_or_default()
    }

    /// The CPU on which the kernel received the last packet of an open connection or connected socket, if known. Costs
    /// a system call.
    #[must_use]
    pub fn incoming_cpu(&self, id: Id) -> Option<u32> {
        self.descriptor(id).and_then(received::incoming_cpu)
    }

    /// The kernel's socket; `None` in the simulated network.
    fn descriptor(&self, id: Id) -> Option<BorrowedFd<'_>> {
        match id.is_stream() {
            true => self.streams.open(id)?.descriptor(),
            false => match self.sockets.open(id).and_then(|entry| entry.socket.as_ref()) {
                Some(Socket::Kernel(socket)) => Some(socket.as_fd()),
                _ => None,
            },
        }
    }

    /// Datagrams that the kernel dropped at an open socket, see [`group::dropped`]; 0 in the simulated network. Costs a
    /// system call.
    #[must_use]
    pub fn dropped(&self, id: Id) -> u64 {
        match self.sockets.open(id).and_then(|entry| entry.socket.as_ref()) {
            Some(Socket::Kernel(socket)) => group::dropped(socket).map_or(0, u64::from),
            _ => 0,
        }
    }

    /// Makes a socket merge what it receives or not, as the engine expects.
    fn choose_merging(&self, socket: &UdpSocket) -> io::Result<()> {
        let merges = option::get(socket, libc::SOL_UDP, libc::UDP_GRO);
        match (merges, self.merge_received) {
            (Ok(0) | Err(_), false) => Ok(()),
            (_, wanted) => option::set(socket, libc::SOL_UDP, libc::UDP_GRO, u32::from(wanted)),
        }
    }

    /// Queues a notification of the handler.
    pub(crate) fn notify(&mut self, id: Id, notice: Notice) {
        self.notices.push((id, notice));
    }

    /// The kernel accepted the first run of a socket's queue.
    pub(crate) fn sent_first(&mut self, slot: u32) {
        let entry = self.sockets.at_mut(slot);
        if let Some(run) = self.sends.pop(&mut entry.queue) {
            self.counters.sent += u64::from(run.datagrams);
        }
        self.closing_may_end(slot);
    }

    /// The kernel rejected the first run of a socket's queue. A run that could not be segmented is queued again as
    /// single datagrams; an error of an earlier datagram leaves this one queued; any other error drops it.
    pub(crate) fn refused_first(&mut self, slot: u32, errno: i32) {
        let cause = Cause::from_errno(errno);
        if cause == Cause::Refused {
            // Only ICMP causes this: the kernel reports it on the next call, without sending, and clears it.
            self.report_error(slot, cause);
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

    /// A socket reported an error that belongs to no known datagram.
    pub(crate) fn report_error(&mut self, slot: u32, cause: Cause) {
        self.counters.errors.add(cause, 1);
        self.notify(self.sockets.id(slot), Notice::Failed(cause));
    }

    /// The kernel has finished with a closing socket.
    pub(crate) fn closed(&mut self, slot: u32) {
        self.retire_socket(slot, Notice::Closed(Cause::Asked));
    }

    /// Registration failed: closes the socket.
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

    /// Counts messages about to be delivered; returns their number of datagrams.
    pub(crate) fn count_received(&mut self, messages: &[Message]) -> u64 {
        let received = messages.iter().map(Message::datagrams).sum();
        let truncated = messages.iter().filter(|message| message.truncated).count();
        self.counters.received += received;
        self.counters.truncated += truncated as u64;
        received
    }

    /// Delivers pending notifications to the handler; new ones wait for the next call. A slot is freed only after its
    /// owner was notified of its end, so that tables indexed by slot never see the next tenant early.
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

    /// Whether notifications or operations are pending, so that the engine must not sleep. Sends still queued after a
    /// pass wait for the kernel.
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
