//! What happens to a connection of a generator, and what follows from it.

use super::protocol::Ask;
use crate::failure::Failure;
use corelane_worker::Time;
use corelane_worker::outgoing::Release;
use std::time::Duration;

/// An event of a connection.
#[derive(Debug)]
pub(crate) enum Input<'a, 'b, Request> {
    /// Make a request.
    Ask(Request, Ask),
    /// Bytes from the server, decrypted; those that follow a complete answer are left.
    Bytes(&'a mut &'b [u8]),
    /// The kernel has accepted all queued bytes.
    Drained,
    /// The server has closed its side; see [`ended`](super::protocol::StreamProtocol::ended) for `genuine`.
    PeerClosed { genuine: bool },
    /// The deadline has passed.
    Expired,
    /// TLS has failed.
    SessionFailed(Failure),
    /// The server has ended its TLS session; it closes the connection next.
    SessionEnded,
    /// The time to send begins.
    Start,
    /// The time to send is over.
    Finish,
    /// The connection has ended, or with `lasted` the run has.
    Left { lasted: bool },
}

/// The result of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The outcome of the oldest request in flight, if it ended.
    pub(crate) settled: Option<Settled>,
    pub(crate) next: Next,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    /// Answered as expected, this long after it was due.
    Answered(Duration),
    Failed(Failure),
    /// Aborted on purpose.
    Aborted,
}

/// What the owner of a connection does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Wait for data or the deadline.
    Wait,
    /// Pause receiving until the deadline.
    Hold,
    /// Resume receiving.
    Resume,
    /// Another request may be made.
    Ready,
    /// Make the request that was due at this time.
    Due(Time),
    /// Close after queued bytes are sent.
    Close,
    /// Close likewise: the server has not closed first. The port rests then; if none is left for another connection, reset.
    Leave,
    /// Reset, which frees the port at once.
    Reset,
}

impl From<Next> for Outcome {
    fn from(next: Next) -> Self {
        Self { settled: None, next }
    }
}

/// The state of a connection at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) was_open: bool,
    /// What happens to its source port.
    pub(crate) release: Release,
    /// Why it ended; recorded for requests in flight or waiting.
    pub(crate) failure: Failure,
    /// When the oldest of them was due; `None` without one.
    pub(crate) request: Option<Time>,
}
