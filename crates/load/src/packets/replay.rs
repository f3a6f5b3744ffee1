//! Replays the frames of a capture: as captured, faster, slower or as a flood, in one or more passes.

use super::plan::{PacketsError, ReplayPace, ReplayPlan};
use corelane_link::LinkError;
use corelane_link::capture::CaptureReader;
use corelane_worker::Time;
use std::time::Duration;

/// A frame that waits to be sent.
#[derive(Debug)]
struct Waiting {
    /// End offset in `bytes`.
    end: usize,
    /// Capture time, in nanoseconds since the epoch.
    captured: u64,
    cut_short: bool,
}

/// A capture that is being replayed.
pub(super) struct Replay {
    plan: ReplayPlan,
    reader: CaptureReader,
    /// The bytes of the waiting frames, concatenated.
    bytes: Vec<u8>,
    waiting: Vec<Waiting>,
    /// Number of frames sent.
    sent: usize,
    /// When the first frame of this pass was sent, and its capture time.
    origin: Option<(Time, u64)>,
    times_left: u64,
    pub(super) is_done: bool,
    pub(super) oversized: u64,
    pub(super) cut_short: u64,
    /// Frames of earlier passes that could not be read.
    not_read: u64,
}

impl Replay {
    pub(super) fn open(plan: &ReplayPlan) -> Result<Replay, PacketsError> {
        Ok(Replay {
            reader: CaptureReader::open(&plan.file).map_err(PacketsError::Replay)?,
            bytes: Vec::new(),
            waiting: Vec::new(),
            sent: 0,
            origin: None,
            times_left: plan.times.saturating_sub(1),
            is_done: plan.times == 0,
            oversized: 0,
            cut_short: 0,
            not_read: 0,
            plan: plan.clone(),
        })
    }

    /// The bytes of waiting frame `number`, counted from the first unsent one.
    pub(super) fn frame(&self, number: usize) -> &[u8] {
        let place = self.sent + number;
        let start = place.checked_sub(1).map_or(0, |before| self.waiting[before].end);
        &self.bytes[start..self.waiting[place].end]
    }

    /// The number of waiting frames to send now, up to `most`; puts their due times into `due` if replay is paced. The
    /// first frame of a pass sets the clock.
    pub(super) fn wanted(&mut self, now: Time, most: usize, due: &mut Vec<Time>) -> usize {
        if let Some(first) = self.waiting.get(self.sent) {
            self.origin.get_or_insert((now, first.captured));
        }
        let most = most.min(self.waiting.len() - self.sent);
        for number in 0..most {
            match self.due(number) {
                Some(time) if time > now => return number,
                time => due.extend(time),
            }
        }
        most
    }

    /// When a waiting frame is due; `None` without frames or pacing.
    pub(super) fn due(&self, number: usize) -> Option<Time> {
        let ReplayPace::Times { factor } = self.plan.pace else {
            return None;
        };
        let (start, epoch) = self.origin?;
        // A frame captured before the first one, which occurs in files from several queues, is due at once.
        let after = self
            .waiting
            .get(self.sent + number)?
            .captured
            .saturating_sub(epoch);
        Some(start + Duration::from_nanos((after as f64 / factor) as u64))
    }

    /// Frames that could not be read: of other link layers, or cut off at the end of the file.
    pub(super) fn not_read(&self) -> u64 {
        self.not_read + self.reader.frames_not_read()
    }

    /// Marks this many waiting frames as sent.
    pub(super) fn advance(&mut self, taken: usize) {
        let sent = &self.waiting[self.sent..self.sent + taken];
        self.cut_short += sent.iter().filter(|frame| frame.cut_short).count() as u64;
        self.sent += taken;
    }

    /// Reads the next `burst` frames once all are sent; at the end of the file, starts the next pass if any are left.
    pub(super) fn refill(&mut self, burst: usize, longest: usize, has_sent: bool) -> Result<(), LinkError> {
        if self.sent < self.waiting.len() {
            return Ok(());
        }
        self.bytes.clear();
        self.waiting.clear();
        self.sent = 0;
        while self.waiting.len() < burst {
            match self.reader.next_frame()? {
                Some(frame) if frame.data.len() > longest => self.oversized += 1,
                Some(frame) => {
                    self.bytes.extend_from_slice(frame.data);
                    self.waiting.push(Waiting {
                        end: self.bytes.len(),
                        captured: frame.time,
                        cut_short: frame.wire_length as usize > frame.data.len(),
                    });
                }
                None if !self.waiting.is_empty() => break,
                // Otherwise a file without a frame that fits would be read forever.
                None if self.times_left == 0 || !has_sent => {
                    self.is_done = true;
                    break;
                }
                None => {
                    self.times_left -= 1;
                    self.origin = None;
                    self.not_read += self.reader.frames_not_read();
                    self.reader = CaptureReader::open(&self.plan.file)?;
                }
            }
        }
        Ok(())
    }
}
