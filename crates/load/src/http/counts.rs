//! What only the HTTP generator counts.

use crate::document::is_default;
use crate::streams::OwnCounts;
use corelane_measure::{counters, quantity};
use corelane_proto::http::response::{Deviation, Deviations};
use serde::{Deserialize, Deserializer, Serialize, de};
use std::collections::BTreeMap;

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
}

counters! {
    /// What only HTTP has: answers by status, bodies that waited for 100 Continue, and answers that deviate.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct HttpCounts {
        /// Final answers by status, from their head on; those of redirects that were followed included.
        #[serde(default, skip_serializing_if = "is_default", deserialize_with = "by_status")]
        pub statuses: BTreeMap<u16, u64>,
        /// Redirects whose request was made.
        #[serde(default, skip_serializing_if = "is_default")]
        pub redirects_followed: u64,
        /// Malformed answers by what is wrong with them.
        #[serde(default, skip_serializing_if = "is_default")]
        pub malformed_because: BTreeMap<String, u64>,
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
        #[serde(default, skip_serializing_if = "is_default")]
        pub tolerated: Tolerated,
    }
}

/// Statuses as a flattened block has them: as text.
fn by_status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<u16, u64>, D::Error> {
    let written = BTreeMap::<String, u64>::deserialize(deserializer)?;
    let status = |(status, count): (String, u64)| {
        let wrong = |_| <D::Error as de::Error>::custom(format!("'{status}' is not a status"));
        Ok((status.parse().map_err(wrong)?, count))
    };
    written.into_iter().map(status).collect()
}

/// Whether an answer with this status and a `Location` asks for another request (RFC 9110 15.4).
pub(super) fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

impl OwnCounts for HttpCounts {
    fn in_words(&self) -> Vec<(String, u64)> {
        let statuses = self.statuses.iter();
        let statuses = statuses.map(|(status, count)| (format!("status {status}"), *count));
        let malformed = self.malformed_because.iter();
        let malformed = malformed.map(|(reason, count)| (format!("malformed: {reason}"), *count));
        let tolerated = &self.tolerated;
        let others = [
            ("redirects followed", self.redirects_followed),
            ("body sent on 100 Continue", self.continued),
            ("body not sent, answered before", self.body_refused),
            ("body sent unasked after a while", self.continue_timeouts),
            ("tolerated: lines end with LF alone", tolerated.bare_line_feed),
            (
                "tolerated: a field goes on in the next line",
                tolerated.folded_field,
            ),
            ("tolerated: blanks after a chunk's size", tolerated.chunk_blank),
            ("tolerated: Content-Length repeated", tolerated.repeated_length),
        ];
        let others = others.map(|(name, count)| (name.to_owned(), count));
        statuses.chain(malformed).chain(others).collect()
    }

    fn note(&self) -> Option<String> {
        let redirects = self.statuses.iter().filter(|(status, _)| is_redirect(**status));
        let redirects: u64 = redirects.map(|(_, count)| count).sum();
        let left = redirects.saturating_sub(self.redirects_followed);
        (left > 0).then(|| {
            let left = quantity::count(left);
            format!("{left} answers were redirects and were not followed: --follow N follows up to N per request, on the same server and connection")
        })
    }

    fn by_class(&self) -> Option<[u64; 4]> {
        let mut classes = [0; 4];
        for (status, count) in &self.statuses {
            // Statuses from 600 on are of no class.
            if let Some(class) = classes.get_mut(usize::from(status / 100).wrapping_sub(2)) {
                *class += count;
            }
        }
        (!self.statuses.is_empty()).then_some(classes)
    }
}
