//! From records to waits: each end of waiting is joined with its begin.
//!
//! Records come from one ring a CPU and tracepoint. They are put in the order of time first, because a thread may begin to
//! wait on one CPU and end on another.

use std::collections::{HashMap, HashSet};

use perf_event::data::Sample;

use crate::perf::Sink;
use crate::perf::tracepoint::Field;

/// How far behind the newest record one may still appear in another ring: a record becomes visible when it is complete,
/// and interrupts may stretch that. Far longer than any interrupt should take.
const DISORDER_NS: u64 = 10_000_000;

/// Of how many different locks an entry keeps count; more read as this many.
const MOST_LOCKS: usize = 4096;

/// `TRACE_FLAG_SOFTIRQ` of the kernel's `linux/trace_events.h`: the record was made while a softirq was served.
const SERVING_SOFTIRQ: u64 = 0x10;

/// What a ring holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ring {
    Begin,
    End,
}

/// Where the tracepoints put what is needed of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Payload {
    pub begin_lock: Field,
    pub begin_flags: Field,
    pub begin_context: Field,
    pub end_lock: Field,
}

/// Takes records, keeps sums.
#[derive(Debug)]
pub(super) struct Waits {
    payload: Payload,
    rings: Vec<Ring>,
    unordered: Vec<Record>,
    chains: HashMap<Box<[u64]>, usize>,
    waiting: HashMap<(Waiter, u64), Begun>,
    sums: HashMap<(usize, u64), Sum>,
    ends_without_begin: u64,
}

/// Everything that was waited for, the chains by their index in the sums.
#[derive(Debug, Default)]
pub(super) struct Closed {
    /// Sums by the index of the call chain and the flags of the tracepoint.
    pub sums: HashMap<(usize, u64), Sum>,
    /// Call chains, the innermost function first.
    pub chains: Vec<Box<[u64]>>,
    /// Waits that had begun before the watch, or whose begin was lost.
    pub ends_without_begin: u64,
    /// Waits that had not ended with the watch, or whose end was lost.
    pub begins_without_end: u64,
}

/// Waits of one kind at one place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub waits: u64,
    pub waits_in_softirq: u64,
    pub wait_total_ns: u64,
    pub wait_max_ns: u64,
    pub locks: HashSet<u64>,
}

/// Who waits. The idle task is a different one on each CPU, all with thread 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Waiter {
    Thread(u32),
    Idle(u32),
}

#[derive(Clone, Copy, Debug)]
struct Record {
    time_ns: u64,
    waiter: Waiter,
    lock: u64,
    /// `None` for the end of waiting.
    begun: Option<Begun>,
}

#[derive(Clone, Copy, Debug)]
struct Begun {
    time_ns: u64,
    chain: usize,
    flags: u64,
    in_softirq: bool,
}

impl Sink for Waits {
    fn sample(&mut self, source: usize, sample: &Sample<'_>) {
        let time_ns = sample.time().unwrap_or(0);
        let waiter = match (sample.tid(), sample.cpu()) {
            (Some(thread @ 1..), _) => Waiter::Thread(thread),
            (_, cpu) => Waiter::Idle(cpu.unwrap_or(0)),
        };
        let raw = sample.raw().unwrap_or_default();
        let record = match self.rings[source] {
            Ring::Begin => Record {
                time_ns,
                waiter,
                lock: self.payload.begin_lock.value(raw),
                begun: Some(Begun {
                    time_ns,
                    chain: self.chain(sample.callchain().unwrap_or_default()),
                    flags: self.payload.begin_flags.value(raw),
                    in_softirq: self.payload.begin_context.value(raw) & SERVING_SOFTIRQ != 0,
                }),
            },
            Ring::End => Record {
                time_ns,
                waiter,
                lock: self.payload.end_lock.value(raw),
                begun: None,
            },
        };
        self.unordered.push(record);
    }

    fn batch_ends(&mut self) {
        let newest = self.unordered.iter().map(|record| record.time_ns).max();
        self.join_until(newest.unwrap_or(0).saturating_sub(DISORDER_NS));
    }
}

impl Waits {
    /// `rings` says what each source of samples holds.
    pub(super) fn new(payload: Payload, rings: Vec<Ring>) -> Self {
        Self {
            payload,
            rings,
            unordered: Vec::new(),
            chains: HashMap::new(),
            waiting: HashMap::new(),
            sums: HashMap::new(),
            ends_without_begin: 0,
        }
    }

    /// Joins what is left, when no more records come.
    pub(super) fn close(mut self) -> Closed {
        self.join_until(u64::MAX);
        let mut chains = vec![Box::default(); self.chains.len()];
        for (chain, index) in self.chains {
            chains[index] = chain;
        }
        Closed {
            sums: self.sums,
            chains,
            ends_without_begin: self.ends_without_begin,
            begins_without_end: self.waiting.len() as u64,
        }
    }

    fn chain(&mut self, addresses: &[u64]) -> usize {
        if let Some(index) = self.chains.get(addresses) {
            return *index;
        }
        let index = self.chains.len();
        self.chains.insert(addresses.into(), index);
        index
    }

    fn join_until(&mut self, time_ns: u64) {
        self.unordered.sort_by_key(|record| record.time_ns);
        let complete = self.unordered.partition_point(|record| record.time_ns <= time_ns);
        let records: Vec<Record> = self.unordered.drain(..complete).collect();
        for record in records {
            self.join(record);
        }
    }

    fn join(&mut self, record: Record) {
        let key = (record.waiter, record.lock);
        match record.begun {
            // A mutex begins twice when it gives up spinning and sleeps: the wait began with the first.
            Some(begun) => {
                self.waiting.entry(key).or_insert(begun);
            }
            None => match self.waiting.remove(&key) {
                Some(begun) => self
                    .sums
                    .entry((begun.chain, begun.flags))
                    .or_default()
                    .add(&begun, &record),
                None => self.ends_without_begin += 1,
            },
        }
    }
}

impl Sum {
    fn add(&mut self, begun: &Begun, end: &Record) {
        let waited = end.time_ns.saturating_sub(begun.time_ns);
        self.waits += 1;
        self.waits_in_softirq += u64::from(begun.in_softirq);
        self.wait_total_ns += waited;
        self.wait_max_ns = self.wait_max_ns.max(waited);
        if self.locks.len() < MOST_LOCKS {
            self.locks.insert(end.lock);
        }
    }

    /// Both together.
    pub(super) fn merge(&mut self, other: Self) {
        self.waits += other.waits;
        self.waits_in_softirq += other.waits_in_softirq;
        self.wait_total_ns += other.wait_total_ns;
        self.wait_max_ns = self.wait_max_ns.max(other.wait_max_ns);
        self.locks.extend(other.locks);
    }
}
