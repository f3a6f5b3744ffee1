//! A share kept as counts.

use serde::{Deserialize, Serialize};

/// How many of how many. Kept as counts, so that trials can be pooled without weighing them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Those that were so.
    pub hits: u64,
    /// Those that were looked at.
    pub samples: u64,
}

impl Share {
    /// The share of 1; `None` when nothing was looked at.
    #[must_use]
    pub fn value(self) -> Option<f64> {
        (self.samples > 0).then(|| self.hits as f64 / self.samples as f64)
    }

    /// Both counted together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            hits: self.hits + other.hits,
            samples: self.samples + other.samples,
        }
    }
}
