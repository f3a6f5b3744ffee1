//! One connection: requests in any segments, answers in the order of the requests.
//!
//! In: received bytes. Out: units of work that are executed, and answers. While a client does not take its answers, no further
//! request of it is executed, and what it sends stays in the kernel.

use super::answers::Answers;
use super::control;
use super::units::{self, Batch, Incoming, Unit};
use super::worker::Worker;
use corelane_proto::memcached::commands::Output;
use corelane_proto::memcached::request::{BINARY_REFUSED, Event, Parser, Reason};

/// Bytes of a line of keys that are kept until its end arrives. A longer one closes the connection.
const LONGEST_LINE: usize = 8 << 20;

/// What follows the bytes of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// The next bytes.
    Receive,
    /// The client has to take answers first.
    Drain,
    /// The end, after the answers.
    Close,
}

/// A connection.
#[derive(Default)]
pub(super) struct Connection {
    parser: Parser,
    /// Received bytes that no unit was made of.
    rest: Vec<u8>,
    incoming: Option<Box<Incoming>>,
    closing: bool,
    /// Whether its client has ended its side.
    pub(super) ended: bool,
}

impl Connection {
    /// Executes what the bytes request.
    pub(super) fn receive(&mut self, bytes: &[u8], worker: &mut Worker, out: &mut Answers<'_>) -> Next {
        if self.rest.is_empty() {
            let used = self.run(bytes, worker, out);
            // A value in parts leaves nothing, and a line is short.
            self.rest.extend_from_slice(&bytes[used..]);
        } else {
            self.rest.extend_from_slice(bytes);
            self.run_rest(worker, out);
        }
        self.next(out)
    }

    /// Executes what was left because answers had to be taken first.
    pub(super) fn resume(&mut self, worker: &mut Worker, out: &mut Answers<'_>) -> Next {
        self.run_rest(worker, out);
        self.next(out)
    }

    fn run_rest(&mut self, worker: &mut Worker, out: &mut Answers<'_>) {
        let mut rest = std::mem::take(&mut self.rest);
        let used = self.run(&rest, worker, out);
        rest.drain(..used);
        if !rest.is_empty() {
            self.rest = rest;
        }
    }

    fn next(&self, out: &Answers<'_>) -> Next {
        if self.closing {
            Next::Close
        } else if out.are_full() {
            Next::Drain
        } else if self.ended || self.rest.len() > LONGEST_LINE {
            Next::Close
        } else {
            Next::Receive
        }
    }

    /// Executes units; returns how many bytes they took.
    fn run(&mut self, bytes: &[u8], worker: &mut Worker, out: &mut Answers<'_>) -> usize {
        let mut at = 0;
        while !self.closing && !out.are_full() {
            let Some(unit) = units::next(&mut self.parser, bytes, &mut at, worker) else {
                break;
            };
            if at == bytes.len() {
                self.execute(&unit, worker, out);
            } else {
                self.run_batch(bytes, &mut at, unit, worker, out);
            }
        }
        if self.closing { bytes.len() } else { at }
    }

    #[inline(never)]
    fn run_batch<'a>(
        &mut self,
        bytes: &'a [u8],
        at: &mut usize,
        first: Unit<'a>,
        worker: &mut Worker,
        out: &mut Answers<'_>,
    ) {
        let batch = Batch::new(&mut self.parser, bytes, at, first, worker);
        for unit in batch.units() {
            if out.are_full() {
                self.parser = unit.before.clone();
                *at = unit.start;
                return;
            }
            self.execute(unit, worker, out);
        }
    }

    #[inline]
    fn execute(&mut self, unit: &Unit<'_>, worker: &mut Worker, out: &mut Answers<'_>) {
        match &unit.event {
            Event::Answer(line) => out.put(line.as_bytes()),
            Event::Control(line) => control::perform(line, worker, out),
            Event::Close(reason) => self.close(*reason, worker, out),
            _ => units::execute(worker, &mut self.incoming, unit, out),
        }
    }

    fn close(&mut self, reason: Reason, worker: &mut Worker, out: &mut Answers<'_>) {
        self.closing = true;
        worker.events.protocol_errors += u64::from(reason != Reason::Quit);
        if reason == Reason::Binary {
            out.put(BINARY_REFUSED.as_bytes());
        }
    }

    /// It has ended: gives up the value that was arriving.
    pub(super) fn end(self, worker: &mut Worker) {
        if let Some(incoming) = self.incoming {
            worker.commands().finish(*incoming, false, &mut Vec::new());
        }
    }
}
