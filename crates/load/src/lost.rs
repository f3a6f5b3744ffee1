//! Times in which a server was lost to a generator: gone, because no connection to it could be opened, or silent, because it
//! answered nothing of what it was asked.
//!
//! In: the times that each worker found. Out: those that all workers found, which are in the documents of generators.

use crate::contact::{Span, common};
use corelane_measure::quantity;
use corelane_worker::Time;
use corelane_worker::engine::Remote;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A time in which a server was lost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lost {
    /// Its address.
    pub server: Remote,
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
    /// Of a server, the times that all workers found of a run that began at `start`; each with its end.
    pub(crate) fn common(
        server: &Remote,
        start: Time,
        workers: impl Iterator<Item = (Vec<Span>, Time)>,
    ) -> Vec<Self> {
        let seconds = |time: Time| time.since(start).as_secs_f64();
        let lost = |span: Span| Self {
            server: server.clone(),
            how: match span.gone {
                Some(_) => HowLost::Gone,
                None => HowLost::Silent,
            },
            cause: span.gone.map(|failure| failure.name().to_owned()),
            since_s: seconds(span.since),
            until_s: (span.until < Time::NEVER).then(|| seconds(span.until)),
        };
        common(workers).into_iter().map(lost).collect()
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
        let (server, since) = (&self.server, at(self.since_s));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;

    #[test]
    fn sentences_name_server_way_and_times() {
        let server: Remote = "127.0.0.1:80".parse().unwrap();
        let second = |second: u64| Time::from_nanoseconds(second * 1_000_000_000);
        let lost = |since, until, gone| {
            let since = second(since);
            let span = Span { since, until, gone };
            Lost::common(&server, second(1), [(vec![span], second(9))].into_iter()).remove(0)
        };
        let gone = lost(3, Time::NEVER, Some(Failure::ConnectTimeout));
        assert_eq!(
            gone.to_string(),
            "127.0.0.1:80 went at 2.00 s and did not come back: connect timeout"
        );
        assert_eq!(gone.of_rate(), "until it went at 2.00 s");
        let silent = lost(3, second(5), None);
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
