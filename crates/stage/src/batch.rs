//! The frames that a link lends for one call.

use corelane_table::prefetch;
use std::time::Instant;

/// Frames in arrival order. Methods panic for numbers beyond the last frame, as slices do.
pub trait Batch {
    /// The number of frames.
    fn frames(&self) -> usize;

    /// One frame.
    fn frame(&self, number: usize) -> &[u8];

    /// One frame, mutable in place.
    fn frame_mut(&mut self, number: usize) -> &mut [u8];

    /// The index of the link that the frame came from.
    fn link(&self, number: usize) -> usize;

    /// The time of a frame that has one of its own, as those of a capture do; `None`: the time of the batch.
    fn time(&self, _number: usize) -> Option<Instant> {
        None
    }

    /// Prefetches the first cache line of a frame, which holds its headers. Numbers beyond the last frame are ignored.
    #[inline(always)]
    fn prefetch(&self, number: usize) {
        if number < self.frames()
            && let Some(first) = self.frame(number).first()
        {
            prefetch(first);
        }
    }
}

/// Frames in memory, as if they came from the first link.
impl Batch for Vec<Vec<u8>> {
    #[inline(always)]
    fn frames(&self) -> usize {
        self.len()
    }

    #[inline(always)]
    fn frame(&self, number: usize) -> &[u8] {
        &self[number]
    }

    #[inline(always)]
    fn frame_mut(&mut self, number: usize) -> &mut [u8] {
        &mut self[number]
    }

    #[inline(always)]
    fn link(&self, _number: usize) -> usize {
        0
    }
}
