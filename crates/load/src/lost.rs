//! Times in which a server was lost to a generator: gone, because no connection to it could be opened, or silent, because it
//! answered nothing of what it was asked.
//!
//! In: the times that each worker found. Out: those that all workers found, which are in the documents of generators.

use crate::failure::Failure;
use corelane_measure::quantity;
use corelane_worker::Time;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// A time in which a server was lost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lost {
    /// Its address.
    pub server: SocketAddr,
    /// In which way.
    pub how: HowLost,
    /// Why connections to a server that was gone could not be opened, or ended; a name as in the counts of failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Seconds from the start of the run to its last sign of life, or to the first request that it did not answer.
    pub since_s: f64,
    /// Seconds from the start of the run to the next sign of life; `None` if there was none until the end.
    pub until_s: Option<f64>,
}

/// In which way a server was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HowLost {
    /// No connection was open, and none could be opened.
    Gone,
    /// Nothing came while requests waited.
    Silent,
}

impl Lost {
    /// Of a server, a time as found by the workers of a run that began at `start`.
    pub(crate) fn of(server: SocketAddr, span: Span, start: Time) -> Self {
        let seconds = |time: Time| time.since(start).as_secs_f64();
        Self {
            server,
            how: match span.gone {
                Some(_) => HowLost::Gone,
                None => HowLost::Silent,
            },
            cause: span.gone.map(|failure| failure.name().to_owned()),
            since_s: seconds(span.since),
            until_s: (span.until < Time::NEVER).then(|| seconds(span.until)),
        }
    }

    /// What completes "so many requests to the server" in a headline.
    pub(crate) fn of_rate(&self) -> String {
        let since = at(self.since_s);
        match (self.how, self.until_s.map(at)) {
            (HowLost::Gone, None) => format!("until it went at {since}"),
            (HowLost::Gone, Some(until)) => format!("gone from {since} to {until}"),
            (HowLost::Silent, None) => format!("until it fell silent at {since}"),
            (HowLost::Silent, Some(until)) => format!("silent from {since} to {until}"),
        }
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (server, since) = (self.server, at(self.since_s));
        match (self.how, self.until_s.map(at)) {
            (HowLost::Gone, None) => write!(formatter, "{server} went at {since} and did not come back")?,
            (HowLost::Gone, Some(until)) => write!(formatter, "{server} was gone from {since} to {until}")?,
            (HowLost::Silent, None) => write!(formatter, "{server} has answered nothing since {since}")?,
            (HowLost::Silent, Some(until)) => {
                write!(formatter, "{server} answered nothing from {since} to {until}")?;
            }
        }
        match &self.cause {
            Some(cause) => write!(formatter, ": {}", cause.replace('_', " ")),
            None => Ok(()),
        }
    }
}

/// A moment of a run.
fn at(seconds: f64) -> String {
    format!("{} s", quantity::fixed(seconds, 2))
}

/// A time in which a worker found a server lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) since: Time,
    /// [`Time::NEVER`] if it lasted to the end.
    pub(crate) until: Time,
    /// Why no connection could be opened, if it was gone; otherwise it was silent.
    pub(crate) gone: Option<Failure>,
}

/// The times that all workers found, in their order. `workers` has those of each worker that asked the server for
/// anything.
pub(crate) fn common(workers: impl Iterator<Item = Vec<Span>>) -> Vec<Span> {
    workers
        .map(joined)
        .reduce(|all, own| {
            let pairs = all
                .iter()
                .flat_map(|one| own.iter().map(move |other| (one, other)));
            let both = pairs.map(|(one, other)| Span {
                since: one.since.max(other.since),
                until: one.until.min(other.until),
                gone: one.gone.or(other.gone),
            });
            both.filter(|span| span.since < span.until).collect()
        })
        .unwrap_or_default()
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

/// The shortest time without an answer that counts as silence.
const SHORTEST: Duration = Duration::from_secs(1);

/// How many times the longest latency of an answer so far a server must be quiet to be silent.
const TIMES_THE_LONGEST: u32 = 4;

/// How long a server has answered nothing while requests wait, counted by looks, so that a pause of the machine is none.
#[derive(Debug)]
pub(crate) struct Quiet {
    /// What had been received at the last look.
    received: u64,
    since: Time,
    lasted: Duration,
    /// Above this it is silent; known once it has been quiet for the shortest time.
    patience: Duration,
}

impl Quiet {
    pub(crate) fn new(now: Time) -> Self {
        Self {
            received: 0,
            since: now,
            lasted: Duration::ZERO,
            patience: Duration::MAX,
        }
    }

    /// A look counted as `took` ended at `now`: so much has been received so far, and requests wait or not. `longest` is the
    /// longest latency so far. Returns the silence that has ended, if any.
    pub(crate) fn looked(
        &mut self,
        (received, waits): (u64, bool),
        took: Duration,
        now: Time,
        longest: impl FnOnce() -> Duration,
    ) -> Option<Span> {
        if received != self.received {
            let ended = self.silent().map(|silent| Span { until: now, ..silent });
            *self = Self {
                received,
                ..Self::new(now)
            };
            return ended;
        }
        if !waits {
            if self.lasted.is_zero() {
                self.since = now;
            }
            return None;
        }
        self.lasted += took;
        // Before late answers make the longest latency as long as the silence.
        if self.lasted >= SHORTEST && self.patience == Duration::MAX {
            self.patience = SHORTEST.max(longest().saturating_mul(TIMES_THE_LONGEST));
        }
        None
    }

    /// The silence that lasts, if the server ever answered.
    pub(crate) fn silent(&self) -> Option<Span> {
        (self.received > 0 && self.lasted >= self.patience).then_some(Span {
            since: self.since,
            until: Time::NEVER,
            gone: None,
        })
    }
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
        let of = |workers: &[&[Span]]| common(workers.iter().map(|spans| spans.to_vec()));
        let refused = Some(Failure::Refused);
        let one = [span(2, 6, None), span(8, 0, refused)];
        assert_eq!(of(&[&one]), one);
        let other = [span(1, 3, refused), span(4, 5, refused), span(9, 0, None)];
        let both = [span(2, 3, refused), span(4, 5, refused), span(9, 0, refused)];
        assert_eq!(of(&[&one, &other]), both);
        assert_eq!(of(&[&one, &[]]), []);
        // Silent, then gone: one loss.
        assert_eq!(
            of(&[&[span(3, 0, refused), span(2, 3, None)]]),
            [span(2, 0, refused)]
        );
        assert_eq!(of(&[]), []);
    }

    #[test]
    fn a_server_is_silent_that_has_answered_and_is_quiet_for_longer_than_its_answers_took() {
        let (mut quiet, none) = (Quiet::new(second(0)), || Duration::ZERO);
        let half = Duration::from_millis(500);
        quiet.looked((0, true), 9 * half, second(5), none);
        assert_eq!(quiet.silent(), None, "it never answered");
        quiet.looked((7, true), half, second(6), none);
        quiet.looked((7, false), half, second(7), none);
        quiet.looked((7, true), half, second(8), || half);
        assert_eq!(quiet.silent(), None);
        // Four times the longest latency of an answer.
        (0..3).for_each(|_| assert_eq!(quiet.looked((7, true), half, second(9), || half), None));
        assert_eq!(quiet.silent(), Some(span(7, 0, None)));
        assert_eq!(
            quiet.looked((8, true), half, second(10), none),
            Some(span(7, 10, None))
        );
        assert_eq!(quiet.silent(), None);
        // Another answer begins the time again.
        quiet.looked((8, true), half, second(11), none);
        assert_eq!(quiet.looked((9, true), half, second(12), none), None);
    }

    #[test]
    fn sentences_name_server_way_and_times() {
        let server = "127.0.0.1:80".parse().unwrap();
        let lost = |since, until, gone| Lost::of(server, span(since, until, gone), second(1));
        let gone = lost(3, 0, Some(Failure::ConnectTimeout));
        assert_eq!(
            gone.to_string(),
            "127.0.0.1:80 went at 2.00 s and did not come back: connect timeout"
        );
        assert_eq!(gone.of_rate(), "until it went at 2.00 s");
        let silent = lost(3, 5, None);
        assert_eq!(
            silent.to_string(),
            "127.0.0.1:80 answered nothing from 2.00 s to 4.00 s"
        );
        assert_eq!(silent.of_rate(), "silent from 2.00 s to 4.00 s");
        let text = serde_json::to_string(&gone).unwrap();
        assert_eq!(
            text,
            r#"{"server":"127.0.0.1:80","how":"gone","cause":"connect_timeout","since_s":2.0,"until_s":null}"#
        );
    }
}
