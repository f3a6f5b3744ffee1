//! What each entry of the indirection table saw: frames enter with their entry and what was observed; counts, and whether
//! a misplacement speaks of the table or of single flows, leave.

use super::{Cause, Observed, Queue};
use corelane_rss::Bucket;

/// One account an entry.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    /// Frames by entry: all that there is to say where nothing is observed.
    seen: Vec<u64>,
    pub entries: Vec<Entry>,
    /// Was a hash, was a queue observed of any frame?
    pub hashes: bool,
    pub queues: bool,
}

/// The account of one entry. Moments are numbers of frames.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entry {
    pub right_hashes: u64,
    pub right: Span,
    pub misplaced: u64,
    /// Of the misplaced, those whose hash no device gave otherwise.
    wrong: Span,
    wrong_queue: Option<Queue>,
    wrong_hash: u32,
    several_wrong_queues: bool,
    several_wrong_flows: bool,
}

/// Frames of one kind: how many, and when the first and the last came.
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

    /// Did all of these come before all of the others, or after?
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

    /// Enters a frame of which nothing was observed.
    #[inline]
    pub fn see(&mut self, entry: usize) {
        self.seen[entry] += 1;
    }

    /// Enters the frame of this number, whose hash by the rule falls on `entry` and `bucket`.
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

    /// What every entry saw, in order: all frames, and the account of those of which something was observed.
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

    /// Why frames of this entry that were hashed as the rule says came by another queue.
    ///
    /// A table moves all flows of an entry to one queue, at once. A rule for flows (ntuple, aRFS, flow director) moves some
    /// and leaves others.
    pub fn cause(&self) -> Cause {
        let together = self.right.count == 0 || self.right.apart_from(&self.wrong);
        match (together && !self.several_wrong_queues, self.several_wrong_flows) {
            (false, _) => Cause::FlowRule,
            (true, true) => Cause::ChangedTable,
            (true, false) => Cause::TableOrFlowRule,
        }
    }
}
