//! A burst: frames that lie in a link's memory, lent to who received them.

use std::marker::PhantomData;

/// Nanoseconds since the epoch at which a frame was captured.
pub type FrameTime = u64;

/// Where a frame lies in its link's memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extent {
    /// Bytes from the start of the memory.
    pub(crate) offset: usize,
    /// Bytes that are there.
    pub(crate) length: u32,
    /// Bytes that the frame had on the wire: more, where a capture cut it short.
    pub(crate) wire_length: u32,
    /// Nanoseconds since the epoch; 0 where nobody knows.
    pub(crate) time: FrameTime,
}

impl Extent {
    /// A frame that is there as it was on the wire, of which no time is known.
    #[inline(always)]
    pub(crate) fn whole(offset: usize, length: u32) -> Extent {
        Extent {
            offset,
            length,
            wire_length: length,
            time: 0,
        }
    }
}

/// Frames in the order of their arrival, in the memory of their link.
///
/// Numbers of frames run from 0 to [`len`](Burst::len) - 1; methods panic beyond that, as slices do.
pub struct Burst<'link> {
    memory: *mut u8,
    extents: &'link [Extent],
    /// The frames are borrowed as mutable slices of the link are.
    frames: PhantomData<&'link mut [u8]>,
}

impl<'link> Burst<'link> {
    /// The frames at these places.
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

    /// The frames at these places of a slice.
    pub(crate) fn of(memory: &'link mut [u8], extents: &'link [Extent]) -> Burst<'link> {
        let end = |extent: &Extent| extent.offset + extent.length as usize;
        assert!(extents.iter().all(|extent| end(extent) <= memory.len()));
        // SAFETY: every extent lies within the slice, which the burst borrows mutably.
        unsafe { Burst::new(memory.as_mut_ptr(), extents) }
    }

    /// How many frames.
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

    /// One frame, to be edited where it lies.
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

    /// Asks the CPU for the first line of a frame, where its headers are, to be read soon. Numbers beyond the last frame ask
    /// for nothing.
    #[inline(always)]
    pub fn prefetch(&self, number: usize) {
        if let Some(extent) = self.extents.get(number) {
            crate::system::prefetch(self.memory.wrapping_add(extent.offset));
        }
    }

    /// When the frame was captured, where the link knows.
    #[must_use]
    pub fn time(&self, number: usize) -> Option<FrameTime> {
        Some(self.extents[number].time).filter(|time| *time != 0)
    }

    /// Bytes that the frame had on the wire: more than are there, where a capture cut it short.
    #[must_use]
    pub fn wire_length(&self, number: usize) -> usize {
        self.extents[number].wire_length as usize
    }
}
