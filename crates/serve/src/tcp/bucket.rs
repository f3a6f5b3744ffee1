//! The connections of one bucket: receives, sends or echoes bytes, and counts stalled connections.

use super::plan::{SOURCE_WRITE_BYTES, TcpMode, TcpPlan};
use crate::handshakes::Handshakes;
use crate::service::Service;
use crate::streams;
use corelane_worker::engine::{Event, Handler, Id, Ops, Output as _, StreamInformation};
use corelane_worker::timers::{Timer, Wheel};
use corelane_worker::tls::{self, Connections, Plaintext, ServerSettings};
use corelane_worker::{CachePadded, Counter, Time};
use std::io;
use std::mem;
use std::os::fd::OwnedFd;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// Maximum bytes queued on an echo connection before receiving pauses.
const ECHO_PAUSE: u64 = 256 << 10;

/// Data of a source; zeros, because only the amount matters.
static BLOCK: LazyLock<Box<[u8]>> = LazyLock::new(|| vec![0; SOURCE_WRITE_BYTES as usize].into());

/// The counters of one bucket: written by its worker, readable by any thread.
#[derive(Debug, Default)]
pub struct TcpCounters {
    /// Number of stalls.
    pub(super) stalls: Counter,
    /// Connections stalled now.
    pub(super) stalled: Counter,
    pub(super) out_of_order: Counter,
    pub(super) retransmitted: Counter,
    pub(super) handshakes: Handshakes,
    /// TLS sessions that failed.
    pub(super) tls_failed: Counter,
    /// Connections closed because nothing moved on them.
    pub(super) idle: Counter,
}

impl TcpCounters {
    /// Updates the counters after a connection's stall state changed or stayed the same.
    fn set_stalled(&self, before: bool, now: bool) {
        let others = self.stalled.get().saturating_sub(u64::from(before));
        self.stalled.set(others + u64::from(now));
    }
}

/// One bucket.
pub struct Bucket {
    mode: TcpMode,
    /// One write of a source.
    block: &'static [u8],
    /// Time without progress after which a connection counts as stalled.
    stall: Duration,
    /// Time without progress after which it is closed.
    idle: Option<Duration>,
    counters: Arc<CachePadded<TcpCounters>>,
    connections: Connections<Connection, ServerSettings>,
    wheel: Wheel<Id>,
}

#[derive(Debug)]
struct Connection {
    timer: Timer,
    /// Bytes received; for a source, bytes accepted by the kernel.
    progress: u64,
    last_progress: u64,
    /// When a look last found progress.
    moved: Time,
    stalled: bool,
    /// The last `TCP_INFO` values.
    seen: StreamInformation,
}

impl Bucket {
    pub(super) fn new(
        plan: &TcpPlan,
        tls: Option<ServerSettings>,
        counters: Arc<CachePadded<TcpCounters>>,
    ) -> Self {
        let block: &'static [u8] = &BLOCK;
        let most = tls.as_ref().map_or(block.len(), |_| tls::WINDOW as usize);
        Self {
            mode: plan.mode,
            block: &block[..(plan.write_bytes as usize).clamp(1, most)],
            stall: Duration::from_millis(plan.stall_ms),
            idle: plan.idle_ms.map(Duration::from_millis),
            counters,
            connections: Connections::new(tls),
            wheel: Wheel::new(Time::default()),
        }
    }

    fn opened(&mut self, ops: &mut Ops, now: Time, id: Id) {
        let connection = Connection {
            timer: self.wheel.insert(now + self.stall, id),
            progress: 0,
            last_progress: 0,
            moved: now,
            stalled: false,
            seen: StreamInformation::default(),
        };
        match self.connections.open(ops, id, connection) {
            Ok(()) if self.connections.are_encrypted() => {}
            Ok(()) => self.begin(ops, id),
            Err(_) => self.counters.tls_failed.add(1),
        }
    }

    /// The connection is open, and its TLS handshake complete.
    fn begin(&mut self, ops: &mut Ops, id: Id) {
        if self.mode == TcpMode::Source {
            self.feed(ops, id);
        }
    }

    /// Queues the next write of a source, which exceeds a connection's send buffer unless configured small.
    fn feed(&mut self, ops: &mut Ops, id: Id) {
        let Some((connection, mut out)) = self.connections.at(ops, id) else {
            return;
        };
        connection.progress += self.block.len() as u64;
        match out.write_static(self.block) {
            Ok(()) => out.notify_drained(),
            Err(_) => ops.abort(id),
        }
    }

    #[inline]
    fn received(&mut self, ops: &mut Ops, id: Id, bytes: &[u8]) {
        let Some((connection, mut out)) = self.connections.at(ops, id) else {
            return;
        };
        connection.progress += bytes.len() as u64;
        if self.mode == TcpMode::Echo {
            // Cannot be full: receiving pauses once part of the queue is in use.
            let written = out.write(bytes);
            if written.is_err() {
                ops.abort(id);
            } else if ops.queued(id) > ECHO_PAUSE {
                ops.receive(id, false);
                ops.notify_drained(id);
            }
        }
    }

    /// Handles bytes received over TLS.
    fn decrypt(&mut self, ops: &mut Ops, id: Id, bytes: &[u8]) {
        let Some(received) = self.connections.receive(ops, id, bytes) else {
            return;
        };
        for event in received.events() {
            match event {
                Plaintext::Opened(kind) => {
                    self.counters.handshakes.count(kind);
                    self.begin(ops, id);
                }
                Plaintext::Bytes(bytes) => self.received(ops, id, bytes),
                Plaintext::Ended => self.peer_closed(ops, id),
                Plaintext::Failed(_) => {
                    self.counters.tls_failed.add(1);
                    ops.close(id);
                }
            }
        }
        self.connections.recycle(received);
    }

    /// Checks the progress of a connection, and reads its `TCP_INFO`.
    fn look(&mut self, ops: &mut Ops, now: Time, id: Id) {
        self.sample(ops, id);
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        connection.timer = self.wheel.insert(now + self.stall, id);
        let unsent = match self.mode {
            TcpMode::Source | TcpMode::Echo => ops.queued(id),
            TcpMode::Sink => 0,
        };
        let progress = connection.progress.saturating_sub(unsent);
        let stalled = progress == connection.last_progress;
        connection.last_progress = progress;
        if !stalled {
            connection.moved = now;
        }
        let is_idle = self.idle.is_some_and(|idle| now.since(connection.moved) >= idle);
        let (before, counters) = (mem::replace(&mut connection.stalled, stalled), &self.counters);
        counters.stalls.add(u64::from(stalled && !before));
        counters.set_stalled(before, stalled);
        if is_idle {
            counters.idle.add(1);
            // A client that takes nothing would take no end, either.
            match ops.queued(id) {
                0 => self.peer_closed(ops, id),
                _ => ops.abort(id),
            }
        }
    }

    /// Adds the changes of `TCP_INFO` since the last check.
    fn sample(&mut self, ops: &Ops, id: Id) {
        let Some(now) = ops.information(id) else { return };
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let before = mem::replace(&mut connection.seen, now);
        for (counter, now, before) in [
            (&self.counters.out_of_order, now.out_of_order, before.out_of_order),
            (
                &self.counters.retransmitted,
                now.retransmitted,
                before.retransmitted,
            ),
        ] {
            counter.add(u64::from(now.wrapping_sub(before)));
        }
    }

    /// The client has closed its side, or nothing moved on its connection: bytes accepted by the kernel are still sent; a source
    /// sends no more, except the rest of a TLS record.
    fn peer_closed(&mut self, ops: &mut Ops, id: Id) {
        self.sample(ops, id);
        if self.mode == TcpMode::Source && !self.connections.are_encrypted() {
            ops.discard(id);
        }
        if let Some((_, mut out)) = self.connections.at(ops, id) {
            out.end();
        }
        ops.close(id);
    }

    fn closed(&mut self, id: Id) {
        let Some(connection) = self.connections.remove(id) else {
            return;
        };
        self.wheel.cancel(connection.timer);
        self.counters.set_stalled(connection.stalled, false);
    }
}

impl Handler for Bucket {
    fn event(&mut self, ops: &mut Ops, now: Time, id: Id, event: Event<'_>) {
        match event {
            Event::Opened { .. } => self.opened(ops, now, id),
            Event::Bytes(bytes) if self.connections.are_encrypted() => self.decrypt(ops, id, bytes),
            Event::Bytes(bytes) => self.received(ops, id, bytes),
            Event::Drained if self.mode == TcpMode::Source => self.feed(ops, id),
            Event::Drained => ops.receive(id, true),
            Event::PeerClosed => self.peer_closed(ops, id),
            Event::Closed(_) => self.closed(id),
            _ => {}
        }
    }
}

impl Service for Bucket {
    fn begin(&mut self, ops: &mut Ops, now: Time, sockets: Vec<OwnedFd>) -> io::Result<()> {
        streams::register(ops, sockets)?;
        self.wheel = Wheel::new(now);
        Ok(())
    }

    fn next_due(&self) -> Time {
        self.wheel.next_due()
    }

    fn turned(&mut self, ops: &mut Ops, now: Time) {
        while let Some(id) = self.wheel.expired(now) {
            self.look(ops, now, id);
        }
    }

    fn shutdown(&mut self, ops: &mut Ops) {
        let open: Vec<Id> = self.connections.iter().map(|(id, _)| id).collect();
        open.into_iter().for_each(|id| self.sample(ops, id));
    }
}
