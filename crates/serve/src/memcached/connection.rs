//! One connection: requests in any segments, answers in the order of the requests.
//!
//! In: received bytes. Out: units of work that are executed, and answers. While a client does not take its answers, or other
//! workers owe it some, no further request of it is executed, and what it sends stays in the kernel.

use super::answers::Answers;
use super::session::{Context, Session};
use super::units::{self, Batch, Unit};
use corelane_proto::memcached::request::Parser;
use corelane_worker::mailbox::Full;

/// Bytes of a line of keys that are kept until its end arrives. A longer one closes the connection.
const LONGEST_LINE: usize = 8 << 20;

/// What follows the bytes of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// The next bytes.
    Receive,
    /// The client has to take answers first.
    Drain,
    /// Other workers have to answer first.
    Wait,
    /// The end, after the answers.
    Close,
}

/// A connection.
#[derive(Default)]
pub(super) struct Connection {
    parser: Parser,
    /// Received bytes that no unit was made of.
    rest: Vec<u8>,
    pub(super) session: Session,
    /// Whether the last unit found no room at another worker.
    refused: bool,
    /// Whether its client has ended its side.
    pub(super) ended: bool,
    /// Whether it does not receive.
    pub(super) stopped: bool,
    /// The second in which its client last sent something.
    pub(super) heard: u32,
}

impl Connection {
    /// One that is opened in this second.
    pub(super) fn opened(second: u32) -> Self {
        Self {
            heard: second,
            ..Self::default()
        }
    }

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
        self.next(out)
    }

    /// Executes what was left because answers came first.
    pub(super) fn resume(&mut self, context: &mut Context<'_>, out: &mut Answers<'_>) -> Next {
        self.run_rest(context, out);
        self.next(out)
    }

    fn run_rest(&mut self, context: &mut Context<'_>, out: &mut Answers<'_>) {
        let mut rest = std::mem::take(&mut self.rest);
        let used = self.run(&rest, context, out);
        rest.drain(..used);
        if !rest.is_empty() {
            self.rest = rest;
        }
        if self.ended && !self.refused && !out.are_full() {
            // The rest of a value does not come any more.
            self.session.abandon(context);
        }
    }

    #[inline]
    fn next(&self, out: &Answers<'_>) -> Next {
        let closing = self.session.closing || self.rest.len() > LONGEST_LINE;
        if out.are_full() && !closing {
            Next::Drain
        } else if self.refused || (closing || self.ended) && !self.session.is_answered() {
            Next::Wait
        } else if closing || self.ended {
            Next::Close
        } else {
            Next::Receive
        }
    }

    /// Executes units; returns how many bytes they took.
    fn run(&mut self, bytes: &[u8], context: &mut Context<'_>, out: &mut Answers<'_>) -> usize {
        let mut at = 0;
        self.refused = false;
        while !self.session.closing && !self.refused && !out.are_full() {
            if self.session.is_listing() {
                self.session.list(context, out);
                self.refused = self.session.is_listing() && !self.session.is_answered();
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
        let batch = Batch::new(&mut self.parser, bytes, at, first, context.worker);
        for unit in batch.units() {
            if out.are_full() || self.session.is_listing() {
                return self.stop_before(unit, at);
            }
            self.execute(unit, bytes, at, context, out);
            if self.refused {
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
        if let Err(Full) = self
            .session
            .execute(unit, &bytes[unit.start..unit.end], context, out)
        {
            self.refused = true;
            self.stop_before(unit, at);
        }
    }

    /// The unit is parsed again later.
    fn stop_before(&mut self, unit: &Unit<'_>, at: &mut usize) {
        self.parser = unit.before.clone();
        *at = unit.start;
    }
}
