//! Sends the frames of a capture, at their own pace, faster, slower or as a flood, as often as asked.

use super::generator::Sent;
use super::plan::{PacketsError, ReplayPace, ReplayPlan};
use corelane_link::capture::CaptureReader;
use corelane_link::{Link, LinkError};
use corelane_worker::Time;
use std::time::Duration;

/// Frames that wait to be sent, one after the other in memory.
#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    /// End in `bytes`, time in nanoseconds since the epoch, whether the capture cut it short.
    frames: Vec<(usize, u64, bool)>,
    sent: usize,
}

impl Waiting {
    fn frame(&self, number: usize) -> &[u8] {
        let start = number.checked_sub(1).map_or(0, |before| self.frames[before].0);
        &self.bytes[start..self.frames[number].0]
    }
}

/// A capture that is being sent.
pub(super) struct Replay {
    plan: ReplayPlan,
    reader: CaptureReader,
    waiting: Waiting,
    /// When the first frame of this time through was sent, and the time that it was captured.
    origin: Option<(Time, u64)>,
    times_left: u64,
    is_done: bool,
    burst: usize,
    count: Option<u64>,
    pub(super) sent: Sent,
    pub(super) oversized: u64,
    pub(super) cut_short: u64,
}

impl Replay {
    pub(super) fn open(plan: &ReplayPlan, burst: usize, count: Option<u64>) -> Result<Replay, PacketsError> {
        Ok(Replay {
            reader: CaptureReader::open(&plan.file).map_err(PacketsError::Replay)?,
            waiting: Waiting::default(),
            origin: None,
            times_left: plan.times.saturating_sub(1),
            is_done: plan.times == 0,
            burst: burst.max(1),
            count,
            sent: Sent::new(matches!(plan.pace, ReplayPace::Times { .. })),
            oversized: 0,
            cut_short: 0,
            plan: plan.clone(),
        })
    }

    /// Whether all was sent.
    pub(super) fn is_done(&self) -> bool {
        self.is_done || self.count.is_some_and(|count| self.sent.frames >= count)
    }

    /// Sends what is due, a burst at most, and says how many frames that was.
    pub(super) fn turn<L: Link>(&mut self, link: &mut L) -> Result<usize, LinkError> {
        if self.waiting.sent == self.waiting.frames.len() {
            self.read(link.longest())?;
        }
        let now = Time::now();
        let first = self.waiting.sent;
        let left = self.count.map_or(u64::MAX, |count| count - self.sent.frames);
        let most = usize::try_from(left).unwrap_or(usize::MAX);
        let mut due = 0;
        while first + due < self.waiting.frames.len() && due < most && self.due(first + due, now) <= now {
            due += 1;
        }
        if due == 0 {
            return Ok(0);
        }
        let waiting = &self.waiting;
        let taken = link.transmit(due, |number, buffer| {
            let frame = waiting.frame(first + number);
            buffer[..frame.len()].copy_from_slice(frame);
            frame.len()
        })?;
        self.note(first, taken, due, now);
        Ok(taken)
    }

    /// When the next frame is due.
    pub(super) fn next_due(&self, now: Time) -> Time {
        match self.waiting.frames.get(self.waiting.sent) {
            Some(_) => self.due_at(self.waiting.sent).unwrap_or(now),
            None => now,
        }
    }

    fn note(&mut self, first: usize, taken: usize, due: usize, now: Time) {
        if taken < due {
            self.sent.waits_for_room += 1;
        }
        let left = Time::now();
        for number in first..first + taken {
            let lag = self.due_at(number).map(|due| left.since(due).as_nanos() as u64);
            if let (Some(histogram), Some(lag)) = (&mut self.sent.lag, lag) {
                histogram.record(lag);
            }
            self.sent.bytes += self.waiting.frame(number).len() as u64;
            self.cut_short += u64::from(self.waiting.frames[number].2);
        }
        if taken > 0 {
            self.sent.first.get_or_insert(now);
            self.sent.last = Some(left);
        }
        self.waiting.sent += taken;
        self.sent.frames += taken as u64;
    }

    /// When a waiting frame is due; the first one of a time through sets the clock.
    fn due(&mut self, number: usize, now: Time) -> Time {
        self.origin.get_or_insert((now, self.waiting.frames[number].1));
        self.due_at(number).unwrap_or(now)
    }

    fn due_at(&self, number: usize) -> Option<Time> {
        let ReplayPace::Times { factor } = self.plan.pace else {
            return None;
        };
        let (start, epoch) = self.origin?;
        // A frame that was captured before the first one, as files from several queues have them, is due at once.
        let after = self.waiting.frames[number].1.saturating_sub(epoch);
        Some(start + Duration::from_nanos((after as f64 / factor) as u64))
    }

    /// Reads the next frames, and starts over at the end while times are left.
    fn read(&mut self, longest: usize) -> Result<(), LinkError> {
        self.waiting.bytes.clear();
        self.waiting.frames.clear();
        self.waiting.sent = 0;
        while self.waiting.frames.len() < self.burst {
            match self.reader.next_frame()? {
                Some(frame) if frame.data.len() > longest => self.oversized += 1,
                Some(frame) => {
                    let cut_short = frame.wire_length as usize > frame.data.len();
                    self.waiting.bytes.extend_from_slice(&frame.data);
                    self.waiting
                        .frames
                        .push((self.waiting.bytes.len(), frame.time, cut_short));
                }
                None if !self.waiting.frames.is_empty() => return Ok(()),
                None if self.times_left == 0 => {
                    self.is_done = true;
                    return Ok(());
                }
                None => {
                    self.times_left -= 1;
                    self.origin = None;
                    self.reader = CaptureReader::open(&self.plan.file)?;
                    // A file without a frame that fits would be read for ever.
                    if self.sent.frames == 0 {
                        self.is_done = true;
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }
}
