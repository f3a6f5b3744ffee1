//! Writes frames: takes flow, size and mark; writes Ethernet, IP, UDP and payload with correct checksums into the
//! link's memory.
//!
//! The constant part of the frames of one size is written once, into a template. For each frame only addresses, ports,
//! mark and the two checksums are written. A checksum is a sum (RFC 1071), so the template's contribution is also
//! computed once.

use super::flows::Flow;
use corelane_packet::checksum::{finished, sum};
use corelane_proto::mark::{self, MARK_BYTES, Mark, Marker};

const ETHERNET: usize = 14;
const IPV4: usize = 20;
const IPV6: usize = 40;
const UDP: usize = 8;
/// `IPPROTO_UDP`.
const PROTOCOL: u8 = 17;
/// Default of Linux (`net.ipv4.ip_default_ttl`).
const TIME_TO_LIVE: u8 = 64;

/// Writes frames of one family between two link addresses.
#[derive(Debug)]
pub(super) struct Writer {
    is_ipv6: bool,
    /// Destination, then source.
    link_addresses: [[u8; 6]; 2],
    /// By size; created on first use.
    templates: Vec<Option<Template>>,
}

/// The bytes of the frames of one size, and their contribution to the checksums.
#[derive(Debug)]
struct Template {
    bytes: Vec<u8>,
    marker: Marker,
    /// Sum of the IPv4 header without addresses and checksum.
    header_sum: u64,
    /// Sum of the UDP checksum input without addresses, ports and mark: lengths, protocol, fill.
    datagram_sum: u64,
}

/// Length in bytes of the shortest valid frame of a family that has room for a mark.
pub(super) fn shortest(is_ipv6: bool) -> usize {
    let network = if is_ipv6 { IPV6 } else { IPV4 };
    (ETHERNET + network + UDP + MARK_BYTES).max(super::sizes::SHORTEST)
}

impl Writer {
    pub(super) fn new(is_ipv6: bool, destination: [u8; 6], source: [u8; 6]) -> Writer {
        Writer {
            is_ipv6,
            link_addresses: [destination, source],
            templates: Vec::new(),
        }
    }

    /// Writes a frame of `size` bytes, at least [`shortest`], to the start of `buffer`, which must be large enough.
    #[inline]
    pub(super) fn write(&mut self, buffer: &mut [u8], size: usize, flow: Flow, mark: Mark) {
        if self.templates.len() <= size {
            self.templates.resize_with(size + 1, || None);
        }
        let (is_ipv6, link_addresses) = (self.is_ipv6, self.link_addresses);
        let template =
            self.templates[size].get_or_insert_with(|| Template::new(is_ipv6, link_addresses, size));
        let frame = &mut buffer[..size];
        frame.copy_from_slice(&template.bytes);
        let (addresses_at, addresses) = addresses(self.is_ipv6, flow);
        let addresses = &addresses[..if self.is_ipv6 { 32 } else { 8 }];
        frame[addresses_at..addresses_at + addresses.len()].copy_from_slice(addresses);
        let addresses_sum = sum(addresses);
        if !self.is_ipv6 {
            let checksum = finished(template.header_sum + addresses_sum);
            frame[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&checksum.to_be_bytes());
        }
        let udp = addresses_at + addresses.len();
        frame[udp..udp + 2].copy_from_slice(&flow.source_port.to_be_bytes());
        frame[udp + 2..udp + 4].copy_from_slice(&flow.destination_port.to_be_bytes());
        let mark = template.marker.write(mark);
        frame[udp + UDP..udp + UDP + MARK_BYTES].copy_from_slice(&mark);
        let ports = u64::from(flow.source_port) + u64::from(flow.destination_port);
        // 0 would mean "no checksum" (RFC 768); its complement represents the same sum.
        let checksum = match finished(template.datagram_sum + addresses_sum + ports + sum(&mark)) {
            0 => u16::MAX,
            checksum => checksum,
        };
        frame[udp + 6..udp + 8].copy_from_slice(&checksum.to_be_bytes());
    }
}

impl Template {
    fn new(is_ipv6: bool, [destination, source]: [[u8; 6]; 2], size: usize) -> Template {
        let mut bytes = [destination, source].concat();
        let network = if is_ipv6 { IPV6 } else { IPV4 };
        let datagram = (size - ETHERNET - network) as u16;
        if is_ipv6 {
            bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            bytes.extend(datagram.to_be_bytes());
            bytes.extend([PROTOCOL, TIME_TO_LIVE]);
            bytes.extend([0; 32]);
        } else {
            bytes.extend([0x08, 0x00, 0x45, 0]);
            bytes.extend((datagram + IPV4 as u16).to_be_bytes());
            // Identification 0 and "don't fragment": an atomic datagram (RFC 6864, section 4.1).
            bytes.extend([0, 0, 0x40, 0, TIME_TO_LIVE, PROTOCOL, 0, 0]);
            bytes.extend([0; 8]);
        }
        let header_sum = if is_ipv6 { 0 } else { sum(&bytes[ETHERNET..]) };
        bytes.extend([0; 4]);
        bytes.extend(datagram.to_be_bytes());
        bytes.extend([0; 2 + MARK_BYTES]);
        let fill = mark::fill(size - bytes.len());
        bytes.extend(&fill);
        // The length counts twice: in the pseudo header and in UDP's own (RFC 768; RFC 8200, section 8.1).
        let datagram_sum = 2 * u64::from(datagram) + u64::from(PROTOCOL) + sum(&fill);
        Template {
            bytes,
            marker: Marker::new(fill.len()),
            header_sum,
            datagram_sum,
        }
    }
}

/// Offset of the addresses, and their length: 8 bytes for IPv4, 32 for IPv6.
#[inline(always)]
fn addresses(is_ipv6: bool, flow: Flow) -> (usize, [u8; 32]) {
    let mut bytes = [0; 32];
    if is_ipv6 {
        bytes[..16].copy_from_slice(&flow.source.to_be_bytes());
        bytes[16..].copy_from_slice(&flow.destination.to_be_bytes());
        (ETHERNET + 8, bytes)
    } else {
        bytes[..4].copy_from_slice(&(flow.source as u32).to_be_bytes());
        bytes[4..8].copy_from_slice(&(flow.destination as u32).to_be_bytes());
        (ETHERNET + 12, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_packet::{Dissection, Ports, checksum};
    use proptest::prelude::*;

    /// The input of UDP's checksum (RFC 768; RFC 8200, section 8.1): pseudo header, then the datagram.
    fn covered(frame: &[u8], dissection: &Dissection<'_>, is_ipv6: bool) -> Vec<u8> {
        let (at, bytes) = if is_ipv6 { (22, 32) } else { (26, 8) };
        let datagram = &frame[dissection.transport_offset()..];
        let mut covered = frame[at..at + bytes].to_vec();
        covered.extend((datagram.len() as u32).to_be_bytes());
        covered.extend([0, 0, 0, PROTOCOL]);
        covered.extend(datagram);
        covered
    }

    proptest! {
        #[test]
        fn frames_have_what_was_asked_for_and_right_checksums(
            is_ipv6: bool, source: u128, destination: u128, source_port: u16, destination_port: u16,
            more in 0usize..1500, stream: u16, sequence: u32, time: u64,
        ) {
            let flow = Flow { source, destination, source_port, destination_port };
            let mark = Mark { stream, sequence, time };
            let size = shortest(is_ipv6) + more;
            let mut frame = vec![0xee; size];
            let mut writer = Writer::new(is_ipv6, [2; 6], [4; 6]);
            writer.write(&mut frame, size, flow, mark);
            // Again, now from the existing template.
            let mut again = vec![0x11; size];
            writer.write(&mut again, size, flow, mark);
            prop_assert_eq!(&again, &frame);
            let dissection = Dissection::of(&frame).unwrap();
            let ports = Ports { source: source_port, destination: destination_port };
            prop_assert_eq!(dissection.ports(), Some(ports));
            prop_assert_eq!(dissection.packet_end(), size);
            prop_assert!(!dissection.is_truncated());
            if !is_ipv6 {
                prop_assert_eq!(checksum::internet(&frame[ETHERNET..ETHERNET + IPV4]), 0);
            }
            prop_assert_eq!(checksum::internet(&covered(&frame, &dissection, is_ipv6)), 0);
            prop_assert_eq!(Mark::read(&frame[dissection.transport_offset() + UDP..]), Ok(mark));
        }
    }
}
