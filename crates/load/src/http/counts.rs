//! What only the HTTP generator counts.

use crate::streams::OwnCounts;
use corelane_measure::counters;
use serde::{Deserialize, Serialize};

counters! {
    /// Bodies that waited for 100 Continue, by outcome.
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
    }
}

impl OwnCounts for HttpCounts {
    fn in_words(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("body sent on 100 Continue", self.continued),
            ("body not sent, answered before", self.body_refused),
            ("body sent unasked after a while", self.continue_timeouts),
        ]
    }
}
