//! The header before a frame that says how it is cut: `struct virtio_net_hdr` of linux/virtio_net.h (Virtual I/O Device,
//! section 5.1.6), which tap devices and packet sockets take. Numbers are in this machine's byte order.

use corelane_packet::{Dissection, IpProtocol, checksum};
use std::io::IoSlice;
use std::net::IpAddr;

/// Bytes of the header, which are zero before a frame that is sent as it is.
pub(crate) const HEADER: usize = 10;

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`: the field of the checksum holds the sum of the pseudo-header.
const NEEDS_CHECKSUM: u8 = 1;
/// `VIRTIO_NET_HDR_GSO_TCPV4` and `VIRTIO_NET_HDR_GSO_TCPV6`.
const TCP_V4: u8 = 1;
const TCP_V6: u8 = 4;
/// `VIRTIO_NET_HDR_GSO_ECN`, and the flag of the TCP header at the same bit: CWR, which only the first segment has.
const CWR: u8 = 0x80;

/// Offsets in the TCP header (RFC 9293, section 3.1).
const DATA_OFFSET: usize = 12;
const FLAGS: usize = 13;
const CHECKSUM: usize = 16;

/// A frame of merged segments, in the parts to write: the header, and the frame with another checksum.
#[derive(Debug)]
pub(crate) struct Cut<'frame> {
    header: [u8; HEADER],
    before: &'frame [u8],
    checksum: [u8; 2],
    behind: &'frame [u8],
}

impl<'frame> Cut<'frame> {
    /// A frame that is to be cut into segments of `segment` bytes of payload; `None` if it is no whole TCP packet.
    pub(crate) fn of(frame: &'frame [u8], segment: u16) -> Option<Cut<'frame>> {
        let packet = Dissection::of(frame).ok()?;
        if packet.protocol() != IpProtocol::TCP || packet.is_part() || packet.is_truncated() {
            return None;
        }
        let (start, frame) = (packet.transport_offset(), &frame[..packet.packet_end()]);
        let headers = start + usize::from(frame.get(start + DATA_OFFSET)? >> 4) * 4;
        let of_family = match packet.source() {
            IpAddr::V4(_) => TCP_V4,
            IpAddr::V6(_) => TCP_V6,
        };
        let mut header = [
            NEEDS_CHECKSUM,
            of_family | frame[start + FLAGS] & CWR,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
        ];
        let numbers = [headers as u16, segment, start as u16, CHECKSUM as u16];
        for (to, number) in header[2..].chunks_exact_mut(2).zip(numbers) {
            to.copy_from_slice(&number.to_ne_bytes());
        }
        let (before, rest) = frame.split_at_checked(start + CHECKSUM)?;
        let behind = rest.get(2..)?;
        let checksum = (!checksum::finished(packet.pseudo_header_sum())).to_be_bytes();
        Some(Cut {
            header,
            before,
            checksum,
            behind,
        })
    }

    /// What to write.
    pub(crate) fn parts(&self) -> [IoSlice<'_>; 4] {
        [&self.header, self.before, &self.checksum, self.behind].map(IoSlice::new)
    }
}
