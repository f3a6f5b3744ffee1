//! One connection of the generator, as a state machine without I/O, from opening to end, for any protocol.
//!
//! In: requests to make, bytes, ends and expired deadlines, each with its time. Out: bytes into a
//! [`ConnectionOutput`](super::output::ConnectionOutput); an [`Outcome`], which says how the current request was settled and what
//! the owner does next; and the [`deadline`](Connection::deadline) at which the connection must be checked again.
//!
//! Designed for a million connections: no allocations except those of the protocol.

use super::counts::Counts;
use super::event::{Ended, Input, Next, Outcome, Settled};
use super::in_flight::InFlight;
use super::linger::Linger;
use super::output::ConnectionOutput;
use super::protocol::{Ask, Step, StreamProtocol, Terms, Traffic, Turn};
use crate::failure::Failure;
use corelane_worker::Time;
use corelane_worker::engine::Cause;
use corelane_worker::outgoing::Release;
use std::time::Duration;

/// A connection, open or closed.
#[derive(Debug)]
pub(crate) struct Connection<P: StreamProtocol> {
    exchange: P::Exchange,
    /// Not empty while [`State::Asking`].
    in_flight: P::InFlight,
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
        /// When the waiting request was due; [`Time::NEVER`] without one.
        owed: Time,
        failed: Option<Failure>,
        release: Release,
    },
    /// Open and idle.
    Idle,
    /// Open, and the next request is due at the deadline.
    Pausing,
    /// Requests are in flight.
    Asking,
    /// No further requests; the server may close first.
    Lingering,
    /// Closed by this side; the engine has not reported the end yet.
    Closing(Release),
}

/// What surrounds a connection while it handles an event; see [`Turn`].
pub(crate) struct Context<'a, P: StreamProtocol, O> {
    pub(crate) now: Time,
    pub(crate) terms: &'a Terms<P>,
    pub(crate) counts: &'a mut Counts<P::Counts>,
    pub(crate) out: &'a mut O,
    pub(crate) shared: &'a mut P::Shared,
    pub(crate) linger: &'a mut Linger,
}

impl<P: StreamProtocol, O> Context<'_, P, O> {
    fn turn<'a>(
        &'a mut self,
        exchange: &'a mut P::Exchange,
        (due, request): (Time, &'a P::Request),
        deadline: &'a mut Time,
    ) -> Turn<'a, P, O> {
        Turn {
            now: self.now,
            exchange,
            request,
            due,
            deadline,
            terms: self.terms,
            counts: self.counts,
            out: self.out,
            shared: self.shared,
        }
    }
}

impl<P: StreamProtocol> Connection<P> {
    pub(crate) fn new() -> Self {
        Self {
            exchange: P::Exchange::default(),
            in_flight: P::InFlight::default(),
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

    pub(crate) fn is_asking(&self) -> bool {
        matches!(self.state, State::Asking)
    }

    /// Whether another request may be made now.
    pub(crate) fn has_room(&self, terms: &Terms<P>) -> bool {
        match self.state {
            State::Idle => true,
            State::Asking if P::InFlight::PIPELINES => {
                let count = self.in_flight.count();
                count < terms.depth && self.served as usize + count < terms.requests_a_connection as usize
            }
            _ => false,
        }
    }

    /// Removes a request in flight on a connection that takes no more answers; returns whether there was one.
    pub(crate) fn lose(&mut self) -> bool {
        !self.is_asking() && self.in_flight.pop().is_some()
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
        self.state = State::Opening {
            began: now,
            owed: owed.unwrap_or(Time::NEVER),
            failed: None,
            release: Release::Free,
        };
        self.exchange = P::Exchange::default();
        (self.deadline, self.served) = (Time::NEVER, 0);
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
        Some((began, (owed < Time::NEVER).then_some(owed)))
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
    pub(crate) fn take(
        &mut self,
        input: Input<'_, '_, P::Request>,
        context: &mut Context<'_, P, impl ConnectionOutput>,
    ) -> Outcome {
        match input {
            Input::Ask(request, ask) => self.ask(request, ask, context),
            Input::Bytes(bytes) => self.receive(bytes, context),
            Input::PeerClosed { genuine } => self.peer_closed(genuine, context),
            Input::Expired => self.expired(context),
            Input::SessionFailed(failure) => self.session_failed(failure),
            Input::SessionEnded => self.session_ended(context),
            Input::Drained => self.in_progress(context, P::drained),
            Input::Start => self.in_progress(context, P::Traffic::start),
            Input::Finish => self.in_progress(context, P::Traffic::finish),
            Input::Left { lasted } => self.in_progress(context, |turn| P::Traffic::left(turn, lasted)),
        }
    }

    /// Applies a step of the protocol, if a request is in flight.
    #[inline]
    fn in_progress<O: ConnectionOutput>(
        &mut self,
        context: &mut Context<'_, P, O>,
        step: impl FnOnce(&mut Turn<'_, P, O>) -> Step,
    ) -> Outcome {
        let Some(request) = self.in_flight.oldest() else {
            return Next::Wait.into();
        };
        let step = step(&mut context.turn(&mut self.exchange, request, &mut self.deadline));
        self.follow(step, context)
    }

    fn ask(
        &mut self,
        request: P::Request,
        mut ask: Ask,
        context: &mut Context<'_, P, impl ConnectionOutput>,
    ) -> Outcome {
        let before = self.served as usize + self.in_flight.count();
        ask.last = before + 1 >= context.terms.requests_a_connection as usize;
        self.state = State::Asking;
        let request = self.in_flight.push(ask.due, request);
        let mut turn = context.turn(&mut self.exchange, (ask.due, request), &mut self.deadline);
        let step = P::begin(&mut turn, ask);
        self.follow(step, context)
    }

    fn receive(&mut self, bytes: &mut &[u8], context: &mut Context<'_, P, impl ConnectionOutput>) -> Outcome {
        let all = bytes.len();
        let outcome = match self.state {
            State::Asking => self.in_progress(context, |turn| P::receive(turn, bytes)),
            State::Idle | State::Pausing => {
                context.counts.connections.unasked_bytes += 1;
                self.reset(Settled::Failed(Failure::Malformed))
            }
            // Data on a connection that is being closed is ignored.
            _ => Next::Wait.into(),
        };
        // Only what follows an answer is left, for the next one.
        if !P::InFlight::PIPELINES
            || outcome.settled.is_none()
            || matches!(outcome.next, Next::Reset | Next::Leave)
        {
            *bytes = &[];
        }
        context.counts.bytes.received += (all - bytes.len()) as u64;
        outcome
    }

    /// Applies the result of the current exchange.
    #[inline]
    fn follow(&mut self, step: Step, context: &mut Context<'_, P, impl ConnectionOutput>) -> Outcome {
        let now = context.now;
        match step {
            Step::Wait => Next::Wait.into(),
            Step::Hold => Next::Hold.into(),
            Step::Resume => Next::Resume.into(),
            Step::Complete { wrong, stays } => {
                let settled = Some(self.complete(wrong, now));
                let next = if !stays || self.served >= context.terms.requests_a_connection {
                    self.linger(context)
                } else if self.in_flight.oldest().is_none() {
                    self.rest()
                } else if self.has_room(context.terms) {
                    Next::Ready
                } else {
                    Next::Wait
                };
                Outcome { settled, next }
            }
            Step::Failed(failure) => self.reset(Settled::Failed(failure)),
            Step::Aborted => self.reset(Settled::Aborted),
        }
    }

    fn complete(&mut self, wrong: Option<Failure>, now: Time) -> Settled {
        self.served += 1;
        match (wrong, self.in_flight.pop()) {
            (None, Some(due)) => Settled::Answered(now.since(due)),
            (wrong, _) => Settled::Failed(wrong.unwrap_or(Failure::Other)),
        }
    }

    fn linger(&mut self, context: &mut Context<'_, P, impl ConnectionOutput>) -> Next {
        let patience = context.linger.patience();
        if patience.is_zero() {
            return self.leave(context);
        }
        (self.state, self.deadline) = (State::Lingering, context.now + patience);
        Next::Wait
    }

    fn leave(&mut self, context: &mut Context<'_, P, impl ConnectionOutput>) -> Next {
        context.linger.closed_by_client();
        context.counts.connections.closed_by_client += 1;
        self.close(Release::Rests);
        Next::Leave
    }

    /// The port does not rest: the connection is reset instead of closed.
    pub(crate) fn reset_instead(&mut self) {
        match &mut self.state {
            State::Opening { release, .. } => *release = Release::Free,
            _ => {
                self.close(Release::Free);
            }
        }
    }

    fn close(&mut self, release: Release) -> Next {
        (self.state, self.deadline) = (State::Closing(release), Time::NEVER);
        Next::Close
    }

    /// Ends the current request and the connection.
    fn reset(&mut self, settled: Settled) -> Outcome {
        self.close(Release::Free);
        Outcome {
            settled: self.in_flight.pop().map(|_| settled),
            next: Next::Reset,
        }
    }

    /// A failed handshake ends the connection, after the alert (RFC 8446 6.2).
    fn session_failed(&mut self, failure: Failure) -> Outcome {
        match &mut self.state {
            State::Opening { failed, release, .. } => {
                failed.get_or_insert(failure);
                *release = Release::Rests;
                self.deadline = Time::NEVER;
                Next::Leave.into()
            }
            State::Closed | State::Closing(_) => Next::Wait.into(),
            _ => self.reset(Settled::Failed(failure)),
        }
    }

    fn session_ended(&mut self, context: &mut Context<'_, P, impl ConnectionOutput>) -> Outcome {
        match &self.state {
            State::Opening { .. } => self.session_failed(Failure::ClosedEarly),
            State::Closed | State::Closing(_) | State::Lingering => Next::Wait.into(),
            _ => Outcome {
                settled: self.settle_end(true, context),
                next: self.linger(context),
            },
        }
    }

    fn peer_closed(&mut self, genuine: bool, context: &mut Context<'_, P, impl ConnectionOutput>) -> Outcome {
        if let State::Opening { failed, .. } = &mut self.state {
            failed.get_or_insert(Failure::ClosedEarly);
            return Next::Close.into();
        }
        context.counts.connections.closed_by_server += 1;
        if matches!(self.state, State::Lingering) {
            context.linger.closed_by_server();
        }
        Outcome {
            settled: self.settle_end(genuine, context),
            next: self.close(Release::Free),
        }
    }

    /// The end of the stream completes the current answer, or makes it fail.
    fn settle_end(
        &mut self,
        genuine: bool,
        context: &mut Context<'_, P, impl ConnectionOutput>,
    ) -> Option<Settled> {
        let request = self.in_flight.oldest()?;
        let mut turn = context.turn(&mut self.exchange, request, &mut self.deadline);
        Some(match P::ended(&mut turn, genuine) {
            Step::Complete { wrong, .. } => self.complete(wrong, context.now),
            step => {
                self.in_flight.pop();
                Settled::Failed(match step {
                    Step::Failed(failure) => failure,
                    _ => Failure::ClosedEarly,
                })
            }
        })
    }

    fn expired(&mut self, context: &mut Context<'_, P, impl ConnectionOutput>) -> Outcome {
        if self.is_asking() {
            return self.in_progress(context, P::expired);
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
            State::Lingering => self.leave(context).into(),
            State::Idle | State::Asking | State::Closing(_) => Next::Wait.into(),
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
            State::Opening {
                owed,
                failed,
                release,
                ..
            } => {
                (ended.was_open, ended.release) = (false, release);
                ended.request = (owed < Time::NEVER).then_some(owed);
                ended.failure = failed.unwrap_or(Failure::of_cause(cause, false));
                if cause == Cause::AddressInUse {
                    ended.release = Release::Taken;
                }
            }
            State::Asking => ended.request = self.in_flight.pop(),
            State::Closing(release) => ended.release = release,
            _ => {}
        }
        ended
    }
}
