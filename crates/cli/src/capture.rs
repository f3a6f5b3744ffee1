//! Reads capture files: frames, with hash and queue if the capture records them (pcapng only).

use crate::documents::lines;
use crate::outcome::{Outcome, usage};
use corelane_link::LinkError;
use corelane_link::capture::CaptureReader;
use corelane_measure::quantity;
use corelane_packet::verify::log::{self, Pair};
use corelane_packet::verify::{Observed, Queue};
use std::path::Path;

/// Describes frames that were captured without what a device hashes.
pub fn cut_short(frames: u64) -> String {
    let frames = quantity::count(frames);
    format!(
        "{frames} frames captured too short for the fields that are hashed: capture more of each (tcpdump -s 256)"
    )
}

/// Passes every frame of a capture to `take`, in order, and stops at the first error.
pub fn each_frame(path: &Path, mut take: impl FnMut(&[u8], Observed) -> Outcome) -> Outcome {
    let wrong = |error: LinkError| usage("--pcap", error);
    let mut reader = CaptureReader::open(path).map_err(wrong)?;
    while let Some(frame) = reader.next_frame().map_err(wrong)? {
        let observed = Observed {
            hash: frame.hash,
            queue: frame.queue.map(Queue),
            sequence: None,
        };
        take(frame.data, observed)?;
    }
    Ok(())
}

/// The pairs of a log of hashes and queues, in order.
pub fn pairs(path: &Path) -> anyhow::Result<impl Iterator<Item = anyhow::Result<Pair>>> {
    lines("--log", path, log::pair)
}

/// As [`each_frame`], with hash and queue from a log with one pair per frame, in the same order.
pub fn each_frame_with_log(
    path: &Path,
    log: Option<&Path>,
    mut take: impl FnMut(&[u8], Observed) -> Outcome,
) -> Outcome {
    let Some(log) = log else {
        return each_frame(path, take);
    };
    let mut pairs = pairs(log)?;
    each_frame(path, |frame, _| {
        let ended = || usage("--log", format!("{} ends before the capture does", log.display()));
        let pair = pairs.next().transpose()?.ok_or_else(ended)?;
        let observed = Observed {
            hash: Some(pair.hash),
            queue: Some(pair.queue),
            sequence: None,
        };
        take(frame, observed)
    })
}
