//! One exchange on a connection: the request is written piece by piece, and the answer is read as it comes.

use super::*;
use crate::http::body::Body;
use crate::http::terms::Prepared;

/// A request and what has come of its answer.
#[derive(Debug)]
pub(super) struct Exchange {
    /// When it was meant to be made.
    pub(super) due: Time,
    /// When it was sent; before that, when sending began.
    pub(super) since: Time,
    /// Bytes of the request that were queued, as long as some are left.
    pub(super) written: Option<u64>,
    /// Bytes of the answer's body so far.
    pub(super) body: u64,
    pub(super) request: u16,
    /// The status of the answer; 0 before its head.
    pub(super) status: u16,
    pub(super) stage: Stage,
    /// What is wrong with the answer, though it is well framed.
    pub(super) verdict: Option<Failure>,
    /// Whether the request says that it is the connection's last.
    pub(super) last: bool,
    /// Whether the connection stays after the answer.
    pub(super) keep: bool,
    /// Whether it is given up as soon as its answer begins.
    pub(super) aborts: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Nothing has come back, and some of the request is not queued.
    Writing,
    /// The head was sent; the body waits until the server asks for it.
    AwaitingContinue,
    /// The request was sent; nothing has come back.
    AwaitingHead,
    /// The answer has begun.
    Reading,
    /// The answer has begun, and a slow reader receives nothing until the deadline.
    Held,
}

/// How far a request is after a piece of it was queued.
pub(super) enum Written {
    Part(usize),
    /// The head is, and the body waits until the server asks for it.
    Head,
    All,
}

impl Exchange {
    /// Queues the next piece of a request, at most so many bytes.
    pub(super) fn write_piece(
        &mut self,
        request: &Prepared,
        most: usize,
        context: &mut ConnectionContext<'_>,
    ) -> io::Result<Written> {
        let Some(before) = self.written else {
            return Ok(Written::All);
        };
        let head = request.head(self.last);
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
        // A body that is waited for begins after the wait, also where it is empty.
        if request.expect_continue && before < head_bytes && written == head_bytes {
            return Ok(Written::Head);
        }
        if written < head_bytes + request.body.as_ref().map_or(0, Body::length) {
            return Ok(Written::Part(piece));
        }
        request.body.as_ref().map_or(Ok(()), |body| body.end(out))?;
        Ok(Written::All)
    }

    /// The answer has begun before the request was sent. After an answer instead of 100 Continue, or an error, what is left
    /// of the request is not sent, and the connection closes, as the server might take the next request for it (RFC 9110
    /// 10.1.1).
    pub(super) fn answered_early(&mut self, before: Stage, context: &mut ConnectionContext<'_>) {
        let (refused, waited) = (self.status >= 400, before == Stage::AwaitingContinue);
        context.counts.requests.sent += 1;
        context.counts.requests.body_refused += u64::from(waited);
        self.since = context.now;
        if waited || refused || context.terms.behaviour.write_bytes_per_second.is_some() {
            (self.written, self.keep) = (None, false);
        }
    }

    /// Reads bytes of the answer; leaves those behind 100 Continue.
    pub(super) fn read(
        &mut self,
        parser: &mut Parser,
        rest: &mut &[u8],
        context: &mut ConnectionContext<'_>,
    ) -> Progress {
        let asked = context.terms.request(self.request);
        loop {
            let (used, item) = match parser.feed_after(rest, context.last_head) {
                Ok(fed) => fed,
                Err(_) => return Progress::Failed(Failure::Malformed),
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
                    if !context.terms.expects(head.status) {
                        self.verdict = Some(Failure::WrongStatus);
                    }
                }
                Some(Item::Body(part)) => {
                    if !asked.promise.holds(self.body, part, asked.body.as_ref()) {
                        self.verdict.get_or_insert(Failure::WrongBody);
                    }
                    self.body += part.len() as u64;
                    context.counts.bytes.body += part.len() as u64;
                }
                Some(Item::End) => {
                    if !asked.to_head {
                        self.check_length(context.terms);
                    }
                    // Requests are not pipelined: nothing can follow.
                    return if rest.is_empty() {
                        Progress::Complete
                    } else {
                        Progress::Failed(Failure::Malformed)
                    };
                }
            }
        }
    }

    /// Compares the length of a complete answer with what was promised.
    pub(super) fn check_length(&mut self, terms: &Terms) {
        let asked = terms.request(self.request);
        if !asked.promise.is_whole(self.body, asked.body.as_ref()) {
            self.verdict.get_or_insert(Failure::WrongBody);
        }
    }
}
