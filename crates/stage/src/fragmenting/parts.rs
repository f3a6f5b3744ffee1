//! Which parts of a packet's data lie in which fragment.

use std::ops::Range;

/// The most bytes that the length and offset fields of a packet can describe: of IPv6 those behind its header.
pub(super) const LONGEST: usize = u16::MAX as usize;

/// The parts of data that lie in later fragments, each with whether it is the last; all but the last have `room` bytes, or less
/// so that their length is a multiple of 8.
pub(super) fn parts(mut data: Range<usize>, room: usize) -> impl Iterator<Item = (Range<usize>, bool)> {
    std::iter::from_fn(move || {
        let length = match data.len() {
            0 => return None,
            rest if rest <= room => rest,
            _ => room & !7,
        };
        let part = data.start..data.start + length;
        data.start = part.end;
        Some((part, data.is_empty()))
    })
}
