//! Finds and dissects the inner packet of a tunnel.
//!
//! A device that hashes only the outer header puts a whole tunnel on one queue. A device that hashes the inner header
//! sees a different flow.

use crate::bytes::{array, number16};
use crate::dissection::{Dissection, TransportHeader};
use crate::layout::Marks;
use crate::protocol::{EtherType, IpProtocol};

/// UDP ports of VXLAN (RFC 7348, section 5; 8472 is the older Linux default) and GENEVE (RFC 8926, section 3.3).
const VXLAN_PORTS: [u16; 2] = [4789, 8472];
const GENEVE_PORT: u16 = 6081;

/// Bytes of a UDP header, of a VXLAN header and of a GENEVE header without options.
const UDP_HEADER: usize = 8;
const VXLAN_HEADER: usize = 8;
const GENEVE_HEADER: usize = 8;

/// Ethernet inside GRE and GENEVE (RFC 1701; RFC 8926, section 3.4).
const ETHERNET_BRIDGING: EtherType = EtherType(0x6558);

/// The dissection of the inner packet, with offsets from the start of the outer frame; `None` if there is none or its IP
/// header cannot be read. Fragments are skipped: their content is known only after reassembly.
///
/// Tunnels are IPv4 or IPv6 directly behind an IP header (RFC 2003, RFC 4213), GRE (RFC 2784, RFC 2890), VXLAN (RFC
/// 7348) and GENEVE (RFC 8926).
#[must_use]
pub fn inner<'frame>(outer: &Dissection<'frame>) -> Option<Dissection<'frame>> {
    let packet = &outer.frame()[..outer.packet_end()];
    let (ether_type, at) = announced(outer, packet)??;
    match ether_type {
        ETHERNET_BRIDGING => Dissection::of_frame_at(packet, at).ok(),
        // The IP header has its own version.
        EtherType::IPV4 | EtherType::IPV6 => Dissection::of_packet_at(packet, at).ok(),
        _ => None,
    }
}

/// Whether the headers of a packet announce another packet inside it, captured or not.
pub(crate) fn is_tunnel(outer: &Dissection) -> bool {
    announced(outer, &[]).is_some()
}

/// Type and offset of the packet that the headers of `outer` announce inside it; `None` instead if the header before it
/// is not in `packet` or of another version.
fn announced(outer: &Dissection, packet: &[u8]) -> Option<Option<(EtherType, usize)>> {
    if outer.has(Marks::PART) {
        return None;
    }
    let at = outer.transport_offset();
    Some(match (outer.protocol(), outer.transport()) {
        (IpProtocol::IPV4 | IpProtocol::IPV6, _) => Some((EtherType::IPV4, at)),
        (IpProtocol::GRE, _) => behind_gre(packet, at),
        (_, TransportHeader::Udp(ports)) if VXLAN_PORTS.contains(&ports.destination) => {
            Some((ETHERNET_BRIDGING, at + UDP_HEADER + VXLAN_HEADER))
        }
        (_, TransportHeader::Udp(ports)) if ports.destination == GENEVE_PORT => {
            behind_geneve(packet, at + UDP_HEADER)
        }
        _ => return None,
    })
}

/// Type and offset of the payload of a GRE version 0 header. Checksum, key and sequence number occupy four bytes each
/// if their flag is set (RFC 2890, section 2).
fn behind_gre(packet: &[u8], at: usize) -> Option<(EtherType, usize)> {
    let flags = number16(packet, at)?;
    let ether_type = EtherType(number16(packet, at + 2)?);
    let optional = (flags & 0b1011_0000_0000_0000).count_ones() as usize;
    (flags & 0x4007 == 0).then_some((ether_type, at + 4 + 4 * optional))
}

/// Type and offset of the payload of a GENEVE version 0 header. The length of its options counts words of four bytes
/// (RFC 8926, section 3.4).
fn behind_geneve(packet: &[u8], at: usize) -> Option<(EtherType, usize)> {
    let [first, _, high, low] = array(packet, at)?;
    let options = usize::from(first & 0x3f) * 4;
    let ether_type = EtherType(u16::from_be_bytes([high, low]));
    (first >> 6 == 0).then_some((ether_type, at + GENEVE_HEADER + options))
}
