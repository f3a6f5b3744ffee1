//! The receive ring of TPACKET_V3: the kernel packs frames into blocks and hands over a block when it is full or old.
//!
//! A block begins with its descriptor: the status word shows the owner, followed by the number of frames and the offset of
//! the first; each frame begins with a header that has the offset of the next (`struct tpacket_block_desc`, `struct
//! tpacket3_hdr` of linux/if_packet.h).

use crate::burst::Extent;
use crate::layout::FrameLayout;
use crate::system::mapping::Mapping;
use crate::system::socket;
use std::sync::atomic::Ordering;

/// Bytes of a block: holds the longest frame that offloads make (64 KiB) and fits into a second-level cache.
const BLOCK: usize = 1 << 17;
/// Milliseconds after which the kernel hands over a block that is not full: the minimum.
const OLD_MS: u32 = 1;
/// Bytes of a VLAN tag (IEEE 802.1Q), which devices strip and the kernel stores outside the frame.
const TAG: usize = 4;

/// The sender left the checksum unfinished (`TP_STATUS_CSUMNOTREADY` of linux/if_packet.h).
const UNFINISHED: u32 = 1 << 3;

const STATUS: usize = 8;
const FRAMES: usize = 12;
const FIRST: usize = 16;

/// The ring to request from the kernel.
pub(super) fn request(layout: FrameLayout) -> libc::tpacket_req3 {
    let mut request: libc::tpacket_req3 = socket::zeroed();
    let blocks = layout.bytes().div_ceil(BLOCK).max(4);
    request.tp_block_size = BLOCK as u32;
    request.tp_block_nr = blocks as u32;
    // Frames are packed; the kernel only checks that the numbers agree.
    request.tp_frame_size = 2048;
    request.tp_frame_nr = (blocks * (BLOCK / 2048)) as u32;
    request.tp_retire_blk_tov = OLD_MS;
    request
}

/// Bytes to reserve before each frame: the headroom, and room to restore the tag.
pub(super) fn reserve(layout: FrameLayout) -> libc::c_int {
    (layout.headroom() + TAG) as libc::c_int
}

/// The position of the reader.
#[derive(Debug)]
pub(super) struct ReceiveRing {
    blocks: usize,
    /// The first block that was not returned to the kernel.
    oldest: usize,
    /// Blocks from there on whose frames are all lent.
    spent: usize,
    /// Frames left in the next block and the offset of the first of them; `None` at the start of a block.
    begun: Option<(u32, usize)>,
}

impl ReceiveRing {
    pub(super) fn new(request: &libc::tpacket_req3) -> ReceiveRing {
        ReceiveRing {
            blocks: request.tp_block_nr as usize,
            oldest: 0,
            spent: 0,
            begun: None,
        }
    }

    /// Returns the blocks whose frames were all lent.
    pub(super) fn release(&mut self, mapping: &Mapping) {
        for number in 0..self.spent {
            let block = (self.oldest + number) % self.blocks * BLOCK;
            mapping
                .atomic(block + STATUS)
                .store(libc::TP_STATUS_KERNEL, Ordering::Release);
        }
        self.oldest = (self.oldest + self.spent) % self.blocks;
        self.spent = 0;
    }

    /// Receives up to `limit` frames from the blocks that were handed over.
    pub(super) fn take(&mut self, mapping: &Mapping, limit: usize, extents: &mut Vec<Extent>) {
        while extents.len() < limit && self.spent < self.blocks {
            let block = (self.oldest + self.spent) % self.blocks * BLOCK;
            if mapping.atomic(block + STATUS).load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                return;
            }
            let (mut left, mut at) = self.begun.take().unwrap_or_else(|| {
                let frames = mapping.atomic(block + FRAMES).load(Ordering::Relaxed);
                (
                    frames,
                    block + mapping.atomic(block + FIRST).load(Ordering::Relaxed) as usize,
                )
            });
            while left > 0 && extents.len() < limit {
                // SAFETY: the block was handed over, so it holds `left` more headers, of which this is the next, all
                // within the mapping and aligned to 16 bytes.
                let header = unsafe { mapping.start().add(at).cast::<libc::tpacket3_hdr>().read() };
                extents.push(frame(mapping, at, &header));
                at += header.tp_next_offset as usize;
                left -= 1;
            }
            if left > 0 {
                self.begun = Some((left, at));
                return;
            }
            self.spent += 1;
        }
    }
}

/// The frame after a header, with the tag restored that the device or the kernel removed, and its checksum finished.
fn frame(mapping: &Mapping, at: usize, header: &libc::tpacket3_hdr) -> Extent {
    let (mut offset, mut length, mut wire_length) =
        (at + usize::from(header.tp_mac), header.tp_snaplen, header.tp_len);
    /// Both addresses of Ethernet, before the tag.
    const ADDRESSES: usize = 12;
    if header.tp_status & libc::TP_STATUS_VLAN_VALID != 0 && length as usize >= ADDRESSES {
        let kind = match header.tp_status & libc::TP_STATUS_VLAN_TPID_VALID {
            0 => libc::ETH_P_8021Q as u16,
            _ => header.hv1.tp_vlan_tpid,
        };
        offset -= TAG;
        // SAFETY: the frame has both addresses, and the kernel left the reserved bytes before them free, which the tag
        // takes; the block is ours.
        let bytes = unsafe { std::slice::from_raw_parts_mut(mapping.start().add(offset), ADDRESSES + TAG) };
        bytes.copy_within(TAG.., 0);
        bytes[ADDRESSES..ADDRESSES + 2].copy_from_slice(&kind.to_be_bytes());
        bytes[ADDRESSES + 2..].copy_from_slice(&(header.hv1.tp_vlan_tci as u16).to_be_bytes());
        length += TAG as u32;
        wire_length += TAG as u32;
    }
    let time = u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec);
    if header.tp_status & UNFINISHED != 0 {
        // SAFETY: the frame lies within the block, which is ours.
        corelane_packet::finish_checksum(unsafe {
            std::slice::from_raw_parts_mut(mapping.start().add(offset), length as usize)
        });
    }
    Extent::captured(offset, length, wire_length, time)
}
