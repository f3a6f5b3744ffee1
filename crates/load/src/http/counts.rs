//! What only the HTTP generator counts.

use crate::streams::OwnCounts;
use corelane_measure::counters;
use corelane_proto::http::response::{Deviation, Deviations};
use serde::{Deserialize, Serialize};

counters! {
    /// Answers with deviations that were taken, by kind; an answer with several kinds counts at each.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Tolerated {
        /// Lines that end with LF alone (RFC 9112 2.2).
        pub bare_line_feed: u64,
        /// Fields that are continued on the next line (RFC 9112 5.2).
        pub folded_field: u64,
        /// Blanks after a chunk's size or extension.
        pub chunk_blank: u64,
        /// The same Content-Length several times (RFC 9110 8.6).
        pub repeated_length: u64,
    }
}

impl Tolerated {
    /// Counts a complete answer.
    pub(super) fn count(&mut self, met: Deviations) {
        if met.is_empty() {
            return;
        }
        self.bare_line_feed += u64::from(met.has(Deviation::BareLineFeed));
        self.folded_field += u64::from(met.has(Deviation::FoldedField));
        self.chunk_blank += u64::from(met.has(Deviation::ChunkBlank));
        self.repeated_length += u64::from(met.has(Deviation::RepeatedLength));
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

counters! {
    /// What only HTTP has: bodies that waited for 100 Continue, by outcome, and answers that deviate.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct HttpCounts {
        /// Bodies sent after 100 Continue.
        #[serde(default)]
        pub continued: u64,
        /// Bodies not sent because the final answer came first.
        #[serde(default)]
        pub body_refused: u64,
        /// Bodies sent without 100 Continue, after the timeout.
        #[serde(default)]
        pub continue_timeouts: u64,
        /// Complete answers that a strict reader refuses; none with [`Http::strict`](super::Http::strict).
        #[serde(default, skip_serializing_if = "Tolerated::is_empty")]
        pub tolerated: Tolerated,
    }
}

impl OwnCounts for HttpCounts {
    fn in_words(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("body sent on 100 Continue", self.continued),
            ("body not sent, answered before", self.body_refused),
            ("body sent unasked after a while", self.continue_timeouts),
            (
                "tolerated: lines end with LF alone",
                self.tolerated.bare_line_feed,
            ),
            (
                "tolerated: a field goes on in the next line",
                self.tolerated.folded_field,
            ),
            (
                "tolerated: blanks after a chunk's size",
                self.tolerated.chunk_blank,
            ),
            (
                "tolerated: Content-Length repeated",
                self.tolerated.repeated_length,
            ),
        ]
    }
}
