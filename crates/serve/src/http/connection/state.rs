//! The state of one connection.

use crate::http::exchange::{Exchange, Terms};
use crate::http::producer::Producer;
use corelane_worker::Time;
use corelane_worker::timers::Timer;
use std::time::Duration;

/// Maximum response bytes queued on a connection before its next request is parsed: with the requests not parsed yet,
/// what a client that pipelines and does not read can hold.
pub(in crate::http) const PAUSE: u64 = 32 << 10;

/// Time limit for the client to close after the last response, so that it can read the response (RFC 9112 9.6).
pub(super) const LINGER: Duration = Duration::from_secs(2);

/// One connection.
#[derive(Debug)]
pub(in crate::http) struct Connection {
    pub(super) phase: Phase,
    /// Received bytes not parsed yet.
    pub(super) input: Vec<u8>,
    pub(super) requests: u32,
    /// The beginning of a head has arrived, and its deadline is set.
    pub(super) in_head: bool,
    /// The current request is HEAD, as far as its beginning shows: no response to it has content.
    pub(super) to_head: bool,
    /// The client has closed its side.
    pub(super) ended: bool,
    /// Queued bytes at the last check for a client that does not read.
    pub(super) last_queued: u64,
    pub(super) deadline: Time,
    /// When the timer fires, which is not after the deadline.
    pub(super) armed: Time,
    pub(super) timer: Option<Timer>,
}

#[derive(Debug)]
pub(super) enum Phase {
    /// Between requests, or within a head.
    Head,
    /// Within the body of a request.
    Body(Box<Exchange>),
    /// A response waits for its delay.
    Delayed(Box<Exchange>),
    /// A response waits for the client to read: the remaining body, and its terms.
    Producing(Box<(Producer, Terms)>),
    /// The next request waits for the client to read.
    Paused,
    /// The last response was sent; received data is discarded until the client closes.
    Lingering,
}
