//! What is asked over HTTP: requests as bytes, and what their answers must be.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What a pool asks for over HTTP/1.1, and what it expects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Http {
    /// What it asks for, each as often as its weight says.
    pub requests: Vec<PlannedRequest>,
    /// The statuses that count as success.
    pub statuses: Vec<StatusRange>,
}

/// One thing to ask for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedRequest {
    /// How often, beside the others of its pool.
    pub weight: f64,
    /// `GET` and the like.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// The head as it is sent, its empty line included.
    pub head: String,
    /// The same for the last request of a connection.
    pub last_head: String,
    /// What follows the head.
    pub body: PlannedBody,
    /// Whether the body goes in chunks.
    pub chunked: bool,
    /// Whether the body waits until the server has asked for it (`Expect: 100-continue`).
    #[serde(default)]
    pub expect_continue: bool,
    /// What the body of the answer must be.
    pub promise: Promise,
}

/// The body of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlannedBody {
    /// There is none.
    #[default]
    Nothing,
    /// This text.
    Text(String),
    /// What a file holds when the run starts.
    File {
        /// The file.
        path: PathBuf,
        /// Its length when the plan was made.
        bytes: u64,
    },
    /// So many bytes of the pattern (`corelane_proto::http::pattern`).
    Generated {
        /// How many.
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

/// What the body of an answer must be, beyond its framing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Promise {
    /// Anything.
    #[default]
    Anything,
    /// So many bytes of the pattern.
    Pattern {
        /// How many.
        bytes: u64,
    },
    /// The body of the request.
    Echo,
}

/// Statuses from the first to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusRange {
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
}

impl StatusRange {
    /// Reads `200,204,300-399`; `None` where that is no list of statuses.
    #[must_use]
    pub fn parse_list(text: &str) -> Option<Vec<Self>> {
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            (200 <= first && first <= last && last <= 999).then_some(Self { first, last })
        };
        text.split(',').map(range).collect()
    }
}
