//! One worker's queues of one link, and what it sends to them.

use super::counts::LinkCounts;
use corelane_link::{Link, LinkError, Sent, Tally};
use corelane_measure::counters::Counters;
use std::ops::Range;

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
        match frames.len() {
            0 => Ok(()),
            count => self.counted(count, counts, |queue| queue.send(frames)),
        }
    }

    /// Sends copies of frames, of which some were merged, in order.
    pub(super) fn send_mixed<'frame, T>(
        &mut self,
        all: &[T],
        frame: impl Fn(&T) -> Outgoing<'frame>,
        counts: &LinkCounts,
    ) -> Result<(), LinkError> {
        let is_whole = |of: &T| frame(of).1.is_none();
        let mut outcome = Ok(());
        for run in all.chunk_by(|one, next| is_whole(one) && is_whole(next)) {
            let sent = match frame(&run[0]) {
                (merged, Some(segment)) => {
                    self.counted(1, counts, |queue| queue.send_merged(merged, segment))
                }
                (_, None) => self.send(run.iter().map(|of| frame(of).0), counts),
            };
            // What follows is lost with the link.
            if sent.is_err() {
                self.close();
                outcome = sent;
            }
        }
        outcome
    }

    /// Sends `count` frames, and counts what was not sent.
    #[inline(always)]
    fn counted(
        &mut self,
        count: usize,
        counts: &LinkCounts,
        send: impl FnOnce(&mut L) -> Result<Sent, LinkError>,
    ) -> Result<(), LinkError> {
        let sent = self.queues.first_mut().map(send);
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

/// A frame to send; if segments were merged into it, the bytes of payload of each.
pub(super) type Outgoing<'frame> = (&'frame [u8], Option<u16>);

/// Copies of frames that go back to the link whose burst is lent: they are sent once it is returned.
#[derive(Debug, Default)]
pub(super) struct Back {
    bytes: Vec<u8>,
    /// Where each is in `bytes`, and what it was merged of.
    frames: Vec<(Range<usize>, Option<u16>)>,
}

impl Back {
    pub(super) fn add(&mut self, (frame, segment): Outgoing<'_>) {
        let start = self.bytes.len();
        self.bytes.extend(frame);
        self.frames.push((start..self.bytes.len(), segment));
    }

    pub(super) fn send<L: Link>(&mut self, to: &mut Queues<L>, counts: &LinkCounts) -> Result<(), LinkError> {
        let frame = |(range, segment): &(Range<usize>, _)| (&self.bytes[range.clone()], *segment);
        let sent = to.send_mixed(&self.frames, frame, counts);
        self.bytes.clear();
        self.frames.clear();
        sent
    }
}
