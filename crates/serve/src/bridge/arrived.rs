//! The frames of a burst as a batch of stages.

use corelane_link::Burst;
use corelane_stage::Batch;
use std::time::{Duration, Instant};

/// A burst of a link.
#[derive(Default)]
pub(super) struct Arrived<'link> {
    pub(super) burst: Burst<'link>,
    /// The index of the link.
    pub(super) link: usize,
    /// Where the times of captures begin, if they count.
    pub(super) epoch: Option<Instant>,
    /// When the receive call began, if that is measured.
    pub(super) since: Option<Instant>,
}

impl Batch for Arrived<'_> {
    #[inline(always)]
    fn frames(&self) -> usize {
        self.burst.len()
    }

    #[inline(always)]
    fn frame(&self, number: usize) -> &[u8] {
        self.burst.frame(number)
    }

    #[inline(always)]
    fn frame_mut(&mut self, number: usize) -> &mut [u8] {
        self.burst.frame_mut(number)
    }

    #[inline(always)]
    fn prefetch(&self, number: usize) {
        self.burst.prefetch(number);
    }

    #[inline(always)]
    fn link(&self, _number: usize) -> usize {
        self.link
    }

    fn time(&self, number: usize) -> Option<Instant> {
        let since = Duration::from_nanos(self.burst.time(number)?);
        self.epoch?.checked_add(since)
    }
}
