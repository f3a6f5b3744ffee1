//! A link that harms some of the frames that arrive on it, as a seed decides: the same seed and frames give the same faults.

use crate::burst::{Burst, Extent};
use crate::error::LinkError;
use crate::link::Link;
use crate::tally::Tally;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

/// How often each fault happens to a frame, as a share from 0 to 1, drawn for each fault on its own and in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FaultPlan {
    /// Seed of all draws.
    pub seed: u64,
    /// The frame never arrives, and nothing else happens to it.
    pub drop: f64,
    /// The frame ends early, at a length drawn from 0 up.
    pub truncate: f64,
    /// One bit of the frame is another.
    pub corrupt: f64,
    /// The frame arrives twice, one copy right after the other.
    pub duplicate: f64,
    /// The frame arrives after the one that follows it.
    pub reorder: f64,
    /// The frame arrives `delay_bursts` bursts later than it would.
    pub delay: f64,
    /// How many calls of [`Link::receive`] a delayed frame is kept.
    pub delay_bursts: u64,
}

/// How often each fault happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Injected {
    pub dropped: u64,
    pub truncated: u64,
    pub corrupted: u64,
    pub duplicated: u64,
    pub reordered: u64,
    pub delayed: u64,
}

/// A link, and what befalls the frames that come from it. Frames that are sent are left alone: put one of these around each
/// end for faults both ways.
#[derive(Debug)]
pub struct Faulty<L> {
    inner: L,
    plan: FaultPlan,
    draws: fastrand::Rng,
    injected: Injected,
    received: Tally,
    /// Frames that are due, with the number of the burst from which on they are.
    waiting: VecDeque<(u64, Vec<u8>)>,
    /// A frame that is to come after the next one.
    overtaken: Option<Vec<u8>>,
    bursts: u64,
    memory: Vec<u8>,
    extents: Vec<Extent>,
}

impl<L: Link> Faulty<L> {
    /// Faults as planned, from now on.
    #[must_use]
    pub fn new(inner: L, plan: FaultPlan) -> Faulty<L> {
        Faulty {
            inner,
            plan,
            draws: fastrand::Rng::with_seed(plan.seed),
            injected: Injected::default(),
            received: Tally::default(),
            waiting: VecDeque::new(),
            overtaken: None,
            bursts: 0,
            memory: Vec::new(),
            extents: Vec::new(),
        }
    }

    /// What befell the frames so far.
    #[must_use]
    pub fn injected(&self) -> Injected {
        self.injected
    }

    fn draw(&mut self, share: f64) -> bool {
        // Drawn even for a share of 0, so that switching one fault on does not move the others.
        self.draws.f64() < share
    }

    /// Decides what becomes of one frame, and queues it.
    fn harm(&mut self, mut frame: Vec<u8>) {
        let plan = self.plan;
        if self.draw(plan.drop) {
            self.injected.dropped += 1;
            return;
        }
        if self.draw(plan.truncate) && !frame.is_empty() {
            frame.truncate(self.draws.usize(..frame.len()));
            self.injected.truncated += 1;
        }
        if self.draw(plan.corrupt) && !frame.is_empty() {
            let bit = self.draws.usize(..frame.len() * 8);
            frame[bit / 8] ^= 1 << (bit % 8);
            self.injected.corrupted += 1;
        }
        let (twice, later, delayed) = (
            self.draw(plan.duplicate),
            self.draw(plan.reorder),
            self.draw(plan.delay),
        );
        if later && self.overtaken.is_none() {
            self.injected.reordered += 1;
            self.overtaken = Some(frame);
            return;
        }
        let due = if delayed {
            self.bursts + plan.delay_bursts
        } else {
            self.bursts
        };
        self.injected.delayed += u64::from(delayed);
        if twice {
            self.injected.duplicated += 1;
            self.waiting.push_back((due, frame.clone()));
        }
        self.waiting.push_back((due, frame));
        if let Some(overtaken) = self.overtaken.take() {
            self.waiting.push_back((self.bursts, overtaken));
        }
    }

    /// Moves up to `limit` frames that are due into the memory that is lent.
    fn lend(&mut self, limit: usize) {
        self.memory.clear();
        self.extents.clear();
        let bursts = self.bursts;
        let mut kept = VecDeque::with_capacity(self.waiting.len());
        for (due, frame) in self.waiting.drain(..) {
            if due > bursts || self.extents.len() == limit {
                kept.push_back((due, frame));
                continue;
            }
            self.extents.push(Extent {
                offset: self.memory.len(),
                length: frame.len() as u32,
                wire_length: frame.len() as u32,
                time: 0,
            });
            self.memory.extend_from_slice(&frame);
            self.received.received += 1;
            self.received.received_bytes += frame.len() as u64;
        }
        self.waiting = kept;
    }
}

impl<L: Link> Link for Faulty<L> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn receive(&mut self, limit: usize) -> Result<Burst<'_>, LinkError> {
        self.bursts += 1;
        let arrived: Vec<Vec<u8>> = self.inner.receive(limit)?.iter().map(<[u8]>::to_vec).collect();
        let quiet = arrived.is_empty();
        for frame in arrived {
            self.harm(frame);
        }
        // Nothing came that could overtake it: the frame does not wait for ever.
        if quiet && let Some(overtaken) = self.overtaken.take() {
            self.waiting.push_back((self.bursts, overtaken));
        }
        self.lend(limit);
        // SAFETY: the extents were just made of frames appended to the memory one after the other; it stays as it is until
        // the next call, and the burst borrows the link mutably until then.
        Ok(unsafe { Burst::new(self.memory.as_mut_ptr(), &self.extents) })
    }

    fn transmit(
        &mut self,
        count: usize,
        write: impl FnMut(usize, &mut [u8]) -> usize,
    ) -> Result<usize, LinkError> {
        self.inner.transmit(count, write)
    }

    fn longest(&self) -> usize {
        self.inner.longest()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        // Frames that wait make no descriptor readable.
        self.inner
            .descriptor()
            .filter(|_| self.waiting.is_empty() && self.overtaken.is_none())
    }

    /// Counts of what came through: frames as they were lent, those inside as the link counts them.
    fn tally(&self) -> Tally {
        Tally {
            received: self.received.received,
            received_bytes: self.received.received_bytes,
            ..self.inner.tally()
        }
    }

    fn is_ended(&self) -> bool {
        self.inner.is_ended() && self.waiting.is_empty() && self.overtaken.is_none()
    }

    fn check(&mut self) -> Result<(), LinkError> {
        self.inner.check()
    }
}
