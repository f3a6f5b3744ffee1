//! One connection of the generator, as a state machine without I/O, from opening to end, for any protocol.
//!
//! In: requests to make, bytes, ends and expired deadlines, each with its time. Out: bytes into a
//! [`Transport`](super::transport::Transport); an [`Outcome`], which says how the current request was settled and what
//! the owner does next; and the [`deadline`](Connection::deadline) at which the connection must be checked again.
//!
//! Designed for a million connections: no allocations except those of the protocol.

use super::protocol::{Ask, Context, Step, StreamProtocol};
use super::transport::Transport;
use crate::failure::Failure;
use corelane_worker::Time;
use corelane_worker::engine::Cause;
use corelane_worker::outgoing::Release;
use std::time::Duration;

/// Time limit for the server to close a connection first, which frees the client's port at once and leaves TIME_WAIT on
/// the server.
const LINGER: Duration = Duration::from_secs(1);

/// A connection, open or closed.
#[derive(Debug)]
pub(crate) struct Connection<P: StreamProtocol> {
    /// The current request and answer, or the last ones.
    pub(crate) exchange: P::Exchange,
    state: State,
    /// When something must have happened, or is to be done.
    deadline: Time,
    /// Requests answered since it was opened.
    served: u32,
}

#[derive(Debug)]
enum State {
    /// Not opened yet, or ended. It may be opened again at the deadline.
    Closed,
    /// Being opened, including the TLS handshake. `failed` is set when the handshake has failed and the end is awaited.
    Opening {
        began: Time,
        /// When the waiting request was due.
        owed: Option<Time>,
        failed: Option<Failure>,
    },
    /// Open and idle.
    Idle,
    /// Open, and the next request is due at the deadline.
    Pausing,
    /// A request is in progress, which was due at this time.
    Asking(Time),
    /// No further requests; the server may close first.
    Lingering,
    /// Closed by this side; the engine has not reported the end yet.
    Closing(Release),
}

/// An event of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Input<'a> {
    /// Make a request.
    Ask(Ask),
    /// Bytes from the server, decrypted.
    Bytes(&'a [u8]),
    /// The kernel has accepted all queued bytes.
    Drained,
    /// The server has closed its side; see [`StreamProtocol::ended`] for `genuine`.
    PeerClosed { genuine: bool },
    /// The deadline has passed.
    Expired,
    /// TLS has failed.
    SessionFailed(Failure),
    /// The server has ended its TLS session; it closes the connection next.
    SessionEnded,
    /// Transfers only: the time to send is over.
    Finish,
    /// Transfers only: the connection has ended, or with `lasted` the run has.
    Left { lasted: bool },
}

/// The result of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The outcome of the current request, if it ended.
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
    /// The next request may be made.
    Ready,
    /// Make the request that was due at this time.
    Due(Time),
    /// Close after queued bytes are sent.
    Close,
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
    /// Why it ended; recorded for the current or waiting request.
    pub(crate) failure: Failure,
    /// When that request was due; `None` without one.
    pub(crate) request: Option<Time>,
}

impl<P: StreamProtocol> Connection<P> {
    pub(crate) fn new() -> Self {
        Self {
            exchange: P::Exchange::default(),
            state: State::Closed,
            deadline: Time::NEVER,
            served: 0,
        }
    }

    pub(crate) fn deadline(&self) -> Time {
        self.deadline
    }

    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle)
    }

    /// Whether the connection is open and its handshake complete.
    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.state, State::Closed | State::Opening { .. })
    }

    /// Whether it is open and no request was answered on it.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.is_open() && self.served == 0
    }

    /// Whether its handshake has failed: further bytes are ignored.
    pub(crate) fn has_failed_handshake(&self) -> bool {
        matches!(self.state, State::Opening { failed: Some(_), .. })
    }

    /// Opening begins at `now`, for the request that was due at `owed`, if any.
    pub(crate) fn open(&mut self, now: Time, owed: Option<Time>) {
        *self = Self::new();
        self.state = State::Opening {
            began: now,
            owed,
            failed: None,
        };
    }

    /// The TLS handshake begins; it must end within `timeout` from the first connect attempt.
    pub(crate) fn begin_handshake(&mut self, timeout: Duration) {
        if let State::Opening { began, .. } = self.state {
            self.deadline = began + timeout;
        }
    }

    /// The connection is open and its handshake complete; returns when opening began, and when the waiting request was
    /// due.
    pub(crate) fn opened(&mut self) -> Option<(Time, Option<Time>)> {
        let State::Opening { began, owed, .. } = self.state else {
            return None;
        };
        self.rest();
        Some((began, owed))
    }

    fn rest(&mut self) -> Next {
        (self.state, self.deadline) = (State::Idle, Time::NEVER);
        Next::Ready
    }

    /// Schedules the next request of an idle connection at `due`.
    pub(crate) fn pause(&mut self, due: Time) {
        (self.state, self.deadline) = (State::Pausing, due);
    }

    /// Schedules reopening of a closed connection at `when`.
    pub(crate) fn retry(&mut self, when: Time) {
        self.deadline = when;
    }

    /// Handles an event.
    #[inline]
    pub(crate) fn take(&mut self, input: Input<'_>, context: &mut Context<'_, P, impl Transport>) -> Outcome {
        match input {
            Input::Ask(ask) => self.ask(ask, context),
            Input::Bytes(bytes) => self.receive(bytes, context),
            Input::PeerClosed { genuine } => self.peer_closed(genuine, context),
            Input::Expired => self.expired(context),
            Input::SessionFailed(failure) => self.session_failed(failure, context.now),
            Input::SessionEnded => self.session_ended(context),
            Input::Drained | Input::Finish | Input::Left { .. }
                if !matches!(self.state, State::Asking(_)) =>
            {
                Next::Wait.into()
            }
            Input::Drained => {
                let step = P::drained(&mut self.exchange, &mut self.deadline, context);
                self.follow(step, context.now)
            }
            Input::Finish => {
                P::finish(&mut self.exchange, &mut self.deadline, context);
                Next::Wait.into()
            }
            Input::Left { lasted } => {
                P::left(&mut self.exchange, lasted, context);
                Next::Wait.into()
            }
        }
    }

    fn ask(&mut self, mut ask: Ask, context: &mut Context<'_, P, impl Transport>) -> Outcome {
        ask.last = self.served + 1 >= context.terms.requests_a_connection;
        self.state = State::Asking(ask.due);
        let step = P::begin(&mut self.exchange, ask, &mut self.deadline, context);
        self.follow(step, context.now)
    }

    fn receive(&mut self, bytes: &[u8], context: &mut Context<'_, P, impl Transport>) -> Outcome {
        context.counts.bytes.received += bytes.len() as u64;
        match self.state {
            State::Asking(_) => {
                let step = P::receive(&mut self.exchange, bytes, &mut self.deadline, context);
                self.follow(step, context.now)
            }
            State::Idle | State::Pausing => {
                context.counts.connections.unasked_bytes += 1;
                self.reset(Settled::Failed(Failure::Malformed))
            }
            // Data on a connection that is being closed is ignored.
            _ => Next::Wait.into(),
        }
    }

    /// Applies the result of the current exchange.
    #[inline]
    fn follow(&mut self, step: Step, now: Time) -> Outcome {
        match step {
            Step::Wait => Next::Wait.into(),
            Step::Hold => Next::Hold.into(),
            Step::Resume => Next::Resume.into(),
            Step::Complete { wrong, stays } => {
                let settled = Some(self.complete(wrong, now));
                let next = if stays { self.rest() } else { self.linger(now) };
                Outcome { settled, next }
            }
            Step::Failed(failure) => self.reset(Settled::Failed(failure)),
            Step::Aborted => self.reset(Settled::Aborted),
        }
    }

    fn complete(&mut self, wrong: Option<Failure>, now: Time) -> Settled {
        self.served += 1;
        match (wrong, &self.state) {
            (None, State::Asking(due)) => Settled::Answered(now.since(*due)),
            (wrong, _) => Settled::Failed(wrong.unwrap_or(Failure::Other)),
        }
    }

    fn linger(&mut self, now: Time) -> Next {
        (self.state, self.deadline) = (State::Lingering, now + LINGER);
        Next::Wait
    }

    fn close(&mut self, release: Release) -> Next {
        (self.state, self.deadline) = (State::Closing(release), Time::NEVER);
        Next::Close
    }

    /// Ends the current request and the connection.
    fn reset(&mut self, settled: Settled) -> Outcome {
        let asking = matches!(self.state, State::Asking(_));
        self.close(Release::Free);
        Outcome {
            settled: asking.then_some(settled),
            next: Next::Reset,
        }
    }

    /// After a failed handshake, an alert was sent, and the server closes first.
    fn session_failed(&mut self, failure: Failure, now: Time) -> Outcome {
        match &mut self.state {
            State::Opening { failed, .. } => {
                failed.get_or_insert(failure);
                self.deadline = now + LINGER;
                Next::Wait.into()
            }
            State::Closed | State::Closing(_) => Next::Wait.into(),
            _ => self.reset(Settled::Failed(failure)),
        }
    }

    fn session_ended(&mut self, context: &mut Context<'_, P, impl Transport>) -> Outcome {
        match &self.state {
            State::Opening { .. } => self.session_failed(Failure::ClosedEarly, context.now),
            State::Closed | State::Closing(_) | State::Lingering => Next::Wait.into(),
            _ => Outcome {
                settled: self.settle_end(true, context),
                next: self.linger(context.now),
            },
        }
    }

    fn peer_closed(&mut self, genuine: bool, context: &mut Context<'_, P, impl Transport>) -> Outcome {
        if let State::Opening { failed, .. } = &mut self.state {
            failed.get_or_insert(Failure::ClosedEarly);
            return Next::Close.into();
        }
        context.counts.connections.closed_by_server += 1;
        Outcome {
            settled: self.settle_end(genuine, context),
            next: self.close(Release::Free),
        }
    }

    /// The end of the stream completes the current answer, or makes it fail.
    fn settle_end(&mut self, genuine: bool, context: &mut Context<'_, P, impl Transport>) -> Option<Settled> {
        if !matches!(self.state, State::Asking(_)) {
            return None;
        }
        Some(match P::ended(&mut self.exchange, genuine, context) {
            Step::Complete { wrong, .. } => self.complete(wrong, context.now),
            Step::Failed(failure) => Settled::Failed(failure),
            _ => Settled::Failed(Failure::ClosedEarly),
        })
    }

    fn expired(&mut self, context: &mut Context<'_, P, impl Transport>) -> Outcome {
        if let State::Asking(_) = self.state {
            let step = P::expired(&mut self.exchange, &mut self.deadline, context);
            return self.follow(step, context.now);
        }
        let due = std::mem::replace(&mut self.deadline, Time::NEVER);
        match &mut self.state {
            State::Closed => Next::Due(due).into(),
            State::Pausing => {
                self.rest();
                Next::Due(due).into()
            }
            State::Opening { failed, .. } => {
                failed.get_or_insert(Failure::HandshakeTimeout);
                Next::Reset.into()
            }
            State::Lingering => self.close(Release::Rests).into(),
            State::Idle | State::Asking(_) | State::Closing(_) => Next::Wait.into(),
        }
    }

    /// The engine has closed the connection.
    pub(crate) fn closed(&mut self, cause: Cause) -> Ended {
        self.deadline = Time::NEVER;
        let state = std::mem::replace(&mut self.state, State::Closed);
        let mut ended = Ended {
            was_open: true,
            release: Release::Free,
            failure: Failure::of_cause(cause, true),
            request: None,
        };
        match state {
            State::Opening { owed, failed, .. } => {
                ended.was_open = false;
                ended.request = owed;
                ended.failure = failed.unwrap_or(Failure::of_cause(cause, false));
                if cause == Cause::AddressInUse {
                    ended.release = Release::Taken;
                }
            }
            State::Asking(due) => ended.request = Some(due),
            State::Closing(release) => ended.release = release,
            _ => {}
        }
        ended
    }
}
