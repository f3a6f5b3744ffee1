//! What befalls frames, as a seed decides: frames enter with the time, and those that are due leave. No link, no clock.

use crate::burst::{Burst, FrameTime};
use crate::choice::Choice;
use std::collections::{BTreeMap, VecDeque};
use std::ops::AddAssign;
use std::time::{Duration, Instant};

/// Frames held back at most, so that a long delay does not take all memory; more wait in the link.
const MOST_HELD: usize = 65_536;
/// How long a frame waits for another to overtake it.
const OVERTAKEN_WITHIN: Duration = Duration::from_millis(10);
/// Bytes that stay of a truncated frame at least: links take no frame without Ethernet's header.
const SHORTEST: usize = 14;

/// How often each fault happens to a frame, as a share from 0 to 1, drawn for each fault on its own and in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FaultPlan {
    /// Seed of all draws.
    pub seed: u64,
    /// Which frames they befall.
    pub direction: Direction,
    /// The frame goes nowhere, and nothing else happens to it.
    pub drop: f64,
    /// The frame ends early, at a length drawn from 14 bytes up.
    pub truncate: f64,
    /// One bit of the frame is another.
    pub corrupt: f64,
    /// The frame comes twice, one copy right after the other.
    pub duplicate: f64,
    /// The frame comes after the one that follows it within 10 ms; where none does, it comes then.
    pub reorder: f64,
    /// The frame comes `delay` later than it would.
    pub delayed: f64,
    /// How long a delayed frame is held back.
    pub delay: Duration,
}

/// Which frames of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// Those that come from it.
    #[default]
    Received,
    /// Those that go to it.
    Sent,
}

impl Choice for Direction {
    const NAMES: &'static [(Direction, &'static str)] =
        &[(Direction::Received, "received"), (Direction::Sent, "sent")];
}

/// How often each fault happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Injected {
    /// Frames that went nowhere.
    pub dropped: u64,
    /// Frames cut short.
    pub truncated: u64,
    /// Frames with a changed bit.
    pub corrupted: u64,
    /// Frames that came twice.
    pub duplicated: u64,
    /// Frames that another one overtook.
    pub reordered: u64,
    /// Frames held back for the delay.
    pub delayed: u64,
    /// Frames held back now: what arrived and was not dropped, with its copies, less what left.
    pub held: u64,
}

impl Injected {
    /// The counts by name, for reports.
    #[must_use]
    pub fn by_name(mut self) -> BTreeMap<String, u64> {
        let named = self.counts().map(|(name, count)| (name.to_owned(), *count));
        named.into()
    }

    fn counts(&mut self) -> [(&'static str, &mut u64); 7] {
        [
            ("dropped", &mut self.dropped),
            ("truncated", &mut self.truncated),
            ("corrupted", &mut self.corrupted),
            ("duplicated", &mut self.duplicated),
            ("reordered", &mut self.reordered),
            ("delayed", &mut self.delayed),
            ("held", &mut self.held),
        ]
    }
}

impl AddAssign for Injected {
    fn add_assign(&mut self, mut other: Injected) {
        for ((_, sum), (_, count)) in self.counts().into_iter().zip(other.counts()) {
            *sum += *count;
        }
    }
}

/// A frame, and what a link knows of it.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) bytes: Vec<u8>,
    pub(super) wire_length: u32,
    pub(super) time: FrameTime,
}

impl Frame {
    pub(super) fn of(burst: &Burst<'_>, number: usize) -> Frame {
        Frame {
            bytes: burst.frame(number).to_vec(),
            wire_length: burst.wire_length(number) as u32,
            time: burst.time(number).unwrap_or_default(),
        }
    }

    pub(super) fn sent(bytes: &[u8]) -> Frame {
        Frame {
            bytes: bytes.to_vec(),
            wire_length: bytes.len() as u32,
            time: 0,
        }
    }
}

/// A frame whose fate is drawn.
#[derive(Debug)]
struct Fated {
    frame: Frame,
    twice: bool,
    /// When it is due, if it is delayed.
    due: Option<Instant>,
}

/// The faults of one queue of a link: its draws, and the frames that it holds back.
#[derive(Debug)]
pub(crate) struct Faults {
    plan: FaultPlan,
    draws: fastrand::Rng,
    injected: Injected,
    /// Frames that are due, in the order in which they leave.
    ready: VecDeque<Frame>,
    /// Frames with the time at which they are due; the first is due first.
    delayed: VecDeque<(Instant, Frame)>,
    /// A frame that the next one overtakes, and how long it waits for that.
    overtaken: Option<(Instant, Fated)>,
}

impl Faults {
    pub(crate) fn new(plan: FaultPlan) -> Faults {
        Faults {
            plan,
            draws: fastrand::Rng::with_seed(plan.seed),
            injected: Injected::default(),
            ready: VecDeque::new(),
            delayed: VecDeque::new(),
            overtaken: None,
        }
    }

    pub(super) fn direction(&self) -> Direction {
        self.plan.direction
    }

    /// What befell the frames so far.
    pub(crate) fn injected(&self) -> Injected {
        Injected {
            held: self.held() as u64,
            ..self.injected
        }
    }

    /// Frames that are here now.
    pub(super) fn held(&self) -> usize {
        self.ready.len() + self.delayed.len() + usize::from(self.overtaken.is_some())
    }

    /// How many more frames it takes.
    pub(super) fn room(&self) -> usize {
        MOST_HELD.saturating_sub(self.held())
    }

    /// Decides what becomes of a frame that arrives now.
    pub(super) fn take(&mut self, mut frame: Frame, now: Instant) {
        let plan = self.plan;
        if self.draw(plan.drop) {
            self.injected.dropped += 1;
            return;
        }
        if self.draw(plan.truncate) && frame.bytes.len() > SHORTEST {
            let length = self.draws.usize(SHORTEST..frame.bytes.len());
            frame.bytes.truncate(length);
            frame.wire_length = length as u32;
            self.injected.truncated += 1;
        }
        if self.draw(plan.corrupt) && !frame.bytes.is_empty() {
            let bit = self.draws.usize(..frame.bytes.len() * 8);
            frame.bytes[bit / 8] ^= 1 << (bit % 8);
            self.injected.corrupted += 1;
        }
        let twice = self.draw(plan.duplicate);
        let later = self.draw(plan.reorder);
        let due = self.draw(plan.delayed).then(|| now + plan.delay);
        let fated = Fated { frame, twice, due };
        if later && self.overtaken.is_none() {
            self.overtaken = Some((now + OVERTAKEN_WITHIN, fated));
            return;
        }
        self.queue(fated);
        if let Some((_, mut overtaken)) = self.overtaken.take() {
            self.injected.reordered += 1;
            overtaken.due = overtaken.due.max(due);
            self.queue(overtaken);
        }
    }

    /// Makes frames ready that are due now. Where no frame will come any more (`ended`), none waits to be overtaken.
    pub(super) fn release(&mut self, now: Instant, ended: bool) {
        if let Some((_, fated)) = self.overtaken.take_if(|(until, _)| ended || *until <= now) {
            self.queue(fated);
        }
        let due = self.delayed.partition_point(|(due, _)| *due <= now);
        self.ready
            .extend(self.delayed.drain(..due).map(|(_, frame)| frame));
    }

    /// The frames that are due, to be taken from the front.
    pub(super) fn ready(&mut self) -> &mut VecDeque<Frame> {
        &mut self.ready
    }

    fn draw(&mut self, share: f64) -> bool {
        // Drawn even for a share of 0, so that switching one fault on does not move the others.
        self.draws.f64() < share
    }

    fn queue(&mut self, fated: Fated) {
        let Fated { frame, twice, due } = fated;
        self.injected.duplicated += u64::from(twice);
        self.injected.delayed += u64::from(due.is_some());
        for frame in std::iter::repeat_n(frame, 1 + usize::from(twice)) {
            match due {
                None => self.ready.push_back(frame),
                Some(due) => self.delayed.push_back((due, frame)),
            }
        }
    }
}
