//! How frames lie in a link's memory: how far apart they start, and how much is free before each.

use thiserror::Error;

/// Stride, headroom and number of a link's frame buffers.
///
/// A stride of 2048 lets the first lines of all frames fall into few sets of the caches; 1920 spreads them ("Intel DDIO,
/// LLC cache, buffer alignment, prefetching, shared locks and packet rates").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLayout {
    frames: usize,
    stride: usize,
    headroom: usize,
}

/// A layout that no link can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum LayoutError {
    #[error("{0} frame buffers: give a power of two from 2 to {max}", max = FrameLayout::MOST_FRAMES)]
    Frames(usize),
    #[error("a stride of {0} bytes: give a multiple of 64 (a cache line) from 128 to {max}", max = FrameLayout::LONGEST_STRIDE)]
    Stride(usize),
    #[error("a headroom of {headroom} bytes leaves less than 64 of a stride of {stride}")]
    Headroom { headroom: usize, stride: usize },
}

impl FrameLayout {
    /// The most buffers of one direction: indices of the rings are 32 bits wide, and memory is mapped at once.
    pub const MOST_FRAMES: usize = 1 << 20;
    /// The longest stride: a jumbo frame of 64 KiB, as offloads make them, and its headroom.
    pub const LONGEST_STRIDE: usize = 1 << 17;

    /// A layout of `frames` buffers a direction (a power of two), `stride` bytes apart, each frame `headroom` bytes behind
    /// the start of its buffer.
    ///
    /// # Errors
    /// When a number is out of bounds.
    pub const fn new(frames: usize, stride: usize, headroom: usize) -> Result<FrameLayout, LayoutError> {
        if !frames.is_power_of_two() || frames < 2 || frames > FrameLayout::MOST_FRAMES {
            return Err(LayoutError::Frames(frames));
        }
        if !stride.is_multiple_of(64) || stride < 128 || stride > FrameLayout::LONGEST_STRIDE {
            return Err(LayoutError::Stride(stride));
        }
        if headroom + 64 > stride {
            return Err(LayoutError::Headroom { headroom, stride });
        }
        Ok(FrameLayout {
            frames,
            stride,
            headroom,
        })
    }

    /// Buffers of one direction.
    #[must_use]
    pub const fn frames(self) -> usize {
        self.frames
    }

    /// Bytes from the start of one buffer to that of the next.
    #[must_use]
    pub const fn stride(self) -> usize {
        self.stride
    }

    /// Bytes of a buffer before its frame.
    #[must_use]
    pub const fn headroom(self) -> usize {
        self.headroom
    }

    /// Bytes of the longest frame that fits.
    #[must_use]
    pub const fn longest(self) -> usize {
        self.stride - self.headroom
    }

    /// Bytes of all buffers of one direction.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.frames * self.stride
    }

    /// Where frame `number`, taken modulo the number of frames, starts.
    #[inline(always)]
    pub(crate) const fn start_of(self, number: usize) -> usize {
        (number & (self.frames - 1)) * self.stride + self.headroom
    }
}

impl Default for FrameLayout {
    /// 2,048 buffers, 1,920 bytes apart, no headroom: twice the burst of the post, at the stride that it found better.
    fn default() -> FrameLayout {
        FrameLayout {
            frames: 2048,
            stride: 1920,
            headroom: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_out_of_bounds_are_refused_by_the_number_at_fault() {
        assert_eq!(FrameLayout::new(1000, 2048, 0), Err(LayoutError::Frames(1000)));
        assert_eq!(FrameLayout::new(1024, 2000, 0), Err(LayoutError::Stride(2000)));
        assert_eq!(
            FrameLayout::new(1024, 2048, 2000),
            Err(LayoutError::Headroom {
                headroom: 2000,
                stride: 2048
            })
        );
        let layout = FrameLayout::new(1024, 1920, 128).unwrap();
        assert_eq!((layout.longest(), layout.start_of(1025)), (1792, 2048));
    }
}
