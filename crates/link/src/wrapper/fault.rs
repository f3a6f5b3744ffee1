//! Faults of frames, drawn from a seed. Input: frames with the time. Output: those that are due. No link, no clock.

use crate::burst::{Burst, Extent};
use corelane_measure::counters;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// The maximum number of held frames, which bounds memory for long delays; more frames wait in the link.
const MOST_HELD: usize = 65_536;
/// How long a frame waits for another to overtake it.
const OVERTAKEN_WITHIN: Duration = Duration::from_millis(10);
/// The minimum length of a truncated frame: links reject frames without an Ethernet header.
const SHORTEST: usize = 14;

/// The probability of each fault per frame, 0 to 1. Faults are drawn independently and in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FaultPlan {
    /// Seed of all draws.
    pub seed: u64,
    /// The frames affected.
    pub direction: FrameDirection,
    /// The frame is dropped; no other fault is drawn.
    pub drop: f64,
    /// The frame is truncated to a random length of at least 14 bytes.
    pub truncate: f64,
    /// One bit of the frame is inverted.
    pub corrupt: f64,
    /// The frame is delivered twice in a row.
    pub duplicate: f64,
    /// The frame is delivered after the next one, or after 10 ms if none arrives.
    pub reorder: f64,
    /// The frame is delivered `delay` later.
    pub delayed: f64,
    /// The delay of delayed frames.
    pub delay: Duration,
}

/// Frames of a link by direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FrameDirection {
    /// Frames received from it.
    #[default]
    Received,
    /// Frames sent to it.
    Sent,
}

counters! {
    /// The number of frames per fault.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Injected {
        /// Frames dropped.
        pub dropped: u64,
        /// Frames truncated.
        pub truncated: u64,
        /// Frames with a changed bit.
        pub corrupted: u64,
        /// Frames duplicated.
        pub duplicated: u64,
        /// Frames overtaken by another.
        pub reordered: u64,
        /// Frames delayed.
        pub delayed: u64,
        /// Frames held now: those that arrived and were not dropped, with their copies, less those that left.
        pub held: u64,
    }
}

impl Injected {
    /// The counts by name, for reports.
    #[must_use]
    pub fn by_name(&self) -> BTreeMap<String, u64> {
        self.named().map(|(name, count)| (name.to_owned(), count)).into()
    }
}

/// A frame with its properties.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) bytes: Vec<u8>,
    /// Its properties; its place is of no meaning.
    pub(super) extent: Extent,
    /// Bytes of payload of each segment, if it was merged of several.
    pub(super) segment: Option<u16>,
}

impl Frame {
    pub(super) fn of(burst: &Burst<'_>, number: usize) -> Frame {
        Frame {
            bytes: burst.frame(number).to_vec(),
            extent: burst.extent(number),
            segment: None,
        }
    }

    pub(super) fn sent(bytes: &[u8], segment: Option<u16>) -> Frame {
        Frame {
            bytes: bytes.to_vec(),
            extent: Extent::whole(0, bytes.len() as u32),
            segment,
        }
    }
}

/// A frame whose faults are drawn.
#[derive(Debug)]
struct Drawn {
    frame: Frame,
    twice: bool,
    /// When it is due, if it is delayed.
    due: Option<Instant>,
}

/// The faults of one queue: its draws and held frames.
#[derive(Debug)]
pub(crate) struct Faults {
    plan: FaultPlan,
    draws: fastrand::Rng,
    injected: Injected,
    /// Frames that are due, in sending order.
    pub(super) ready: VecDeque<Frame>,
    /// Frames with the time at which they are due; the first is due first.
    delayed: VecDeque<(Instant, Frame)>,
    /// A frame that waits until the next one has overtaken it, and for how long.
    overtaken: Option<(Instant, Drawn)>,
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

    /// The counters so far.
    pub(crate) fn injected(&self) -> Injected {
        Injected {
            held: self.held() as u64,
            ..self.injected
        }
    }

    /// Frames held now.
    pub(super) fn held(&self) -> usize {
        self.ready.len() + self.delayed.len() + usize::from(self.overtaken.is_some())
    }

    /// The number of further frames accepted.
    pub(super) fn room(&self) -> usize {
        MOST_HELD.saturating_sub(self.held())
    }

    /// The number of further frames accepted for sending: frames that could not be sent go first.
    pub(super) fn room_to_send(&self) -> usize {
        match self.ready.is_empty() {
            true => self.room(),
            false => 0,
        }
    }

    /// Draws the faults of a frame that arrives now.
    pub(super) fn take(&mut self, mut frame: Frame, now: Instant) {
        let plan = self.plan;
        if self.draw(plan.drop) {
            self.injected.dropped += 1;
            return;
        }
        if self.draw(plan.truncate) && frame.bytes.len() > SHORTEST {
            let length = self.draws.usize(SHORTEST..frame.bytes.len());
            frame.bytes.truncate(length);
            frame.extent = frame.extent.shortened(length as u32);
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
        let drawn = Drawn { frame, twice, due };
        if later && self.overtaken.is_none() {
            self.overtaken = Some((now + OVERTAKEN_WITHIN, drawn));
            return;
        }
        self.queue(drawn);
        if let Some((_, mut overtaken)) = self.overtaken.take() {
            self.injected.reordered += 1;
            overtaken.due = overtaken.due.max(due);
            self.queue(overtaken);
        }
    }

    /// Makes frames ready that are due now. If no more frames can arrive (`ended`), none waits to be overtaken.
    pub(super) fn release(&mut self, now: Instant, ended: bool) {
        if let Some((_, drawn)) = self.overtaken.take_if(|(until, _)| ended || *until <= now) {
            self.queue(drawn);
        }
        let due = self.delayed.partition_point(|(due, _)| *due <= now);
        self.ready
            .extend(self.delayed.drain(..due).map(|(_, frame)| frame));
    }

    fn draw(&mut self, share: f64) -> bool {
        // Drawn even for a share of 0, so that enabling one fault does not change the others.
        self.draws.f64() < share
    }

    fn queue(&mut self, drawn: Drawn) {
        let Drawn { frame, twice, due } = drawn;
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
