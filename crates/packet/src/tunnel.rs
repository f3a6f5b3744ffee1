//! Finds what a packet carries inside a tunnel.
//!
//! A device that hashes only the outer header puts a whole tunnel on one queue. A device that hashes the inner header
//! sees a different flow.

use crate::bytes::{array, number16, number32};
use crate::dissection::{Dissection, Ports, TransportHeader};
use crate::ethernet;
use crate::layout::{Marks, UDP_HEADER};
use crate::protocol::{EtherType, IpProtocol};
use std::ops::Range;
use thiserror::Error;

/// UDP ports of VXLAN (RFC 7348, section 5; 8472 is the older Linux default), of GENEVE (RFC 8926, section 3.3) and of ESP
/// (RFC 3948, section 2.1).
const VXLAN_PORTS: [u16; 2] = [4789, 8472];
const GENEVE_PORT: u16 = 6081;
const ESP_PORT: u16 = 4500;

/// Bytes of a GRE header without options, of a VXLAN header, of a GENEVE header without options, and of a label.
const GRE_HEADER: usize = 4;
const VXLAN_HEADER: usize = 8;
const GENEVE_HEADER: usize = 8;
const LABEL: usize = 4;

/// Flags of GRE: a checksum, a key, a sequence number (RFC 2890, section 2).
const GRE_OPTIONAL: u16 = 0b1011 << 12;
/// Bits of GRE that a receiver without RFC 1701 must find zero (RFC 2784, section 2.2), and the version.
const GRE_FOREIGN: u16 = 0b0100_1100_0000_0111;

/// Flag of VXLAN: the network identifier is valid (RFC 7348, section 5).
const VXLAN_VALID: u8 = 1 << 3;

/// Flags of GENEVE: control packet, critical options present (RFC 8926, section 3.4).
const GENEVE_CONTROL: u8 = 1 << 7;
const GENEVE_CRITICAL: u8 = 1 << 6;

/// Bottom of the stack, in a label (RFC 3032, section 2.1).
const BOTTOM: u32 = 1 << 8;

/// A tunnel that ends at the receiver of the outer header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// Its protocol.
    pub kind: Kind,
    /// Its header: from the end of the outer IP, or Ethernet, header to the content. It includes the UDP header and labels.
    pub header: Range<usize>,
    /// What follows the header.
    pub content: Content,
}

/// The protocol of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// IPv4 or IPv6 directly behind an IP header (RFC 2003, RFC 4213, RFC 2473).
    IpInIp,
    /// GRE version 0 (RFC 2784, RFC 2890).
    Gre,
    /// VXLAN (RFC 7348).
    Vxlan,
    /// GENEVE (RFC 8926).
    Geneve,
    /// Labels behind an Ethernet header (RFC 3032).
    Mpls,
    /// Encapsulating security payload (RFC 4303), directly behind an IP header or in UDP (RFC 3948).
    Esp,
}

/// What follows the header of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// A packet; its IP header has its own version.
    Packet,
    /// An Ethernet frame.
    Frame,
    /// The header of ESP, followed by what is encrypted.
    Encrypted,
}

/// Why the header of a tunnel does not lead to its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum Unsupported {
    /// GRE with a version other than 0, or with the routing of RFC 1701.
    #[error("GRE of another version than 0, or with routing")]
    GreVersion,
    /// GRE that carries neither IP, Ethernet nor labels.
    #[error("GRE that carries neither IP, Ethernet nor MPLS")]
    GreProtocol,
    /// VXLAN without a valid network identifier.
    #[error("VXLAN without the I flag")]
    VxlanWithoutIdentifier,
    /// GENEVE with a version other than 0.
    #[error("GENEVE of another version than 0")]
    GeneveVersion,
    /// A control packet of GENEVE.
    #[error("a control packet of GENEVE")]
    GeneveControl,
    /// GENEVE with options that only a receiver who knows them may ignore.
    #[error("GENEVE with critical options")]
    GeneveCritical,
    /// GENEVE that carries neither IP nor Ethernet.
    #[error("GENEVE that carries neither IP nor Ethernet")]
    GeneveProtocol,
    /// Labels that are not followed by an IP header.
    #[error("MPLS that does not carry IP")]
    MplsNotIp,
    /// The packet, or its captured part, ends within the header of the tunnel.
    #[error("the packet ends within the header of the tunnel")]
    Truncated,
}

impl Tunnel {
    /// The tunnel that the headers of a packet announce; `None` if they announce none. A fragment announces none: its content
    /// is known only after reassembly. Nor does what the ends of ESP in UDP send each other: IKE and keepalives (RFC 3948,
    /// section 2.2 and 2.3).
    ///
    /// # Errors
    /// If the tunnel's own header does not lead to its content.
    #[inline]
    pub fn of(outer: &Dissection) -> Option<Result<Tunnel, Unsupported>> {
        if outer.has(Marks::PART) {
            return None;
        }
        let at = outer.transport_offset();
        let packet = &outer.frame()[..outer.packet_end()];
        let found = match (outer.protocol(), outer.transport()) {
            (IpProtocol::UDP, TransportHeader::Udp(ports)) => return in_udp(packet, at, ports),
            (IpProtocol::ESP, _) => Ok((Kind::Esp, at, Content::Encrypted)),
            (IpProtocol::IPV4 | IpProtocol::IPV6, _) => Ok((Kind::IpInIp, at, Content::Packet)),
            (IpProtocol::GRE, _) => behind_gre(packet, at),
            _ => return None,
        };
        Some(found.map(|found| Tunnel::new(at, found)))
    }

    /// The tunnel of a frame whose Ethernet header, tags included, is followed by labels; `None` if it is not.
    ///
    /// # Errors
    /// If what follows the labels is not IP, or the frame ends before it.
    pub fn of_labels(frame: &[u8]) -> Option<Result<Tunnel, Unsupported>> {
        let (ether_type, at) = ethernet::payload(frame, 0).ok()?;
        let behind = ether_type.is_mpls().then(|| behind_labels(frame, at))?;
        Some(behind.map(|end| Tunnel::new(at, (Kind::Mpls, end, Content::Packet))))
    }

    /// See [`inner`].
    pub(crate) fn inner<'frame>(&self, outer: &Dissection<'frame>) -> Option<Dissection<'frame>> {
        let packet = &outer.frame()[..outer.packet_end()];
        let dissection = match self.content {
            Content::Frame => Dissection::of_frame_at(packet, self.header.end),
            Content::Packet => Dissection::of_packet_at(packet, self.header.end),
            Content::Encrypted => return None,
        };
        dissection.ok()
    }

    fn new(start: usize, (kind, end, content): Found) -> Tunnel {
        let header = start..end;
        Tunnel {
            kind,
            header,
            content,
        }
    }
}

/// The dissection of the packet inside the tunnel, with offsets from the start of the outer frame; `None` if there is none
/// that can be read: no tunnel that [`Tunnel::of`] knows, a frame without IP, an encrypted packet, a damaged IP header.
#[must_use]
pub fn inner<'frame>(outer: &Dissection<'frame>) -> Option<Dissection<'frame>> {
    Tunnel::of(outer)?.ok()?.inner(outer)
}

/// The dissection of the first packet of a frame: behind Ethernet, or labels.
pub(crate) fn outermost(frame: &[u8]) -> Option<Dissection<'_>> {
    let behind_labels = || Dissection::of_packet_at(frame, Tunnel::of_labels(frame)?.ok()?.header.end).ok();
    Dissection::of(frame).ok().or_else(behind_labels)
}

/// Kind, offset of the content, and what it is.
type Found = (Kind, usize, Content);

/// What the port of a UDP header at `at` announces.
fn in_udp(packet: &[u8], at: usize, ports: Ports) -> Option<Result<Tunnel, Unsupported>> {
    let behind = at + UDP_HEADER;
    let found = match ports.destination {
        port if VXLAN_PORTS.contains(&port) => behind_vxlan(packet, behind),
        GENEVE_PORT => behind_geneve(packet, behind),
        // Behind a translator of addresses, only the other end has this port.
        port if [port, ports.source].contains(&ESP_PORT) => match packet.get(behind..).unwrap_or_default() {
            [0xff] | [0, 0, 0, 0, ..] => return None,
            [_, _, _, _, ..] => Ok((Kind::Esp, behind, Content::Encrypted)),
            _ => Err(Unsupported::Truncated),
        },
        _ => return None,
    };
    Some(found.map(|found| Tunnel::new(at, found)))
}

/// Checksum, key and sequence number of GRE occupy four bytes each if their flag is set (RFC 2890, section 2).
fn behind_gre(packet: &[u8], at: usize) -> Result<Found, Unsupported> {
    let flags = number16(packet, at).ok_or(Unsupported::Truncated)?;
    let ether_type = number16(packet, at + 2).ok_or(Unsupported::Truncated)?;
    if flags & GRE_FOREIGN != 0 {
        return Err(Unsupported::GreVersion);
    }
    let optional = (flags & GRE_OPTIONAL).count_ones() as usize;
    let end = at + GRE_HEADER + 4 * optional;
    let (end, content) = match EtherType(ether_type) {
        label if label.is_mpls() => (behind_labels(packet, end)?, Content::Packet),
        ether_type => (end, content(ether_type).ok_or(Unsupported::GreProtocol)?),
    };
    within(packet, (Kind::Gre, end, content))
}

fn behind_vxlan(packet: &[u8], at: usize) -> Result<Found, Unsupported> {
    match packet.get(at).ok_or(Unsupported::Truncated)? & VXLAN_VALID {
        0 => Err(Unsupported::VxlanWithoutIdentifier),
        _ => within(packet, (Kind::Vxlan, at + VXLAN_HEADER, Content::Frame)),
    }
}

/// The length of the options of GENEVE counts words of four bytes (RFC 8926, section 3.4).
fn behind_geneve(packet: &[u8], at: usize) -> Result<Found, Unsupported> {
    let [first, flags, high, low] = array(packet, at).ok_or(Unsupported::Truncated)?;
    if first >> 6 != 0 {
        return Err(Unsupported::GeneveVersion);
    }
    if flags & GENEVE_CONTROL != 0 {
        return Err(Unsupported::GeneveControl);
    }
    if flags & GENEVE_CRITICAL != 0 {
        return Err(Unsupported::GeneveCritical);
    }
    let content = content(EtherType(u16::from_be_bytes([high, low]))).ok_or(Unsupported::GeneveProtocol)?;
    let options = usize::from(first & 0x3f) * 4;
    within(packet, (Kind::Geneve, at + GENEVE_HEADER + options, content))
}

/// Offset of the packet behind the labels at `at`, whose version says that it is IP (RFC 4928, section 2).
fn behind_labels(packet: &[u8], mut at: usize) -> Result<usize, Unsupported> {
    loop {
        let label = number32(packet, at).ok_or(Unsupported::Truncated)?;
        at += LABEL;
        if label & BOTTOM != 0 {
            break;
        }
    }
    match packet.get(at).ok_or(Unsupported::Truncated)? >> 4 {
        4 | 6 => Ok(at),
        _ => Err(Unsupported::MplsNotIp),
    }
}

/// What a tunnel of layer 2 and 3 carries under this type.
fn content(ether_type: EtherType) -> Option<Content> {
    match ether_type {
        EtherType::IPV4 | EtherType::IPV6 => Some(Content::Packet),
        EtherType::ETHERNET => Some(Content::Frame),
        _ => None,
    }
}

fn within(packet: &[u8], found: Found) -> Result<Found, Unsupported> {
    (found.1 <= packet.len())
        .then_some(found)
        .ok_or(Unsupported::Truncated)
}
