//! One worker's share of the cache, and the time: what requests are executed on.

use super::connections::Connections;
use super::counters::{Events, Handoffs, MemcachedCounters, Snapshot};
use super::items::{Share, attributes_of};
use super::plan::RemoteReads;
use super::shared::Shared;
use crate::shared::lock;
use corelane_proto::memcached::commands::{Commands, Counts, Output, Reading, item_size};
use corelane_proto::memcached::items::Marks;
use corelane_proto::memcached::request::{LONGEST_KEY, Request};
use corelane_proto::memcached::time::Clock;
use corelane_proto::memcached::watch::Entry;
use corelane_store::{Hash, Item, Memory, Partition, Placement, Reader, Settings};
use corelane_worker::engine::StreamCounters;
use corelane_worker::{CachePadded, Time};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Items and segments that one pass looks at for expired ones: some ten microseconds of work.
const TIDY: usize = 256;

/// Shortest time between two publications of counters: many turns share the cost of one.
const PUBLISH_EVERY: Duration = Duration::from_millis(1);

/// Sizes that differ by less are counted together, as in memcached.
pub(super) const SIZE_STEP: usize = 32;

/// What requests of a worker are executed on.
pub(super) struct Worker {
    pub(super) index: usize,
    share: Share,
    pub(super) clock: Clock,
    commands: Counts,
    pub(super) events: Events,
    /// As the exchange has counted so far.
    pub(super) handoffs: (Handoffs, u64),
    pub(super) shared: Arc<Shared>,
    counters: Arc<CachePadded<MemcachedCounters>>,
    published: Time,
    streams: StreamCounters,
    workers: usize,
    /// Nothing is loaded ahead.
    no_prefetch: bool,
    /// Its connections, as clients see them.
    pub(super) connections: Connections,
    /// The second of a flush that was asked for in advance, until that second has ended.
    flush_at: Option<u32>,
    /// Whether expired items may be left.
    untidy: bool,
    /// Whether evicted items are watched.
    keeps_evictions: bool,
    /// An item of another worker.
    copied: Vec<u8>,
}

impl Worker {
    /// The worker of this index. Its memory is mapped here, on its thread, whose policy decides on the node.
    pub(super) fn new(
        index: usize,
        shared: Arc<Shared>,
        counters: Arc<CachePadded<MemcachedCounters>>,
        now: Time,
    ) -> io::Result<Self> {
        let bytes = usize::try_from(shared.plan.partition_bytes()).unwrap_or(usize::MAX);
        let memory = Memory::zeroed(bytes, Placement::default()).map_err(io::Error::other)?;
        let settings = Settings {
            seed: shared.seed,
            evicts: !shared.plan.behaviour.no_evictions,
            ..Settings::default()
        };
        let mut partition = Partition::new(memory, &settings).map_err(io::Error::other)?;
        if shared.plan.behaviour.track_sizes {
            let classes = shared.plan.largest_item as usize / SIZE_STEP + 1;
            let class = |flags, key, value| item_size(key, flags, value).div_ceil(SIZE_STEP);
            partition.count_classes(classes, class);
        }
        // It is made once.
        let _ = shared.readers[index].set(partition.reader());
        let workers = shared.plan.workers();
        let no_prefetch = shared.plan.no_prefetch;
        let clock = Clock {
            now: shared.second(now),
            epoch: shared.epoch,
        };
        // Where items have no numbers of changes, all are 0.
        let (first, step) = match shared.plan.behaviour.no_cas {
            true => (0, 0),
            false => (index, workers),
        };
        Ok(Self {
            index,
            share: Share::new(partition, clock.now, first, step),
            clock,
            commands: Counts::default(),
            events: Events::default(),
            handoffs: Default::default(),
            shared,
            counters,
            published: now,
            streams: StreamCounters::default(),
            workers,
            no_prefetch,
            connections: Connections::default(),
            flush_at: None,
            untidy: false,
            keeps_evictions: false,
            copied: Vec::new(),
        })
    }

    /// Sets the time of the requests that follow.
    #[inline]
    pub(super) fn set_time(&mut self, now: Time) {
        let second = self.shared.second(now);
        if second != self.clock.now {
            self.next_second(second);
        }
    }

    #[cold]
    fn next_second(&mut self, second: u32) {
        self.clock.now = second;
        self.share.now = second;
        let memory = self.shared.memory_limit.load(Ordering::Relaxed) / self.workers as u64;
        self.share
            .partition
            .limit(usize::try_from(memory).unwrap_or(usize::MAX));
        self.untidy = true;
        if let Some(at) = self.flush_at.filter(|at| *at <= second) {
            self.flush_at = Some(at).filter(|at| *at == second);
            self.share.hides = at == second;
            self.share.partition.flush();
            self.share.partition.announce_flush(self.flush_at);
        }
    }

    /// The commands, on the items of this worker.
    #[inline]
    pub(super) fn commands(&mut self) -> Commands<'_, Share> {
        Commands {
            clock: self.clock,
            counts: &mut self.commands,
            largest_item: self.shared.plan.largest_item as usize,
            items: &mut self.share,
        }
    }

    /// Passes some items to `visit`, from this place in the index on; the next place, if there is one.
    pub(super) fn scan(&self, cursor: u64, visit: impl FnMut(Item<'_>)) -> Option<u64> {
        if self.share.hides {
            return None;
        }
        self.share.partition.scan(cursor, self.clock.now, visit)
    }

    /// Of the item of a key: the length of its value, the number of its change, and the seconds until it expires.
    pub(super) fn present(&self, key: &[u8], hash: u64) -> Option<(usize, u64, u32)> {
        let (partition, now) = (&self.share.partition, self.clock.now);
        let item = partition
            .peek(Hash::of_value(hash), key, now)
            .filter(|_| !self.share.hides)?;
        let ttl = item.attributes.expiry.saturating_sub(now);
        Some((item.value.len(), item.attributes.cas, ttl))
    }

    /// Length of the value that a request may be answered with.
    #[cold]
    pub(super) fn length_for(&self, request: &Request<'_>, hash: u64) -> usize {
        let present = match request {
            Request::Store(_) => None,
            request => self.present(request.key(&mut [0; LONGEST_KEY]), hash),
        };
        present.map_or(0, |(length, ..)| length)
    }

    /// What the commands have counted.
    pub(super) fn counts(&self) -> Counts {
        self.commands
    }

    /// Items that were found and are flushed, and those that have expired.
    pub(super) fn gone(&self) -> [u64; 2] {
        let counts = self.share.partition.counts();
        [counts.found_flushed, counts.found_expired]
    }

    /// Passes on what was evicted, and lets evicted items be kept while that is watched.
    #[cold]
    fn record_evictions(&mut self) {
        let now = self.clock.now;
        for evicted in self.share.partition.take_evictions() {
            let attributes = attributes_of(evicted.attributes);
            let ttl = Some(attributes.expiry.saturating_sub(now)).filter(|_| attributes.expiry > 0);
            self.record(&Entry::Evicted {
                key: &evicted.key,
                fetched: attributes.marks.contains(Marks::FETCHED),
                ttl,
                idle: now.saturating_sub(attributes.last_access),
                size: evicted.length,
            });
        }
        self.keeps_evictions = self.shared.watchers.watches("evictions");
        self.share.partition.keep_evictions(self.keeps_evictions);
    }

    /// Passes an event to its watchers.
    pub(super) fn record(&self, entry: &Entry<'_>) {
        self.shared.watchers.record(entry, |worker| {
            if let Some(waker) = self.shared.wakers[worker].get() {
                waker.wake();
            }
        });
    }

    /// The hash of a key.
    #[inline]
    pub(super) fn hash(&self, key: &[u8]) -> Hash {
        corelane_store::hash(key, self.shared.seed)
    }

    /// Starts loading the part of the index that has a key.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        let (hash, owner) = (Hash::of_value(hash), self.owner(hash));
        if self.no_prefetch {
            return;
        }
        if owner == self.index {
            self.share.partition.prefetch(hash);
        } else if let Some(reader) = self.reader(owner) {
            reader.prefetch(hash);
        }
    }

    /// Starts loading the item of a key, whose part of the index is loaded.
    #[inline]
    pub(super) fn prefetch_item(&self, hash: u64) {
        let (hash, owner) = (Hash::of_value(hash), self.owner(hash));
        if self.no_prefetch {
            return;
        }
        if owner == self.index {
            self.share.partition.prefetch_item(hash);
        } else if let Some(reader) = self.reader(owner) {
            reader.prefetch_item(hash);
        }
    }

    /// Forgets all items when the second `moment` begins, and what is stored in that second; now if it is over. At 0 nothing is
    /// forgotten. What was asked for before and has not come does not come any more.
    pub(super) fn flush(&mut self, moment: u32) {
        let now = self.clock.now;
        self.flush_at = Some(moment).filter(|moment| *moment >= now);
        self.share.hides = moment == now;
        if (1..=now).contains(&moment) {
            self.share.partition.flush();
            self.untidy = true;
        }
        self.share.partition.announce_flush(self.flush_at);
    }

    /// Answers with the item of a key of another worker from its memory; whether that was possible.
    pub(super) fn read_directly(
        &mut self,
        owner: usize,
        reading: &Reading<'_>,
        hash: u64,
        out: &mut impl Output,
    ) -> bool {
        let Self {
            shared,
            share,
            copied,
            events,
            clock,
            commands,
            ..
        } = self;
        let Some(reader) = shared.readers[owner].get() else {
            return false;
        };
        let key = (Hash::of_value(hash), reading.key());
        let is_settled = |attributes: &_| reading.leaves(&attributes_of(*attributes));
        let item = match reader.read(key, clock.now, is_settled, copied) {
            Ok(item) => item,
            Err(reason) => {
                events.not_read(reason);
                return false;
            }
        };
        events.read_directly += 1;
        let mut commands = Commands {
            clock: *clock,
            counts: commands,
            largest_item: shared.plan.largest_item as usize,
            items: share,
        };
        commands.answer_with(reading, &attributes_of(item.attributes), item.value, out);
        true
    }

    /// Whether items of another worker are read from its memory. Reads that are observed are left to it.
    #[inline]
    pub(super) fn may_read(&self, owner: usize) -> bool {
        self.reader(owner).is_some() && self.shared.watchers.observed() == 0
    }

    /// What reads the items of another worker, if that is allowed.
    #[inline]
    fn reader(&self, owner: usize) -> Option<&Reader> {
        self.shared.readers[owner]
            .get()
            .filter(|_| self.shared.plan.remote_reads == RemoteReads::Direct)
    }

    /// The worker that owns the key of a hash.
    #[inline]
    pub(super) fn owner(&self, hash: u64) -> usize {
        Hash::of_value(hash).owner(self.workers)
    }

    /// What is done between requests: reclaims expired items, and publishes the counts. `streams` are those of the engine.
    pub(super) fn turned(&mut self, now: Time, streams: impl FnOnce() -> StreamCounters) {
        if self.shared.watchers.observed() != 0 || self.keeps_evictions {
            self.record_evictions();
        }
        if self.untidy {
            self.untidy = self.share.partition.tidy(self.clock.now, TIDY);
        }
        if now.since(self.published) >= PUBLISH_EVERY {
            self.streams = streams();
            self.publish();
            self.published = now;
        }
    }

    /// Whether there is work to do while nothing arrives.
    pub(super) fn is_untidy(&self) -> bool {
        self.untidy
    }

    /// The counts so far.
    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot {
            commands: self.commands,
            store: self.share.partition.counts(),
            events: self.events,
            handoffs: self.handoffs.0,
            handoff_queue_percent: self.handoffs.1,
            accepted: self.streams.accepted.opened,
            bytes_read: self.streams.bytes_received,
            bytes_written: self.streams.bytes_sent,
        }
    }

    /// Publishes the counts, and those that only clients ask for.
    pub(super) fn publish_all(&self) {
        self.publish();
        *lock(&self.counters.sizes) = self.share.partition.items_by_class().to_vec();
    }

    /// Publishes the counts.
    pub(super) fn publish(&self) {
        self.counters.publish(self.snapshot());
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::MemcachedPlan;
    use super::super::shared::START;
    use super::*;
    use corelane_proto::memcached::items::{Attributes, Items, Key, Value};

    fn worker() -> Worker {
        let plan = MemcachedPlan::of_workers(1);
        let shared = Arc::new(Shared::new(&plan));
        let now = shared.started;
        Worker::new(0, shared, Arc::default(), now).unwrap()
    }

    fn at(worker: &mut Worker, second: u64) {
        worker.set_time(worker.shared.started + Duration::from_secs(second));
    }

    fn key(worker: &Worker, bytes: &'static [u8]) -> Key<'static> {
        let hash = worker.hash(bytes).value();
        Key { bytes, hash }
    }

    /// Stores under this key, and returns whether it is found then.
    fn stores(worker: &mut Worker, bytes: &'static [u8]) -> bool {
        let key = key(worker, bytes);
        let stored = worker
            .share
            .set(key, Value::Bytes(b"value"), &Attributes::default());
        stored.expect("room");
        finds(worker, bytes)
    }

    fn finds(worker: &mut Worker, bytes: &'static [u8]) -> bool {
        let (key, now) = (key(worker, bytes), worker.clock.now);
        worker.share.read(key, now).is_some()
    }

    /// As memcached does: what was stored at or before a moment is gone once that has begun.
    #[test]
    fn a_flush_at_a_moment_forgets_also_what_is_stored_in_its_second() {
        let mut worker = worker();
        assert!(stores(&mut worker, b"a"));
        worker.flush(START + 3);
        for second in 1..3 {
            at(&mut worker, second);
            assert!(finds(&mut worker, b"a"));
        }
        at(&mut worker, 3);
        assert!(!finds(&mut worker, b"a") && !stores(&mut worker, b"b"));
        assert_eq!(worker.scan(0, |_| panic!("an item is listed")), None);
        at(&mut worker, 4);
        assert!(!finds(&mut worker, b"b") && stores(&mut worker, b"c"));
        at(&mut worker, 5);
        assert!(finds(&mut worker, b"c"));
        worker.flush(START + 5);
        assert!(!finds(&mut worker, b"c") && !stores(&mut worker, b"d"));
        at(&mut worker, 7);
        assert!(!finds(&mut worker, b"d") && stores(&mut worker, b"e"));
    }

    #[test]
    fn a_later_flush_takes_the_place_of_one_that_has_not_come() {
        let mut worker = worker();
        worker.flush(START + 2);
        assert!(stores(&mut worker, b"a"));
        worker.flush(0);
        at(&mut worker, 3);
        assert!(
            finds(&mut worker, b"a"),
            "it was before the start: nothing is forgotten"
        );
        worker.flush(START + 3);
        worker.flush(START + 2);
        assert!(!finds(&mut worker, b"a") && stores(&mut worker, b"b"));
        at(&mut worker, 4);
        assert!(finds(&mut worker, b"b"));
    }
}
