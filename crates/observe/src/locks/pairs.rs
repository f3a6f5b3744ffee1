//! Joins each end of waiting with its begin.
//!
//! Each CPU and tracepoint has one ring. Records are sorted by time first, because a thread may begin to wait on one
//! CPU and end on another.

use std::collections::HashMap;

/// How far behind the newest record one may still appear in another ring: a record becomes visible when it is complete,
/// and interrupts may stretch that. Far longer than any interrupt should take.
const DISORDER_NS: u64 = 10_000_000;

/// The data of one tracepoint hit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub time_ns: u64,
    pub waiter: Waiter,
    /// The lock's address.
    pub lock: u64,
    /// `None` for the end of waiting.
    pub begun: Option<Begun>,
}

/// The waiter. Each CPU has its own idle task, all with thread 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Waiter {
    Thread(u32),
    Idle(u32),
}

/// A wait that has begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    /// `None` for a waiter that is not watched.
    pub place: Option<Place>,
    pub in_softirq: bool,
}

/// The place of a wait and the kind of lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    /// The number of the call chain.
    pub chain: usize,
    /// The flags of the tracepoint.
    pub flags: u64,
}

/// Joins records and keeps sums.
#[derive(Debug, Default)]
pub(super) struct Waits {
    unordered: Vec<Record>,
    /// Begins by waiter and lock, with their times.
    waiting: HashMap<(Waiter, u64), (u64, Begun)>,
    sums: Sums,
}

/// The waits by place; under `None` those of threads that are not watched.
pub(super) type Sums = HashMap<Option<Place>, Sum>;

/// Waits of one kind at one place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub waits: u64,
    pub waits_in_softirq: u64,
    pub wait_total_ns: u64,
    pub wait_max_ns: u64,
}

impl Waits {
    /// Takes a record, in any order within a batch.
    pub(super) fn take(&mut self, record: Record) {
        self.unordered.push(record);
    }

    /// Every ring was read once: records that are old enough can be joined.
    pub(super) fn batch_ends(&mut self) {
        let newest = self.unordered.iter().map(|record| record.time_ns).max();
        self.join_until(newest.unwrap_or(0).saturating_sub(DISORDER_NS));
    }

    /// Joins the remaining records, when no more come.
    pub(super) fn close(mut self) -> Sums {
        self.join_until(u64::MAX);
        self.sums
    }

    fn join_until(&mut self, time_ns: u64) {
        self.unordered.sort_by_key(|record| record.time_ns);
        let complete = self.unordered.partition_point(|record| record.time_ns <= time_ns);
        for record in self.unordered.drain(..complete) {
            let key = (record.waiter, record.lock);
            match record.begun {
                // A mutex begins twice when it stops spinning and sleeps: the wait began with the first.
                Some(begun) => {
                    self.waiting.entry(key).or_insert((record.time_ns, begun));
                }
                // Without a begin, the wait began before the watch, or its begin was lost: how long it took is not known.
                None => {
                    if let Some((begun_ns, begun)) = self.waiting.remove(&key) {
                        let waited_ns = record.time_ns.saturating_sub(begun_ns);
                        self.sums.entry(begun.place).or_default().merge(Sum {
                            waits: 1,
                            waits_in_softirq: begun.in_softirq.into(),
                            wait_total_ns: waited_ns,
                            wait_max_ns: waited_ns,
                        });
                    }
                }
            }
        }
    }
}

impl Sum {
    /// Both together.
    pub(super) fn merge(&mut self, other: Self) {
        self.waits += other.waits;
        self.waits_in_softirq += other.waits_in_softirq;
        self.wait_total_ns += other.wait_total_ns;
        self.wait_max_ns = self.wait_max_ns.max(other.wait_max_ns);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LOCK: u64 = 0xffff_8880_0000_1000;
    const ALICE: Waiter = Waiter::Thread(1);
    const BOB: Waiter = Waiter::Thread(2);
    const PLACE: Place = Place { chain: 0, flags: 1 };

    fn begin(time_ns: u64, waiter: Waiter, lock: u64) -> Record {
        let begun = Begun {
            place: Some(PLACE),
            in_softirq: false,
        };
        Record {
            time_ns,
            waiter,
            lock,
            begun: Some(begun),
        }
    }

    fn end(time_ns: u64, waiter: Waiter, lock: u64) -> Record {
        Record {
            time_ns,
            waiter,
            lock,
            begun: None,
        }
    }

    /// The sums over the batches; all waits have the same call chain and flags.
    fn close(batches: &[&[Record]]) -> (Sum, Sums) {
        let mut waits = Waits::default();
        for batch in batches {
            batch.iter().for_each(|record| waits.take(*record));
            waits.batch_ends();
        }
        let sums = waits.close();
        (sums.get(&Some(PLACE)).cloned().unwrap_or_default(), sums)
    }

    #[test]
    fn a_wait_lasts_from_its_begin_to_its_end() {
        let (sum, sums) = close(&[&[
            begin(100, ALICE, LOCK),
            begin(110, BOB, LOCK),
            end(150, ALICE, LOCK),
            end(180, BOB, LOCK),
        ]]);
        assert_eq!((sum.waits, sum.wait_total_ns, sum.wait_max_ns), (2, 120, 70));
        assert_eq!(sums.len(), 1);
    }

    #[test]
    fn an_end_read_before_its_begin_finds_it_all_the_same() {
        let later = DISORDER_NS;
        let (sum, _) = close(&[
            &[end(150, ALICE, LOCK), begin(later, BOB, LOCK)],
            &[begin(100, ALICE, LOCK), end(later + 5, BOB, LOCK)],
        ]);
        assert_eq!((sum.waits, sum.wait_total_ns), (2, 55));
    }

    #[test]
    fn a_mutex_that_spins_and_then_sleeps_waits_once() {
        let (sum, _) = close(&[&[
            begin(100, ALICE, LOCK),
            begin(130, ALICE, LOCK),
            end(200, ALICE, LOCK),
        ]]);
        assert_eq!((sum.waits, sum.wait_total_ns), (1, 100));
    }

    #[test]
    fn a_softirq_that_interrupts_a_waiter_waits_for_its_own_lock() {
        let other = LOCK + 64;
        let (sum, _) = close(&[&[
            begin(100, ALICE, LOCK),
            begin(110, ALICE, other),
            end(120, ALICE, other),
            end(130, ALICE, LOCK),
        ]]);
        assert_eq!((sum.waits, sum.wait_total_ns, sum.wait_max_ns), (2, 40, 30));
    }

    #[test]
    fn idle_tasks_of_two_cpus_are_two_waiters() {
        let (idle, other_idle) = (Waiter::Idle(0), Waiter::Idle(1));
        let (sum, _) = close(&[&[
            begin(100, idle, LOCK),
            begin(105, other_idle, LOCK),
            end(110, idle, LOCK),
            end(140, other_idle, LOCK),
        ]]);
        assert_eq!((sum.waits, sum.wait_total_ns), (2, 45));
    }

    #[test]
    fn waits_of_those_who_are_not_watched_are_summed_apart() {
        let mut unwatched = begin(100, BOB, LOCK);
        unwatched.begun = unwatched.begun.map(|begun| Begun { place: None, ..begun });
        let (sum, sums) = close(&[&[
            begin(90, ALICE, LOCK),
            unwatched,
            end(95, ALICE, LOCK),
            end(400, BOB, LOCK),
        ]]);
        assert_eq!((sum.waits, sum.wait_total_ns), (1, 5));
        assert_eq!((sums[&None].waits, sums[&None].wait_total_ns), (1, 300));
        assert_eq!(sums.len(), 2);
    }

    #[test]
    fn halves_of_waits_are_in_no_sum() {
        let (sum, sums) = close(&[&[end(50, ALICE, LOCK), begin(100, BOB, LOCK)]]);
        assert_eq!(sum.waits, 0);
        assert!(sums.is_empty());
    }

    proptest! {
        #[test]
        fn every_wait_is_found_however_late_its_records_appear(
            waits in prop::collection::vec((0u64..50_000_000, 1u64..20_000_000), 1..50),
            late_ns in prop::collection::vec(0..DISORDER_NS, 100),
            batch_size in 1usize..20,
        ) {
            // One waiter per wait, so that any two may overlap.
            let mut records: Vec<Record> = Vec::new();
            for ((start, length), thread) in waits.iter().zip(1..) {
                records.push(begin(*start, Waiter::Thread(thread), LOCK));
                records.push(end(start + length, Waiter::Thread(thread), LOCK));
            }
            let mut appearing: Vec<(u64, Record)> =
                records.iter().zip(late_ns).map(|(record, late)| (record.time_ns + late, *record)).collect();
            appearing.sort_by_key(|(time_ns, _)| *time_ns);
            let in_order: Vec<Record> = appearing.into_iter().map(|(_, record)| record).collect();
            let batches: Vec<&[Record]> = in_order.chunks(batch_size).collect();
            let (sum, _) = close(&batches);
            prop_assert_eq!(sum.waits, waits.len() as u64);
            prop_assert_eq!(sum.wait_total_ns, waits.iter().map(|(_, length)| length).sum::<u64>());
        }
    }
}
