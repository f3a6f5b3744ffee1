//! HTTP plans: requests as bytes, and the expected responses.

use crate::document::is_default;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The HTTP/1.1 requests of a pool, and the expected responses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Http {
    /// Its requests, chosen by weight.
    pub requests: Vec<PlannedRequest>,
    /// Requests of files, instead; each counts the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub targets: Option<PlannedTargets>,
    /// The statuses that count as success.
    pub statuses: Vec<StatusRange>,
    /// How many redirects of a request are followed, on the same server and connection.
    #[serde(default, skip_serializing_if = "is_default")]
    pub follow: u8,
    /// Whether answers fail that deviate from RFC 9112 in ways that other clients take
    /// ([`corelane_proto::http::response::Deviation`]).
    #[serde(default, skip_serializing_if = "is_default")]
    pub strict: bool,
}

/// Requests of files. A plan that is written has their number, and not each.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PlannedTargets {
    /// The files of targets and values; `-` for standard input.
    pub files: Vec<PathBuf>,
    /// Number of requests.
    pub requests: u64,
    /// Their order.
    pub order: Order,
    /// The requests; empty in a plan that was read.
    #[serde(skip)]
    pub all: Arc<[PlannedRequest]>,
    /// Whose turn it is.
    #[serde(skip)]
    pub(super) turns: Turns,
}

/// The number of requests of files that were made, over all workers and pools of a plan. It is no part of what is planned.
#[derive(Debug, Clone, Default)]
pub(super) struct Turns(Arc<AtomicUsize>);

impl Turns {
    /// The number of the next request, from 0.
    pub(super) fn next(&self) -> usize {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

impl PartialEq for Turns {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The order of the requests of files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// One after the other over all connections, and again from the first.
    #[default]
    InTurn,
    /// Each is drawn.
    Random,
}

/// One planned request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedRequest {
    /// Weight relative to the other requests of its pool.
    pub weight: f64,
    /// Method, such as `GET`.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// The head as sent, including its empty line.
    pub head: String,
    /// The head of the last request on a connection.
    pub last_head: String,
    /// The body.
    pub body: PlannedBody,
    /// Whether the body is sent chunked.
    pub chunked: bool,
    /// Whether the body waits for 100 Continue (`Expect: 100-continue`).
    #[serde(default)]
    pub expect_continue: bool,
    /// The expected response body.
    pub promise: Promise,
}

impl PlannedRequest {
    /// The names and values of the fields of its head.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.head
            .split("\r\n")
            .skip(1)
            .filter_map(|line| line.split_once(": "))
    }
}

/// The body of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlannedBody {
    /// No body.
    #[default]
    Nothing,
    /// This text.
    Text(String),
    /// The content of a file at the start of the run.
    File {
        /// The file.
        path: PathBuf,
        /// Its length at planning time.
        bytes: u64,
    },
    /// Bytes of the pattern (`corelane_proto::http::pattern`).
    Generated {
        /// Number of bytes.
        bytes: u64,
    },
}

impl PlannedBody {
    /// Its length; `None` for no body.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        match self {
            Self::Nothing => None,
            Self::Text(text) => Some(text.len() as u64),
            Self::File { bytes, .. } | Self::Generated { bytes } => Some(*bytes),
        }
    }
}

/// The expected body of a response, beyond its framing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Promise {
    /// Any body.
    #[default]
    Anything,
    /// Bytes of the pattern.
    Pattern {
        /// Number of bytes.
        bytes: u64,
    },
    /// The body of the request, echoed.
    Echo,
}

/// A range of status codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusRange {
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
}

impl StatusRange {
    /// Parses `200,204,3xx,400-404`; `None` if it is not a list of status codes and classes.
    #[must_use]
    pub fn parse_list(text: &str) -> Option<Vec<Self>> {
        let range = |part: &str| {
            let part = part.trim();
            let (first, last) = match part.strip_suffix("xx") {
                Some(class) => (format!("{class}00"), format!("{class}99")),
                None => {
                    let (first, last) = part.split_once('-').unwrap_or((part, part));
                    (first.trim().to_owned(), last.trim().to_owned())
                }
            };
            let (first, last) = (first.parse().ok()?, last.parse().ok()?);
            (200 <= first && first <= last && last <= 999).then_some(Self { first, last })
        };
        text.split(',').map(range).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_numbers_ranges_and_classes() {
        let parsed = StatusRange::parse_list("200, 3xx,404-410").unwrap();
        let parsed: Vec<_> = parsed.iter().map(|range| (range.first, range.last)).collect();
        assert_eq!(parsed, [(200, 200), (300, 399), (404, 410)]);
        for wrong in [
            "", "1xx", "xx", "30x", "3xx-4xx", "3XX", "-3xx", "400-300", "1000", "200,",
        ] {
            assert_eq!(StatusRange::parse_list(wrong), None, "{wrong}");
        }
    }
}
