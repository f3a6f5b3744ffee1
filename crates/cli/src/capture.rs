//! Reads capture files: frames, with hash and queue if the capture records them (pcapng only).

use crate::documents::{lines, wrong_file};
use crate::outcome::usage;
use anyhow::anyhow;
use corelane_link::LinkError;
use corelane_link::capture::{CaptureAccount, CaptureReader, CapturedFrame};
use corelane_measure::quantity;
use corelane_packet::verify::log::Pairs;
use corelane_packet::verify::{Observed, Queue};
use serde::Serialize;
use std::path::Path;

/// Describes frames that were captured without what a device hashes.
pub fn cut_short(frames: u64) -> String {
    let frames = quantity::count(frames);
    format!(
        "{frames} frames captured too short for the fields that are hashed: capture more of each (tcpdump -s 256)"
    )
}

/// What of a capture and its log was not used.
#[derive(Debug, Default, Serialize)]
pub struct Unused {
    /// Frames that were skipped, because they were captured too short.
    pub cut_short: u64,
    pub unread: Unread,
}

impl Unused {
    /// A line per kind; empty if all was used.
    pub fn text(&self) -> String {
        let skipped = match self.cut_short {
            0 => String::new(),
            frames => format!("skipped: {}\n", cut_short(frames)),
        };
        skipped + &self.unread.text()
    }
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

/// The pairs of a log of hashes and queues, in order.
pub fn pairs(path: &Path) -> anyhow::Result<Pairs<impl Iterator<Item = anyhow::Result<String>>>> {
    lines("--log", path).map(Pairs::of)
}

/// Passes every frame of a capture to `take`, in order, with the hash and queue that the capture has of it, or the log: one
/// pair per frame, in the same order.
pub fn each_frame(
    path: &Path,
    log: Option<&Path>,
    mut take: impl FnMut(&CapturedFrame<'_>, Observed),
) -> anyhow::Result<Unread> {
    let wrong = |error: LinkError| usage("--pcap", error);
    let mut reader = CaptureReader::open(path).map_err(wrong)?;
    let log = log.map(|log| anyhow::Ok((log, pairs(log)?)));
    let (mut log, mut taken) = (log.transpose()?, 0);
    while let Some(frame) = reader.next_frame().map_err(wrong)? {
        let (hash, queue) = match &mut log {
            None => (frame.hash, frame.queue.map(Queue)),
            Some((log, pairs)) => {
                // The log has a pair of every frame of the file, of those that cannot be read too.
                let pair = pairs.nth((frame.number - taken) as usize);
                let pair = pair.unwrap_or_else(|| Err(anyhow!("it ends before the capture does")));
                let pair = pair.map_err(|error| wrong_file("--log", log, error))?;
                taken = frame.number + 1;
                (Some(pair.hash), Some(pair.queue))
            }
        };
        let sequence = None;
        take(
            &frame,
            Observed {
                hash,
                queue,
                sequence,
            },
        );
    }
    Ok(Unread {
        capture: reader.account(),
        log_lines: log.map_or(0, |(_, pairs)| pairs.skipped()),
    })
}
