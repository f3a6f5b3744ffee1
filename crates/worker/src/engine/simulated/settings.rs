//! The faults that a simulated network injects, and its counters.

use std::time::Duration;

/// Delay and faults of datagrams. All random choices derive from the seed.
#[derive(Clone, PartialEq, Debug)]
pub struct NetworkSettings {
    /// The seed of all random choices.
    pub seed: u64,
    /// The one-way delay of a datagram.
    pub delay: Duration,
    /// The fraction of datagrams that is lost, 0 to 1.
    pub loss: f64,
    /// The fraction that arrives twice, 0 to 1.
    pub duplication: f64,
    /// The fraction, 0 to 1, that is delayed by up to [`jitter`](Self::jitter) more and may therefore be reordered.
    pub reordering: f64,
    /// The maximum additional delay of a reordered datagram.
    pub jitter: Duration,
    /// Datagrams queued per socket; more are dropped, like by a full receive buffer.
    pub socket_queue: usize,
}

impl Default for NetworkSettings {
    /// No faults: 50 µs delay, no loss, 1,000 datagrams per socket.
    fn default() -> Self {
        Self {
            seed: 1,
            delay: Duration::from_micros(50),
            loss: 0.0,
            duplication: 0.0,
            reordering: 0.0,
            jitter: Duration::from_micros(200),
            socket_queue: 1_000,
        }
    }
}

/// Datagram counters of a network. Once no datagram is in transit,
/// `sent + duplicated == lost + no_socket + overflowed + delivered`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct NetworkCounters {
    /// Datagrams sent by sockets.
    pub sent: u64,
    /// Datagrams lost in transit.
    pub lost: u64,
    /// Copies made in transit.
    pub duplicated: u64,
    /// Datagrams delayed by jitter.
    pub reordered: u64,
    /// Datagrams to an address where no socket was bound.
    pub no_socket: u64,
    /// Datagrams to a socket whose queue was full.
    pub overflowed: u64,
    /// Datagrams queued at a socket.
    pub delivered: u64,
}
