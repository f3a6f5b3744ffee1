//! Cuts packets of IPv6 (RFC 8200, section 4.5).

use super::parts::{LONGEST, parts};
use super::plan::Cause;
use crate::{Batch, Work};
use corelane_packet::IpProtocol;
use std::ops::Range;

/// Bytes of an IPv6 header, and of a fragment header.
const HEADER: usize = 40;
const FRAGMENT_HEADER: usize = 8;

/// Cuts the packet that a frame has from byte to byte. Returns the number of fragments.
///
/// # Errors
/// The count under which it is dropped.
pub(super) fn cut<B: Batch>(
    work: &mut Work<'_, B>,
    place: usize,
    packet: Range<usize>,
    mtu: usize,
) -> Result<u64, Cause> {
    let Some(identification) = work.cut_as(place) else {
        return Err(|counts| &counts.only_by_source);
    };
    let malformed: Cause = |counts| &counts.malformed;
    let network = packet.start;
    if packet.len() - HEADER > LONGEST {
        return Err(malformed);
    }
    let (name, kept) = per_fragment(&work.frame(place)[packet.clone()]).ok_or(malformed)?;
    let (name, data) = (network + name, network + kept);
    let room = mtu.checked_sub(kept + FRAGMENT_HEADER);
    let room = room.filter(|room| *room >= 8).ok_or(malformed)?;
    let next = work.frame(place)[name];
    let write = |whole: &[u8], fragment: &mut [u8], part: Range<usize>, is_last: bool| {
        let (headers, behind) = fragment.split_at_mut(data);
        headers.copy_from_slice(&whole[..data]);
        headers[name] = IpProtocol::FRAGMENT.0;
        let payload = (kept - HEADER + behind.len()) as u16;
        headers[network + 4..network + 6].copy_from_slice(&payload.to_be_bytes());
        let field = (part.start - data) as u16 | u16::from(!is_last);
        behind[..2].copy_from_slice(&[next, 0]);
        behind[2..4].copy_from_slice(&field.to_be_bytes());
        behind[4..8].copy_from_slice(&identification.to_be_bytes());
        behind[FRAGMENT_HEADER..].copy_from_slice(&whole[part]);
    };
    let length = |part: &Range<usize>| data + FRAGMENT_HEADER + part.len();
    let mut parts = parts(data..packet.end, room);
    let (first, is_whole) = parts.next().ok_or(malformed)?;
    let mut fragments = 1;
    for (part, is_last) in parts {
        fragments += 1;
        work.insert(place, length(&part), |frames, fragment| {
            write(frames.frame(place), fragment, part, is_last);
        });
    }
    work.replace(place, length(&first), |frames, fragment| {
        write(frames.frame(place), fragment, first, is_whole);
    });
    Ok(fragments)
}

/// Where the per-fragment headers of a packet name the next one, and where they end: the IPv6 header, hop-by-hop options, and
/// all up to a routing header. `None` if they are not complete.
fn per_fragment(packet: &[u8]) -> Option<(usize, usize)> {
    let (mut name, mut at) = (6, HEADER);
    let mut kept = (name, at);
    loop {
        let kind = IpProtocol(packet[name]);
        let is_walked = matches!(
            kind,
            IpProtocol::HOP_BY_HOP | IpProtocol::DESTINATION_OPTIONS | IpProtocol::ROUTING
        );
        if !is_walked {
            return Some(kept);
        }
        let length = (usize::from(*packet.get(at + 1)?) + 1) * 8;
        (name, at) = (at, at + length);
        if at > packet.len() {
            return None;
        }
        if kind != IpProtocol::DESTINATION_OPTIONS {
            kept = (name, at);
        }
    }
}
