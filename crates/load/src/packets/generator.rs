//! One stream: frames made for one queue of a link, as fast as it takes them or when they are due.

use super::flows::Flows;
use super::frame::Writer;
use super::sizes::Sizes;
use crate::pace::Schedule;
use corelane_link::{Link, LinkError};
use corelane_measure::histogram::Histogram;
use corelane_proto::mark::Mark;
use corelane_worker::Time;

/// What one stream did.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) frames: u64,
    pub(super) bytes: u64,
    pub(super) waits_for_room: u64,
    pub(super) unsent: u64,
    pub(super) lag: Option<Histogram>,
    pub(super) first: Option<Time>,
    pub(super) last: Option<Time>,
}

impl Sent {
    /// Nothing yet, with a histogram of lag where there is a schedule.
    pub(super) fn new(has_schedule: bool) -> Sent {
        Sent {
            frames: 0,
            bytes: 0,
            waits_for_room: 0,
            unsent: 0,
            lag: has_schedule.then(Histogram::new),
            first: None,
            last: None,
        }
    }
}

/// Makes the frames of one stream.
pub(super) struct Stream {
    pub(super) number: u16,
    pub(super) flows: Flows,
    pub(super) sizes: Sizes,
    /// No frame is shorter.
    pub(super) shortest: usize,
    pub(super) writer: Writer,
    pub(super) draws: fastrand::Rng,
    /// When frames are due; none: at once.
    pub(super) schedule: Option<Schedule>,
    /// Frames to send in all.
    pub(super) count: Option<u64>,
    pub(super) burst: usize,
    pub(super) sent: Sent,
    /// When each frame of the burst was due.
    pub(super) due: Vec<Time>,
}

impl Stream {
    /// Whether all frames are sent that were asked for.
    pub(super) fn is_done(&self) -> bool {
        self.count.is_some_and(|count| self.sent.frames >= count)
    }

    /// Sends what is due, a burst at most, and says how many frames that was.
    pub(super) fn turn<L: Link>(&mut self, link: &mut L) -> Result<usize, LinkError> {
        let now = Time::now();
        let left = self.count.map_or(u64::MAX, |count| count - self.sent.frames);
        let most = self.burst.min(usize::try_from(left).unwrap_or(usize::MAX));
        let wanted = self.wanted(now, most);
        if wanted == 0 {
            return Ok(0);
        }
        let (first, mut bytes) = (self.sent.frames, 0);
        let taken = link.transmit(wanted, |number, buffer| {
            let sequence = first + number as u64;
            let size = self.sizes.of(sequence, &mut self.draws).max(self.shortest);
            let flow = self.flows.of(sequence, &mut self.draws);
            let mark = Mark {
                stream: self.number,
                sequence: sequence as u32,
                time: self.due.get(number).unwrap_or(&now).nanoseconds(),
            };
            self.writer.write(buffer, size, flow, mark);
            bytes += size as u64;
            size
        })?;
        if taken < wanted {
            self.sent.waits_for_room += 1;
        }
        if let (Some(schedule), Some(lag)) = (&mut self.schedule, &mut self.sent.lag) {
            let left = Time::now();
            for due in &self.due[..taken] {
                lag.record(left.since(*due).as_nanos() as u64);
                schedule.advance();
            }
        }
        if taken > 0 {
            self.sent.first.get_or_insert(now);
            self.sent.last = Some(Time::now());
        }
        self.sent.frames += taken as u64;
        self.sent.bytes += bytes;
        Ok(taken)
    }

    /// When the next frame is due; now, without a schedule.
    pub(super) fn next_due(&self, now: Time) -> Time {
        self.schedule.as_ref().map_or(now, Schedule::due)
    }

    /// Notes what was due before the end and was not sent.
    pub(super) fn end(&mut self, end: Time) {
        if let Some(schedule) = &self.schedule {
            let left = self.count.map_or(u64::MAX, |count| count - self.sent.frames);
            self.sent.unsent = schedule.unissued_before(end).min(left);
        }
    }

    /// How many frames to send now, up to `most`, with their due times in `due`.
    fn wanted(&mut self, now: Time, most: usize) -> usize {
        self.due.clear();
        let Some(schedule) = &self.schedule else {
            return most;
        };
        let mut ahead = schedule.clone();
        while self.due.len() < most && ahead.due() <= now {
            self.due.push(ahead.due());
            ahead.advance();
        }
        self.due.len()
    }
}
