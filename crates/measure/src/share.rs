//! A share kept as counts.

use serde::{Deserialize, Serialize};

crate::counters! {
    /// A share as counts, so that trials can be pooled without weights.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Share {
        /// Number of hits.
        pub hits: u64,
        /// Number of samples.
        pub samples: u64,
    }
}

impl Share {
    /// The share of 1; `None` without samples.
    #[must_use]
    pub fn value(self) -> Option<f64> {
        (self.samples > 0).then(|| self.hits as f64 / self.samples as f64)
    }
}
