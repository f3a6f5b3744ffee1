//! The frames of a burst as a batch of stages.

use corelane_link::Burst;
use corelane_packet::stage::Batch;

/// Bytes behind each frame in a mailbox: the index of the link that it came from.
pub(super) const TRAILER: usize = size_of::<u16>();

/// A burst of a link; with a trailer, of a mailbox.
pub(super) struct Arrived<'link, const TRAILER: usize> {
    pub(super) burst: Burst<'link>,
    /// The index of the link, if there is no trailer.
    pub(super) link: usize,
}

impl<const TRAILER: usize> Batch for Arrived<'_, TRAILER> {
    #[inline(always)]
    fn frames(&self) -> usize {
        self.burst.len()
    }

    #[inline(always)]
    fn frame(&self, number: usize) -> &[u8] {
        let frame = self.burst.frame(number);
        &frame[..frame.len() - TRAILER]
    }

    #[inline(always)]
    fn frame_mut(&mut self, number: usize) -> &mut [u8] {
        let frame = self.burst.frame_mut(number);
        let length = frame.len() - TRAILER;
        &mut frame[..length]
    }

    #[inline(always)]
    fn prefetch(&self, number: usize) {
        self.burst.prefetch(number);
    }

    #[inline(always)]
    fn link(&self, number: usize) -> usize {
        match self.burst.frame(number).last_chunk() {
            Some(index) if TRAILER > 0 => u16::from_ne_bytes(*index).into(),
            _ => self.link,
        }
    }
}
