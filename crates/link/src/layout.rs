//! The layout of frames in a link's memory: stride and headroom.

use thiserror::Error;

/// Stride, headroom and number of a link's frame buffers.
///
/// With a stride of 2048 the first lines of all frames share few cache sets; 1920 spreads them ("Intel DDIO, LLC cache,
/// buffer alignment, prefetching, shared locks and packet rates").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLayout {
    frames: usize,
    stride: usize,
    headroom: usize,
}

/// Why a layout is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum LayoutError {
    #[error("{0} frame buffers: use a power of two from 2 to {max}", max = FrameLayout::MOST_FRAMES)]
    Frames(usize),
    #[error("a stride of {0} bytes: use a multiple of 64 (a cache line) from 128 to {max}", max = FrameLayout::LONGEST_STRIDE)]
    Stride(usize),
    #[error("a headroom of {headroom} bytes leaves less than 64 of a stride of {stride}")]
    Headroom { headroom: usize, stride: usize },
}

impl FrameLayout {
    /// The maximum number of buffers per direction: ring indices are 32 bits wide, and memory is mapped in one piece.
    pub const MOST_FRAMES: usize = 1 << 20;
    /// The maximum stride: a frame of 64 KiB, as created by offloads, and its headroom.
    pub const LONGEST_STRIDE: usize = 1 << 17;

    /// A layout of `frames` buffers per direction (a power of two), `stride` bytes apart, each frame at offset
    /// `headroom` in its buffer.
    ///
    /// # Errors
    /// If a number is out of range.
    pub const fn new(frames: usize, stride: usize, headroom: usize) -> Result<FrameLayout, LayoutError> {
        if !frames.is_power_of_two() || frames < 2 || frames > FrameLayout::MOST_FRAMES {
            return Err(LayoutError::Frames(frames));
        }
        if !stride.is_multiple_of(64) || stride < 128 || stride > FrameLayout::LONGEST_STRIDE {
            return Err(LayoutError::Stride(stride));
        }
        if headroom > stride - 64 {
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
        for headroom in [2000, usize::MAX] {
            let refused = LayoutError::Headroom {
                headroom,
                stride: 2048,
            };
            assert_eq!(FrameLayout::new(1024, 2048, headroom), Err(refused));
        }
        let layout = FrameLayout::new(1024, 1920, 128).unwrap();
        assert_eq!((layout.longest(), layout.start_of(1025)), (1792, 2048));
    }
}
