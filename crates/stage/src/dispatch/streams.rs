//! The queues of buckets as counts: how long they are and were, and what was handled.

use super::plan::Protocol;
use corelane_measure::counter::Counter;
use corelane_rss::Bucket;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The queues of all buckets. The frames themselves are in the mailboxes of workers; this has their counts and limits.
#[derive(Debug)]
pub struct Workstreams {
    buckets: Vec<Workstream>,
    limit: AtomicU32,
}

/// The queues of one bucket, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Workstream([Queue; Protocol::COUNT]);

/// One queue. The bucket's worker writes what it ran or took; every sender adds to the others, once per batch.
#[derive(Debug, Default)]
struct Queue {
    length: AtomicU32,
    watermark: AtomicU32,
    queued: AtomicU64,
    dropped: AtomicU64,
    no_memory: AtomicU64,
    taken: AtomicU64,
    dispatched: Counter,
    hybrid: Counter,
}

/// The counts of one bucket and protocol: a row of the third table of `netstat -Q`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Frames that wait now.
    pub length: u64,
    /// The most that waited at a time.
    pub watermark: u64,
    /// Frames handled where they were, whatever their bucket.
    pub dispatched: u64,
    /// Frames handled where they were, since their bucket is that and nothing waited.
    pub hybrid: u64,
    /// Frames for which the queue had no room.
    pub dropped: u64,
    /// Those of them that the limit permitted, for which there was no memory.
    #[serde(default)]
    pub no_memory: u64,
    /// Frames that were queued.
    pub queued: u64,
    /// Frames handled: with an empty queue, those of `dispatched`, `hybrid` and `queued`.
    pub handled: u64,
}

impl Workstreams {
    /// Empty queues of this many buckets, each with room for `limit` frames per protocol.
    #[must_use]
    pub fn new(buckets: usize, limit: u32) -> Workstreams {
        Workstreams {
            buckets: (0..buckets).map(|_| Workstream::default()).collect(),
            limit: limit.into(),
        }
    }

    /// Sets the limit of each queue. Frames beyond a lower one stay.
    pub fn set_limit(&self, limit: u32) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// The number of buckets.
    #[must_use]
    pub fn buckets(&self) -> usize {
        self.buckets.len()
    }

    fn queue(&self, bucket: Bucket, protocol: Protocol) -> &Queue {
        &self.buckets[bucket.index()].0[protocol as usize]
    }

    /// Whether frames wait for a bucket.
    #[must_use]
    pub fn is_scheduled(&self, bucket: Bucket) -> bool {
        let queues = &self.buckets[bucket.index()].0;
        queues
            .iter()
            .any(|queue| queue.length.load(Ordering::Relaxed) > 0)
    }

    /// Reserves room for up to `wanted` frames, and returns for how many; the rest are counted as dropped. The frames are
    /// queued from now on, so that whoever sees one handled has seen it queued.
    pub fn reserve(&self, bucket: Bucket, protocol: Protocol, wanted: u32) -> u32 {
        let (queue, limit) = (self.queue(bucket, protocol), self.limit.load(Ordering::Relaxed));
        let before = queue.length.fetch_add(wanted, Ordering::Relaxed);
        let granted = wanted.min(limit.saturating_sub(before));
        let refused = wanted - granted;
        if refused > 0 {
            queue.length.fetch_sub(refused, Ordering::Relaxed);
            queue.dropped.fetch_add(refused.into(), Ordering::Relaxed);
        }
        queue
            .watermark
            .fetch_max(before.min(limit) + granted, Ordering::Relaxed);
        queue.queued.fetch_add(granted.into(), Ordering::SeqCst);
        granted
    }

    /// Gives back the room of frames that did not fit into the mailbox, and counts them as dropped.
    pub fn give_back(&self, bucket: Bucket, protocol: Protocol, frames: u32) {
        let queue = self.queue(bucket, protocol);
        queue.length.fetch_sub(frames, Ordering::Relaxed);
        queue.dropped.fetch_add(frames.into(), Ordering::Relaxed);
        queue.no_memory.fetch_add(frames.into(), Ordering::Relaxed);
        queue.queued.fetch_sub(frames.into(), Ordering::SeqCst);
    }

    /// Counts frames that the bucket's worker took from its queue, and has handled: what came of them is sent or queued.
    pub fn took(&self, bucket: Bucket, protocol: Protocol, frames: u32) {
        let queue = self.queue(bucket, protocol);
        queue.length.fetch_sub(frames, Ordering::Relaxed);
        queue.taken.fetch_add(frames.into(), Ordering::SeqCst);
    }

    /// Counts frames that the bucket's worker handled where they were.
    pub fn ran(&self, bucket: Bucket, protocol: Protocol, direct: u64, hybrid: u64) {
        let queue = self.queue(bucket, protocol);
        queue.dispatched.add(direct);
        queue.hybrid.add(hybrid);
    }

    /// Whether no frame waits or is being handled, once no worker receives any more. What was taken is read first: if no
    /// more had been queued later, nothing was between.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let queues = || self.buckets.iter().flat_map(|bucket| &bucket.0);
        let taken: u64 = queues().map(|queue| queue.taken.load(Ordering::SeqCst)).sum();
        let queued: u64 = queues().map(|queue| queue.queued.load(Ordering::SeqCst)).sum();
        taken == queued
    }

    /// The counts of a bucket, by protocol.
    #[must_use]
    pub fn rows(&self, bucket: Bucket) -> [Row; Protocol::COUNT] {
        Protocol::ALL.map(|protocol| {
            let queue = self.queue(bucket, protocol);
            let (dispatched, hybrid) = (queue.dispatched.get(), queue.hybrid.get());
            Row {
                length: queue.length.load(Ordering::Relaxed).into(),
                watermark: queue.watermark.load(Ordering::Relaxed).into(),
                dispatched,
                hybrid,
                dropped: queue.dropped.load(Ordering::Relaxed),
                no_memory: queue.no_memory.load(Ordering::Relaxed),
                queued: queue.queued.load(Ordering::Relaxed),
                handled: dispatched + hybrid + queue.taken.load(Ordering::Relaxed),
            }
        })
    }
}
