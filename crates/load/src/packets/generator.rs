//! Sender of one link queue: sends generated or captured frames, as fast as the link accepts them or when they are due.

use super::document::FrameCounts;
use super::flows::{Flows, Space};
use super::frame::{Writer, shortest};
use super::plan::{GeneratedPlan, PacketsError};
use super::replay::Replay;
use super::sizes::Sizes;
use crate::pace::Schedule;
use corelane_link::{Link, LinkError};
use corelane_measure::histogram::Histogram;
use corelane_proto::mark::Mark;
use corelane_worker::Time;

/// The sender of one queue.
pub(super) struct Sender {
    pub(super) source: Source,
    /// Total number of frames to send.
    pub(super) count: Option<u64>,
    pub(super) burst: usize,
    /// Frames by outcome, without those that were not sent.
    pub(super) counts: FrameCounts,
    /// Schedule lag; empty without a schedule.
    pub(super) lag: Histogram,
    pub(super) first: Option<Time>,
    pub(super) last: Option<Time>,
    /// When each frame of the burst was due; empty without a schedule.
    due: Vec<Time>,
}

/// Where frames come from.
pub(super) enum Source {
    Stream(Box<Stream>),
    Replay(Box<Replay>),
}

/// The generated frames of one stream.
pub(super) struct Stream {
    pub(super) number: u16,
    pub(super) flows: Flows,
    pub(super) sizes: Sizes,
    /// Length of the shortest frame.
    pub(super) shortest: usize,
    pub(super) writer: Writer,
    pub(super) draws: fastrand::Rng,
    /// When frames are due; `None`: at once.
    pub(super) schedule: Option<Schedule>,
}

impl Sender {
    pub(super) fn new(source: Source, count: Option<u64>, burst: usize) -> Sender {
        Sender {
            source,
            count,
            burst: burst.max(1),
            counts: FrameCounts::default(),
            lag: Histogram::new(),
            first: None,
            last: None,
            due: Vec::new(),
        }
    }

    /// Whether all requested frames were sent.
    pub(super) fn is_done(&self) -> bool {
        self.left() == 0 || matches!(&self.source, Source::Replay(replay) if replay.is_done)
    }

    fn left(&self) -> u64 {
        self.count.map_or(u64::MAX, |count| count - self.counts.sent)
    }

    /// Sends the frames that are due, at most one burst; returns their number.
    pub(super) fn turn<L: Link>(&mut self, link: &mut L) -> Result<usize, LinkError> {
        if let Source::Replay(replay) = &mut self.source {
            replay.refill(self.burst, link.longest(), self.counts.sent > 0)?;
        }
        let now = Time::now();
        let most = self.burst.min(usize::try_from(self.left()).unwrap_or(usize::MAX));
        self.due.clear();
        let wanted = match &mut self.source {
            Source::Stream(stream) => stream.wanted(now, most, &mut self.due),
            Source::Replay(replay) => replay.wanted(now, most, &mut self.due),
        };
        if wanted == 0 {
            return Ok(0);
        }
        let (first, due, mut bytes) = (self.counts.sent, &self.due, 0);
        let taken = match &mut self.source {
            Source::Stream(stream) => link.transmit(wanted, |number, buffer| {
                let time = due.get(number).copied().unwrap_or(now);
                let size = stream.write(buffer, first + number as u64, time);
                bytes += size as u64;
                size
            }),
            Source::Replay(replay) => link.transmit(wanted, |number, buffer| {
                let frame = replay.frame(number);
                buffer[..frame.len()].copy_from_slice(frame);
                bytes += frame.len() as u64;
                frame.len()
            }),
        }?;
        match &mut self.source {
            Source::Stream(stream) => {
                let schedule = stream.schedule.iter_mut();
                schedule.for_each(|schedule| (0..taken).for_each(|_| schedule.advance()));
            }
            Source::Replay(replay) => replay.advance(taken),
        }
        self.counts.waits_for_room += u64::from(taken < wanted);
        if taken > 0 {
            let left = Time::now();
            for due in self.due.iter().take(taken) {
                self.lag.record(left.since(*due).as_nanos() as u64);
            }
            self.first.get_or_insert(now);
            self.last = Some(left);
        }
        self.counts.sent += taken as u64;
        self.counts.sent_bytes += bytes;
        Ok(taken)
    }

    /// When the next frame is due; now, without a schedule.
    pub(super) fn next_due(&self, now: Time) -> Time {
        match &self.source {
            Source::Stream(_) if self.is_done() => Time::NEVER,
            Source::Stream(stream) => stream.schedule.as_ref().map_or(now, Schedule::due),
            Source::Replay(replay) => replay.due(0).unwrap_or(now),
        }
    }

    /// Records the frames that were due before the end and not sent.
    pub(super) fn end(&mut self, end: Time) {
        if let Source::Stream(stream) = &self.source
            && let Some(schedule) = &stream.schedule
        {
            self.counts.unsent = schedule.unissued_before(end).min(self.left());
        }
    }
}

/// The frames of a plan, without end and without a link: those of its first stream, due at time 0. The same plan gives the
/// same frames.
///
/// # Errors
/// If there are no such addresses, or no such frames.
pub fn frames(plan: &GeneratedPlan) -> Result<impl Iterator<Item = Vec<u8>> + use<>, PacketsError> {
    let mut stream = Stream::new(plan, 0, None)?;
    let mut buffer = vec![0; stream.sizes.longest().max(stream.shortest)];
    Ok((0..).map(move |sequence| {
        let size = stream.write(&mut buffer, sequence, Time::from_nanoseconds(0));
        buffer[..size].to_vec()
    }))
}

impl Stream {
    /// The stream of this number.
    pub(super) fn new(
        plan: &GeneratedPlan,
        number: usize,
        schedule: Option<Schedule>,
    ) -> Result<Stream, PacketsError> {
        let space = Space::new(plan)?;
        let is_ipv6 = space.is_ipv6();
        let seed = plan.seed.wrapping_add(number as u64);
        Ok(Stream {
            number: number as u16,
            shortest: check_sizes(plan.sizes, is_ipv6)?,
            flows: Flows::new(space, plan.flows, plan.steering.as_ref(), seed)?,
            sizes: plan.sizes,
            writer: Writer::new(is_ipv6, plan.destination_link, plan.source_link),
            // Independent of the flows' draws, and of other streams.
            draws: fastrand::Rng::with_seed(!seed),
            schedule,
        })
    }

    /// The number of frames to send now, up to `most`; puts their due times into `due`.
    fn wanted(&self, now: Time, most: usize, due: &mut Vec<Time>) -> usize {
        let Some(schedule) = &self.schedule else {
            return most;
        };
        let mut ahead = schedule.clone();
        while due.len() < most && ahead.due() <= now {
            due.push(ahead.due());
            ahead.advance();
        }
        due.len()
    }

    /// Writes frame `sequence`, which is due at `time`; returns its length.
    fn write(&mut self, buffer: &mut [u8], sequence: u64, time: Time) -> usize {
        let size = self.sizes.of(sequence, &mut self.draws).max(self.shortest);
        let flow = self.flows.of(sequence, &mut self.draws);
        let mark = Mark {
            stream: self.number,
            sequence: sequence as u32,
            time: time.nanoseconds(),
        };
        self.writer.write(buffer, size, flow, mark);
        size
    }
}

/// Rejects sizes that a mark does not fit in; returns the length of the shortest frame. The short frames of IMIX are extended
/// as necessary.
fn check_sizes(sizes: Sizes, is_ipv6: bool) -> Result<usize, PacketsError> {
    let shortest = shortest(is_ipv6);
    let first = match sizes {
        Sizes::One { bytes } => bytes,
        Sizes::Range { first, .. } => first,
        Sizes::Imix => shortest,
    };
    if first < shortest {
        return Err(PacketsError::Short {
            bytes: first,
            shortest,
        });
    }
    Ok(shortest)
}
