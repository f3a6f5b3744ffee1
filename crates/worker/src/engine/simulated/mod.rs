//! An in-memory network with a virtual clock, and a worker's engine on it. It tests unmodified servers and generators
//! quickly; runs with the same seed are identical.
//!
//! Time passes only when every engine of the network waits in its [`turn`](Engine::turn): then the clock jumps to the
//! next arrival or deadline, and one engine at a time continues. Engines may run on one thread each, with their
//! production loops, or share one thread: there a turn returns early when another engine of the thread can continue.

mod network;
mod settings;
mod state;

pub use network::{Network, Seat, SimulatedSocket};
pub use settings::{NetworkCounters, NetworkSettings};

/// A listener of a simulated network. Dropping it frees its address and resets the connections in its backlog.
pub type SimulatedListener = SimulatedSocket;

use super::cause::Cause;
use super::datagrams::{Datagrams, Message};
use super::driver::{Driven, Driver, Patience};
use super::flush::Flushed;
use super::ops::{Backend, Ops};
use super::settings::EngineSettings;
use super::streams::{
    ConnectOptions, FlushedStream, Front, Handle, Remote, StreamDriver, accepted, connected, end, fail,
    flush_with, peer_ended, unblocked,
};
use super::wake::Wakeable;
use super::{Engine, Event, Handler};
use crate::system::memory::Pages;
use crate::system::message::stride;
use crate::time::Time;
use state::{EndEvent, InTransit};
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;

/// Bytes of a file read per call.
const FILE_PIECE: usize = 65_536;

impl Network {
    /// An engine for the calling thread.
    ///
    /// # Errors
    /// A setting is out of range, or memory is exhausted.
    pub fn engine(&self, settings: &EngineSettings) -> io::Result<impl Engine + use<>> {
        self.seat().engine(settings)
    }
}

impl Seat {
    /// The engine of this seat, on the calling thread.
    ///
    /// # Errors
    /// A setting is out of range, or memory is exhausted.
    pub fn engine(self, settings: &EngineSettings) -> io::Result<impl Engine + use<>> {
        settings.check()?;
        let whole = EngineSettings {
            coalesce: false,
            gro: false,
            memory: None,
            ..settings.clone()
        };
        let wakeable = Wakeable::without_thread();
        self.take_place(wakeable.waker());
        let driver = Simulated {
            seat: self,
            datagrams: Pages::new(settings.datagram_batch * stride(settings.receive_buffer_bytes))?,
            // Streams lend received bytes from the network's own memory.
            bytes: Pages::new(1)?,
            messages: Vec::with_capacity(settings.datagram_batch),
            settings: settings.clone(),
        };
        Driven::new(driver, &whole, Backend::Simulated, wakeable)
    }
}

struct Simulated {
    /// While it exists, the clock waits for this engine.
    seat: Seat,
    datagrams: Pages,
    bytes: Pages,
    messages: Vec<Message>,
    settings: EngineSettings,
}

impl Backend {
    /// `InvalidInput` for a simulated socket or listener on a real engine, or a real one on the simulated engine.
    pub(super) fn check(self, simulated: bool) -> io::Result<()> {
        if simulated == (self == Backend::Simulated) {
            return Ok(());
        }
        let text =
            "a simulated engine accepts only simulated sockets and listeners, a real engine only real ones";
        Err(io::Error::new(io::ErrorKind::InvalidInput, text))
    }
}

/// The network's number of a socket.
fn number_of(ops: &Ops, slot: u32) -> Option<usize> {
    let socket = ops.sockets.at(slot).socket.as_ref()?.simulated()?;
    Some(socket.number)
}

/// The network's number of a listener or connection end.
fn end_of(ops: &Ops, slot: u32) -> Option<usize> {
    let end = ops.streams.at(slot).handle.as_ref()?.simulated()?;
    Some(end.number)
}

impl Driver for Simulated {
    fn starts(&self) -> bool {
        self.seat.starts()
    }

    fn apply(&mut self, ops: &mut Ops, slot: u32) {
        let entry = ops.sockets.at(slot);
        let wanted = entry.receiving && !entry.closing;
        if let Some(number) = number_of(ops, slot) {
            let watcher = (self.seat.place, ops.sockets.id(slot));
            self.seat.state().watch(number, watcher, wanted);
        }
    }

    fn stop(&mut self, _ops: &mut Ops, _slot: u32) -> bool {
        true
    }

    fn send(&mut self, ops: &mut Ops, slot: u32) -> Flushed {
        let Some(number) = number_of(ops, slot) else {
            return Flushed::All;
        };
        loop {
            let Some(run) = ops.sends.iter(&ops.sockets.at(slot).queue).next() else {
                return Flushed::All;
            };
            let payload = ops.sends.arena.memory().bytes(run.range());
            let sent = self.seat.state().send(number, run.ends, payload);
            ops.counters.calls.send += 1;
            match sent {
                Ok(()) => ops.sent_first(slot),
                Err(errno) => ops.refused_first(slot, errno),
            }
        }
    }

    fn has_work(&mut self) -> bool {
        self.seat.has_something()
    }

    fn wait(&mut self, _ops: &mut Ops, _: &Wakeable, patience: Option<Patience>) -> io::Result<bool> {
        Ok(patience.is_none_or(|patience| self.seat.wait(patience.until)))
    }

    fn lend(&mut self, ops: &mut Ops, on: &mut impl Handler) -> Option<(u64, Time)> {
        let taken = self
            .seat
            .state()
            .take(self.seat.place, false, self.settings.datagram_batch, 0);
        let (id, arrived) = taken?;
        let now = self.seat.network.now();
        if !ops.sockets.is_open(id) {
            return Some((0, now));
        }
        ops.counters.calls.receive += 1;
        self.messages.clear();
        for event in arrived {
            let EndEvent::Datagram(InTransit { from, to, payload }) = event else {
                ops.report_error(id.slot() as u32, Cause::Refused);
                continue;
            };
            let length = payload.len().min(self.settings.receive_buffer_bytes);
            let offset = self.messages.len() * stride(self.settings.receive_buffer_bytes);
            let buffer = self.datagrams.bytes_mut(offset..offset + length);
            buffer.copy_from_slice(&payload[..length]);
            self.messages.push(Message {
                peer: from,
                offset,
                length: length as u32,
                segment: 0,
                destination: self.settings.destinations.then_some(to),
                broadcast: false,
                truncated: payload.len() > length,
            });
        }
        let lent = ops.count_received(&self.messages);
        if lent > 0 {
            let datagrams = Datagrams::new(
                &self.datagrams,
                &self.messages,
                ops.sockets.at(id.slot() as u32).port,
            );
            on.event(ops, now, id, Event::Datagrams(datagrams));
        }
        Some((lent, now))
    }

    fn memory(&self) -> [&Pages; 2] {
        [&self.datagrams, &self.bytes]
    }
}

impl StreamDriver for Simulated {
    fn now(&self) -> Time {
        self.seat.network.now()
    }

    fn connect(&mut self, to: &Remote, options: ConnectOptions) -> io::Result<Handle> {
        let to = to.address().ok_or(io::ErrorKind::Unsupported)?;
        let end = self.seat.state().connect(to, options.local);
        let end = end.map_err(io::Error::from_raw_os_error)?;
        Ok(self.seat.network.end(end).into())
    }

    fn watch(&mut self, ops: &mut Ops, slot: u32) -> io::Result<()> {
        self.apply_stream(ops, slot, true)
    }

    fn apply_stream(&mut self, ops: &mut Ops, slot: u32, wanted: bool) -> io::Result<()> {
        if let Some(end) = end_of(ops, slot) {
            let watcher = (self.seat.place, ops.streams.id(slot));
            self.seat.state().watch(end, watcher, wanted);
        }
        Ok(())
    }

    fn send_stream(&mut self, ops: &mut Ops, slot: u32) -> Option<FlushedStream> {
        let end = end_of(ops, slot)?;
        let send = |bytes: &[u8]| {
            let sent = self.seat.state().send_stream(end, bytes);
            sent.map_err(io::Error::from_raw_os_error)
        };
        Some(flush_with(ops, slot, |ops, slot| {
            let mut slices = [IoSlice::new(&[])];
            match ops.outgoing.front(&ops.streams.at(slot).queue, &mut slices) {
                Front::Nothing => Ok(0),
                Front::Memory(..) => send(&slices[0]),
                Front::File { file, offset, left } => {
                    let mut piece = vec![0; FILE_PIECE.min(usize::try_from(left).unwrap_or(FILE_PIECE))];
                    match file.read_at(&mut piece, offset)? {
                        0 => Ok(0),
                        read => send(&piece[..read]),
                    }
                }
            }
        }))
    }

    fn shutdown(&mut self, ops: &Ops, slot: u32) {
        if let Some(end) = end_of(ops, slot) {
            self.seat.state().end_stream(end);
        }
    }

    fn release(&mut self, ops: &mut Ops, slot: u32) {
        if let Some(end) = end_of(ops, slot) {
            let reset = ops.streams.at(slot).broken == Some(Cause::Asked);
            self.seat.state().close(end, reset);
        }
    }

    fn visit(&mut self, ops: &mut Ops, now: Time, on: &mut impl Handler) -> bool {
        let most_bytes = self.settings.stream_buffer_bytes;
        let taken = self.seat.state().take(self.seat.place, true, 1, most_bytes);
        let Some((id, mut events)) = taken else {
            return false;
        };
        let (slot, current) = (id.slot() as u32, ops.streams.is_current(id));
        let open = ops.streams.is_open(id);
        match events.pop() {
            Some(EndEvent::Accepted(end, peer)) => {
                let end = self.seat.network.end(end);
                if current {
                    accepted(self, ops, id, (end.into(), Some(peer)), now, on);
                } else {
                    self.seat.state().close(end.number, true);
                }
            }
            Some(EndEvent::Opened) if current => connected(ops, slot, now, on),
            Some(EndEvent::Refused) if current => fail(self, ops, slot, Cause::Refused),
            Some(EndEvent::Bytes(bytes)) if open => {
                ops.counters.streams.bytes_received += bytes.len() as u64;
                on.event(ops, now, id, Event::Bytes(&bytes));
            }
            Some(EndEvent::Ended) if current => peer_ended(self, ops, slot, now, on),
            Some(EndEvent::Reset) if current => end(self, ops, slot, Cause::Reset),
            Some(EndEvent::Writable) if current => unblocked(ops, slot),
            _ => {}
        }
        if let Some(end) = end_of(ops, slot)
            && ops.streams.is_current(id)
            && !ops.streams.at(slot).receiving
        {
            // Immediately: the next event of this turn may be more bytes.
            self.seat.state().watch(end, (self.seat.place, id), false);
        }
        true
    }
}
