//! The transmit ring of TPACKET_V3: slots of one size. The kernel sends a slot when its status requests it, and frees it when
//! the device is done with it.

use crate::layout::FrameLayout;
use crate::link::WriteFrame;
use crate::system::mapping::Mapping;
use crate::system::socket;
use std::mem::offset_of;
use std::sync::atomic::Ordering;

/// Bytes of a block, which the kernel allocates in one piece: 16 pages are usually available.
const BLOCK: usize = 1 << 16;
/// The offset of the frame in a slot: behind the header (`TPACKET3_HDRLEN` less the address that only received frames have).
const FRAME: usize = size_of::<libc::tpacket3_hdr>().next_multiple_of(16);

/// The ring to request from the kernel: slots of one stride, as many as fit into each block.
pub(super) fn request(layout: FrameLayout) -> libc::tpacket_req3 {
    let mut request: libc::tpacket_req3 = socket::zeroed();
    let block = BLOCK.max(layout.stride().next_multiple_of(4096));
    let slots = block / layout.stride();
    let blocks = layout.frames().div_ceil(slots);
    request.tp_block_size = block as u32;
    request.tp_block_nr = blocks as u32;
    request.tp_frame_size = layout.stride() as u32;
    request.tp_frame_nr = (blocks * slots) as u32;
    request
}

/// The position of the writer.
#[derive(Debug)]
pub(super) struct TransmitRing {
    start: usize,
    block: usize,
    slots_a_block: usize,
    slots: usize,
    stride: usize,
    next: usize,
}

impl TransmitRing {
    /// The ring that begins `start` bytes into the mapping.
    pub(super) fn new(start: usize, request: &libc::tpacket_req3) -> TransmitRing {
        let (block, stride) = (request.tp_block_size as usize, request.tp_frame_size as usize);
        TransmitRing {
            start,
            block,
            slots_a_block: block / stride,
            slots: request.tp_frame_nr as usize,
            stride,
            next: 0,
        }
    }

    /// Bytes of the longest frame that a slot holds.
    pub(super) fn longest(&self) -> usize {
        self.stride - FRAME
    }

    /// Writes up to `count` frames of at most `longest` bytes, as many as there are free slots; returns their number and
    /// bytes.
    pub(super) fn put(
        &mut self,
        mapping: &Mapping,
        count: usize,
        longest: usize,
        mut write: impl WriteFrame,
    ) -> (usize, u64) {
        let mut bytes = 0;
        for number in 0..count {
            let slot = self.start
                + self.next / self.slots_a_block * self.block
                + self.next % self.slots_a_block * self.stride;
            let status = mapping.atomic(slot + offset_of!(libc::tpacket3_hdr, tp_status));
            if status.load(Ordering::Acquire) != libc::TP_STATUS_AVAILABLE {
                return (number, bytes);
            }
            // SAFETY: the slot lies within the mapping, and the kernel leaves it alone until its status requests sending.
            let buffer =
                unsafe { std::slice::from_raw_parts_mut(mapping.start().add(slot + FRAME), longest) };
            let length = write(number, buffer).min(longest);
            bytes += length as u64;
            let field = |offset| mapping.atomic(slot + offset);
            field(offset_of!(libc::tpacket3_hdr, tp_next_offset)).store(0, Ordering::Relaxed);
            field(offset_of!(libc::tpacket3_hdr, tp_len)).store(length as u32, Ordering::Relaxed);
            status.store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
            self.next = (self.next + 1) % self.slots;
        }
        (count, bytes)
    }
}
