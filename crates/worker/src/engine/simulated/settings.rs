//! What a simulated network does to datagrams, and what it did.

use std::time::Duration;

/// What the network does to datagrams. Every choice is drawn from the seed.
#[derive(Clone, PartialEq, Debug)]
pub struct NetworkSettings {
    /// The seed of all choices.
    pub seed: u64,
    /// How long a datagram travels.
    pub delay: Duration,
    /// The part of datagrams that is lost, 0 to 1.
    pub loss: f64,
    /// The part that arrives twice, 0 to 1.
    pub duplication: f64,
    /// The part that travels up to [`jitter`](Self::jitter) longer, 0 to 1, and so may be overtaken.
    pub reordering: f64,
    /// The most that a reordered datagram is late.
    pub jitter: Duration,
    /// Datagrams that a socket keeps until they are received; more are dropped, as by a full receive buffer.
    pub socket_queue: usize,
}

impl Default for NetworkSettings {
    /// A perfect network: 50 µs, nothing lost, 1,000 datagrams a socket.
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

/// What happened to the datagrams of a network. Once nothing travels,
/// `sent + duplicated == lost + no_socket + overflowed + delivered`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct NetworkCounters {
    /// Sent by sockets.
    pub sent: u64,
    /// Lost on the way.
    pub lost: u64,
    /// Copies made on the way.
    pub duplicated: u64,
    /// Made late.
    pub reordered: u64,
    /// Arrived where no socket was bound.
    pub no_socket: u64,
    /// Arrived at a socket whose queue was full.
    pub overflowed: u64,
    /// Queued at a socket.
    pub delivered: u64,
}
