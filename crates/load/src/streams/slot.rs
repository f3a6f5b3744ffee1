//! What a worker keeps for its connections: for each, and for all.

use super::connection::Connection;
use super::protocol::StreamProtocol;
use corelane_worker::Time;
use corelane_worker::engine::{Id, Slots};
use corelane_worker::outgoing::Source;
use corelane_worker::timers::{Timer, Wheel};
use corelane_worker::tls::ClientSession;
use std::time::Duration;

/// A connection and the state its worker keeps for it.
#[derive(Debug)]
pub(crate) struct Slot<P: StreamProtocol> {
    pub(crate) id: Option<Id>,
    /// Its group within the worker.
    pub(crate) group: u16,
    pub(super) source: Option<Source>,
    pub(super) timer: Option<Timer>,
    /// When the timer fires; [`Time::NEVER`] if unset.
    pub(super) fires: Time,
    /// Boxed with the time, as most connections are plain and have neither.
    pub(super) tls: Option<Box<TlsConnection>>,
    pub(crate) connection: Connection<P>,
}

#[derive(Debug)]
pub(super) struct TlsConnection {
    pub(super) session: ClientSession,
    pub(super) handshake_began: Time,
}

impl<P: StreamProtocol> Slot<P> {
    pub(crate) fn new(group: u16) -> Self {
        Self {
            id: None,
            group,
            source: None,
            timer: None,
            fires: Time::NEVER,
            tls: None,
            connection: Connection::new(),
        }
    }
}

/// State of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Connections are being opened; no requests yet.
    Opening,
    /// Requests are being made.
    Running,
    /// No new requests; pending answers are awaited.
    Draining,
}

/// State shared by the connections of a worker.
pub(crate) struct Shared {
    pub(crate) stage: Stage,
    pub(crate) wheel: Wheel<u32>,
    pub(crate) random: fastrand::Rng,
    /// Connections being opened.
    pub(crate) opening: usize,
    pub(crate) open: u64,
    pub(crate) mean_latency: Duration,
    /// Requests that have ended since the counts were last published.
    pub(crate) settled: u64,
    /// The index of each connection that its engine knows.
    pub(crate) by_id: Slots<u32>,
}

impl Shared {
    /// The shared state of worker `place`, before any connection exists.
    pub(crate) fn new(place: usize, now: Time) -> Self {
        Self {
            stage: Stage::Opening,
            wheel: Wheel::new(now),
            // The same seed in every run, but different for each worker.
            random: fastrand::Rng::with_seed(place as u64),
            opening: 0,
            open: 0,
            mean_latency: Duration::ZERO,
            settled: 0,
            by_id: Slots::default(),
        }
    }
}
