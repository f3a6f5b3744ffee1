//! A burst: frames in a link's memory, lent to the receiver.

use std::marker::PhantomData;

/// Nanoseconds since the epoch at which a frame was captured.
pub type FrameTime = u64;

/// The location of a frame in its link's memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extent {
    /// Bytes from the start of the memory.
    pub(crate) offset: usize,
    /// Captured bytes.
    pub(crate) length: u32,
    /// Bytes on the wire: more if a capture truncated the frame.
    pub(crate) wire_length: u32,
    /// Nanoseconds since the epoch; 0 if unknown.
    pub(crate) time: FrameTime,
}

impl Extent {
    /// A frame that is there as it was on the wire, of which no time is known.
    #[inline(always)]
    pub(crate) fn whole(offset: usize, length: u32) -> Extent {
        Extent::captured(offset, length, length, 0)
    }

    /// A frame that was longer on the wire if it is truncated, with the time of its capture.
    #[inline(always)]
    pub(crate) fn captured(offset: usize, length: u32, wire_length: u32, time: FrameTime) -> Extent {
        Extent {
            offset,
            length,
            wire_length,
            time,
        }
    }

    /// The same frame at another place.
    pub(crate) fn moved_to(self, offset: usize) -> Extent {
        Extent { offset, ..self }
    }

    /// The same frame as if its sender had ended it after `length` bytes.
    pub(crate) fn shortened(self, length: u32) -> Extent {
        Extent {
            length,
            wire_length: length,
            ..self
        }
    }
}

/// Frames in arrival order, in the memory of their link.
///
/// Numbers of frames run from 0 to [`len`](Burst::len) - 1; methods panic beyond that, as slices do.
pub struct Burst<'link> {
    memory: *mut u8,
    extents: &'link [Extent],
    /// The frames are borrowed as mutable slices of the link are.
    frames: PhantomData<&'link mut [u8]>,
}

/// No frames.
impl Default for Burst<'_> {
    fn default() -> Self {
        Burst::of(&mut [], &[])
    }
}

impl<'link> Burst<'link> {
    /// The frames at these locations.
    ///
    /// # Safety
    /// Every extent lies within the allocation or mapping that `memory` starts, and for `'link` nobody but the burst reads or
    /// writes the bytes in them.
    #[inline(always)]
    pub(crate) unsafe fn new(memory: *mut u8, extents: &'link [Extent]) -> Burst<'link> {
        Burst {
            memory,
            extents,
            frames: PhantomData,
        }
    }

    /// The frames at these locations in a slice.
    pub(crate) fn of(memory: &'link mut [u8], extents: &'link [Extent]) -> Burst<'link> {
        let end = |extent: &Extent| extent.offset + extent.length as usize;
        assert!(extents.iter().all(|extent| end(extent) <= memory.len()));
        // SAFETY: every extent lies within the slice, which the burst borrows mutably.
        unsafe { Burst::new(memory.as_mut_ptr(), extents) }
    }

    /// The number of frames.
    #[must_use]
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.extents.len()
    }

    /// Whether there are none.
    #[must_use]
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// One frame.
    #[must_use]
    #[inline(always)]
    pub fn frame(&self, number: usize) -> &[u8] {
        let extent = self.extents[number];
        // SAFETY: the maker of the burst vouches that the extent is in the memory and nobody else's; a mutable slice of it
        // could only come from `&mut self`.
        unsafe { std::slice::from_raw_parts(self.memory.add(extent.offset), extent.length as usize) }
    }

    /// One frame, mutable in place.
    #[must_use]
    #[inline(always)]
    pub fn frame_mut(&mut self, number: usize) -> &mut [u8] {
        let extent = self.extents[number];
        // SAFETY: as in `frame`, and `&mut self` lets no other slice of the burst live beside this one.
        unsafe { std::slice::from_raw_parts_mut(self.memory.add(extent.offset), extent.length as usize) }
    }

    /// All frames.
    #[inline(always)]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        (0..self.len()).map(|number| self.frame(number))
    }

    /// Prefetches the first cache line of a frame, which holds its headers. Numbers beyond the last frame are ignored.
    #[inline(always)]
    pub fn prefetch(&self, number: usize) {
        if let Some(extent) = self.extents.get(number) {
            crate::system::prefetch(self.memory.wrapping_add(extent.offset));
        }
    }

    /// The place and the properties of a frame.
    pub(crate) fn extent(&self, number: usize) -> Extent {
        self.extents[number]
    }

    /// The capture time, if the link knows it.
    #[must_use]
    pub fn time(&self, number: usize) -> Option<FrameTime> {
        Some(self.extents[number].time).filter(|time| *time != 0)
    }

    /// Bytes on the wire: more than captured if a capture truncated the frame.
    #[must_use]
    pub fn wire_length(&self, number: usize) -> usize {
        self.extents[number].wire_length as usize
    }
}
