//! A network in memory under a virtual clock, and the engine of a worker in it: for testing servers and generators as
//! they are, quickly, and alike in every run of one seed.
//!
//! Time passes only when every engine of the network waits in its [`turn`](Engine::turn): then the clock jumps to the
//! next arrival or deadline, and one engine goes on at a time. Engines may run on a thread each, with the loops they have
//! in earnest, or take turns on one thread: a turn returns early there when another engine of the thread can go on.

mod connections;
mod network;
mod settings;
mod state;

pub(crate) use network::SimulatedEnd;
pub use network::{Network, Seat, SimulatedListener, SimulatedSocket};
pub use settings::{NetworkCounters, NetworkSettings};

use super::datagrams::{Datagrams, Message};
use super::id::Id;
use super::ops::{Backend, Ops};
use super::settings::EngineSettings;
use super::sockets::Socket;
use super::wake::{Wakeable, Waker};
use super::{Engine, Event, Handler, NO_SOCKET, TURN_DATAGRAMS};
use crate::memory::Buffers;
use crate::system::memory::Pages;
use crate::system::message::stride;
use crate::time::Time;
use std::io;

/// The engine of one worker of a simulated network.
pub struct SimulatedEngine {
    ops: Ops,
    /// Keeps the engine's place among those that the clock waits for.
    seat: Seat,
    wakeable: Wakeable,
    memory: Pages,
    messages: Vec<Message>,
    batch: usize,
    buffer_bytes: usize,
    stream_bytes: usize,
}

impl SimulatedEngine {
    fn new(seat: Seat, settings: &EngineSettings) -> io::Result<Self> {
        settings.check()?;
        let batch = settings.datagram_batch;
        let stride = stride(settings.receive_buffer_bytes);
        let whole = EngineSettings {
            coalesce: false,
            gro: false,
            ..settings.clone()
        };
        let wakeable = Wakeable::without_thread();
        seat.take_place(wakeable.waker());
        Ok(Self {
            ops: Ops::new(&whole, Backend::Simulated)?,
            seat,
            wakeable,
            memory: Pages::new(batch * stride)?,
            messages: Vec::with_capacity(batch),
            batch,
            buffer_bytes: settings.receive_buffer_bytes,
            stream_bytes: settings.stream_buffer_bytes,
        })
    }

    /// Hands what is queued to the network.
    fn perform(&mut self) {
        while let Some(slot) = self.ops.waiting.pop_front() {
            self.ops.sockets.at_mut(slot).waiting = false;
            self.flush_socket(slot);
        }
        while let Some(slot) = self.ops.changes.pop() {
            let id = self.ops.sockets.id(slot);
            let entry = self.ops.sockets.at_mut(slot);
            entry.changed = false;
            let wanted = entry.receiving && !entry.closing;
            let Some(endpoint) = entry.socket.as_ref().map(endpoint) else {
                continue;
            };
            self.seat.watch(endpoint, id, wanted);
            if entry.closing {
                self.ops.closed(slot);
            }
        }
        connections::perform(&mut self.ops, &self.seat);
    }

    fn flush_socket(&mut self, slot: u32) {
        loop {
            let entry = self.ops.sockets.at(slot);
            let (Some(socket), Some(run)) = (entry.socket.as_ref(), self.ops.sends.iter(&entry.queue).next())
            else {
                return;
            };
            let payload = self.ops.sends.arena.memory().bytes(run.range());
            self.ops.counters.calls.send += 1;
            match self.seat.send(endpoint(socket), run.peer, payload) {
                Ok(()) => self.ops.sent_first(slot),
                Err(errno) => self.ops.refused_first(slot, errno),
            }
        }
    }

    /// Lends what the network has for this engine's sockets.
    fn serve(&mut self, on: &mut impl Handler) {
        let mut work = 0;
        while work < TURN_DATAGRAMS
            && let Some(id) = self.seat.next_ready()
        {
            work += self.visit(id, on).max(1);
        }
        connections::serve(&mut self.ops, &self.seat, self.stream_bytes, on);
    }

    fn visit(&mut self, id: Id, on: &mut impl Handler) -> u64 {
        let slot = id.slot() as u32;
        if !self.ops.sockets.is_open(id) {
            return 0;
        }
        let Some(endpoint) = self.ops.sockets.at(slot).socket.as_ref().map(endpoint) else {
            return 0;
        };
        for cause in self.seat.complaints(endpoint) {
            self.ops.complain(slot, cause);
        }
        self.ops.counters.calls.receive += 1;
        self.messages.clear();
        let stride = stride(self.buffer_bytes);
        for (index, (peer, payload)) in self.seat.receive(endpoint, self.batch).into_iter().enumerate() {
            let length = payload.len().min(self.buffer_bytes);
            let offset = index * stride;
            let buffer = self.memory.bytes_mut(offset..offset + length);
            buffer.copy_from_slice(&payload[..length]);
            self.messages.push(Message {
                peer,
                offset,
                length: length as u32,
                segment: 0,
                truncated: payload.len() > length,
            });
        }
        if self.messages.is_empty() {
            return 0;
        }
        let lent = self.ops.count_received(&self.messages);
        let datagrams = Datagrams::new(&self.memory, &self.messages);
        let now = self.seat.now();
        on.event(&mut self.ops, now, id, Event::Datagrams(datagrams));
        lent
    }
}

impl Backend {
    /// `InvalidInput` for a simulated socket or listener on a real engine, or a real one on the simulated engine.
    pub(super) fn check(self, simulated: bool) -> io::Result<()> {
        if simulated == (self == Backend::Simulated) {
            return Ok(());
        }
        let text = "a simulated engine takes simulated sockets and listeners, a real one real ones";
        Err(io::Error::new(io::ErrorKind::InvalidInput, text))
    }
}

/// The network's number of a socket. `Ops` admits only simulated sockets here.
fn endpoint(socket: &Socket) -> usize {
    match socket {
        Socket::Simulated(socket) => socket.endpoint(),
        Socket::Kernel(_) => unreachable!("the simulated engine was given a real socket"),
    }
}

impl Engine for SimulatedEngine {
    fn ops(&mut self) -> &mut Ops {
        &mut self.ops
    }

    fn now(&self) -> Time {
        self.seat.now()
    }

    fn turn(&mut self, until: Time, on: &mut impl Handler) -> io::Result<()> {
        self.ops.counters.calls.wait += 1;
        if !self.seat.starts() {
            return Ok(());
        }
        self.perform();
        let until = until.min(self.ops.streams.deadlines.next_due());
        let idle = !self.ops.has_work() && !self.seat.has_something();
        if idle && until > self.seat.now() && !self.seat.wait(until) {
            return Ok(());
        }
        if self.wakeable.take() {
            on.event(&mut self.ops, self.seat.now(), NO_SOCKET, Event::Woken);
        }
        self.serve(on);
        self.perform();
        let now = self.seat.now();
        self.ops.deliver_notices(|| now, on);
        Ok(())
    }

    fn buffers(&self) -> Buffers {
        Buffers::new([&self.memory, self.ops.sends.arena.memory()])
    }

    fn waker(&self) -> Waker {
        self.wakeable.waker()
    }
}
