//! One worker's queues of one link, and what it sends to them.

use super::counts::LinkCounts;
use corelane_link::{Link, LinkError, Tally};
use corelane_measure::counters::Counters;

/// One worker's queues of one link; empty while the link is lost.
#[derive(Debug)]
pub struct Queues<L> {
    pub(super) queues: Vec<L>,
    /// Counters of queues that were lost.
    before: Tally,
    pub(super) next: usize,
    /// Frames sent to find loops, and their bytes; they are in no count.
    pub(super) checks: (u64, u64),
}

impl<L: Link> Queues<L> {
    /// The queues.
    #[must_use]
    pub fn new(queues: Vec<L>) -> Queues<L> {
        Queues {
            queues,
            before: Tally::default(),
            next: 0,
            checks: (0, 0),
        }
    }

    /// The counters of open and lost queues, without the frames that find loops.
    pub(super) fn tally(&self) -> Tally {
        let mut tally = self.sum();
        tally.sent = tally.sent.saturating_sub(self.checks.0);
        tally.sent_bytes = tally.sent_bytes.saturating_sub(self.checks.1);
        tally
    }

    fn sum(&self) -> Tally {
        self.before
            .plus(&Counters::sum(self.queues.iter().map(Link::tally)))
    }

    /// Closes the queues, and keeps their counters.
    pub(super) fn close(&mut self) {
        self.before = self.sum();
        self.queues.clear();
    }

    /// Sends copies of these frames.
    #[inline]
    pub(super) fn send<'frame>(
        &mut self,
        frames: impl ExactSizeIterator<Item = &'frame [u8]> + Clone,
        counts: &LinkCounts,
    ) -> Result<(), LinkError> {
        let count = frames.len();
        if count == 0 {
            return Ok(());
        }
        let sent = self.queues.first_mut().map(|queue| queue.send(frames));
        match sent.transpose() {
            Ok(Some(sent)) => {
                counts.full.add(sent.full as u64);
                counts.oversized.add(sent.oversized as u64);
                Ok(())
            }
            lost => {
                counts.link_lost.add(count as u64);
                lost.map(|_| ())
            }
        }
    }
}

/// Copies of frames that go back to the link whose burst is lent: they are sent once it is returned.
#[derive(Debug, Default)]
pub(super) struct Back {
    bytes: Vec<u8>,
    /// Where each ends in `bytes`.
    ends: Vec<usize>,
}

impl Back {
    pub(super) fn add(&mut self, frame: &[u8]) {
        self.bytes.extend(frame);
        self.ends.push(self.bytes.len());
    }

    pub(super) fn frames(&self) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        (0..self.ends.len()).map(|number| {
            let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
            &self.bytes[start..self.ends[number]]
        })
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}
