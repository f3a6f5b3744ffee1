//! What one bucket counts: written by its worker, read by anyone.

use crate::causes::{self, CauseCounters};
use corelane_proto::http::request::RequestError;
use corelane_worker::Counter;
use corelane_worker::engine::EngineCounters;
use rustls::HandshakeKind;
use std::collections::BTreeMap;

/// The first status that is counted, and how many are.
const FIRST_STATUS: u16 = 100;
const STATUSES: usize = 500;

/// Why a request was refused, or a connection ended without an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Fault {
    LineEnd,
    RequestLine,
    Target,
    LineTooLong,
    MethodTooLong,
    Version,
    Field,
    HeadTooLong,
    TooManyFields,
    Host,
    ContentLength,
    TwoFramings,
    TransferEncoding,
    UnknownCoding,
    Expectation,
    BodyTooLong,
    Chunk,
    HeadTooShort,
    BodyTooShort,
    HeadTimeout,
    BodyTimeout,
    WriteTimeout,
    Overflow,
    File,
    Tls,
}

/// The names that documents use, in the order of [`Fault`].
const FAULTS: [&str; 25] = [
    "line_end",
    "request_line",
    "target",
    "line_too_long",
    "method_too_long",
    "version",
    "field",
    "head_too_long",
    "too_many_fields",
    "host",
    "content_length",
    "two_framings",
    "transfer_encoding",
    "unknown_coding",
    "expectation",
    "body_too_long",
    "chunk",
    "head_too_short",
    "body_too_short",
    "head_timeout",
    "body_timeout",
    "write_timeout",
    "overflow",
    "file",
    "tls",
];

impl From<RequestError> for Fault {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::LineEnd => Self::LineEnd,
            RequestError::RequestLine => Self::RequestLine,
            RequestError::Target => Self::Target,
            RequestError::LineTooLong(_) => Self::LineTooLong,
            RequestError::MethodTooLong => Self::MethodTooLong,
            RequestError::Version => Self::Version,
            RequestError::Field(_) => Self::Field,
            RequestError::HeadTooLong(_) => Self::HeadTooLong,
            RequestError::TooManyFields(_) => Self::TooManyFields,
            RequestError::Host => Self::Host,
            RequestError::ContentLength => Self::ContentLength,
            RequestError::TwoFramings => Self::TwoFramings,
            RequestError::TransferEncoding => Self::TransferEncoding,
            RequestError::UnknownCoding => Self::UnknownCoding,
            RequestError::Expectation => Self::Expectation,
        }
    }
}

/// The counts of one bucket.
#[derive(Debug)]
pub(super) struct HttpCounters {
    /// TLS handshakes that were complete: with a certificate, and those that resumed a session.
    pub(super) handshakes_full: Counter,
    pub(super) handshakes_resumed: Counter,
    /// Heads that were read.
    pub(super) requests: Counter,
    /// Bodies of requests that were read to their end, and their bytes.
    pub(super) bodies: Counter,
    pub(super) body_bytes: Counter,
    /// Of the bodies echoed, those that were the pattern.
    pub(super) pattern_bodies: Counter,
    pub(super) idle_closed: Counter,
    statuses: Box<[Counter; STATUSES]>,
    faults: [Counter; FAULTS.len()],
    pub(super) accepted: Counter,
    pub(super) closed: Counter,
    pub(super) bytes_received: Counter,
    pub(super) bytes_sent: Counter,
    pub(super) accept_failed: CauseCounters,
    pub(super) broken: CauseCounters,
}

impl Default for HttpCounters {
    fn default() -> Self {
        Self {
            handshakes_full: Counter::new(),
            handshakes_resumed: Counter::new(),
            requests: Counter::new(),
            bodies: Counter::new(),
            body_bytes: Counter::new(),
            pattern_bodies: Counter::new(),
            idle_closed: Counter::new(),
            statuses: Box::new([const { Counter::new() }; STATUSES]),
            faults: [const { Counter::new() }; FAULTS.len()],
            accepted: Counter::new(),
            closed: Counter::new(),
            bytes_received: Counter::new(),
            bytes_sent: Counter::new(),
            accept_failed: CauseCounters::default(),
            broken: CauseCounters::default(),
        }
    }
}

impl HttpCounters {
    pub(super) fn count_status(&self, status: u16) {
        if let Some(counter) = self.statuses.get(usize::from(status.wrapping_sub(FIRST_STATUS))) {
            counter.add(1);
        }
    }

    pub(super) fn count_fault(&self, fault: Fault) {
        self.faults[fault as usize].add(1);
    }

    pub(super) fn count_handshake(&self, kind: Option<HandshakeKind>) {
        match kind {
            Some(HandshakeKind::Resumed) => self.handshakes_resumed.add(1),
            _ => self.handshakes_full.add(1),
        }
    }

    /// Takes over what the engine counts.
    pub(super) fn publish(&self, engine: &EngineCounters) {
        let streams = &engine.streams;
        self.accepted.set(streams.accepted);
        self.closed.set(streams.closed);
        self.bytes_received.set(streams.bytes_received);
        self.bytes_sent.set(streams.bytes_sent);
        self.accept_failed.set(&streams.accept_failed);
        self.broken.set(&streams.broken);
    }

    /// Answers by status, those that there were.
    pub(super) fn statuses(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        let counted = (FIRST_STATUS..).zip(self.statuses.iter());
        counted
            .map(|(status, counter)| (status, counter.get()))
            .filter(|(_, count)| *count > 0)
    }

    /// Refusals by cause, those that there were.
    pub(super) fn faults(&self) -> BTreeMap<String, u64> {
        causes::named(FAULTS.iter().copied().zip(&self.faults))
    }

    /// Connections that have ended.
    pub(super) fn ended(&self) -> u64 {
        self.closed.get() + self.broken.total()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_a_name() {
        assert_eq!(Fault::Tls as usize, FAULTS.len() - 1);
        assert_eq!(FAULTS[Fault::WriteTimeout as usize], "write_timeout");
        assert_eq!(FAULTS[Fault::BodyTooLong as usize], "body_too_long");
    }
}
