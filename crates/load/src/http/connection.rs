//! One connection of the generator: what is under way on it, and when it is to be looked at again.
//!
//! Sized for a million: about 200 bytes, no allocation but for the head of an answer that arrives in pieces.

use crate::failure::Failure;
use crate::sources::{Release, Source};
use corelane_proto::http::response::Parser;
use corelane_worker::Time;
use corelane_worker::engine::Id;
use corelane_worker::timers::Timer;

/// How far a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// There is none: not opened yet, or ended. May be opened again from `wake` on.
    Closed,
    /// Being opened.
    Opening,
    /// Open, and the TLS handshake under way; or it has failed by `verdict`, and the end is awaited.
    Handshaking,
    /// Open, with nothing to do.
    Idle,
    /// Thinking until `wake`.
    Pausing,
    /// A request is being given away bit by bit, and nothing has come back.
    Writing,
    /// The head of a request was sent; its body waits until the server asks for it.
    AwaitingContinue,
    /// A request was sent; nothing has come back.
    AwaitingHead,
    /// An answer has begun.
    AwaitingEnd,
    /// Nothing more will be asked on it; the server may close first.
    Lingering,
    /// Closed by this side, as the engine does not know yet.
    Closing,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) id: Option<Id>,
    pub(super) parser: Parser,
    /// When the request under way, or the next one, was meant to be made.
    pub(super) due: Time,
    /// When it was sent; while opening, when opening began.
    pub(super) since: Time,
    /// When something must have happened, or is to.
    pub(super) wake: Time,
    /// The entry in the wheel.
    pub(super) timer: Option<Timer>,
    /// When that fires.
    pub(super) fires: Time,
    pub(super) source: Option<Source>,
    /// What becomes of the source's port when the connection ends.
    pub(super) release: Release,
    /// Bytes of the answer's body so far.
    pub(super) body: u64,
    /// Bytes of the request so far, while it is given away bit by bit.
    pub(super) written: u64,
    /// Requests sent since it was opened.
    pub(super) served: u32,
    /// Which of its worker's groups it belongs to.
    pub(super) group: u16,
    /// Which of the pool's requests is under way.
    pub(super) request: u16,
    pub(super) state: State,
    /// What is wrong with the answer under way, though it is well framed.
    pub(super) verdict: Option<Failure>,
    /// A request was taken from the budget and is not accounted for yet.
    pub(super) owes: bool,
    /// Whether the request says that it is the connection's last.
    pub(super) last: bool,
    /// Whether some of the request is still to be given away.
    pub(super) writing: bool,
    /// Whether the answer is an error of the server's (4xx, 5xx).
    pub(super) refused: bool,
    /// Whether the answer lets the connection stay.
    pub(super) keep: bool,
    /// Whether it is in the queue of idle ones.
    pub(super) queued: bool,
    /// Whether the request under way is given up as soon as its answer begins.
    pub(super) aborts: bool,
    /// Whether receiving is off until `wake`, as a slow reader has it.
    pub(super) held: bool,
}

impl Connection {
    pub(super) fn new(group: u16) -> Self {
        Self {
            id: None,
            parser: Parser::default(),
            due: Time::default(),
            since: Time::default(),
            wake: Time::default(),
            timer: None,
            fires: Time::default(),
            source: None,
            release: Release::Free,
            body: 0,
            written: 0,
            served: 0,
            group,
            request: 0,
            state: State::Closed,
            verdict: None,
            owes: false,
            last: false,
            writing: false,
            refused: false,
            keep: true,
            queued: false,
            aborts: false,
            held: false,
        }
    }

    /// Whether its handshake has come to nothing.
    pub(super) fn has_failed_handshake(&self) -> bool {
        self.state == State::Handshaking && self.verdict.is_some()
    }

    /// Whether a request is being written, and nothing has come back.
    pub(super) fn is_writing(&self) -> bool {
        matches!(self.state, State::Writing | State::AwaitingContinue)
    }

    /// Whether a request is on the wire.
    pub(super) fn is_asking(&self) -> bool {
        matches!(self.state, State::AwaitingHead | State::AwaitingEnd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_leaves_room_for_its_part_of_512_bytes() {
        assert!(
            size_of::<Connection>() <= 224,
            "{} bytes",
            size_of::<Connection>()
        );
    }
}
