//! Cuts merged frames into the segments that they were made of, for links that cannot.
//!
//! The exact inverse of [`coalescing`](crate::coalescing): every segment is byte for byte what arrived, if that merged no
//! segments with the PSH flag and no acknowledgments.

use crate::stage_counts;
use crate::tcp::{FLAGS, Headers, PSH};
use crate::{Batch, Context, Kinds, Merged, PlannedStage, Stage, Work};
use corelane_packet::checksum::sum;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

stage_counts! {
    /// The counts of a stage, on cache lines of their own: the stage writes them, any thread reads them.
    pub struct Counts {
        /// Merged frames that were cut.
        Used merged,
        /// Segments that they were cut into.
        Made segments,
    }
}

/// There is nothing to be set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {}

/// Cuts merged frames.
#[derive(Debug)]
pub struct Segmenting {
    counts: Arc<Counts>,
}

impl Segmenting {
    /// A stage with these counts.
    #[must_use]
    pub fn new(counts: Arc<Counts>) -> Segmenting {
        Segmenting { counts }
    }
}

impl Stage for Segmenting {
    fn run<B: Batch>(&mut self, work: &mut Work<'_, B>) {
        if !work.kinds().has(Kinds::MERGED) {
            return;
        }
        for place in 0..work.len() {
            let Some(merged) = work.merged(place).filter(|_| work.goes_on(place)) else {
                continue;
            };
            let headers = work.dissection(place).ok();
            let Some(headers) = headers.and_then(|dissection| Headers::of(&dissection)) else {
                continue;
            };
            self.counts.merged.add(1);
            self.counts.segments.add(cut(work, place, headers, merged) as u64);
        }
    }
}

/// Cuts the frame at a place; returns the number of segments.
fn cut<B: Batch>(work: &mut Work<'_, B>, place: usize, headers: Headers, merged: Merged) -> usize {
    let (length, size) = (work.frame(place).len(), usize::from(merged.segment_bytes));
    let segments = (length - headers.payload).div_ceil(size);
    let payload = |number: usize| {
        let start = headers.payload + number * size;
        start..length.min(start + size)
    };
    for number in 1..segments {
        let payload = payload(number);
        work.insert(place, headers.payload + payload.len(), |frames, bytes| {
            let (head, behind) = bytes.split_at_mut(headers.payload);
            head.copy_from_slice(&frames.frame(place)[..head.len()]);
            behind.copy_from_slice(&frames.frame(place)[payload]);
            finish(headers, merged, number, number + 1 == segments, bytes);
        });
    }
    work.trim(place, 0..payload(0).end);
    finish(headers, merged, 0, segments == 1, work.frame_mut(place));
    segments
}

/// Makes the headers of a merged frame those of one segment, with its payload behind them.
fn finish(headers: Headers, merged: Merged, number: usize, is_last: bool, segment: &mut [u8]) {
    let ahead = number * usize::from(merged.segment_bytes);
    let sequence = headers.sequence(segment).wrapping_add(ahead as u32);
    headers.set_sequence(segment, sequence);
    if !headers.is_v6() && !merged.same_identification {
        let identification = headers.identification(segment).wrapping_add(number as u16);
        headers.set_identification(segment, identification);
    }
    if !is_last {
        segment[headers.transport + FLAGS] &= !PSH;
    }
    let sum = sum(&segment[headers.payload..]);
    headers.finish(segment, sum);
}

impl PlannedStage for Segmenting {
    const NAME: &'static str = "segment";
    const ABOUT: &'static str =
        "Cut merged TCP segments again, for links that take no longer frames than their MTU";
    type Plan = Plan;
    type Counts = Counts;

    fn of(_plan: &Plan, _context: &Context, counts: Arc<Counts>) -> Segmenting {
        Segmenting::new(counts)
    }
}
