//! Finds what a packet carries inside a tunnel.
//!
//! A device that hashes only the outer header puts a whole tunnel on one queue. A device that hashes the inner header
//! sees a different flow.

use crate::bytes::{array, number16, number32};
use crate::dissection::{Dissection, Ports};
use crate::ethernet;
use crate::layout::{FURTHEST, Layout, Marks, UDP_HEADER};
use crate::protocol::{EtherType, IpProtocol};
use serde::Serialize;
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

/// The longest packet that is looked into.
const LONGEST: usize = (1 << 24) - 1;

/// Bottom of the stack, in a label (RFC 3032, section 2.1).
const BOTTOM: u32 = 1 << 8;

/// A tunnel that ends at the receiver of the outer header.
// In one word, as passing its parts through memory takes longer than reading the headers. From the lowest bit on: kind (4
// bits), content (4), end of the content (24), start and end of the header (16 each).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel(u64);

/// The protocol of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// IPv4 or IPv6 directly behind an IP header (RFC 2003, RFC 4213, RFC 2473).
    #[serde(rename = "ipip")]
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
#[repr(u8)]
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
    #[inline(always)]
    pub fn of(outer: &Dissection) -> Option<Result<Tunnel, Unsupported>> {
        let ports = announced(outer)?;
        match ports {
            Some(ports) => in_udp(outer.frame(), outer.layout(), ports).read(),
            None => behind_ip(outer.frame(), outer.layout()).read(),
        }
    }

    /// Whether the protocol or the ports of a packet say that it is a tunnel, whatever follows.
    #[must_use]
    #[inline(always)]
    pub fn is_announced(outer: &Dissection) -> bool {
        announced(outer).is_some()
    }

    /// The tunnel of a frame whose Ethernet header, tags included, is followed by labels; `None` if it is not.
    ///
    /// # Errors
    /// If what follows the labels is not IP, or the frame ends before it.
    pub fn of_labels(frame: &[u8]) -> Option<Result<Tunnel, Unsupported>> {
        let (ether_type, at) = ethernet::payload(frame, 0).ok()?;
        match ether_type.is_mpls() {
            true => behind_labels(Kind::Mpls, frame, at, at).read(),
            false => None,
        }
    }

    /// Its protocol.
    #[must_use]
    #[inline]
    pub fn kind(self) -> Kind {
        match self.0 & 15 {
            1 => Kind::IpInIp,
            2 => Kind::Gre,
            3 => Kind::Vxlan,
            4 => Kind::Geneve,
            5 => Kind::Mpls,
            _ => Kind::Esp,
        }
    }

    /// What follows its header.
    #[must_use]
    #[inline]
    pub fn content(self) -> Content {
        match self.0 >> 4 & 15 {
            0 => Content::Packet,
            1 => Content::Frame,
            _ => Content::Encrypted,
        }
    }

    /// Offset of its header: the end of the outer IP header or, of labels, of the Ethernet header. A UDP header is the first
    /// part of it.
    #[must_use]
    #[inline]
    pub fn start(self) -> usize {
        usize::from((self.0 >> 32) as u16)
    }

    /// What its header names beside its ends: the network identifier of VXLAN and GENEVE, the key of GRE, the security
    /// parameters index of ESP, and labels, several folded into one number; 0 without any. `frame` is the one that it was found
    /// in.
    #[must_use]
    pub fn identifier(self, frame: &[u8]) -> u32 {
        let (start, inside) = (self.start(), self.inside().start);
        let word = |at| number32(frame, at).unwrap_or_default();
        let labels = |from: usize| {
            let labels = (from..inside).step_by(LABEL).map(|at| word(at) >> 12);
            labels.fold(0_u32, |all, label| all.rotate_left(12) ^ label)
        };
        match self.kind() {
            Kind::IpInIp => 0,
            Kind::Vxlan | Kind::Geneve => word(start + UDP_HEADER + 4) >> 8,
            Kind::Esp => word(inside),
            Kind::Mpls => labels(start),
            Kind::Gre => {
                let flags = word(start) >> 16 & u32::from(GRE_OPTIONAL);
                let (checksum, key) = (flags >> 15, flags >> 13 & 1);
                let behind = start + GRE_HEADER + 4 * flags.count_ones() as usize;
                let key = key * word(start + GRE_HEADER + 4 * checksum as usize);
                key ^ labels(behind)
            }
        }
    }

    /// Where the content is: up to the end that the length fields of UDP and of the outer IP header say, or of the captured
    /// part; behind labels, up to the end of the frame.
    #[must_use]
    #[inline]
    pub fn inside(self) -> Range<usize> {
        usize::from((self.0 >> 48) as u16)..(self.0 as u32 >> 8) as usize
    }

    /// See [`inner`].
    #[inline]
    pub(crate) fn inner<'frame>(self, outer: &Dissection<'frame>) -> Option<Dissection<'frame>> {
        let at = self.inside();
        let packet = &outer.frame()[..at.end];
        let dissection = match self.content() {
            Content::Frame => Dissection::of_frame_at(packet, at.start),
            Content::Packet => Dissection::of_packet_at(packet, at.start),
            Content::Encrypted => return None,
        };
        dissection.ok()
    }
}

/// The dissection of the packet inside the tunnel, with offsets from the start of the outer frame; `None` if there is none
/// that can be read: no tunnel that [`Tunnel::of`] knows, a frame without IP, an encrypted packet, a damaged IP header.
#[must_use]
#[inline]
pub fn inner<'frame>(outer: &Dissection<'frame>) -> Option<Dissection<'frame>> {
    Tunnel::of(outer)?.ok()?.inner(outer)
}

/// The dissection of the first packet of a frame: behind Ethernet, or labels.
pub(crate) fn outermost(frame: &[u8]) -> Option<Dissection<'_>> {
    let behind_labels =
        || Dissection::of_packet_at(frame, Tunnel::of_labels(frame)?.ok()?.inside().start).ok();
    Dissection::of(frame).ok().or_else(behind_labels)
}

/// What was found: nothing (0), a tunnel, or why it is not supported (the lowest four bits are set).
#[derive(Clone, Copy)]
struct Found(u64);

impl Found {
    const NOTHING: Found = Found(0);

    /// A tunnel whose header is from `start` to `behind`, if it is within the packet.
    #[inline(always)]
    fn tunnel(kind: Kind, content: Content, start: usize, behind: usize, packet: &[u8]) -> Found {
        let end = packet.len().min(LONGEST);
        if behind > end.min(FURTHEST) {
            return Found::not(Unsupported::Truncated);
        }
        let of_kind = match kind {
            Kind::IpInIp => 1,
            Kind::Gre => 2,
            Kind::Vxlan => 3,
            Kind::Geneve => 4,
            Kind::Mpls => 5,
            Kind::Esp => 6,
        };
        let content = match content {
            Content::Packet => 0,
            Content::Frame => 1 << 4,
            Content::Encrypted => 2 << 4,
        };
        Found(of_kind | content | (end as u64) << 8 | (start as u64) << 32 | (behind as u64) << 48)
    }

    #[inline(always)]
    fn not(reason: Unsupported) -> Found {
        Found((reason as u64) << 4 | 15)
    }

    #[inline(always)]
    fn read(self) -> Option<Result<Tunnel, Unsupported>> {
        match self.0 & 15 {
            0 => None,
            15 => Some(Err(REASONS[(self.0 >> 4) as usize])),
            _ => Some(Ok(Tunnel(self.0))),
        }
    }
}

/// In the order of their numbers.
const REASONS: [Unsupported; 9] = [
    Unsupported::GreVersion,
    Unsupported::GreProtocol,
    Unsupported::VxlanWithoutIdentifier,
    Unsupported::GeneveVersion,
    Unsupported::GeneveControl,
    Unsupported::GeneveCritical,
    Unsupported::GeneveProtocol,
    Unsupported::MplsNotIp,
    Unsupported::Truncated,
];

/// The ports that announce a tunnel, `None` if it is the protocol of the IP header; `None` of a packet that announces none.
#[inline(always)]
fn announced(outer: &Dissection) -> Option<Option<Ports>> {
    match outer.protocol() {
        IpProtocol::UDP => udp_ports(outer).filter(|ports| is_of_tunnel(*ports)).map(Some),
        IpProtocol::ESP | IpProtocol::IPV4 | IpProtocol::IPV6 | IpProtocol::GRE => Some(None),
        _ => None,
    }
}

/// The ports of a packet of UDP. Where they are in a plain packet needs no checks.
#[inline(always)]
fn udp_ports(packet: &Dissection) -> Option<Ports> {
    if !packet.has(Marks::PLAIN) {
        return { *packet }.ports();
    }
    let [a, b, c, d] = array(packet.frame(), packet.transport_offset())?;
    Some(Ports {
        source: u16::from_be_bytes([a, b]),
        destination: u16::from_be_bytes([c, d]),
    })
}

/// Whether one of the ports is that of a tunnel.
#[inline(always)]
fn is_of_tunnel(ports: Ports) -> bool {
    let port = ports.destination;
    VXLAN_PORTS.contains(&port) || port == GENEVE_PORT || [port, ports.source].contains(&ESP_PORT)
}

/// The packet whose headers announce something, and where they end; `None` of a fragment.
#[inline(always)]
fn whole<'frame>(outer: &Dissection<'frame>) -> Option<(&'frame [u8], usize)> {
    let packet = &outer.frame()[..outer.packet_end()];
    (!outer.has(Marks::PART)).then_some((packet, outer.transport_offset()))
}

/// What the protocol of an IP header announces.
fn behind_ip(frame: &[u8], layout: Layout) -> Found {
    let outer = Dissection { frame, layout };
    let Some((packet, at)) = whole(&outer) else {
        return Found::NOTHING;
    };
    match outer.protocol() {
        IpProtocol::ESP => Found::tunnel(Kind::Esp, Content::Encrypted, at, at, packet),
        IpProtocol::GRE => behind_gre(packet, at),
        _ => Found::tunnel(Kind::IpInIp, Content::Packet, at, at, packet),
    }
}

/// What the ports of UDP announce.
fn in_udp(frame: &[u8], layout: Layout, ports: Ports) -> Found {
    let Some((packet, at)) = whole(&Dissection { frame, layout }) else {
        return Found::NOTHING;
    };
    let behind = at + UDP_HEADER;
    // Captured, or within the length of UDP (RFC 768).
    let end = number16(packet, at + 4).map_or(0, |length| at + usize::from(length));
    let packet = &packet[..end.min(packet.len())];
    match ports.destination {
        port if VXLAN_PORTS.contains(&port) => match packet.get(behind) {
            None => Found::not(Unsupported::Truncated),
            Some(flags) if flags & VXLAN_VALID == 0 => Found::not(Unsupported::VxlanWithoutIdentifier),
            Some(_) => Found::tunnel(Kind::Vxlan, Content::Frame, at, behind + VXLAN_HEADER, packet),
        },
        GENEVE_PORT => behind_geneve(packet, at, behind),
        // Behind a translator of addresses, only the other end has this port.
        port if [port, ports.source].contains(&ESP_PORT) => match packet.get(behind..).unwrap_or_default() {
            [0xff] | [0, 0, 0, 0, ..] => Found::NOTHING,
            [_, _, _, _, ..] => Found::tunnel(Kind::Esp, Content::Encrypted, at, behind, packet),
            _ => Found::not(Unsupported::Truncated),
        },
        _ => Found::NOTHING,
    }
}

/// Checksum, key and sequence number of GRE occupy four bytes each if their flag is set (RFC 2890, section 2).
fn behind_gre(packet: &[u8], at: usize) -> Found {
    let (Some(flags), Some(ether_type)) = (number16(packet, at), number16(packet, at + 2)) else {
        return Found::not(Unsupported::Truncated);
    };
    if flags & GRE_FOREIGN != 0 {
        return Found::not(Unsupported::GreVersion);
    }
    let behind = at + GRE_HEADER + 4 * (flags & GRE_OPTIONAL).count_ones() as usize;
    match EtherType(ether_type) {
        label if label.is_mpls() => behind_labels(Kind::Gre, packet, at, behind),
        ether_type => match content(ether_type) {
            Some(content) => Found::tunnel(Kind::Gre, content, at, behind, packet),
            None => Found::not(Unsupported::GreProtocol),
        },
    }
}

/// The length of the options of GENEVE counts words of four bytes (RFC 8926, section 3.4).
fn behind_geneve(packet: &[u8], start: usize, at: usize) -> Found {
    let Some([first, flags, high, low]) = array(packet, at) else {
        return Found::not(Unsupported::Truncated);
    };
    if first >> 6 != 0 {
        return Found::not(Unsupported::GeneveVersion);
    }
    if flags & GENEVE_CONTROL != 0 {
        return Found::not(Unsupported::GeneveControl);
    }
    if flags & GENEVE_CRITICAL != 0 {
        return Found::not(Unsupported::GeneveCritical);
    }
    let options = usize::from(first & 0x3f) * 4;
    match content(EtherType(u16::from_be_bytes([high, low]))) {
        Some(content) => Found::tunnel(Kind::Geneve, content, start, at + GENEVE_HEADER + options, packet),
        None => Found::not(Unsupported::GeneveProtocol),
    }
}

/// The packet behind the labels at `at`; its version says that it is IP (RFC 4928, section 2).
fn behind_labels(kind: Kind, packet: &[u8], start: usize, mut at: usize) -> Found {
    loop {
        let Some(label) = number32(packet, at) else {
            return Found::not(Unsupported::Truncated);
        };
        at += LABEL;
        if label & BOTTOM != 0 {
            break;
        }
    }
    match packet.get(at).map(|first| first >> 4) {
        None => Found::not(Unsupported::Truncated),
        Some(4 | 6) => Found::tunnel(kind, Content::Packet, start, at, packet),
        Some(_) => Found::not(Unsupported::MplsNotIp),
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
