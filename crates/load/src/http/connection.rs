//! One connection of the generator, as a state machine without I/O.
//!
//! In: requests to make, bytes, ends and passed deadlines, each with the time at which it came. Out: bytes into an
//! [`Output`]; an [`Outcome`], which says how the request under way was settled and what the owner does next; and the
//! [`deadline`](Connection::deadline) by which the connection is to be looked at again.
//!
//! Sized for a million: no allocation but for the head of an answer that arrives in pieces.

mod exchange;

use super::group::Counts;
use super::terms::Terms;
use crate::failure::Failure;
use crate::sources::Release;
use corelane_proto::http::response::{Item, LastHead, Parser, ResponseError};
use corelane_worker::Time;
use corelane_worker::engine::{Cause, Output};
use std::io;
use std::time::Duration;

use exchange::{Exchange, Stage, Written};

/// How long the server has to close a connection first, so that its port is free at once and TIME_WAIT is the server's.
const LINGER: Duration = Duration::from_secs(1);

/// A reader this far ahead of its rate pauses.
const AHEAD: Duration = Duration::from_millis(20);

/// A slow client sends its request in pieces of this long.
const WRITE_STEP: Duration = Duration::from_millis(50);

/// A request of which copies are held for each connection is sent in pieces of a TLS record (RFC 8446 5.1), as long as no
/// more than this waits for the kernel.
const PIECE: usize = 16_384;
const WINDOW: u64 = 256 << 10;

/// A connection, open or not.
#[derive(Debug)]
pub(super) struct Connection {
    parser: Parser,
    state: State,
    /// When something must have happened, or is to.
    deadline: Time,
    /// Requests answered since it was opened.
    served: u32,
}

#[derive(Debug)]
enum State {
    /// There is none: not opened yet, or ended. It may be opened again at the deadline.
    Closed,
    /// Being opened, its TLS handshake included. `failed` is set when the handshake has failed and the end is awaited.
    Opening {
        began: Time,
        /// When the request was due that waits for it.
        owed: Option<Time>,
        failed: Option<Failure>,
    },
    /// Open, with nothing to do.
    Idle,
    /// Open, and the next request is due at the deadline.
    Pausing,
    /// A request is under way.
    Asking(Exchange),
    /// Nothing more will be asked on it; the server may close first.
    Lingering,
    /// Closed by this side, and the engine has not reported the end.
    Closing(Release),
}

/// What a connection works with while it handles one event.
pub(super) struct ConnectionContext<'a> {
    pub(super) now: Time,
    pub(super) terms: &'a Terms,
    pub(super) counts: &'a mut Counts,
    pub(super) out: &'a mut dyn Output,
    /// Of all connections that one server has.
    pub(super) last_head: &'a mut LastHead,
}

/// The request that a connection is to make.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask {
    /// When it was meant to be made.
    pub(super) due: Time,
    /// Which of the pool's requests.
    pub(super) request: u16,
    /// Whether it is given up as soon as its answer begins.
    pub(super) aborts: bool,
}

/// What an event led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outcome {
    /// How the request under way ended, if it did.
    pub(super) settled: Option<Settled>,
    pub(super) next: Next,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settled {
    /// Answered as expected, so long after it was due.
    Answered(Duration),
    Failed(Failure),
    /// Given up, as it was to be.
    Aborted,
}

/// What the owner of a connection does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing, until something arrives or the deadline passes.
    Wait,
    /// Receives nothing until the deadline.
    Hold,
    /// Receives again.
    Resume,
    /// May make the next request.
    Ready,
    /// Makes the request that was due at this time.
    Due(Time),
    /// Closes it after what is queued.
    Close,
    /// Resets it, which leaves its port free at once.
    Reset,
}

impl From<Next> for Outcome {
    fn from(next: Next) -> Self {
        Self { settled: None, next }
    }
}

/// What has ended with a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) was_open: bool,
    /// What happens to its source port.
    pub(super) release: Release,
    /// Why it ended, for the request that was under way or waited for it.
    pub(super) failure: Failure,
    pub(super) had_request: bool,
}

/// What bytes did to the answer under way.
enum Progress {
    More,
    /// The server wants the body (100 Continue).
    Continue,
    Complete,
    Failed(Failure),
}

impl Connection {
    pub(super) fn new() -> Self {
        Self {
            parser: Parser::default(),
            state: State::Closed,
            deadline: Time::NEVER,
            served: 0,
        }
    }

    pub(super) fn deadline(&self) -> Time {
        self.deadline
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    pub(super) fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle)
    }

    /// Whether it is open and no request was answered on it.
    pub(super) fn is_unanswered(&self) -> bool {
        !matches!(self.state, State::Closed | State::Opening { .. }) && self.served == 0
    }

    /// Whether its handshake has failed: what the server still sends is of no interest.
    pub(super) fn has_failed_handshake(&self) -> bool {
        matches!(self.state, State::Opening { failed: Some(_), .. })
    }

    /// It is being opened from `now` on, for a request that was due at `owed` where there is one.
    pub(super) fn open(&mut self, now: Time, owed: Option<Time>) {
        *self = Self::new();
        self.state = State::Opening {
            began: now,
            owed,
            failed: None,
        };
    }

    /// Its TLS handshake begins; it ends within `timeout` from the first attempt to open the connection.
    pub(super) fn begin_handshake(&mut self, timeout: Duration) {
        if let State::Opening { began, .. } = self.state {
            self.deadline = began + timeout;
        }
    }

    /// It is open, and its handshake complete: when opening began, and when the request was due that waits for it.
    pub(super) fn opened(&mut self) -> Option<(Time, Option<Time>)> {
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

    /// Has an idle one make its next request at `due`.
    pub(super) fn pause(&mut self, due: Time) {
        (self.state, self.deadline) = (State::Pausing, due);
    }

    /// Has a closed one opened again at `when`.
    pub(super) fn retry(&mut self, when: Time) {
        self.deadline = when;
    }

    /// Makes a request.
    pub(super) fn ask(&mut self, ask: Ask, context: &mut ConnectionContext<'_>) -> Outcome {
        let terms = context.terms;
        let last = self.served + 1 >= terms.requests_a_connection;
        self.parser.expect_no_body(terms.request(ask.request).to_head);
        self.state = State::Asking(Exchange {
            due: ask.due,
            since: context.now,
            written: Some(0),
            body: 0,
            request: ask.request,
            status: 0,
            stage: Stage::Writing,
            verdict: None,
            last,
            keep: !last,
            aborts: ask.aborts,
        });
        self.write(context)
    }

    /// Queues the next bytes of a request: as many as a slow client does in one step, or as may wait for the kernel.
    fn write(&mut self, context: &mut ConnectionContext<'_>) -> Outcome {
        let State::Asking(exchange) = &mut self.state else {
            return Next::Wait.into();
        };
        let (now, terms) = (context.now, context.terms);
        let rate = terms.behaviour.write_bytes_per_second;
        let (most, window) = match rate {
            Some(rate) => (
                (rate as f64 * WRITE_STEP.as_secs_f64()).ceil().max(1.0) as usize,
                u64::MAX,
            ),
            None if context.out.copies() => (PIECE, WINDOW),
            None => (usize::MAX, u64::MAX),
        };
        loop {
            let written = match exchange.write_piece(terms.request(exchange.request), most, context) {
                Ok(written) => written,
                Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
                    return self.fail(Failure::NoMemory);
                }
                Err(_) => return self.fail(Failure::Tls),
            };
            match (written, rate) {
                (Written::All, _) => {
                    exchange.written = None;
                    if exchange.stage == Stage::Writing {
                        (exchange.stage, exchange.since) = (Stage::AwaitingHead, now);
                        context.counts.requests.sent += 1;
                        self.deadline = now + terms.first_byte_timeout;
                    }
                    return Next::Wait.into();
                }
                (Written::Head, _) => {
                    exchange.stage = Stage::AwaitingContinue;
                    self.deadline = now + terms.continue_timeout;
                    return Next::Wait.into();
                }
                // The next piece is not due before this one would have gone at that rate.
                (Written::Part(bytes), Some(rate)) => {
                    self.deadline = now + Duration::from_secs_f64(bytes as f64 / rate as f64);
                    return Next::Wait.into();
                }
                (Written::Part(_), None) if context.out.queued() > window => {
                    context.out.notify_drained();
                    self.deadline = exchange.since + terms.request_timeout;
                    return Next::Wait.into();
                }
                (Written::Part(_), None) => {}
            }
        }
    }

    /// Goes on with a request of which some is left.
    fn write_on(&mut self, context: &mut ConnectionContext<'_>) -> Outcome {
        match &self.state {
            State::Asking(exchange) if context.now >= exchange.since + context.terms.request_timeout => {
                self.fail(Failure::RequestTimeout)
            }
            _ => self.write(context),
        }
    }

    /// The kernel has taken everything that was queued.
    pub(super) fn drained(&mut self, context: &mut ConnectionContext<'_>) -> Outcome {
        match &self.state {
            State::Asking(exchange)
                if exchange.written.is_some() && exchange.stage != Stage::AwaitingContinue =>
            {
                self.write_on(context)
            }
            _ => Next::Wait.into(),
        }
    }

    /// Takes what the server sent, in plain.
    pub(super) fn receive(&mut self, bytes: &[u8], context: &mut ConnectionContext<'_>) -> Outcome {
        context.counts.bytes.received += bytes.len() as u64;
        let mut rest = bytes;
        loop {
            let exchange = match &mut self.state {
                State::Asking(exchange) => exchange,
                State::Idle | State::Pausing => {
                    context.counts.connections.unasked_bytes += 1;
                    return self.fail(Failure::Malformed);
                }
                // What still comes on a connection that is being closed is of no interest.
                _ => return Next::Wait.into(),
            };
            let before = exchange.stage;
            let early = matches!(before, Stage::Writing | Stage::AwaitingContinue);
            if exchange.aborts && !early {
                return self.abort();
            }
            if before == Stage::AwaitingHead {
                exchange.stage = Stage::Reading;
            }
            let progress = exchange.read(&mut self.parser, &mut rest, context);
            if early && exchange.stage == Stage::Reading {
                exchange.answered_early(before, context);
                if exchange.aborts {
                    return self.abort();
                }
            }
            match progress {
                Progress::Continue => {
                    context.counts.requests.continued += 1;
                    let outcome = self.write(context);
                    if rest.is_empty() || outcome.next == Next::Reset {
                        return outcome;
                    }
                }
                Progress::Failed(failure) => return self.fail(failure),
                Progress::More => {
                    if !matches!(before, Stage::Reading | Stage::Held) && exchange.stage == Stage::Reading {
                        self.deadline = exchange.since + context.terms.request_timeout;
                    }
                    return self.hold(context);
                }
                Progress::Complete => return self.answered(context.now),
            }
        }
    }

    /// Stops receiving for as long as a slow reader is ahead of its rate.
    fn hold(&mut self, context: &ConnectionContext<'_>) -> Outcome {
        if let State::Asking(exchange) = &mut self.state
            && let Some(rate) = context.terms.behaviour.read_bytes_per_second
            && matches!(exchange.stage, Stage::Reading | Stage::Held)
        {
            let allowed = exchange.since + Duration::from_secs_f64(exchange.body as f64 / rate as f64);
            if allowed > context.now + AHEAD {
                exchange.stage = Stage::Held;
                self.deadline = allowed;
                return Next::Hold.into();
            }
        }
        Next::Wait.into()
    }

    /// The answer is complete.
    fn answered(&mut self, now: Time) -> Outcome {
        let State::Asking(exchange) = &self.state else {
            return Next::Wait.into();
        };
        self.served += 1;
        let settled = Some(match exchange.verdict {
            None => Settled::Answered(now.since(exchange.due)),
            Some(failure) => Settled::Failed(failure),
        });
        // An answer that is complete before its request leaves the two sides at different places.
        let next = if exchange.keep && exchange.written.is_none() {
            self.rest()
        } else {
            self.linger(now)
        };
        Outcome { settled, next }
    }

    fn linger(&mut self, now: Time) -> Next {
        (self.state, self.deadline) = (State::Lingering, now + LINGER);
        Next::Wait
    }

    fn close(&mut self, release: Release) -> Next {
        (self.state, self.deadline) = (State::Closing(release), Time::NEVER);
        Next::Close
    }

    /// Ends the request under way, and the connection with it.
    fn reset(&mut self, settled: Settled) -> Outcome {
        let asking = matches!(self.state, State::Asking(_));
        self.close(Release::Free);
        Outcome {
            settled: asking.then_some(settled),
            next: Next::Reset,
        }
    }

    fn fail(&mut self, failure: Failure) -> Outcome {
        self.reset(Settled::Failed(failure))
    }

    fn abort(&mut self) -> Outcome {
        self.reset(Settled::Aborted)
    }

    /// TLS has failed. After a failed handshake the server, which was told why, closes first.
    pub(super) fn session_failed(&mut self, failure: Failure, now: Time) -> Outcome {
        match &mut self.state {
            State::Opening { failed, .. } => {
                failed.get_or_insert(failure);
                self.deadline = now + LINGER;
                Next::Wait.into()
            }
            State::Closed | State::Closing(_) => Next::Wait.into(),
            _ => self.fail(failure),
        }
    }

    /// The server has ended its TLS session; it closes the connection next.
    pub(super) fn session_ended(&mut self, context: &ConnectionContext<'_>) -> Outcome {
        match &self.state {
            State::Opening { .. } => self.session_failed(Failure::ClosedEarly, context.now),
            State::Closed | State::Closing(_) | State::Lingering => Next::Wait.into(),
            _ => Outcome {
                settled: self.settle_end(true, context),
                next: self.linger(context.now),
            },
        }
    }

    /// The server sends nothing more. `genuine` says that the end is the server's word: without TLS always, with it only
    /// what was encrypted (RFC 9112 9.8).
    pub(super) fn peer_closed(&mut self, genuine: bool, context: &mut ConnectionContext<'_>) -> Outcome {
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

    /// The end of what the server sends completes the answer under way, or it fails.
    fn settle_end(&mut self, genuine: bool, context: &ConnectionContext<'_>) -> Option<Settled> {
        let State::Asking(exchange) = &mut self.state else {
            return None;
        };
        match self.parser.finish() {
            Ok(Some(Item::End)) if genuine => {
                exchange.check_length(context.terms);
                self.answered(context.now).settled
            }
            Err(ResponseError::ClosedInHead | ResponseError::ClosedInBody) | Ok(_) => {
                Some(Settled::Failed(Failure::ClosedEarly))
            }
            Err(_) => Some(Settled::Failed(Failure::Malformed)),
        }
    }

    /// The deadline has passed.
    pub(super) fn expired(&mut self, context: &mut ConnectionContext<'_>) -> Outcome {
        let due = std::mem::replace(&mut self.deadline, Time::NEVER);
        let exchange = match &mut self.state {
            State::Closed => return Next::Due(due).into(),
            State::Pausing => {
                self.rest();
                return Next::Due(due).into();
            }
            State::Opening { failed, .. } => {
                failed.get_or_insert(Failure::HandshakeTimeout);
                return Next::Reset.into();
            }
            State::Lingering => return self.close(Release::Rests).into(),
            State::Idle | State::Closing(_) => return Next::Wait.into(),
            State::Asking(exchange) => exchange,
        };
        match exchange.stage {
            Stage::Writing => self.write_on(context),
            Stage::AwaitingContinue => {
                // The body is sent all the same (RFC 9110 10.1.1).
                exchange.stage = Stage::Writing;
                context.counts.requests.continue_timeouts += 1;
                self.write_on(context)
            }
            Stage::AwaitingHead => self.fail(Failure::FirstByteTimeout),
            Stage::Reading => self.fail(Failure::RequestTimeout),
            Stage::Held => {
                exchange.stage = Stage::Reading;
                self.deadline = exchange.since + context.terms.request_timeout;
                if self.deadline <= context.now {
                    return self.fail(Failure::RequestTimeout);
                }
                Next::Resume.into()
            }
        }
    }

    /// The engine is done with it.
    pub(super) fn closed(&mut self, cause: Cause) -> Ended {
        self.deadline = Time::NEVER;
        let state = std::mem::replace(&mut self.state, State::Closed);
        let mut ended = Ended {
            was_open: true,
            release: Release::Free,
            failure: Failure::of_cause(cause, true),
            had_request: matches!(state, State::Asking(_)),
        };
        match state {
            State::Opening { owed, failed, .. } => {
                ended.was_open = false;
                ended.had_request = owed.is_some();
                ended.failure = failed.unwrap_or(Failure::of_cause(cause, false));
                if cause == Cause::AddressInUse {
                    ended.release = Release::Taken;
                }
            }
            State::Closing(release) => ended.release = release,
            _ => {}
        }
        ended
    }
}

#[cfg(test)]
mod tests;
