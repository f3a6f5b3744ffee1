//! Reads capture files: frames, with hash and queue if the capture records them (pcapng only).

use crate::documents::wrong_file;
use crate::outcome::{Outcome, usage};
use corelane_link::LinkError;
use corelane_link::capture::{CaptureAccount, CaptureReader, CapturedFrame};
use corelane_measure::quantity;
use corelane_packet::verify::log::Pairs;
use corelane_packet::verify::{Observed, Queue};
use serde::Serialize;
use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Describes frames that were captured without what a device hashes.
pub fn cut_short(frames: u64) -> String {
    let frames = quantity::count(frames);
    format!(
        "{frames} frames captured too short for the fields that are hashed: capture more of each (tcpdump -s 256)"
    )
}

/// What of the given files was not read.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Unread {
    #[serde(flatten)]
    pub capture: CaptureAccount,
    /// Lines of a driver's log without a hash and a queue.
    pub log_lines: u64,
}

impl Unread {
    /// A line per kind of what was not read; empty if everything was.
    pub fn text(&self) -> String {
        let mut lines = self.capture.lines();
        if self.log_lines > 0 {
            let count = quantity::count(self.log_lines);
            lines.push(format!("{count} lines of the log have no hash and queue"));
        }
        lines.iter().map(|line| format!("not read: {line}\n")).collect()
    }
}

/// Passes every frame of a capture to `take`, in order, with what the capture says of it, and stops at the first error.
pub fn each_frame(
    path: &Path,
    mut take: impl FnMut(&CapturedFrame<'_>, Observed) -> Outcome,
) -> anyhow::Result<Unread> {
    let wrong = |error: LinkError| usage("--pcap", error);
    let mut reader = CaptureReader::open(path).map_err(wrong)?;
    while let Some(frame) = reader.next_frame().map_err(wrong)? {
        let observed = Observed {
            hash: frame.hash,
            queue: frame.queue.map(Queue),
            sequence: None,
        };
        take(&frame, observed)?;
    }
    Ok(Unread {
        capture: reader.account(),
        log_lines: 0,
    })
}

/// The error of a line of a log, or of reading it.
type LineError = Box<dyn Error + Send + Sync>;

/// The pairs of a log of hashes and queues, in order.
pub fn pairs(path: &Path) -> anyhow::Result<Pairs<impl Iterator<Item = Result<String, LineError>>>> {
    let file = File::open(path).map_err(|error| wrong_file("--log", path, error))?;
    let lines = (1..).zip(BufReader::new(file).lines());
    Ok(Pairs::of(lines.map(|(number, line)| {
        line.map_err(|error| format!("line {number}: {error}").into())
    })))
}

/// As [`each_frame`], with hash and queue from a log with one pair per frame, in the same order.
pub fn each_frame_with_log(
    path: &Path,
    log: Option<&Path>,
    mut take: impl FnMut(&CapturedFrame<'_>, Observed) -> Outcome,
) -> anyhow::Result<Unread> {
    let Some(log) = log else {
        return each_frame(path, take);
    };
    let (mut pairs, mut taken) = (pairs(log)?, 0);
    let unread = each_frame(path, |frame, _| {
        let ended = || usage("--log", format!("{} ends before the capture does", log.display()));
        // The log has a pair of every frame of the file, of those that cannot be read too.
        let pair = pairs.nth((frame.number - taken) as usize).ok_or_else(ended)?;
        let pair = pair.map_err(|error| wrong_file("--log", log, error))?;
        taken = frame.number + 1;
        let observed = Observed {
            hash: Some(pair.hash),
            queue: Some(pair.queue),
            sequence: None,
        };
        take(frame, observed)
    })?;
    Ok(Unread {
        log_lines: pairs.skipped(),
        ..unread
    })
}
