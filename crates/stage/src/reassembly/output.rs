//! The frame of a whole datagram: the headers of its fragment at offset 0, and all data.

use corelane_packet::checksum;

/// Bytes of an IPv6 fragment header, and of an IPv6 header.
pub(super) const FRAGMENT_HEADER: usize = 8;
pub(super) const IPV6_HEADER: usize = 40;
/// The largest number of IPv4's total length, in bytes from its header on, and of IPv6's payload length, behind its header.
pub(super) const LONGEST: usize = u16::MAX as usize;

/// Authentication header (RFC 4302, section 2.2): its length field counts words of 4 bytes, minus two.
const AUTHENTICATION: u8 = 51;

/// The don't-fragment flag.
const DONT_FRAGMENT: u16 = 0x4000;

/// The codepoint of ECN that congestion sets, and the bit of Not-ECT in a set of codepoints.
const CONGESTED: u8 = 0b11;
const NOT_ECT: u8 = 1;

/// Whether a whole datagram experienced congestion, by the set of the codepoints that its fragments had: one bit each, at the
/// codepoint's number. `None` if it must not be delivered (RFC 3168, section 5.3). If it has ECT(0) and ECT(1), that of
/// offset 0 is left.
#[inline]
pub(super) fn congested(codepoints: u8) -> Option<bool> {
    let is_mixed = codepoints & NOT_ECT != 0 && codepoints != NOT_ECT;
    (!is_mixed).then_some(codepoints & 1 << CONGESTED != 0)
}

/// Finishes the IPv4 header of a whole datagram (RFC 791, section 3.2), from `network` to `data`.
#[inline]
pub(super) fn finish_ipv4(frame: &mut [u8], network: usize, data: usize, is_congested: bool, is_whole: bool) {
    let total = (frame.len() - network) as u16;
    let header = &mut frame[network..data];
    if is_congested {
        header[1] |= CONGESTED;
    }
    header[2..4].copy_from_slice(&total.to_be_bytes());
    let field = if is_whole { DONT_FRAGMENT } else { 0 };
    header[6..8].copy_from_slice(&field.to_be_bytes());
    header[10..12].fill(0);
    let sum = checksum::internet(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// Finishes the IPv6 headers of a whole datagram (RFC 8200, section 4.5), from `network` to `data`: those before the fragment
/// header. The last of them names the header that the fragment header named.
pub(super) fn finish_ipv6(frame: &mut [u8], network: usize, data: usize, is_congested: bool, next: u8) {
    let payload = (frame.len() - network - IPV6_HEADER) as u16;
    let headers = &mut frame[network..data];
    if is_congested {
        headers[1] |= CONGESTED << 4;
    }
    headers[4..6].copy_from_slice(&payload.to_be_bytes());
    let (mut name, mut at) = (6, IPV6_HEADER);
    while at < headers.len() {
        let units = usize::from(headers[at + 1]);
        let length = match headers[name] {
            AUTHENTICATION => (units + 2) * 4,
            _ => (units + 1) * 8,
        };
        (name, at) = (at, at + length);
    }
    headers[name] = next;
}
