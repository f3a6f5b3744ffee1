//! Waits for kernel locks of an echo beside those of a sink.

use super::Placement;
use crate::scale::limit::buckets;
use serde::{Deserialize, Serialize};

/// Echo beside sink: which waits more for kernel locks, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockComparison {
    /// The placement of both steps, as documents write it: `aligned` or `crossed`.
    pub placement: Placement,
    /// Active buckets of both.
    pub buckets_active: usize,
    /// The comparison.
    pub sentence: String,
}

impl LockComparison {
    /// `aligned, 2 buckets: …`.
    pub(crate) fn words(&self) -> String {
        let (active, buckets) = (self.buckets_active, buckets(self.buckets_active));
        format!("{}, {active} {buckets}: {}", self.placement, self.sentence)
    }
}
