//! TCP segments in frames, as coalescing and segmenting read and write them.

use crate::{Batch, Kinds, Merged, Work};
use corelane_packet::checksum::{finished, sum};
use corelane_packet::{Addresses, Dissection, IpProtocol};
use std::ops::Range;

/// Flags of a TCP header (RFC 9293, section 3.1).
pub(crate) const PSH: u8 = 1 << 3;
pub(crate) const ACK: u8 = 1 << 4;

/// Offset of the flags in a TCP header, and bytes of one without options.
pub(crate) const FLAGS: usize = 13;
pub(crate) const TCP_HEADER: usize = 20;

/// Bytes of an IPv4 header without options, and of an IPv6 header.
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;

/// Offsets of the checksum in an IPv4 header, and in a TCP header.
const IPV4_CHECKSUM: usize = 10;
const TCP_CHECKSUM: usize = 16;

/// Where the headers of a TCP segment are in its frame. The IP header has neither options nor extension headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Headers {
    pub network: usize,
    pub transport: usize,
    pub payload: usize,
}

impl<B: Batch> Work<'_, B> {
    /// How the frame at a place was merged, if it was.
    #[must_use]
    pub fn merged(&self, place: usize) -> Option<Merged> {
        self.rare(place).merged
    }

    /// Keeps how the frame at a place was merged, until it is changed.
    pub(crate) fn set_merged(&mut self, place: usize, merged: Merged) {
        self.add_kinds(Kinds::MERGED);
        self.rare_mut(place).merged = Some(merged);
    }
}

impl Headers {
    /// The headers of a frame that a plain IP header, a TCP header and payload fill to its last byte.
    pub fn of(dissection: &Dissection<'_>) -> Option<Headers> {
        let (network, transport) = (dissection.network_offset(), dissection.transport_offset());
        let frame = dissection.frame();
        let words = usize::from(frame.get(transport + FLAGS - 1)? >> 4);
        let headers = Headers {
            network,
            transport,
            payload: transport + 4 * words,
        };
        let header = match dissection.addresses() {
            Addresses::V4(_) => IPV4_HEADER,
            Addresses::V6(_) => IPV6_HEADER,
        };
        let is_plain = transport - network == header
            && dissection.protocol() == IpProtocol::TCP
            && !dissection.is_fragment()
            && words >= TCP_HEADER / 4
            && headers.payload <= frame.len();
        let length = headers.length(frame.len()).filter(|_| is_plain)?;
        (number16(frame, headers.length_field()) == length).then_some(headers)
    }

    pub fn is_v6(self) -> bool {
        self.transport - self.network == IPV6_HEADER
    }

    pub fn ip(self, frame: &[u8]) -> &[u8] {
        &frame[self.network..self.transport]
    }

    pub fn tcp(self, frame: &[u8]) -> &[u8] {
        &frame[self.transport..self.payload]
    }

    /// Both addresses and both ports.
    pub fn flow(self, frame: &[u8]) -> &[u8] {
        &frame[self.addresses().start..self.transport + 4]
    }

    fn addresses(self) -> Range<usize> {
        let both = if self.is_v6() { 32 } else { 8 };
        self.transport - both..self.transport
    }

    pub fn sequence(self, frame: &[u8]) -> u32 {
        number32(frame, self.transport + 4)
    }

    pub fn acknowledgment(self, frame: &[u8]) -> u32 {
        number32(frame, self.transport + 8)
    }

    pub fn set_sequence(self, frame: &mut [u8], sequence: u32) {
        let at = self.transport + 4;
        frame[at..at + 4].copy_from_slice(&sequence.to_be_bytes());
    }

    /// The identification of an IPv4 header.
    pub fn identification(self, frame: &[u8]) -> u16 {
        number16(frame, self.network + 4)
    }

    pub fn set_identification(self, frame: &mut [u8], identification: u16) {
        put16(frame, self.network + 4, identification);
    }

    /// The length field of the IP header of a packet that ends here; `None` if it is too long for it.
    pub fn length(self, end: usize) -> Option<u16> {
        let start = if self.is_v6() {
            self.transport
        } else {
            self.network
        };
        u16::try_from(end - start).ok()
    }

    fn length_field(self) -> usize {
        self.network + if self.is_v6() { 4 } else { 2 }
    }

    /// Writes the length, the checksum of an IPv4 header, and that of TCP over a payload of this sum.
    pub fn finish(self, frame: &mut [u8], payload: u64) {
        let length = self
            .length(frame.len())
            .expect("segments are cut and merged to lengths that a packet has");
        put16(frame, self.length_field(), length);
        if !self.is_v6() {
            put16(frame, self.network + IPV4_CHECKSUM, self.ip_checksum(frame));
        }
        put16(
            frame,
            self.transport + TCP_CHECKSUM,
            self.tcp_checksum(frame, payload),
        );
    }

    /// The sum of the payload if both checksums are those that [`finish`](Headers::finish) writes.
    pub fn checked(self, frame: &[u8]) -> Option<u64> {
        let payload = sum(&frame[self.payload..]);
        let right = number16(frame, self.transport + TCP_CHECKSUM) == self.tcp_checksum(frame, payload)
            && (self.is_v6() || number16(frame, self.network + IPV4_CHECKSUM) == self.ip_checksum(frame));
        right.then_some(payload)
    }

    fn ip_checksum(self, frame: &[u8]) -> u16 {
        let (before, behind) = around(self.ip(frame), IPV4_CHECKSUM);
        finished(sum(before) + sum(behind))
    }

    fn tcp_checksum(self, frame: &[u8], payload: u64) -> u16 {
        let length = frame.len() - self.transport;
        let pseudo_header = sum(&frame[self.addresses()]) + u64::from(IpProtocol::TCP.0) + length as u64;
        let (before, behind) = around(self.tcp(frame), TCP_CHECKSUM);
        finished(pseudo_header + sum(before) + sum(behind) + payload)
    }
}

/// What precedes and what follows a checksum.
fn around(header: &[u8], checksum: usize) -> (&[u8], &[u8]) {
    (&header[..checksum], &header[checksum + 2..])
}

fn number32(frame: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]])
}

fn number16(frame: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([frame[at], frame[at + 1]])
}

fn put16(frame: &mut [u8], at: usize, number: u16) {
    frame[at..at + 2].copy_from_slice(&number.to_be_bytes());
}
