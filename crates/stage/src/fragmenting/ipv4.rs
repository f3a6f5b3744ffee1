//! Cuts packets of IPv4 (RFC 791, section 3.2).

use super::parts::{LONGEST, parts};
use super::plan::Cause;
use crate::{Batch, Work};
use corelane_packet::checksum;
use std::ops::Range;

/// Bytes of a header without options, and of the longest.
const HEADER: usize = 20;
const LONGEST_HEADER: usize = 60;

/// The flags and the offset, in units of 8 bytes, of a fragment.
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;

/// The bit in the type of an option that every fragment has (section 3.1).
const COPIED: u8 = 0x80;

/// Cuts the packet that a frame has from byte to byte, whose header ends at `data`. Returns the number of fragments.
///
/// # Errors
/// The count under which it is dropped. What came in fragments may be fragmented.
pub(super) fn cut<B: Batch>(
    work: &mut Work<'_, B>,
    place: usize,
    packet: Range<usize>,
    data: usize,
    mtu: usize,
) -> Result<u64, Cause> {
    let network = packet.start;
    let header = &work.frame(place)[network..data];
    let field = u16::from_be_bytes([header[6], header[7]]);
    if field & DONT_FRAGMENT != 0 && work.cut_as(place).is_none() {
        return Err(|counts| &counts.dont_fragment);
    }
    let is_beyond = usize::from(field & OFFSET) * 8 + packet.end - data > LONGEST;
    if is_beyond || checksum::internet(header) != 0 {
        return Err(|counts| &counts.malformed);
    }
    let (later, later_length) = later_header(header);
    let first_end = data + ((mtu - header.len()) & !7);
    let mut fragments = 1;
    for (part, is_last) in parts(first_end..packet.end, mtu - later_length) {
        fragments += 1;
        let start = network + later_length;
        work.insert(place, start + part.len(), |frames, fragment| {
            let whole = frames.frame(place);
            fragment[..network].copy_from_slice(&whole[..network]);
            let header = &mut fragment[network..start];
            header.copy_from_slice(&later[..later_length]);
            // The last one of a packet that is a fragment itself is followed by others, too.
            let more = if is_last { 0 } else { MORE_FRAGMENTS };
            let units = ((part.start - data) / 8) as u16;
            finish(header, part.len(), (field + units) | more);
            fragment[start..].copy_from_slice(&whole[part]);
        });
    }
    let header = &mut work.frame_mut(place)[network..data];
    finish(header, first_end - data, field | MORE_FRAGMENTS);
    work.trim(place, 0..first_end);
    Ok(fragments)
}

/// Sets the total length, the flags and offset, and the checksum of a header before this many bytes of data.
fn finish(header: &mut [u8], data: usize, field: u16) {
    let total = (header.len() + data) as u16;
    header[2..4].copy_from_slice(&total.to_be_bytes());
    header[6..8].copy_from_slice(&field.to_be_bytes());
    header[10..12].fill(0);
    let sum = checksum::internet(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// The header of later fragments, with the options that are copied, and its length.
fn later_header(header: &[u8]) -> ([u8; LONGEST_HEADER], usize) {
    let mut later = [0; LONGEST_HEADER];
    later[..HEADER].copy_from_slice(&header[..HEADER]);
    let (mut at, mut length) = (HEADER, HEADER);
    // The end of options, or no operation, or a type and a length.
    while let [kind, rest @ ..] = &header[at..]
        && *kind != 0
    {
        let option = match (*kind, rest.first()) {
            (1, _) => 1,
            (_, Some(length)) => usize::from(*length).max(2),
            (_, None) => break,
        };
        let end = (at + option).min(header.len());
        if kind & COPIED != 0 {
            later[length..length + end - at].copy_from_slice(&header[at..end]);
            length += end - at;
        }
        at = end;
    }
    // Padded with ends of options.
    let length = length.next_multiple_of(4);
    later[0] = 0x40 | (length / 4) as u8;
    (later, length)
}
