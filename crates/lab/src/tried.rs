//! What every trial says of itself.

use crate::document::TrialStatus;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What every trial says of itself, flattened into its document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// Index of the step in the document.
    pub step: usize,
    /// The round, from 0: trials of one round ran next to each other.
    pub round: usize,
    /// Seconds that were measured.
    pub duration_s: f64,
    /// Whether the numbers may be used.
    pub status: TrialStatus,
    /// Why not.
    pub why: Option<String>,
    /// Why a field is null: field name to reason.
    #[serde(default)]
    pub unknown: BTreeMap<String, String>,
}

impl Default for Tried {
    fn default() -> Self {
        Self::new(0, 0, 0.0)
    }
}

impl Tried {
    /// A valid trial of so many seconds.
    #[must_use]
    pub fn new(step: usize, round: usize, duration_s: f64) -> Self {
        Self {
            step,
            round,
            duration_s,
            status: TrialStatus::Valid,
            why: None,
            unknown: BTreeMap::new(),
        }
    }

    /// Marks how it ended, and why.
    pub fn end(&mut self, status: TrialStatus, why: impl Into<String>) {
        (self.status, self.why) = (status, Some(why.into()));
    }

    /// Whether the numbers may be used.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.status == TrialStatus::Valid && self.duration_s > 0.0
    }

    /// A count as a rate a second.
    #[must_use]
    pub fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.duration_s
    }
}
