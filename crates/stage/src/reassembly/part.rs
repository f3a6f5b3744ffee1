//! What reassembly reads of a fragment.

use super::counts::Cause;
use super::output::{FRAGMENT_HEADER, LONGEST};
use corelane_packet::{Addresses, Dissection, FragmentPart, TransportHeader, checksum};

/// A fragment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub identification: u32,
    /// Offsets within its datagram: from the first byte to the one behind the last.
    pub start: u32,
    pub end: u32,
    /// Whether later ones follow.
    pub more: bool,
    pub is_ipv6: bool,
    /// Offsets in the frame: of the IP header, and of the data.
    pub network: usize,
    pub data: usize,
    /// One bit, at the number of its codepoint of ECN.
    pub ecn: u8,
    /// Whether it was not to be fragmented.
    pub is_whole: bool,
    /// Bytes of header and data, without Ethernet's.
    pub total: u32,
}

impl Part {
    /// Reads a fragment.
    ///
    /// # Errors
    /// The count under which it is dropped.
    #[inline]
    pub fn of(frame: &Dissection<'_>, part: FragmentPart) -> Result<Part, Cause> {
        let (bytes, network) = (frame.frame(), frame.network_offset());
        let is_ipv6 = matches!(frame.addresses(), Addresses::V6(_));
        let data = frame.fragment_data();
        let arrived = frame.packet_end().checked_sub(data);
        let Some(arrived) = arrived.filter(|_| !frame.is_truncated()) else {
            return Err(|counts| &counts.truncated);
        };
        // A wrong one may name another datagram, or another place in it.
        if !is_ipv6 && checksum::internet(&bytes[network..data]) != 0 {
            return Err(|counts| &counts.checksum);
        }
        let kept = if part.more { arrived & !7 } else { arrived };
        if is_ipv6 && kept < arrived {
            return Err(|counts| &counts.unaligned);
        }
        let end = usize::from(part.offset) + kept;
        if end > LONGEST {
            return Err(|counts| &counts.too_long);
        }
        if is_ipv6 && part.offset == 0 && arrived > 0 && lacks_headers(frame, data + arrived) {
            return Err(|counts| &counts.tiny_first);
        }
        let (traffic_class, is_whole) = match is_ipv6 {
            true => (bytes[network + 1] >> 4, false),
            false => (bytes[network + 1], bytes[network + 6] & 0x40 != 0),
        };
        Ok(Part {
            identification: part.identification,
            start: part.offset.into(),
            end: end as u32,
            more: part.more,
            is_ipv6,
            network,
            data,
            ecn: 1 << (traffic_class & 0b11),
            is_whole,
            total: (data + kept - network) as u32,
        })
    }

    /// Bytes of the datagram in it.
    #[inline]
    pub fn length(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// Its data in its frame.
    #[inline]
    pub fn bytes<'frame>(&self, frame: &'frame [u8]) -> &'frame [u8] {
        &frame[self.data..self.data + self.length()]
    }

    /// Bytes of a datagram's headers, from the frame's first on, if its fragment at offset 0 has `headers`.
    #[inline]
    pub fn kept_headers(&self, headers: usize) -> usize {
        headers - if self.is_ipv6 { FRAGMENT_HEADER } else { 0 }
    }
}

/// Whether a first fragment, which ends at `end`, lacks a part of the headers: all are in it (RFC 8200, section 4.5).
fn lacks_headers(frame: &Dissection<'_>, end: usize) -> bool {
    frame.transport() == TransportHeader::Missing || frame.transport_offset() >= end
}
