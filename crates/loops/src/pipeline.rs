//! The bridge's stage of tables, timed. In: bursts of frames. Out: the time to classify them.

use crate::frames::{Rings, Slots, Traffic};
use corelane_host::HostError;
use corelane_host::counters::{ThreadClock, ThreadTime};
use corelane_measure::counter::Counter;
use corelane_measure::counters::Counters;
use corelane_observe::misses::CacheMisses;
use corelane_stage::{
    Desk, OnMatch, Rule, RuleCounts, Search, Sides, Stage, TableCounts, TableStage, Verdict, Work,
};
use corelane_table::post::{PostLock, PostPrefetch, PostTable};
use corelane_table::{ExactTable, Lookup, Prefetch, Reader, Value};
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The table and the way of searching it.
pub enum Searched<'a> {
    /// The post's table, a batch at a time, as in the post.
    Post(&'a PostTable, PostPrefetch, PostLock<'a>),
    /// The post's table, rolling through the batch so many lookups ahead.
    Rolling(&'a PostTable, usize, PostLock<'a>),
    /// The exact table, as a reader beside a writer sees it.
    Exact(Reader<ExactTable<Ipv4Addr>>, Prefetch),
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
    /// How many frames ahead headers are prefetched: 0 none, [`usize::MAX`] all of a batch before any is read.
    pub headers_ahead: usize,
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
    /// `None`: frames are forwarded without being looked at.
    stage: Option<TableStage<Counted<'a>>>,
    counts: Arc<TableCounts>,
    of_rule: Arc<RuleCounts>,
    /// Addresses found.
    matched: Arc<Counter>,
    stages: Stages,
    desk: Desk,
    /// The number of the next pair of addresses.
    next: usize,
}

/// Bursts that are classified before anything is timed: caches, page tables and branch predictors settle.
const UNTIMED_BURSTS: usize = 4;

impl<'a> Pipeline<'a> {
    /// The stages, with rings of `slots` buffers made here, so that they are on the calling thread's node; pairs of
    /// addresses begin at number `first`. Without a table, frames are forwarded without being looked at.
    #[must_use]
    pub fn new(
        stages: Stages,
        slots: usize,
        traffic: &'a Traffic,
        first: usize,
        searched: Option<Searched<'a>>,
    ) -> Pipeline<'a> {
        let (counts, of_rule) = (Arc::<TableCounts>::default(), Arc::<RuleCounts>::default());
        let matched = Arc::<Counter>::default();
        let stage = |searched| {
            let rule = Rule {
                reader: Counted(searched, Arc::clone(&matched)),
                sides: Sides::Both,
                on_match: OnMatch::Count,
                counts: Arc::clone(&of_rule),
            };
            TableStage::new(vec![rule], Verdict::Pass, Verdict::Pass, Arc::clone(&counts))
                .prefetching(stages.headers_ahead)
        };
        Pipeline {
            rings: Rings::new(slots, stages.stride),
            traffic,
            stage: searched.map(stage),
            counts,
            of_rule,
            matched,
            stages,
            desk: Desk::default(),
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
        let begun = Instant::now();
        for _ in 0..UNTIMED_BURSTS {
            let slots = self.arrive();
            self.classify(slots, begun);
        }
        let (untimed, begun) = (self.counted(), Instant::now());
        while begun.elapsed() < duration {
            let slots = self.arrive();
            if let Some(misses) = &mut misses {
                misses.resume();
            }
            trial.frames += slots.len() as u64;
            let before = clock.read()?;
            let started = Instant::now();
            self.classify(slots, started);
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
        [trial.lookups, trial.matched, trial.refused] = self.counted().since(&untimed);
        Ok(trial)
    }

    /// Addresses looked up and found, and frames without addresses.
    fn counted(&self) -> [u64; 3] {
        let counts = &self.counts;
        let refused = counts.not_ip.get() + counts.malformed.get();
        [2 * self.of_rule.asked.get(), self.matched.get(), refused]
    }

    /// Receives a burst into the ring.
    fn arrive(&mut self) -> Range<usize> {
        let slots = self.rings.receive(self.stages.burst, self.traffic, self.next);
        self.next = self.next.wrapping_add(slots.len());
        slots
    }

    /// Classifies and forwards, batch by batch.
    fn classify(&mut self, slots: Range<usize>, now: Instant) {
        let mut first = slots.start;
        while first < slots.end {
            let batch = first..slots.end.min(first + self.stages.batch);
            first = batch.end;
            if let Some(stage) = &mut self.stage {
                let mut frames = Slots::new(&mut self.rings, batch.clone());
                stage.run(&mut Work::new(&mut self.desk, &mut frames, now));
            }
            self.rings.forward(batch);
        }
    }
}

/// A table, and how many addresses were found in it.
struct Counted<'a>(Searched<'a>, Arc<Counter>);

impl Search<Ipv4Addr> for Counted<'_> {
    #[inline(always)]
    fn search(&mut self, keys: &[Ipv4Addr], answers: &mut [Option<Value>]) {
        match &mut self.0 {
            Searched::Post(table, prefetch, lock) => table.lookup_batch(keys, *prefetch, *lock, answers),
            Searched::Rolling(table, distance, lock) => table.lookup_rolling(keys, *distance, *lock, answers),
            Searched::Exact(reader, prefetch) => reader.table().lookup(keys, *prefetch, answers),
        }
        self.1
            .add(answers.iter().filter(|answer| answer.is_some()).count() as u64);
    }
}

/// The tables have addresses of IPv4 only.
impl Search<Ipv6Addr> for Counted<'_> {
    fn search(&mut self, _keys: &[Ipv6Addr], answers: &mut [Option<Value>]) {
        answers.fill(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables;
    use corelane_packet::Dissection;
    use fastrand::Rng;
    use std::collections::BTreeSet;
    use std::net::IpAddr;
    use std::sync::RwLock;

    const BURST: usize = 64;

    fn stages(batch: usize, headers_ahead: usize) -> Stages {
        Stages {
            burst: BURST,
            batch,
            stride: 1920,
            headers_ahead,
        }
    }

    /// Classifies the addresses of one burst and returns its frames and what was counted.
    fn classified(stages: Stages, searched: Option<Searched<'_>>, traffic: &Traffic) -> (usize, [u64; 3]) {
        let mut pipeline = Pipeline::new(stages, BURST, traffic, 5, searched);
        let slots = pipeline.arrive();
        pipeline.classify(slots.clone(), Instant::now());
        (slots.len(), pipeline.counted())
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
            let pairs = slots.map(|slot| {
                let dissection = Dissection::of(rings.frame(slot)).unwrap();
                [dissection.source(), dissection.destination()]
            });
            let has = |address: &IpAddr| matches!(address, IpAddr::V4(address) if set.contains(address));
            pairs.flatten().filter(has).count() as u64
        };
        assert!(
            (20..108).contains(&expected),
            "{expected} of 128, half of them by chance"
        );
        let post = PostTable::new(64, &entries);
        let exact = tables::exact(&entries, 1).unwrap();
        let lock = RwLock::new(());
        let headers = [0, usize::MAX, 1, 40];
        let heads = [PostPrefetch::None, PostPrefetch::Head, PostPrefetch::HeadAndArray];
        let locks = [PostLock::None, PostLock::Pair(&lock), PostLock::Batch(&lock)];
        let prefetches = [Prefetch::None, Prefetch::Ahead(1), Prefetch::Ahead(40)];
        for (batch, headers) in [1, 3, 4, BURST]
            .into_iter()
            .flat_map(|batch| headers.map(|at| (batch, at)))
        {
            let posts = locks.into_iter().flat_map(|lock| {
                let batches = heads.map(|head| Searched::Post(&post, head, lock));
                let rolling = [1, 40].map(|distance| Searched::Rolling(&post, distance, lock));
                batches.into_iter().chain(rolling)
            });
            let exacts = prefetches.map(|prefetch| Searched::Exact(exact.reader(), prefetch));
            for searched in posts.chain(exacts) {
                let found = classified(stages(batch, headers), Some(searched), &traffic);
                assert_eq!(
                    found,
                    (64, [128, expected, 0]),
                    "batch {batch}, headers {headers:?}"
                );
            }
        }
    }

    #[test]
    fn without_a_table_frames_are_forwarded_and_nothing_is_looked_up() {
        let traffic = Traffic::new(10, &[], &mut Rng::with_seed(1));
        let found = classified(stages(4, 0), None, &traffic);
        assert_eq!(found, (64, [0; 3]));
    }
}
