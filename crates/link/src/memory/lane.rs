//! One direction of an in-memory ring: a producer writes frames into the next free buffers, a consumer reads them in place
//! and returns the buffers.
//!
//! The region begins with a page that describes its layout; two lanes follow. A lane has the producer's index, the
//! consumer's index (each alone on two cache lines, because CPUs fetch lines in pairs), a length for each buffer, and the
//! buffers, from the start of a page. Indices count buffers and wrap at 2^32; a buffer's number is its index modulo the
//! number of buffers, a power of two. Numbers are in this machine's byte order.
//!
//! The producer's index is published with release after the frames and lengths below it, and read with acquire before them;
//! the consumer's index likewise in the other direction. Neither side trusts the other's numbers: an index beyond the ring
//! is rejected, and so is a length beyond the buffer.

use crate::burst::Extent;
use crate::layout::FrameLayout;
use crate::link::WriteFrame;
use crate::system::mapping::Mapping;
use crate::system::ring::Ring;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const PAGE: usize = 4096;
/// "clnr", to distinguish a ring from other files.
const MAGIC: u32 = 0x636c_6e72;
const VERSION: u32 = 1;

const PRODUCER: usize = 0;
const CLOSED: usize = 64;
const CONSUMER: usize = 128;
const LENGTHS: usize = 256;

/// The shared memory and its layout.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub(super) mapping: Arc<Mapping>,
    pub(super) layout: FrameLayout,
}

impl Region {
    /// Bytes of a region of this layout.
    pub(super) fn bytes(layout: FrameLayout) -> usize {
        PAGE + 2 * lane_bytes(layout)
    }

    /// Lays out zeroed memory of [`Region::bytes`] bytes.
    pub(super) fn create(mapping: Arc<Mapping>, layout: FrameLayout) -> Region {
        debug_assert!(
            mapping.bytes() >= Region::bytes(layout),
            "the mapping was made for the layout"
        );
        let facts = [
            VERSION,
            layout.frames() as u32,
            layout.stride() as u32,
            layout.headroom() as u32,
        ];
        for (number, fact) in facts.into_iter().enumerate() {
            mapping.atomic(4 + 4 * number).store(fact, Ordering::Relaxed);
        }
        mapping.atomic(0).store(MAGIC, Ordering::Release);
        Region { mapping, layout }
    }

    /// The region that another process laid out.
    pub(super) fn join(mapping: Arc<Mapping>) -> Result<Region, &'static str> {
        if mapping.bytes() < PAGE || mapping.atomic(0).load(Ordering::Acquire) != MAGIC {
            return Err("no ring is in this memory");
        }
        let fact = |number: usize| mapping.atomic(4 + 4 * number).load(Ordering::Relaxed);
        if fact(0) != VERSION {
            return Err("the ring is of another version");
        }
        let layout = FrameLayout::new(fact(1) as usize, fact(2) as usize, fact(3) as usize)
            .map_err(|_| "the layout of its frames is impossible")?;
        if mapping.bytes() < Region::bytes(layout) {
            return Err("its memory is too short for its layout");
        }
        Ok(Region { mapping, layout })
    }

    /// One end of a lane.
    pub(super) fn lane(&self, number: usize) -> Lane {
        let start = PAGE + number * lane_bytes(self.layout);
        let offset = libc::xdp_ring_offset {
            producer: (start + PRODUCER) as u64,
            consumer: (start + CONSUMER) as u64,
            desc: (start + LENGTHS) as u64,
            flags: 0,
        };
        Lane {
            lengths: Ring::new(Arc::clone(&self.mapping), &offset, self.layout.frames()),
            closed: start + CLOSED,
            buffers: start + buffers_at(self.layout),
            region: self.clone(),
            lent: 0,
        }
    }
}

fn lane_bytes(layout: FrameLayout) -> usize {
    buffers_at(layout) + layout.bytes().next_multiple_of(PAGE)
}

fn buffers_at(layout: FrameLayout) -> usize {
    (LENGTHS + 4 * layout.frames()).next_multiple_of(PAGE)
}

/// One end of a lane, used either as its producer (`put`, `close`) or as its consumer.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) region: Region,
    lengths: Ring<u32, Arc<Mapping>>,
    /// Offset of the flag that no more frames will be sent.
    closed: usize,
    /// Offset of the buffers.
    buffers: usize,
    /// As consumer: frames that are lent.
    lent: usize,
}

impl Lane {
    /// Writes up to `count` frames, as many as there are free buffers; returns their number and bytes.
    #[inline(always)]
    pub(super) fn put(
        &mut self,
        count: usize,
        mut write: impl WriteFrame,
    ) -> Result<(usize, u64), &'static str> {
        let layout = self.region.layout;
        let count = self.lengths.free(count);
        if self.lengths.is_overtaken() {
            return Err("its index of frames taken is beyond what was sent");
        }
        let mut bytes = 0;
        for number in 0..count {
            let offset = self.buffers + layout.start_of(self.lengths.number(number));
            // SAFETY: the buffer lies within the region; the consumer gave it back (its index, read with acquire, is past
            // it) and takes it only when our index is past it, so it is ours alone until then.
            let buffer = unsafe {
                let start = self.region.mapping.start().add(offset);
                std::slice::from_raw_parts_mut(start, layout.longest())
            };
            let length = write(number, buffer).min(layout.longest());
            self.lengths.write(number, length as u32);
            bytes += length as u64;
        }
        self.lengths.produced(count);
        Ok((count, bytes))
    }

    /// Signals that no more frames will be sent.
    pub(super) fn close(&self) {
        self.region
            .mapping
            .atomic(self.closed)
            .store(1, Ordering::Release);
    }

    /// Returns the lent buffers.
    #[inline(always)]
    pub(super) fn release(&mut self) {
        if self.lent > 0 {
            self.lengths.consumed(self.lent);
            self.lent = 0;
        }
    }

    /// Receives up to `limit` frames; they lie within the region, one in each buffer.
    #[inline(always)]
    pub(super) fn take(&mut self, limit: usize, extents: &mut Vec<Extent>) -> Result<(), &'static str> {
        let layout = self.region.layout;
        let count = self.lengths.available(limit);
        if self.lengths.is_overfull() {
            return Err("its index of frames sent is beyond the ring");
        }
        for number in 0..count {
            let offset = self.buffers + layout.start_of(self.lengths.number(number));
            let length = self.lengths.read(number).min(layout.longest() as u32);
            extents.push(Extent::whole(offset, length));
        }
        self.lent = count;
        Ok(())
    }

    /// Whether no more frames will be sent.
    pub(super) fn is_closed(&self) -> bool {
        self.region.mapping.atomic(self.closed).load(Ordering::Acquire) != 0
    }

    /// Whether all frames that were sent were received.
    pub(super) fn is_drained(&self) -> bool {
        self.lengths.holds(self.lent)
    }
}
