//! Whether a server is there, as a worker finds it: whether connections to it can be opened, and whether it answers while
//! requests wait.
//!
//! In: connections that open, end, or cannot be opened; looks at what was received. Out: the times in which the server was
//! lost to the worker, and those that all workers have in common.

use crate::failure::Failure;
use crate::silence;
use corelane_measure::histogram::Histogram;
use corelane_worker::Time;
use std::time::Duration;

/// Losses listed; of a server that comes and goes more often, those that follow are not.
const MOST_LISTED: usize = 64;

/// The shortest time without an answer that counts as silence.
const SHORTEST: Duration = Duration::from_secs(1);

/// How many times as long as the slowest answer so far a server must be quiet to be silent.
const TIMES_THE_SLOWEST: u32 = 4;

/// A time in which a worker found a server lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) since: Time,
    /// [`Time::NEVER`] if it lasted to the end.
    pub(crate) until: Time,
    /// Why no connection could be opened, if it was gone; otherwise it was silent.
    pub(crate) gone: Option<Failure>,
}

/// Contact with one server.
#[derive(Debug, Default)]
pub(crate) struct Contact {
    /// Open connections.
    open: u64,
    /// When the last of them ended; before, when the run began.
    ended: Time,
    /// Why none can be opened.
    gone: Option<Failure>,
    /// Requests that must wait for a server to be silent.
    enough: u64,
    /// What had been received at the last look.
    received: u64,
    /// Since when nothing has been received while requests waited, and the most that waited since.
    since: Time,
    waiting: u64,
    /// How long they waited, counted by looks, so that a pause of the machine is none.
    quiet: Duration,
    /// Above this the server is silent; known once it has been quiet for the shortest time.
    patience: Option<Duration>,
    /// The longest time for which it was quiet without being silent: answers that failed have no latency.
    longest_quiet: Duration,
    /// Losses that have ended.
    lost: Vec<Span>,
}

impl Contact {
    /// With a server that is silent only if this many requests wait: fewer may have been lost on the way.
    pub(crate) fn new(enough: u64) -> Self {
        Self {
            enough,
            ..Self::default()
        }
    }

    /// A connection is open.
    pub(crate) fn opened(&mut self, now: Time) {
        self.open += 1;
        let gone = self.gone();
        self.gone = None;
        self.found_again(gone, now);
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

    /// A look that began, and was to end at the latest, at these times ended `now`: so much has been received so far, and so
    /// many requests wait. `latency` has the latencies of answers so far.
    pub(crate) fn looked(
        &mut self,
        (received, waiting): (u64, u64),
        (began, due): (Time, Time),
        now: Time,
        latency: &Histogram,
    ) {
        if received != self.received {
            match self.silent() {
                None => self.longest_quiet = self.longest_quiet.max(self.quiet),
                silent => self.found_again(silent, now),
            }
            (self.received, self.since, self.waiting) = (received, now, 0);
            (self.quiet, self.patience) = (Duration::ZERO, None);
        } else if waiting > 0 {
            self.waiting = self.waiting.max(waiting);
            self.quiet += silence::counted(now.since(began), due.since(began));
            // Before late answers make the slowest as long as the silence.
            if self.quiet >= SHORTEST && self.patience.is_none() {
                let slowest = latency.summary().map_or(0, |times| times.max_ns);
                let slowest = Duration::from_nanos(slowest).max(self.longest_quiet);
                self.patience = Some(SHORTEST.max(slowest.saturating_mul(TIMES_THE_SLOWEST)));
            }
        } else if self.quiet.is_zero() {
            self.since = now;
        }
    }

    /// The losses of a run that began and ended at these times.
    pub(crate) fn lost(&self, began: Time, ended: Time) -> Vec<Span> {
        let lasting = self.gone().into_iter().chain(self.silent());
        let all = self.lost.iter().copied().chain(lasting);
        all.filter(|span| span.until > began && span.since < ended)
            .collect()
    }

    fn gone(&self) -> Option<Span> {
        self.gone.map(|failure| Span {
            since: self.ended,
            until: Time::NEVER,
            gone: Some(failure),
        })
    }

    /// The silence that lasts, if the server ever answered.
    fn silent(&self) -> Option<Span> {
        let is_silent = self.received > 0 && self.waiting >= self.enough;
        let is_silent = is_silent && self.patience.is_some_and(|patience| self.quiet >= patience);
        is_silent.then_some(Span {
            since: self.since,
            until: Time::NEVER,
            gone: None,
        })
    }

    fn found_again(&mut self, lost: Option<Span>, until: Time) {
        let lost = lost.filter(|_| self.lost.len() < MOST_LISTED);
        self.lost.extend(lost.map(|lost| Span { until, ..lost }));
    }
}

/// The times that all workers found, in their order: as far as they can know, those of each that asked the server for
/// anything, and when it ended.
pub(crate) fn common(workers: impl Iterator<Item = (Vec<Span>, Time)>) -> Vec<Span> {
    let mut last = Time::default();
    let known = |(spans, ended): (Vec<Span>, Time)| {
        last = last.max(ended);
        let mut spans = joined(spans);
        // The server may have been lost once a worker did not look any more.
        spans.push(Span {
            since: spans.last().map_or(ended, |span| span.until.max(ended)),
            until: Time::NEVER,
            gone: None,
        });
        spans
    };
    let all = workers.map(known).reduce(|all, own| {
        let pairs = all
            .iter()
            .flat_map(|one| own.iter().map(move |other| (one, other)));
        let both = pairs.map(|(one, other)| Span {
            since: one.since.max(other.since),
            until: one.until.min(other.until),
            gone: one.gone.or(other.gone),
        });
        both.filter(|span| span.since < span.until).collect()
    });
    let lost = all.into_iter().flatten();
    lost.filter(|span| span.since < last).collect()
}

/// Spans of one worker, those that touch as one: a server may fall silent before it is gone.
fn joined(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_by_key(|span| span.since);
    let mut joined: Vec<Span> = Vec::new();
    for span in spans {
        match joined.last_mut().filter(|last| last.until >= span.since) {
            Some(last) => {
                last.until = last.until.max(span.until);
                last.gone = last.gone.or(span.gone);
            }
            None => joined.push(span),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(second: u64) -> Time {
        Time::from_nanoseconds(second * 1_000_000_000)
    }

    fn span(since: u64, until: u64, gone: Option<Failure>) -> Span {
        let until = if until == 0 { Time::NEVER } else { second(until) };
        Span {
            since: second(since),
            until,
            gone,
        }
    }

    #[test]
    fn a_server_is_lost_while_all_workers_lost_it() {
        let of = |workers: &[(&[Span], u64)]| {
            let workers = workers.iter();
            common(workers.map(|(spans, ended)| (spans.to_vec(), second(*ended))))
        };
        let refused = Some(Failure::Refused);
        let one = [span(2, 6, None), span(8, 0, refused)];
        assert_eq!(of(&[(&one, 10)]), one);
        let other = [span(1, 3, refused), span(4, 5, refused), span(9, 0, None)];
        let both = [span(2, 3, refused), span(4, 5, refused), span(9, 0, refused)];
        assert_eq!(of(&[(&one, 10), (&other, 10)]), both);
        assert_eq!(of(&[(&one, 10), (&[], 10)]), []);
        // Silent, then gone: one loss.
        let silent_first = [span(3, 0, refused), span(2, 3, None)];
        assert_eq!(of(&[(&silent_first, 10)]), [span(2, 0, refused)]);
        // It came back while the last answers were awaited.
        let back = [span(8, 11, None)];
        assert_eq!(of(&[(&back, 10), (&back, 10)]), back);
        // A worker that had made its last request does not know.
        assert_eq!(of(&[(&one, 10), (&[], 7)]), [span(8, 0, refused)]);
        assert_eq!(of(&[]), []);
    }

    /// Looks at the seconds that end then, each with what has been received and the requests that wait.
    fn look(contact: &mut Contact, latency: &Histogram, looks: &[(u64, u64, u64)]) {
        for (now, received, waiting) in looks {
            let turn = (second(now - 1), second(*now));
            contact.looked((*received, *waiting), turn, second(*now), latency);
        }
    }

    fn lost(contact: &Contact) -> Vec<Span> {
        contact.lost(second(0), second(100))
    }

    #[test]
    fn a_server_is_silent_that_has_answered_and_is_quiet_for_longer_than_its_answers_took() {
        let (mut contact, mut latency) = (Contact::new(1), Histogram::new());
        latency.record(400_000_000);
        look(&mut contact, &Histogram::new(), &[(1, 0, 1), (2, 0, 1)]);
        assert_eq!(lost(&contact), [], "it never answered");
        let mut contact = Contact::new(1);
        // Nothing waits until the third second; then four times the longest latency of an answer.
        look(
            &mut contact,
            &latency,
            &[(1, 7, 1), (2, 7, 0), (3, 7, 0), (4, 7, 1)],
        );
        assert_eq!(lost(&contact), []);
        look(&mut contact, &latency, &[(5, 7, 1)]);
        assert_eq!(lost(&contact), [span(3, 0, None)]);
        // It lasts while requests that were given up are not followed by others.
        look(&mut contact, &latency, &[(6, 7, 0)]);
        assert_eq!(lost(&contact), [span(3, 0, None)]);
        look(&mut contact, &latency, &[(7, 8, 1), (8, 8, 1), (9, 9, 1)]);
        assert_eq!(lost(&contact), [span(3, 7, None)]);
    }

    #[test]
    fn answers_without_a_latency_are_waited_for_as_long_as_they_took() {
        let (mut contact, none) = (Contact::new(1), Histogram::new());
        for answers in 0..4 {
            let first = 3 * answers + 1;
            let looks = [first, first + 1, first + 2].map(|now| (now, now / 3, 1));
            look(&mut contact, &none, &looks);
        }
        assert_eq!(lost(&contact), []);
        let looks: Vec<_> = (13..25).map(|now| (now, 4, 1)).collect();
        look(&mut contact, &none, &looks);
        assert_eq!(lost(&contact), [span(12, 0, None)]);
    }

    #[test]
    fn as_many_requests_wait_as_must_for_a_server_to_be_silent_since_the_first_of_them() {
        let (mut contact, none) = (Contact::new(3), Histogram::new());
        look(&mut contact, &none, &[(1, 1, 0), (2, 1, 1), (3, 1, 2)]);
        assert_eq!(lost(&contact), []);
        look(&mut contact, &none, &[(4, 1, 3)]);
        assert_eq!(lost(&contact), [span(1, 0, None)]);
    }

    #[test]
    fn a_server_is_gone_while_no_connection_can_be_opened_and_not_before_the_run() {
        let mut contact = Contact::new(1);
        contact.failed(Failure::Refused);
        assert_eq!(lost(&contact), [span(0, 0, Some(Failure::Refused))]);
        contact.opened(second(2));
        assert_eq!(contact.lost(second(2), second(9)), [], "it came before the run");
        contact.failed(Failure::ConnectTimeout);
        contact.ended(second(4));
        contact.failed(Failure::NoPorts);
        assert_eq!(contact.refusal(), None, "that is no fault of the server");
        contact.failed(Failure::Refused);
        contact.opened(second(6));
        assert_eq!(
            contact.lost(second(2), second(9)),
            [span(4, 6, Some(Failure::Refused))]
        );
        assert_eq!(contact.lost(second(2), second(4)), [], "the run had ended");
    }
}
