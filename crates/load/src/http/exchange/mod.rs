//! One HTTP/1.1 request and its response. The request is written in pieces; the response is parsed as it arrives.

use super::body::Body;
use super::counts::HttpCounts;
use super::error::{HttpError, HttpLoadError};
use super::plan::Http;
use super::prepared::{Prepared, Requests};
use crate::failure::Failure;
use crate::streams::{
    Answered, Ask, Context, One, Step, StreamLoad, StreamPlan, StreamProtocol, StreamStart, Timeouts,
    Transport,
};
use corelane_proto::http::response::{Item, LastHead, Parser, ResponseError};
use corelane_worker::Time;
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
    /// Request bytes queued so far, while some remain.
    written: Option<u64>,
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
    type Request = u16;
    type InFlight = One<u16>;
    type Exchange = Exchange;
    /// The last head of a response.
    type Shared = LastHead;
    type Counts = HttpCounts;
    type Error = HttpError;

    fn prepare(&self, timeouts: &Timeouts) -> Result<Requests, HttpError> {
        Requests::prepare(self, timeouts)
    }

    fn choose(requests: &Requests, random: &mut fastrand::Rng) -> u16 {
        requests.choose(random)
    }

    fn begin(
        exchange: &mut Exchange,
        request: &u16,
        ask: Ask,
        deadline: &mut Time,
        context: &mut Context<'_, Self, impl Transport>,
    ) -> Step {
        let to_head = context.terms.requests.request(*request).to_head;
        exchange.parser.expect_no_body(to_head);
        exchange.since = context.now;
        exchange.written = Some(0);
        exchange.body = 0;
        exchange.status = 0;
        exchange.stage = Stage::Writing;
        exchange.verdict = None;
        exchange.last = ask.last;
        exchange.keep = !ask.last;
        exchange.aborts = ask.aborts;
        exchange.write(*request, deadline, context)
    }

    fn receive(
        exchange: &mut Exchange,
        request: &u16,
        bytes: &mut &[u8],
        deadline: &mut Time,
        context: &mut Context<'_, Self, impl Transport>,
    ) -> Step {
        let mut rest = std::mem::take(bytes);
        loop {
            let before = exchange.stage;
            let early = matches!(before, Stage::Writing | Stage::AwaitingContinue);
            if exchange.aborts && !early {
                return Step::Aborted;
            }
            if before == Stage::AwaitingHead {
                exchange.stage = Stage::Reading;
            }
            let progress = exchange.read(*request, &mut rest, context);
            if early && exchange.stage == Stage::Reading {
                exchange.answered_early(before, context);
                if exchange.aborts {
                    return Step::Aborted;
                }
            }
            match progress {
                Progress::Continue => {
                    context.counts.requests.own.continued += 1;
                    let step = exchange.write(*request, deadline, context);
                    if rest.is_empty() || matches!(step, Step::Failed(_)) {
                        return step;
                    }
                }
                Progress::Malformed => return Step::Failed(Failure::Malformed),
                Progress::More => {
                    if !matches!(before, Stage::Reading | Stage::Held) && exchange.stage == Stage::Reading {
                        *deadline = exchange.since + context.terms.request_timeout;
                    }
                    return exchange.hold(deadline, context);
                }
                Progress::Complete => return exchange.complete(),
            }
        }
    }

    fn drained(
        exchange: &mut Exchange,
        request: &u16,
        deadline: &mut Time,
        context: &mut Context<'_, Self, impl Transport>,
    ) -> Step {
        if exchange.written.is_some() && exchange.stage != Stage::AwaitingContinue {
            return exchange.write_on(*request, deadline, context);
        }
        Step::Wait
    }

    fn expired(
        exchange: &mut Exchange,
        request: &u16,
        deadline: &mut Time,
        context: &mut Context<'_, Self, impl Transport>,
    ) -> Step {
        *deadline = Time::NEVER;
        match exchange.stage {
            Stage::Writing => exchange.write_on(*request, deadline, context),
            Stage::AwaitingContinue => {
                // No 100 Continue in time: send the body anyway (RFC 9110 10.1.1).
                exchange.stage = Stage::Writing;
                context.counts.requests.own.continue_timeouts += 1;
                exchange.write_on(*request, deadline, context)
            }
            Stage::AwaitingHead => Step::Failed(Failure::FirstByteTimeout),
            Stage::Reading => Step::Failed(Failure::RequestTimeout),
            Stage::Held => {
                exchange.stage = Stage::Reading;
                *deadline = exchange.since + context.terms.request_timeout;
                if *deadline <= context.now {
                    return Step::Failed(Failure::RequestTimeout);
                }
                Step::Resume
            }
        }
    }

    fn ended(
        exchange: &mut Exchange,
        request: &u16,
        genuine: bool,
        context: &mut Context<'_, Self, impl Transport>,
    ) -> Step {
        match exchange.parser.finish() {
            Ok(Some(Item::End)) if genuine => {
                exchange.check_length(*request, context);
                exchange.complete()
            }
            Err(ResponseError::ClosedInHead | ResponseError::ClosedInBody) | Ok(_) => {
                Step::Failed(Failure::ClosedEarly)
            }
            Err(_) => Step::Failed(Failure::Malformed),
        }
    }
}

impl Exchange {
    /// Queues the next bytes of a request: one step of a slow client, or as many as may be pending in the kernel.
    fn write(
        &mut self,
        request: u16,
        deadline: &mut Time,
        context: &mut Context<'_, Http, impl Transport>,
    ) -> Step {
        let (now, terms) = (context.now, context.terms);
        let rate = terms.pool.behaviour.write_bytes_per_second;
        let (most, window) = match rate {
            Some(rate) => (
                (rate as f64 * WRITE_STEP.as_secs_f64()).ceil().max(1.0) as usize,
                u64::MAX,
            ),
            None if context.out.copies() => (PIECE, WINDOW),
            None => (usize::MAX, u64::MAX),
        };
        loop {
            let written = match self.write_piece(terms.requests.request(request), most, context) {
                Ok(written) => written,
                Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
                    return Step::Failed(Failure::NoMemory);
                }
                Err(_) => return Step::Failed(Failure::Tls),
            };
            match (written, rate) {
                (Written::All, _) => {
                    self.written = None;
                    if self.stage == Stage::Writing {
                        (self.stage, self.since) = (Stage::AwaitingHead, now);
                        context.counts.requests.sent += 1;
                        *deadline = now + terms.first_byte_timeout;
                    }
                }
                (Written::Head, _) => {
                    self.stage = Stage::AwaitingContinue;
                    *deadline = now + terms.requests.continue_timeout;
                }
                // At that rate, the next piece is due only after this one has been sent.
                (Written::Part(bytes), Some(rate)) => {
                    *deadline = now + Duration::from_secs_f64(bytes as f64 / rate as f64);
                }
                (Written::Part(_), None) if context.out.queued() > window => {
                    context.out.notify_drained();
                    *deadline = self.since + terms.request_timeout;
                }
                (Written::Part(_), None) => continue,
            }
            return Step::Wait;
        }
    }

    /// Continues a partly sent request.
    fn write_on(
        &mut self,
        request: u16,
        deadline: &mut Time,
        context: &mut Context<'_, Http, impl Transport>,
    ) -> Step {
        if context.now >= self.since + context.terms.request_timeout {
            return Step::Failed(Failure::RequestTimeout);
        }
        self.write(request, deadline, context)
    }

    /// Queues the next piece of a request, up to a number of bytes.
    fn write_piece(
        &mut self,
        request: &Prepared,
        most: usize,
        context: &mut Context<'_, Http, impl Transport>,
    ) -> io::Result<Written> {
        let Some(before) = self.written else {
            return Ok(Written::All);
        };
        let planned = &request.planned;
        let head = if self.last {
            &planned.last_head
        } else {
            &planned.head
        }
        .as_bytes();
        let (head_bytes, out) = (head.len() as u64, &mut *context.out);
        let piece = if before < head_bytes {
            let left = &head[before as usize..];
            let piece = &left[..left.len().min(most)];
            out.write(piece)?;
            piece.len()
        } else if let Some(body) = &request.body {
            body.write(before - head_bytes, most, out)?
        } else {
            0
        };
        let written = before + piece as u64;
        self.written = Some(written);
        context.counts.bytes.sent += piece as u64;
        // A body that waits for 100 Continue begins after the wait, even if it is empty.
        if planned.expect_continue && before < head_bytes && written == head_bytes {
            return Ok(Written::Head);
        }
        if written < head_bytes + request.body.as_ref().map_or(0, Body::length) {
            return Ok(Written::Part(piece));
        }
        request.body.as_ref().map_or(Ok(()), |body| body.end(out))?;
        Ok(Written::All)
    }

    /// The response began before the request was fully sent. After a final status instead of 100 Continue, or an error,
    /// the rest of the request is not sent and the connection closes, because the server might read the next request as
    /// its remainder (RFC 9110 10.1.1).
    fn answered_early(&mut self, before: Stage, context: &mut Context<'_, Http, impl Transport>) {
        let (refused, waited) = (self.status >= 400, before == Stage::AwaitingContinue);
        context.counts.requests.sent += 1;
        context.counts.requests.own.body_refused += u64::from(waited);
        self.since = context.now;
        if waited || refused || context.terms.pool.behaviour.write_bytes_per_second.is_some() {
            (self.written, self.keep) = (None, false);
        }
    }

    /// Parses response bytes; stops after 100 Continue and leaves the rest.
    fn read(
        &mut self,
        request: u16,
        rest: &mut &[u8],
        context: &mut Context<'_, Http, impl Transport>,
    ) -> Progress {
        let asked = context.terms.requests.request(request);
        loop {
            let Ok((used, item)) = self.parser.feed_after(rest, context.shared) else {
                return Progress::Malformed;
            };
            *rest = &rest[used..];
            match item {
                None => return Progress::More,
                Some(Item::Informational(100)) if self.stage == Stage::AwaitingContinue => {
                    self.stage = Stage::Writing;
                    return Progress::Continue;
                }
                Some(Item::Informational(_)) => {}
                Some(Item::Head(head)) => {
                    if self.stage != Stage::Held {
                        self.stage = Stage::Reading;
                    }
                    self.status = head.status;
                    self.keep &= head.keep_alive;
                    if !context.terms.requests.expects(head.status) {
                        self.verdict = Some(Failure::WrongStatus);
                    }
                }
                Some(Item::Body(part)) => {
                    if !asked.planned.promise.holds(self.body, part, asked.body.as_ref()) {
                        self.verdict.get_or_insert(Failure::WrongBody);
                    }
                    self.body += part.len() as u64;
                    context.counts.bytes.body += part.len() as u64;
                }
                Some(Item::End) => {
                    if !asked.to_head {
                        self.check_length(request, context);
                    }
                    // Requests are not pipelined, so no data may follow.
                    return if rest.is_empty() {
                        Progress::Complete
                    } else {
                        Progress::Malformed
                    };
                }
            }
        }
    }

    /// Checks the length of a complete response.
    fn check_length(&mut self, request: u16, context: &Context<'_, Http, impl Transport>) {
        let asked = context.terms.requests.request(request);
        if !asked.planned.promise.is_whole(self.body, asked.body.as_ref()) {
            self.verdict.get_or_insert(Failure::WrongBody);
        }
    }

    /// Pauses receiving while a slow reader is ahead of its rate.
    fn hold(&mut self, deadline: &mut Time, context: &Context<'_, Http, impl Transport>) -> Step {
        if let Some(rate) = context.terms.pool.behaviour.read_bytes_per_second
            && matches!(self.stage, Stage::Reading | Stage::Held)
        {
            let allowed = self.since + Duration::from_secs_f64(self.body as f64 / rate as f64);
            if allowed > context.now + AHEAD {
                self.stage = Stage::Held;
                *deadline = allowed;
                return Step::Hold;
            }
        }
        Step::Wait
    }

    fn complete(&self) -> Step {
        Step::Complete {
            wrong: self.verdict,
            // A response that is complete before its request leaves the connection unsynchronised.
            stays: self.keep && self.written.is_none(),
        }
    }
}

#[cfg(test)]
mod tests;
