//! Whether the server of a group of connections is there.
//!
//! In: connections that open, end, or cannot be opened; looks at what was received. Out: the times in which it was lost.

use crate::failure::Failure;
use crate::lost::{Quiet, Span};
use corelane_worker::Time;
use std::time::Duration;

/// Losses listed; of a server that comes and goes more often, those that follow are not.
const MOST_LISTED: usize = 64;

/// Contact with one server.
#[derive(Debug)]
pub(crate) struct Contact {
    /// Open connections.
    open: u64,
    /// When the last of them ended; before, when the run began.
    ended: Time,
    /// Why none can be opened.
    gone: Option<Failure>,
    quiet: Quiet,
    /// Losses that have ended.
    lost: Vec<Span>,
}

impl Contact {
    pub(crate) fn new(now: Time) -> Self {
        Self {
            open: 0,
            ended: now,
            gone: None,
            quiet: Quiet::new(now),
            lost: Vec::new(),
        }
    }

    /// A connection is open.
    pub(crate) fn opened(&mut self, now: Time) {
        self.open += 1;
        let gone = self.gone().map(|span| Span { until: now, ..span });
        self.gone = None;
        self.list(gone);
    }

    /// An open connection has ended.
    pub(crate) fn ended(&mut self, now: Time) {
        self.open -= 1;
        self.ended = now;
    }

    /// A connection could not be opened, or no more is opened.
    pub(crate) fn failed(&mut self, failure: Failure) {
        if self.open == 0 && !failure.is_own() {
            self.gone.get_or_insert(failure);
        }
    }

    /// Why no connection can be opened while none is open.
    pub(crate) fn refusal(&self) -> Option<Failure> {
        self.gone
    }

    /// See [`Quiet::looked`].
    pub(crate) fn looked(
        &mut self,
        heard: (u64, bool),
        took: Duration,
        now: Time,
        longest: impl FnOnce() -> Duration,
    ) {
        let ended = self.quiet.looked(heard, took, now, longest);
        self.list(ended);
    }

    /// The losses that began before the run ended.
    pub(crate) fn lost(&self, ended: Time) -> Vec<Span> {
        let lasting = self.gone().into_iter().chain(self.quiet.silent());
        let all = self.lost.iter().copied().chain(lasting);
        all.filter(|span| span.since < ended).collect()
    }

    fn gone(&self) -> Option<Span> {
        self.gone.map(|failure| Span {
            since: self.ended,
            until: Time::NEVER,
            gone: Some(failure),
        })
    }

    fn list(&mut self, span: Option<Span>) {
        let room = MOST_LISTED - self.lost.len();
        self.lost.extend(span.into_iter().take(room));
    }
}
