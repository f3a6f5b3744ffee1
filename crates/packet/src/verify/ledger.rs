//! Counts frames per entry of the indirection table, and decides whether misplaced frames indicate another table or a
//! rule for single flows.

use super::{Cause, Observed, Queue};
use corelane_rss::Bucket;

/// One account per entry.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    /// Frames by entry, for frames without observed hash or queue.
    seen: Vec<u64>,
    pub entries: Vec<Entry>,
    /// Whether a hash, and whether a queue, was observed for any frame.
    pub hashes: bool,
    pub queues: bool,
}

/// The account of one entry. Times are frame numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entry {
    pub right_hashes: u64,
    pub right: Span,
    pub misplaced: u64,
    /// Misplaced frames for which no device reported a different hash.
    wrong: Span,
    wrong_queue: Option<Queue>,
    wrong_hash: u32,
    several_wrong_queues: bool,
    several_wrong_flows: bool,
}

/// Number of frames of one kind, and when the first and the last arrived.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span {
    pub count: u64,
    first: u64,
    last: u64,
}

impl Span {
    #[inline]
    fn enter(&mut self, now: u64) {
        if self.count == 0 {
            self.first = now;
        }
        self.count += 1;
        self.last = now;
    }

    /// Whether all of these arrived before all of the others, or after them.
    fn apart_from(&self, other: &Span) -> bool {
        self.last < other.first || other.last < self.first
    }
}

impl Ledger {
    pub fn new(entries: usize) -> Ledger {
        Ledger {
            seen: vec![0; entries],
            entries: vec![Entry::default(); entries],
            hashes: false,
            queues: false,
        }
    }

    /// Counts a frame without observed hash or queue.
    #[inline]
    pub fn see(&mut self, entry: usize) {
        self.seen[entry] += 1;
    }

    /// Counts the frame with this number, whose expected hash selects `entry` and `bucket`.
    #[inline]
    pub fn enter(&mut self, entry: usize, hash: u32, bucket: Bucket, observed: Observed, now: u64) {
        self.see(entry);
        let entry = &mut self.entries[entry];
        if let Some(reported) = observed.hash {
            self.hashes = true;
            entry.right_hashes += u64::from(reported == hash);
        }
        if let Some(queue) = observed.queue {
            self.queues = true;
            if queue.serves(bucket) {
                entry.right.enter(now);
            } else {
                entry.misplaced += 1;
                if observed.hash.is_none_or(|reported| reported == hash) {
                    entry.enter_wrong(hash, queue, now);
                }
            }
        }
    }

    /// For each entry, in order: all frames, and the account of those with an observed hash or queue.
    pub fn entries(&self) -> impl Iterator<Item = (u64, &Entry)> {
        self.seen.iter().copied().zip(&self.entries)
    }
}

impl Entry {
    fn enter_wrong(&mut self, hash: u32, queue: Queue, now: u64) {
        match self.wrong_queue {
            None => (self.wrong_queue, self.wrong_hash) = (Some(queue), hash),
            Some(first) => {
                self.several_wrong_queues |= first != queue;
                self.several_wrong_flows |= self.wrong_hash != hash;
            }
        }
        self.wrong.enter(now);
    }

    /// Why frames of this entry arrived on another queue although their hash was as expected.
    ///
    /// Another table moves all flows of an entry to one queue at once. A flow rule (ntuple, aRFS, flow director) moves
    /// only some of them.
    pub fn cause(&self) -> Cause {
        let together = self.right.count == 0 || self.right.apart_from(&self.wrong);
        match (together && !self.several_wrong_queues, self.several_wrong_flows) {
            (false, _) => Cause::FlowRule,
            (true, true) => Cause::ChangedTable,
            (true, false) => Cause::TableOrFlowRule,
        }
    }
}
