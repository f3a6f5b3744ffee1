//! One connection: requests in any segments, answers in the order of the requests.
//!
//! In: received bytes. Out: units of work that are executed, and answers. While a client does not take its answers, or other
//! workers owe it some, no further request of it is executed, and what it sends stays in the kernel.

use super::answers::{Answers, PAUSE};
use super::budget::Budget;
use super::exchange::Answered;
use super::session::{Context, Refused, Session};
use super::stats;
use super::units::{self, Ahead, Unit};
use super::worker::Worker;
use corelane_proto::memcached::request::Parser;
use corelane_proto::memcached::watch::Entry;
use corelane_worker::Time;
use corelane_worker::engine::{Id, Output as _};
use corelane_worker::timers::{Timer, Wheel};
use std::time::Duration;

/// Bytes of a line of keys that are kept until its end arrives. A longer one closes the connection.
const LONGEST_LINE: usize = 8 << 20;

/// How long a client may keep more answers than each may have while all clients keep more than they may together.
pub(super) const STALLED: Duration = Duration::from_secs(5);

/// Bytes of a request that watchers get.
const LONGEST_WATCHED: usize = 500;

/// What follows the bytes of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// The next bytes.
    Receive,
    /// The client has to take answers first.
    Drain,
    /// Other workers have to answer first, or to make room.
    Wait(Refused),
    /// The end, after the answers.
    Close,
}

/// A connection.
#[derive(Default)]
pub(super) struct Connection {
    parser: Parser,
    /// Received bytes that no unit was made of.
    rest: Vec<u8>,
    /// How many of them are executed.
    executed: usize,
    pub(super) session: Session,
    /// Why the last unit was not executed.
    refused: Option<Refused>,
    /// Whether it goes on when an answer of another worker arrives.
    pub(super) awaits: bool,
    /// Bytes that are counted in the budget.
    held: u64,
    /// Since when there are some.
    holds_since: Time,
    /// Whether it waits for other clients to take their answers.
    pub(super) waits_for_room: bool,
    /// Whether its client has ended its side.
    pub(super) ended: bool,
    /// Whether it only waits for its client to end, too.
    pub(super) lingers: bool,
    /// Whether it does not receive.
    pub(super) stopped: bool,
    /// The timer of its end, because it is idle or lingers.
    pub(super) timer: Option<Timer>,
}

impl Connection {
    /// Executes what the bytes request.
    pub(super) fn receive(&mut self, bytes: &[u8], context: &mut Context<'_>, out: &mut Answers<'_>) -> Next {
        if self.rest.is_empty() {
            let used = self.run(bytes, context, out);
            // A value in parts leaves nothing, and a line is short.
            self.rest.extend_from_slice(&bytes[used..]);
        } else {
            self.rest.extend_from_slice(bytes);
            self.run_rest(context, out);
        }
        let is_unfinished = self.refused.is_none() && !out.are_full();
        if is_unfinished && self.rest.len() as u64 > PAUSE && context.exchange.budget.is_spent() {
            self.session.closing = true;
        }
        self.next(out)
    }

    /// Executes what was left because answers came first.
    pub(super) fn resume(&mut self, context: &mut Context<'_>, out: &mut Answers<'_>) -> Next {
        let answers_first = self.refused == Some(Refused::Answers);
        if !answers_first || !self.session.is_blocked(context.exchange) {
            self.run_rest(context, out);
        }
        self.next(out)
    }

    /// Takes a part of an answer of another worker. How much its client has not taken, and whether a part of the answers was lost.
    pub(super) fn answered(
        &mut self,
        (answered, part): (Answered, &[u8]),
        worker: &Worker,
        mut out: Answers<'_>,
    ) -> (u64, bool) {
        if let Some(listing) = answered.listing.filter(|_| answered.is_last) {
            self.session.listed(listing);
        }
        if let Some(order) = self.session.order() {
            let part = (part, answered.is_last);
            order.answered(answered.place.entry, part, &mut out, |asked, out| {
                stats::put(asked, worker, out);
            });
        }
        let (channel, failed) = out.into_channel();
        (channel.queued(), failed)
    }

    fn run_rest(&mut self, context: &mut Context<'_>, out: &mut Answers<'_>) {
        let mut rest = std::mem::take(&mut self.rest);
        self.executed += self.run(&rest[self.executed..], context, out);
        if self.executed == rest.len() {
            self.executed = 0;
        } else {
            // Moved when at least as many bytes are executed: however often it stops, a byte moves once.
            if self.executed > rest.len() / 2 {
                rest.drain(..self.executed);
                self.executed = 0;
            }
            self.rest = rest;
        }
        if self.ended && self.refused.is_none() && !out.are_full() {
            // The rest of a value does not come any more.
            self.session.abandon(context);
        }
    }

    /// Sets its timer, instead of the one that it had.
    pub(super) fn look_again(&mut self, wheel: &mut Wheel<Id>, due: Time, id: Id) {
        if let Some(before) = self.timer.replace(wheel.insert(due, id)) {
            wheel.cancel(before);
        }
    }

    /// Whether it is within a value, or this side has something to do before its client sends the next request.
    pub(super) fn is_busy(&self) -> bool {
        self.stopped || !self.parser.is_idle() || !self.session.is_answered()
    }

    /// Counts what is kept for its client, of which `queued` bytes are answers on their way, beyond what each may have. Whether that
    /// begins now: then it is looked at again.
    #[inline]
    pub(super) fn account(
        &mut self,
        queued: u64,
        (wheel, now, id): (&mut Wheel<Id>, Time, Id),
        budget: &mut Budget,
    ) -> bool {
        let bytes = queued + (self.session.waiting() + self.rest.len()) as u64;
        let held = if bytes > PAUSE { bytes } else { 0 };
        if held == self.held {
            return false;
        }
        let before = std::mem::replace(&mut self.held, held);
        budget.hold(before, held);
        if before == 0 {
            self.holds_since = now;
            self.look_again(wheel, now + STALLED, id);
        }
        before == 0
    }

    /// Whether its client has more than each may have.
    pub(super) fn holds(&self) -> bool {
        self.held > 0
    }

    /// Whether it has had that for too long.
    pub(super) fn is_stalled(&self, now: Time) -> bool {
        self.holds() && now >= self.holds_since + STALLED
    }

    /// Its client has gone.
    pub(super) fn end(self, context: &mut Context<'_>) {
        context.exchange.budget.hold(self.held, 0);
        self.session.end(context);
    }

    #[inline]
    fn next(&self, out: &Answers<'_>) -> Next {
        let closing = self.session.closing || self.rest.len() - self.executed > LONGEST_LINE;
        if out.are_full() && !closing {
            Next::Drain
        } else if let Some(refused) = self.refused {
            Next::Wait(refused)
        } else if (closing || self.ended) && !self.session.is_answered() {
            Next::Wait(Refused::Answers)
        } else if closing || self.ended {
            Next::Close
        } else {
            Next::Receive
        }
    }

    /// Executes units; returns how many bytes they took.
    fn run(&mut self, bytes: &[u8], context: &mut Context<'_>, out: &mut Answers<'_>) -> usize {
        let mut at = 0;
        self.refused = None;
        while !self.session.closing && self.refused.is_none() && !out.are_full() {
            if self.session.is_watching() {
                self.session.watch(out);
                // What a watcher sends is ignored.
                return bytes.len();
            }
            if self.session.is_listing() {
                self.session.list(context, out);
                if self.session.is_listing() && !self.session.is_answered() {
                    self.refused = Some(Refused::Answers);
                }
                continue;
            }
            let Some(unit) = units::next(&mut self.parser, bytes, &mut at, context.worker) else {
                break;
            };
            if at == bytes.len() {
                self.execute(&unit, bytes, &mut at, context, out);
            } else {
                self.run_batch(bytes, &mut at, unit, context, out);
            }
        }
        if self.session.closing { bytes.len() } else { at }
    }

    #[inline(never)]
    fn run_batch<'a>(
        &mut self,
        bytes: &'a [u8],
        at: &mut usize,
        first: Unit<'a>,
        context: &mut Context<'_>,
        out: &mut Answers<'_>,
    ) {
        let mut ahead = Ahead::new(first, &mut self.parser, bytes, at, context.worker);
        while let Some(unit) = ahead.take(&mut self.parser, bytes, at, context.worker) {
            if out.are_full() || self.session.is_listing() || self.session.is_watching() {
                return self.stop_before(unit, at);
            }
            self.execute(unit, bytes, at, context, out);
            if self.refused.is_some() {
                return;
            }
        }
    }

    #[inline]
    fn execute(
        &mut self,
        unit: &Unit<'_>,
        bytes: &[u8],
        at: &mut usize,
        context: &mut Context<'_>,
        out: &mut Answers<'_>,
    ) {
        if let Err(refused) = self
            .session
            .execute(unit, &bytes[unit.start..unit.end], context, out)
        {
            self.refused = Some(refused);
            self.stop_before(unit, at);
        } else if context.worker.shared.watchers.watches_requests() && unit.before.is_idle() {
            record_request(&bytes[unit.start..], context);
        }
    }

    /// The unit is parsed again later.
    fn stop_before(&mut self, unit: &Unit<'_>, at: &mut usize) {
        self.parser = unit.before.clone();
        *at = unit.start;
    }
}

/// Passes on the line of a request, up to its end.
#[cold]
fn record_request(bytes: &[u8], context: &Context<'_>) {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let worker = &*context.worker;
    worker.record(&Entry::Request {
        connection: context.client.number(worker.index, worker.shared.plan.workers()),
        line: &line[..line.len().min(LONGEST_WATCHED)],
    });
}
