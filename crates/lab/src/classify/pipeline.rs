//! The work of one thread. In: bursts of frames. Out: the time to classify them.

use super::frames::{Rings, Traffic};
use crate::classify::document::{PrefetchKind, Setting, ThreadTrial};
use corelane_host::HostError;
use corelane_host::counters::{ThreadClock, ThreadTime};
use corelane_measure::counters::Counters;
use corelane_observe::misses::CacheMisses;
use corelane_packet::Dissection;
use corelane_table::post::{PostLock, PostPrefetch, PostTable};
use corelane_table::{ExactTable, Lookup, Prefetch, Reader, Value, prefetch};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::time::{Duration, Instant};

/// The table and the way of searching it.
pub enum Searched<'a> {
    /// Nothing: frames are forwarded without being looked at.
    Nothing,
    /// The post's table.
    Post {
        table: &'a PostTable,
        order: Order,
        lock: PostLock<'a>,
    },
    /// The exact table, as a reader beside a writer sees it.
    Exact {
        reader: Reader<ExactTable<Ipv4Addr>>,
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
#[derive(Clone, Copy)]
enum Headers {
    Never,
    /// All of a batch before any is read.
    Batch,
    /// This many frames ahead.
    Ahead(usize),
}

/// The stages of one thread.
pub struct Pipeline<'a> {
    rings: Rings,
    traffic: &'a Traffic,
    searched: Searched<'a>,
    burst: usize,
    batch: usize,
    headers: Headers,
    addresses: Vec<Ipv4Addr>,
    answers: Vec<Option<Value>>,
    /// The number of the next pair of addresses.
    next: usize,
}

/// Bursts that are classified before anything is timed: caches, page tables and branch predictors settle.
const UNTIMED_BURSTS: usize = 4;

impl<'a> Pipeline<'a> {
    /// The stages of a setting, with rings of `slots` buffers made here, so that they are on the calling thread's node;
    /// pairs of addresses begin at number `first`.
    pub fn new(
        setting: &Setting,
        slots: usize,
        traffic: &'a Traffic,
        first: usize,
        searched: Searched<'a>,
    ) -> Pipeline<'a> {
        let headers = match (setting.prefetch.header(), setting.prefetch_distance) {
            (false, _) => Headers::Never,
            (true, None) => Headers::Batch,
            (true, Some(distance)) => Headers::Ahead(distance),
        };
        Pipeline {
            rings: Rings::new(slots, setting.stride),
            traffic,
            searched,
            burst: setting.burst,
            batch: setting.batch,
            headers,
            addresses: Vec::with_capacity(2 * setting.batch),
            answers: vec![None; 2 * setting.batch],
            next: first,
        }
    }

    /// Classifies bursts for `duration`, and counts what passed between each one's arrival and its being forwarded.
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
        let slots = self.rings.receive(self.burst, self.traffic, self.next);
        self.next = self.next.wrapping_add(slots.len());
        slots
    }

    /// All stages, batch by batch.
    fn classify(&mut self, slots: Range<usize>, trial: &mut ThreadTrial) {
        trial.frames += slots.len() as u64;
        let mut first = slots.start;
        while first < slots.end {
            let batch = first..slots.end.min(first + self.batch);
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
        if let Headers::Batch = self.headers {
            for slot in batch.clone() {
                prefetch(&self.rings.frame(slot)[0]);
            }
        }
        for slot in batch.clone() {
            if let Headers::Ahead(distance) = self.headers
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

/// How a setting searches the post's table.
pub fn post_order(setting: &Setting) -> Order {
    match (setting.prefetch_distance, setting.prefetch) {
        (Some(distance), _) => Order::Rolling(distance),
        (None, PrefetchKind::BucketAndArray) => Order::Batch(PostPrefetch::HeadAndArray),
        (None, kind) if kind.bucket() => Order::Batch(PostPrefetch::Head),
        (None, _) => Order::Batch(PostPrefetch::None),
    }
}

/// How a setting prefetches lines of the exact table.
pub fn exact_prefetch(setting: &Setting) -> Prefetch {
    match setting.prefetch_distance {
        Some(distance) => Prefetch::Ahead(distance),
        None if setting.prefetch.bucket() => Prefetch::Ahead(2 * setting.batch),
        None => Prefetch::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_measure::words;
    use corelane_table::{ExactMap, Placement, Seed};
    use fastrand::Rng;
    use std::collections::BTreeSet;
    use std::sync::RwLock;

    const BURST: usize = 64;

    fn setting(batch: usize, prefetch: PrefetchKind, prefetch_distance: Option<usize>) -> Setting {
        Setting {
            table_buckets: Some(64),
            entries: 1000,
            burst: BURST,
            batch,
            prefetch,
            prefetch_distance,
            ..Setting::POST
        }
    }

    /// Classifies the addresses of one burst and returns the counts.
    fn classified(setting: &Setting, searched: Searched<'_>, traffic: &Traffic) -> ThreadTrial {
        let mut pipeline = Pipeline::new(setting, BURST, traffic, 5, searched);
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
        let mut exact = ExactMap::with_capacity(1000, Seed(1), Placement::default()).unwrap();
        exact
            .insert_all(
                &entries
                    .iter()
                    .map(|entry| (*entry, Value::MEMBER))
                    .collect::<Vec<_>>(),
            )
            .unwrap();
        let lock = RwLock::new(());
        for batch in [1, 3, 4, BURST] {
            for kind in words::all() {
                for distance in [None, Some(1), Some(40)] {
                    let setting = setting(batch, kind, distance);
                    let posts = [PostLock::None, PostLock::Pair(&lock), PostLock::Batch(&lock)];
                    let posts = posts.map(|lock| Searched::Post {
                        table: &post,
                        order: post_order(&setting),
                        lock,
                    });
                    let exact = Searched::Exact {
                        reader: exact.reader(),
                        prefetch: exact_prefetch(&setting),
                    };
                    for searched in posts.into_iter().chain([exact]) {
                        let trial = classified(&setting, searched, &traffic);
                        let found = (trial.frames, trial.lookups, trial.matched, trial.refused);
                        assert_eq!(found, (64, 128, expected, 0), "{setting}");
                    }
                }
            }
        }
    }

    #[test]
    fn without_a_table_frames_are_forwarded_and_nothing_is_looked_up() {
        let traffic = Traffic::new(10, &[], &mut Rng::with_seed(1));
        let trial = classified(&setting(4, PrefetchKind::None, None), Searched::Nothing, &traffic);
        assert_eq!((trial.frames, trial.lookups), (64, 0));
    }
}
