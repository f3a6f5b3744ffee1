//! One HTTP/1.1 request and its response. The request is written in pieces; the response is parsed as it arrives.

mod follow;

use super::body::Body;
use super::counts::{HttpCounts, is_redirect};
use super::error::{HttpError, HttpLoadError};
use super::plan::Http;
use super::prepared::Requests;
use crate::failure::Failure;
use crate::streams::{
    Answered, Ask, ConnectionOutput, One, Part, Step, StreamLoad, StreamPlan, StreamProtocol, StreamStart,
    Timeouts, Turn,
};
use corelane_proto::http::response::{Item, LastHead, Parser, ResponseError};
use corelane_worker::Time;
use follow::Hop;
use std::io;
use std::time::Duration;

/// A reader this far ahead of its rate pauses.
const AHEAD: Duration = Duration::from_millis(20);

/// Interval between the pieces in which a slow client sends its request.
const WRITE_STEP: Duration = Duration::from_millis(50);

/// Requests that are copied per connection are sent in pieces of one TLS record (RFC 8446 5.1), while no more than this
/// is queued in the kernel.
const PIECE: usize = 16_384;
const WINDOW: u64 = 256 << 10;

/// A request and the state of its response.
#[derive(Debug, Default)]
pub struct Exchange {
    parser: Parser,
    /// When it was sent; until then, when sending began.
    since: Time,
    /// Request bytes queued so far.
    written: u64,
    /// Bytes of the response body so far.
    body: u64,
    /// Status of the response; 0 before its head.
    status: u16,
    stage: Stage,
    /// What is wrong with a well-framed response.
    verdict: Option<Failure>,
    /// Whether the request is marked as the last on the connection.
    last: bool,
    /// Whether the connection stays open after the response.
    keep: bool,
    /// Whether to abort as soon as the response begins.
    aborts: bool,
    /// Whether part of the request is not queued.
    writing: bool,
    /// The request of the last redirect; boxed, as most have none.
    hop: Option<Box<Hop>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    /// No response yet, and part of the request is not queued.
    #[default]
    Writing,
    /// The head was sent; the body waits for 100 Continue.
    AwaitingContinue,
    /// The request was sent; no response yet.
    AwaitingHead,
    /// The response has begun.
    Reading,
    /// The response has begun, and a slow reader receives nothing until the deadline.
    Held,
}

/// Progress of a request after a piece was queued.
enum Written {
    Part(usize),
    /// The head is queued; the body waits for 100 Continue.
    Head,
    All,
}

/// Effect of received bytes on the response in progress.
enum Progress {
    More,
    /// The server requests the body (100 Continue).
    Continue,
    Complete,
    Malformed,
}

impl StreamStart for Http {
    #[inline(never)]
    fn start(plan: StreamPlan<Self>) -> Result<StreamLoad<Self>, HttpLoadError> {
        StreamLoad::of_plan(plan)
    }
}

impl StreamProtocol for Http {
    const NAME: &'static str = "http";
    const SCHEMA: &'static str = "corelane/loaded-http/1";
    const TLS_NAMES: &'static [&'static [u8]] = &[b"http/1.1"];
    type Traffic = Answered;
    type Requests = Requests;
    /// Its index.
    type Request = u32;
    type InFlight = One<u32>;
    type Exchange = Exchange;
    /// The last head of a response.
    type Shared = LastHead;
    type Counts = HttpCounts;
    type Error = HttpError;

    fn prepare(&self, timeouts: &Timeouts) -> Result<Requests, HttpError> {
        Requests::prepare(self, timeouts)
    }

    fn share(_: &Requests, _: Part) -> LastHead {
        LastHead::default()
    }

    fn choose(requests: &Requests, _: &mut LastHead, random: &mut fastrand::Rng) -> u32 {
        requests.choose(random)
    }

    fn begin(turn: &mut Turn<'_, Self, impl ConnectionOutput>, ask: Ask) -> Step {
        turn.exchange.last = ask.last;
        turn.exchange.keep = !ask.last && !turn.terms.requests.request(*turn.request).closes;
        turn.exchange.aborts = ask.aborts;
        turn.exchange.hop = None;
        turn.send()
    }

    fn receive(turn: &mut Turn<'_, Self, impl ConnectionOutput>, bytes: &mut &[u8]) -> Step {
        let mut rest = std::mem::take(bytes);
        loop {
            let before = turn.exchange.stage;
            let early = matches!(before, Stage::Writing | Stage::AwaitingContinue);
            if turn.exchange.aborts && !early {
                return Step::Aborted;
            }
            if before == Stage::AwaitingHead {
                turn.exchange.stage = Stage::Reading;
            }
            let progress = turn.read(&mut rest);
            if early && turn.exchange.stage == Stage::Reading {
                turn.answered_early(before);
                if turn.exchange.aborts {
                    return Step::Aborted;
                }
            }
            match progress {
                Progress::Continue => {
                    turn.counts.requests.own.continued += 1;
                    let step = turn.write();
                    if rest.is_empty() || matches!(step, Step::Failed(_)) {
                        return step;
                    }
                }
                Progress::Malformed => return Step::Failed(Failure::Malformed),
                Progress::More => {
                    if !matches!(before, Stage::Reading | Stage::Held)
                        && turn.exchange.stage == Stage::Reading
                    {
                        *turn.deadline = turn.exchange.since + turn.terms.request_timeout;
                    }
                    return turn.hold();
                }
                Progress::Complete => return turn.complete(),
            }
        }
    }

    fn drained(turn: &mut Turn<'_, Self, impl ConnectionOutput>) -> Step {
        if turn.exchange.writing && turn.exchange.stage != Stage::AwaitingContinue {
            return turn.write_on();
        }
        Step::Wait
    }

    fn expired(turn: &mut Turn<'_, Self, impl ConnectionOutput>) -> Step {
        *turn.deadline = Time::NEVER;
        match turn.exchange.stage {
            Stage::Writing => turn.write_on(),
            Stage::AwaitingContinue => {
                // No 100 Continue in time: send the body anyway (RFC 9110 10.1.1).
                turn.exchange.stage = Stage::Writing;
                turn.counts.requests.own.continue_timeouts += 1;
                turn.write_on()
            }
            Stage::AwaitingHead => Step::Failed(Failure::FirstByteTimeout),
            Stage::Reading => Step::Failed(Failure::RequestTimeout),
            Stage::Held => {
                turn.exchange.stage = Stage::Reading;
                *turn.deadline = turn.exchange.since + turn.terms.request_timeout;
                if *turn.deadline <= turn.now {
                    return Step::Failed(Failure::RequestTimeout);
                }
                Step::Resume
            }
        }
    }

    fn ended(turn: &mut Turn<'_, Self, impl ConnectionOutput>, genuine: bool) -> Step {
        match turn.exchange.parser.finish() {
            Ok(Some(Item::End)) if genuine => {
                turn.check_length();
                turn.complete()
            }
            Err(ResponseError::ClosedInHead | ResponseError::ClosedInBody) | Ok(_) => {
                Step::Failed(Failure::ClosedEarly)
            }
            Err(error) => {
                turn.count_malformed(error);
                Step::Failed(Failure::Malformed)
            }
        }
    }
}

impl<O: ConnectionOutput> Turn<'_, Http, O> {
    /// Begins to send the request, or that of a redirect.
    fn send(&mut self) -> Step {
        let to_head = self.terms.requests.request(*self.request).to_head;
        let exchange = &mut *self.exchange;
        exchange.parser.tolerate(!self.terms.requests.strict);
        exchange.parser.expect_no_body(to_head);
        exchange.since = self.now;
        (exchange.written, exchange.writing) = (0, true);
        exchange.body = 0;
        exchange.status = 0;
        exchange.stage = Stage::Writing;
        exchange.verdict = None;
        self.write()
    }

    /// Queues the next bytes of a request: one step of a slow client, or as many as may be pending in the kernel.
    fn write(&mut self) -> Step {
        let (now, terms) = (self.now, self.terms);
        let rate = terms.pool.behaviour.write_bytes_per_second;
        let (most, window) = match rate {
            Some(rate) => (
                (rate as f64 * WRITE_STEP.as_secs_f64()).ceil().max(1.0) as usize,
                u64::MAX,
            ),
            None if self.out.copies() => (PIECE, WINDOW),
            None => (usize::MAX, u64::MAX),
        };
        loop {
            let written = match self.write_piece(most) {
                Ok(written) => written,
                Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
                    return Step::Failed(Failure::NoMemory);
                }
                Err(_) => return Step::Failed(Failure::Tls),
            };
            match (written, rate) {
                (Written::All, _) => {
                    self.exchange.writing = false;
                    if self.exchange.stage == Stage::Writing {
                        (self.exchange.stage, self.exchange.since) = (Stage::AwaitingHead, now);
                        self.counts.requests.sent += 1;
                        *self.deadline = now + terms.first_byte_timeout;
                    }
                }
                (Written::Head, _) => {
                    self.exchange.stage = Stage::AwaitingContinue;
                    *self.deadline = now + terms.requests.continue_timeout;
                }
                // At that rate, the next piece is due only after this one has been sent.
                (Written::Part(bytes), Some(rate)) => {
                    *self.deadline = now + Duration::from_secs_f64(bytes as f64 / rate as f64);
                }
                (Written::Part(_), None) if self.out.queued() > window => {
                    self.out.notify_drained();
                    *self.deadline = self.exchange.since + terms.request_timeout;
                }
                (Written::Part(_), None) => continue,
            }
            return Step::Wait;
        }
    }

    /// Continues a partly sent request.
    fn write_on(&mut self) -> Step {
        if self.now >= self.exchange.since + self.terms.request_timeout {
            return Step::Failed(Failure::RequestTimeout);
        }
        self.write()
    }

    /// Queues the next piece of a request, up to a number of bytes.
    fn write_piece(&mut self, most: usize) -> io::Result<Written> {
        if !self.exchange.writing {
            return Ok(Written::All);
        }
        let before = self.exchange.written;
        let request = self.terms.requests.request(*self.request);
        let planned = &request.planned;
        let hop = self.exchange.hop.as_ref();
        let head = match hop {
            Some(hop) => &hop.head,
            None if self.exchange.last => &planned.last_head,
            None => &planned.head,
        }
        .as_bytes();
        let body = request
            .body
            .as_ref()
            .filter(|_| hop.is_none_or(|hop| hop.has_body));
        let expects_continue = planned.expect_continue && body.is_some();
        let (head_bytes, out) = (head.len() as u64, &mut *self.out);
        let piece = if before < head_bytes {
            let left = &head[before as usize..];
            let piece = &left[..left.len().min(most)];
            out.write(piece)?;
            piece.len()
        } else if let Some(body) = body {
            body.write(before - head_bytes, most, out)?
        } else {
            0
        };
        let written = before + piece as u64;
        self.exchange.written = written;
        self.counts.bytes.sent += piece as u64;
        // A body that waits for 100 Continue begins after the wait, even if it is empty.
        if expects_continue && before < head_bytes && written == head_bytes {
            return Ok(Written::Head);
        }
        if written < head_bytes + body.map_or(0, Body::length) {
            return Ok(Written::Part(piece));
        }
        body.map_or(Ok(()), |body| body.end(out))?;
        Ok(Written::All)
    }

    /// The response began before the request was fully sent. After a final status instead of 100 Continue, or an error,
    /// the rest of the request is not sent and the connection closes, because the server might read the next request as
    /// its remainder (RFC 9110 10.1.1).
    fn answered_early(&mut self, before: Stage) {
        let (refused, waited) = (self.exchange.status >= 400, before == Stage::AwaitingContinue);
        self.counts.requests.sent += 1;
        self.counts.requests.own.body_refused += u64::from(waited);
        self.exchange.since = self.now;
        if waited || refused || self.terms.pool.behaviour.write_bytes_per_second.is_some() {
            (self.exchange.writing, self.exchange.keep) = (false, false);
        }
    }

    /// Parses response bytes; stops after 100 Continue and leaves the rest.
    fn read(&mut self, rest: &mut &[u8]) -> Progress {
        let asked = self.terms.requests.request(*self.request);
        loop {
            let (used, item) = match self.exchange.parser.feed_after(rest, self.shared) {
                Ok(read) => read,
                Err(error) => {
                    self.count_malformed(error);
                    return Progress::Malformed;
                }
            };
            *rest = &rest[used..];
            match item {
                None => return Progress::More,
                Some(Item::Informational(100)) if self.exchange.stage == Stage::AwaitingContinue => {
                    self.exchange.stage = Stage::Writing;
                    return Progress::Continue;
                }
                Some(Item::Informational(_)) => {}
                Some(Item::Head(head)) => {
                    if self.exchange.stage != Stage::Held {
                        self.exchange.stage = Stage::Reading;
                    }
                    self.exchange.status = head.status;
                    self.exchange.keep &= head.keep_alive;
                    *self.counts.requests.own.statuses.entry(head.status).or_default() += 1;
                    if !self.terms.requests.expects(head.status) {
                        self.exchange.verdict = Some(Failure::WrongStatus);
                    }
                    if self.terms.requests.follow > 0 && is_redirect(head.status) {
                        let mut fields = head.fields.clone();
                        let location = fields.find(|(name, _)| name.eq_ignore_ascii_case(b"location"));
                        let location = location.map(|(_, location)| location.to_vec());
                        self.redirected(location.as_deref());
                    }
                }
                Some(Item::Body(part)) => {
                    if self.exchange.hop.is_none()
                        && !(asked.planned.promise).holds(self.exchange.body, part, asked.body.as_ref())
                    {
                        self.exchange.verdict.get_or_insert(Failure::WrongBody);
                    }
                    self.exchange.body += part.len() as u64;
                    self.counts.bytes.body += part.len() as u64;
                }
                Some(Item::End) => {
                    if !asked.to_head {
                        self.check_length();
                    }
                    if rest.is_empty() {
                        return Progress::Complete;
                    }
                    // Requests are not pipelined.
                    self.count_malformed("bytes follow the answer");
                    return Progress::Malformed;
                }
            }
        }
    }

    /// Checks the length of a complete response.
    fn check_length(&mut self) {
        let asked = self.terms.requests.request(*self.request);
        if self.exchange.hop.is_none()
            && !(asked.planned.promise).is_whole(self.exchange.body, asked.body.as_ref())
        {
            self.exchange.verdict.get_or_insert(Failure::WrongBody);
        }
    }

    /// Pauses receiving while a slow reader is ahead of its rate.
    fn hold(&mut self) -> Step {
        if let Some(rate) = self.terms.pool.behaviour.read_bytes_per_second
            && matches!(self.exchange.stage, Stage::Reading | Stage::Held)
        {
            let allowed =
                self.exchange.since + Duration::from_secs_f64(self.exchange.body as f64 / rate as f64);
            if allowed > self.now + AHEAD {
                self.exchange.stage = Stage::Held;
                *self.deadline = allowed;
                return Step::Hold;
            }
        }
        Step::Wait
    }

    fn count_malformed(&mut self, reason: impl ToString) {
        let because = &mut self.counts.requests.own.malformed_because;
        *because.entry(reason.to_string()).or_default() += 1;
    }

    fn complete(&mut self) -> Step {
        let met = self.exchange.parser.deviations();
        self.counts.requests.own.tolerated.count(met);
        // A response that is complete before its request leaves the connection unsynchronised.
        let stays = self.exchange.keep && !self.exchange.writing;
        let next = self.exchange.hop.as_mut().filter(|hop| stays && !hop.is_made);
        if let Some(next) = next {
            next.is_made = true;
            self.counts.requests.own.redirects_followed += 1;
            return self.send();
        }
        Step::Complete {
            wrong: self.exchange.verdict,
            stays,
        }
    }
}

#[cfg(test)]
mod tests;
