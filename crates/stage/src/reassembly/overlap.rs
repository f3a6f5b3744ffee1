//! Where a fragment belongs among those of its datagram that have arrived, if it overlaps none of them; what is done if it
//! does is a policy.

use super::part::Part;
use super::store::{NONE, Store};
use super::waiting::Datagram;
use corelane_measure::words;
use serde::{Deserialize, Serialize};

words!(Overlap, OverlapIpv6);

/// What is done with fragments of an IPv4 datagram that overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// As Linux: a fragment is ignored if it lies within a run, whatever its bytes. A run is a fragment, and those that were
    /// appended to it while it was the last. Any other overlap drops the datagram.
    #[default]
    Linux,
    /// A fragment is ignored if its offset, length, bytes and more-fragments flag are those of another. Any other overlap
    /// drops the datagram.
    Drop,
    /// As FreeBSD: a fragment gives the bytes that no fragment with an equal or lower offset gave before, and replaces those
    /// of fragments with a higher offset. One that contradicts the datagram's end is ignored.
    Trim,
}

/// What is done with fragments of an IPv6 datagram that overlap: it is never made of them (RFC 5722, section 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OverlapIpv6 {
    /// As [`Overlap::Linux`].
    #[default]
    Linux,
    /// As [`Overlap::Drop`].
    Drop,
}

impl From<OverlapIpv6> for Overlap {
    fn from(overlap: OverlapIpv6) -> Overlap {
        match overlap {
            OverlapIpv6::Linux => Overlap::Linux,
            OverlapIpv6::Drop => Overlap::Drop,
        }
    }
}

/// Where a fragment belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Behind this fragment ([`NONE`]: before all), and whether it is appended to its run.
    Behind(u32, bool),
    /// Nowhere: it gives nothing new.
    Ignored,
    /// Nowhere: it overlaps.
    Overlaps,
}

/// The place of bytes from `start` to `end`.
#[inline]
pub(super) fn by_runs(store: &Store, datagram: &Datagram, start: u32, end: u32) -> Place {
    if datagram.last == NONE {
        return Place::Behind(NONE, false);
    }
    let last = store.piece(datagram.last).end;
    if end > last {
        return match start < last {
            true => Place::Overlaps,
            false => Place::Behind(datagram.last, start == last),
        };
    }
    let (mut before, mut run) = (NONE, 0);
    for (fragment, piece) in store.from(datagram.first) {
        if !piece.is_joined {
            if end <= piece.start {
                break;
            }
            run = piece.start;
        }
        if start < piece.end {
            let joined = store.from(piece.next).take_while(|(_, next)| next.is_joined);
            let run_end = joined.last().map_or(piece.end, |(_, last)| last.end);
            return match run <= start && end <= run_end {
                true => Place::Ignored,
                false => Place::Overlaps,
            };
        }
        before = fragment;
    }
    Place::Behind(before, false)
}

/// The place of bytes from `start` to `end`. A fragment with just these offsets is asked whether it is equal.
pub(super) fn by_fragments(
    store: &Store,
    datagram: &Datagram,
    start: u32,
    end: u32,
    is_equal: impl FnOnce(u32) -> bool,
) -> Place {
    let mut before = NONE;
    for (fragment, piece) in store.from(datagram.first) {
        if end <= piece.start {
            break;
        }
        if start < piece.end {
            return match (piece.start, piece.end) == (start, end) && is_equal(fragment) {
                true => Place::Ignored,
                false => Place::Overlaps,
            };
        }
        before = fragment;
    }
    Place::Behind(before, false)
}

/// The place of a fragment, from which it cuts what others gave before. Those that begin later lose what the new one gives.
pub(super) fn by_trimming(store: &mut Store, datagram: &mut Datagram, part: &mut Part) -> Place {
    let not_later = store
        .from(datagram.first)
        .take_while(|(_, piece)| piece.start <= part.start);
    let (before, given) = not_later
        .last()
        .map_or((NONE, 0), |(fragment, piece)| (fragment, piece.end));
    if given >= part.end {
        return Place::Ignored;
    }
    let cut = given.saturating_sub(part.start);
    part.start += cut;
    part.data += cut as usize;
    let mut next = match before {
        NONE => datagram.first,
        before => store.piece(before).next,
    };
    while next != NONE {
        let piece = *store.piece(next);
        if part.end <= piece.start {
            break;
        }
        let cut = part.end.min(piece.end) - piece.start;
        datagram.bytes -= cut;
        if part.end < piece.end {
            let kept = store.piece_mut(next);
            kept.start += cut;
            kept.skipped += cut;
            break;
        }
        datagram.unlink(store, before, next);
        next = piece.next;
    }
    Place::Behind(before, false)
}
