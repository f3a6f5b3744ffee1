//! The work of one thread. In: bursts of frames. Out: the time to classify them.

use crate::frames::{Rings, Traffic};
use corelane_host::HostError;
use corelane_host::counters::{ThreadClock, ThreadTime};
use corelane_measure::counters::Counters;
use corelane_observe::misses::CacheMisses;
use corelane_packet::Dissection;
use corelane_table::post::{PostLock, PostPrefetch, PostTable};
use corelane_table::{ExactTable, Lookup, Prefetch, Reader, Value, prefetch};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::time::{Duration, Instant};

/// The table and the way of searching it.
pub enum Searched<'a> {
    /// Nothing: frames are forwarded without being looked at.
    Nothing,
    /// The post's table.
    Post {
        /// The table.
        table: &'a PostTable,
        /// How it is searched.
        order: Order,
        /// The lock taken.
        lock: PostLock<'a>,
    },
    /// The exact table, as a reader beside a writer sees it.
    Exact {
        /// A reader of the table.
        reader: Reader<ExactTable<Ipv4Addr>>,
        /// What is prefetched.
        prefetch: Prefetch,
    },
}

/// How the post's table is searched.
#[derive(Clone, Copy)]
pub enum Order {
    /// A batch at a time, as in the post.
    Batch(PostPrefetch),
    /// Rolling through the batch.
    Rolling(usize),
}

/// When headers are prefetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Headers {
    /// Never.
    Never,
    /// All of a batch before any is read.
    Batch,
    /// This many frames ahead.
    Ahead(usize),
}

/// How bursts go through the stages.
#[derive(Debug, Clone, Copy)]
pub struct Stages {
    /// Frames pulled from the ring at once.
    pub burst: usize,
    /// Frames that go through each stage together.
    pub batch: usize,
    /// Bytes from one frame buffer to the next.
    pub stride: usize,
    /// When headers are prefetched.
    pub headers: Headers,
}

/// The counts of one thread in a trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadTrial {
    /// Frames pulled, classified and forwarded.
    pub frames: u64,
    /// Addresses looked up: two per frame, if there is a table.
    pub lookups: u64,
    /// Addresses found.
    pub matched: u64,
    /// Frames that are no IPv4 and were forwarded without lookups.
    pub refused: u64,
    /// Time from each burst's being pulled to its being forwarded, nanoseconds.
    pub wall_ns: u64,
    /// CPU time of the thread within that time.
    pub cpu_ns: u64,
    /// Part of that time in which the thread was ready but not running; 0 if the kernel does not report it
    /// (`/proc/thread-self/schedstat`).
    pub waited_ns: u64,
}

/// The stages of one thread.
pub struct Pipeline<'a> {
    rings: Rings,
    traffic: &'a Traffic,
    searched: Searched<'a>,
    stages: Stages,
    addresses: Vec<Ipv4Addr>,
    answers: Vec<Option<Value>>,
    /// The number of the next pair of addresses.
    next: usize,
}

/// Bursts that are classified before anything is timed: caches, page tables and branch predictors settle.
const UNTIMED_BURSTS: usize = 4;

impl<'a> Pipeline<'a> {
    /// The stages, with rings of `slots` buffers made here, so that they are on the calling thread's node; pairs of
    /// addresses begin at number `first`.
    #[must_use]
    pub fn new(
        stages: Stages,
        slots: usize,
        traffic: &'a Traffic,
        first: usize,
        searched: Searched<'a>,
    ) -> Pipeline<'a> {
        Pipeline {
            rings: Rings::new(slots, stages.stride),
            traffic,
            searched,
            stages,
            addresses: Vec::with_capacity(2 * stages.batch),
            answers: vec![None; 2 * stages.batch],
            next: first,
        }
    }

    /// Classifies bursts for `duration`, and counts what passed between each one's arrival and its being forwarded.
    ///
    /// # Errors
    /// If the times of the thread cannot be read.
    pub fn run(
        &mut self,
        duration: Duration,
        mut misses: Option<&mut CacheMisses>,
    ) -> Result<ThreadTrial, HostError> {
        let clock = ThreadClock::of_this_thread();
        let mut trial = ThreadTrial::default();
        for _ in 0..UNTIMED_BURSTS {
            let slots = self.arrive();
            self.classify(slots, &mut ThreadTrial::default());
        }
        let begun = Instant::now();
        while begun.elapsed() < duration {
            let slots = self.arrive();
            if let Some(misses) = &mut misses {
                misses.resume();
            }
            let before = clock.read()?;
            let started = Instant::now();
            self.classify(slots, &mut trial);
            let wall = started.elapsed();
            let ThreadTime { cpu_ns, waited_ns } = clock.read()?.since(&before);
            if let Some(misses) = &mut misses {
                misses.pause();
            }
            let wall_ns = wall.as_nanos() as u64;
            trial.wall_ns += wall_ns;
            // Reading the clocks takes time of its own, outside what is timed: not more than all of it was CPU time.
            trial.cpu_ns += cpu_ns.min(wall_ns);
            trial.waited_ns += waited_ns.min(wall_ns);
        }
        Ok(trial)
    }

    /// Receives a burst into the ring.
    fn arrive(&mut self) -> Range<usize> {
        let slots = self.rings.receive(self.stages.burst, self.traffic, self.next);
        self.next = self.next.wrapping_add(slots.len());
        slots
    }

    /// All stages, batch by batch.
    fn classify(&mut self, slots: Range<usize>, trial: &mut ThreadTrial) {
        trial.frames += slots.len() as u64;
        let mut first = slots.start;
        while first < slots.end {
            let batch = first..slots.end.min(first + self.stages.batch);
            first = batch.end;
            if !matches!(self.searched, Searched::Nothing) {
                self.decapsulate(batch.clone(), trial);
                self.look_up(trial);
            }
            self.rings.forward(batch);
        }
    }

    /// Extracts the addresses of a batch of frames.
    #[inline(always)]
    fn decapsulate(&mut self, batch: Range<usize>, trial: &mut ThreadTrial) {
        self.addresses.clear();
        if let Headers::Batch = self.stages.headers {
            for slot in batch.clone() {
                prefetch(&self.rings.frame(slot)[0]);
            }
        }
        for slot in batch.clone() {
            if let Headers::Ahead(distance) = self.stages.headers
                && slot + distance < batch.end
            {
                prefetch(&self.rings.frame(slot + distance)[0]);
            }
            match addresses(self.rings.frame(slot)) {
                Some(pair) => self.addresses.extend(pair),
                None => trial.refused += 1,
            }
        }
    }

    /// Looks up the addresses of a batch.
    #[inline(always)]
    fn look_up(&mut self, trial: &mut ThreadTrial) {
        let keys = self.addresses.as_slice();
        let answers = &mut self.answers[..keys.len()];
        match &mut self.searched {
            Searched::Nothing => {}
            Searched::Post { table, order, lock } => match *order {
                Order::Batch(prefetch) => table.lookup_batch(keys, prefetch, *lock, answers),
                Order::Rolling(distance) => {
                    table.lookup_rolling(keys, distance, *lock, answers);
                }
            },
            Searched::Exact { reader, prefetch } => reader.table().lookup(keys, *prefetch, answers),
        }
        trial.lookups += keys.len() as u64;
        trial.matched += answers.iter().filter(|answer| answer.is_some()).count() as u64;
    }
}

/// Source and destination of an IPv4 frame.
#[inline(always)]
fn addresses(frame: &[u8]) -> Option<[Ipv4Addr; 2]> {
    let dissection = Dissection::of(frame).ok()?;
    match (dissection.source(), dissection.destination()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Some([source, destination]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables;
    use fastrand::Rng;
    use std::collections::BTreeSet;
    use std::sync::RwLock;

    const BURST: usize = 64;

    fn stages(batch: usize, headers: Headers) -> Stages {
        Stages {
            burst: BURST,
            batch,
            stride: 1920,
            headers,
        }
    }

    /// Classifies the addresses of one burst and returns the counts.
    fn classified(stages: Stages, searched: Searched<'_>, traffic: &Traffic) -> ThreadTrial {
        let mut pipeline = Pipeline::new(stages, BURST, traffic, 5, searched);
        let slots = pipeline.arrive();
        let mut trial = ThreadTrial::default();
        pipeline.classify(slots, &mut trial);
        trial
    }

    #[test]
    fn every_order_prefetch_and_lock_finds_what_a_set_finds() {
        let mut random = Rng::with_seed(3);
        let entries: Vec<Ipv4Addr> = (0..1000).map(|_| Ipv4Addr::from_bits(random.u32(..))).collect();
        let traffic = Traffic::new(500, &entries, &mut random);
        let set: BTreeSet<Ipv4Addr> = entries.iter().copied().collect();
        let expected = {
            let mut rings = Rings::new(BURST, 64);
            let slots = rings.receive(BURST, &traffic, 5);
            let pairs = slots.filter_map(|slot| addresses(rings.frame(slot)));
            pairs.flatten().filter(|address| set.contains(address)).count() as u64
        };
        assert!(
            (20..108).contains(&expected),
            "{expected} of 128, half of them by chance"
        );
        let post = PostTable::new(64, &entries);
        let exact = tables::exact(&entries, 1).unwrap();
        let lock = RwLock::new(());
        let headers = [
            Headers::Never,
            Headers::Batch,
            Headers::Ahead(1),
            Headers::Ahead(40),
        ];
        let heads = [PostPrefetch::None, PostPrefetch::Head, PostPrefetch::HeadAndArray].map(Order::Batch);
        let orders = heads.into_iter().chain([1, 40].map(Order::Rolling));
        let locks = [PostLock::None, PostLock::Pair(&lock), PostLock::Batch(&lock)];
        let prefetches = [Prefetch::None, Prefetch::Ahead(1), Prefetch::Ahead(40)];
        for (batch, headers) in [1, 3, 4, BURST]
            .into_iter()
            .flat_map(|batch| headers.map(|at| (batch, at)))
        {
            let posts = orders.clone().flat_map(|order| {
                locks.map(|lock| Searched::Post {
                    table: &post,
                    order,
                    lock,
                })
            });
            let exacts = prefetches.map(|prefetch| Searched::Exact {
                reader: exact.reader(),
                prefetch,
            });
            for searched in posts.chain(exacts) {
                let trial = classified(stages(batch, headers), searched, &traffic);
                let found = (trial.frames, trial.lookups, trial.matched, trial.refused);
                assert_eq!(
                    found,
                    (64, 128, expected, 0),
                    "batch {batch}, headers {headers:?}"
                );
            }
        }
    }

    #[test]
    fn without_a_table_frames_are_forwarded_and_nothing_is_looked_up() {
        let traffic = Traffic::new(10, &[], &mut Rng::with_seed(1));
        let trial = classified(stages(4, Headers::Never), Searched::Nothing, &traffic);
        assert_eq!((trial.frames, trial.lookups), (64, 0));
    }
}
