//! What decides whether segments are merged: the settings, and fragments between them.

use super::key;
use super::plan::{Counts, Plan};
use crate::{Batch, Work};
use corelane_packet::HashTypes;
use corelane_rss::Toeplitz;
use std::sync::Arc;

/// What decides whether segments are merged.
#[derive(Debug)]
pub struct Rules {
    pub plan: Plan,
    pub counts: Arc<Counts>,
    pub toeplitz: Toeplitz,
    /// The fragments of the batch, by addresses, link and place.
    pub fragments: Vec<u64>,
}

impl Rules {
    /// The number of a frame at a place in the order of addresses, link and arrival.
    pub fn number<B: Batch>(&self, work: &Work<'_, B>, place: usize) -> Option<u64> {
        let input = work.dissection(place).ok()?.rss_input(HashTypes::TWO_TUPLE)?;
        let mut hash = input.hash(&self.toeplitz);
        hash.value ^= (work.link(place) as u32).wrapping_mul(0x9e37_79b9);
        Some(key::of(hash, place))
    }

    /// Whether a fragment between two segments of a flow may be of that flow: its addresses and link are the same.
    pub fn has_fragment_between<B: Batch>(&self, work: &Work<'_, B>, first: usize, next: usize) -> bool {
        if self.fragments.is_empty() {
            return false;
        }
        let end = self.number(work, next);
        let before = self.fragments.partition_point(|number| Some(*number) < end);
        let last = before.checked_sub(1).map(|last| self.fragments[last]);
        last.is_some_and(|last| Some(last) > self.number(work, first))
    }
}
