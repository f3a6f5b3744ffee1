//! Reads the headers around the content of a tunnel, and what is to be done to bring it out.

use super::ecn;
use crate::Kinds;
use corelane_packet::tunnel::{Content, Kind, Tunnel};
use corelane_packet::{Dissection, Layout, checksum};
use std::ops::Range;

/// Flag of GRE: the header has a checksum (RFC 2784, section 2.3).
const GRE_CHECKSUM: u8 = 0x80;

/// Bytes of an Ethernet header without tags.
const ETHERNET: usize = 14;

/// What is in a tunnel, and how it becomes a frame.
#[derive(Debug, Default)]
pub(super) struct Inside {
    /// Where it is in the frame.
    pub(super) start: usize,
    pub(super) end: usize,
    /// For a packet: the length of the outer Ethernet header, which it keeps, tags included; 0 for a frame.
    pub(super) ethernet: usize,
    /// For a packet: IPv6, not IPv4.
    pub(super) is_v6: bool,
    /// Whether the traffic class changes, to this one.
    pub(super) is_marked: bool,
    pub(super) class: u8,
    /// Its headers, from its own first byte on, and what kinds of frames it is of, if it is IP.
    pub(super) headers: Option<(Layout, Kinds)>,
    /// Whether it is a tunnel itself.
    pub(super) is_tunnel: bool,
}

/// Why the content stays in its tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// The frame passes: what is inside is no frame, or its IP header cannot be read.
    NotReadable,
    /// The frame is dropped: the checksum of the outer IPv4 header, of UDP or of GRE is wrong.
    Checksum,
    /// The frame is dropped: its time to live is over.
    TimeToLive,
    /// The frame is dropped: congestion is marked outside, and the transport inside does not understand the mark.
    Ecn,
}

/// Whether the receiver of these headers accepts the packet; `verifies` checksums.
#[inline(always)]
pub(super) fn accept(outer: &Dissection<'_>, tunnel: Tunnel, verifies: bool) -> Result<(), Obstacle> {
    if verifies && (outer.has_wrong_checksum() || has_wrong_gre(outer, tunnel)) {
        return Err(Obstacle::Checksum);
    }
    if outer.time_to_live() == 0 {
        return Err(Obstacle::TimeToLive);
    }
    Ok(())
}

/// What is in the tunnel of a frame with these headers, without any for labels; `at` is where it is, decrypted.
#[inline(always)]
pub(super) fn inside(
    frame: &[u8],
    outer: Option<&Dissection<'_>>,
    tunnel: Tunnel,
    at: Range<usize>,
) -> Result<Inside, Obstacle> {
    let content = &frame[at.clone()];
    let mut inside = Inside {
        start: at.start,
        end: at.end,
        ..Inside::default()
    };
    let inner = match tunnel.content() {
        Content::Frame if content.len() >= ETHERNET => Dissection::of(content).ok(),
        Content::Packet | Content::Encrypted => {
            let inner = Dissection::of_packet(content).map_err(|_| Obstacle::NotReadable)?;
            // What a capture has cut short is not damaged.
            if inner.is_truncated() && !outer.is_some_and(Dissection::is_truncated) {
                return Err(Obstacle::NotReadable);
            }
            inside.ethernet = outer.map_or(tunnel.start(), Dissection::network_offset);
            inside.is_v6 = inner.source().is_ipv6();
            inside.end = at.start + inner.packet_end();
            Some(inner)
        }
        Content::Frame => return Err(Obstacle::NotReadable),
    };
    inside.headers = inner.map(|inner| (inner.layout(), Kinds::of(&inner)));
    inside.is_tunnel = match inside.headers {
        Some((_, kinds)) => kinds.has(Kinds::TUNNEL),
        None => Tunnel::of_labels(content).is_some(),
    };
    if let (Some(inner), Some(outer)) = (inner, outer) {
        let before = inner.traffic_class();
        inside.class = ecn::combined(before, outer.traffic_class()).ok_or(Obstacle::Ecn)?;
        inside.is_marked = inside.class != before;
    }
    Ok(inside)
}

/// The checksum of GRE covers its header and all that follows (RFC 2784, section 2.3).
#[inline]
fn has_wrong_gre(outer: &Dissection<'_>, tunnel: Tunnel) -> bool {
    if tunnel.kind() != Kind::Gre || outer.is_truncated() {
        return false;
    }
    let covered = &outer.frame()[tunnel.start()..tunnel.inside().end];
    covered[0] & GRE_CHECKSUM != 0 && checksum::internet(covered) != 0
}
