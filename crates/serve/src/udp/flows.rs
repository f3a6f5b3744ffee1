//! Locality of flows: the worker that received a flow, the CPU of its receive path, and the CPU and queue on which its
//! answers left; samples of the same traffic, joined by the flow's addresses.
//!
//! In: flows sampled by workers, and sightings of the device taps. Out: per worker, the number of tapped datagrams,
//! and of those received or answered on the correct CPU. If several workers share a flow, its tapped datagrams are
//! distributed in proportion to the workers' samples: the kernel does not select the worker by the receiving CPU in
//! that case, so the two are independent within a flow.

use corelane_rss::Tuple;
use corelane_worker::Time;
use corelane_worker::locality::{GroupObserver, Sighting};
use std::collections::HashMap;

/// Maximum number of flows remembered; further flows are ignored.
const MOST_FLOWS: usize = 65_536;

/// Frequencies of a few values (workers, CPUs).
type Tally<K> = Vec<(K, u64)>;

/// Tallies by flow.
type ByFlow<K> = HashMap<Tuple, Tally<K>>;

fn note<K: PartialEq>(flows: &mut ByFlow<K>, flow: Tuple, value: K) {
    if flows.len() >= MOST_FLOWS && !flows.contains_key(&flow) {
        return;
    }
    let counts = flows.entry(flow).or_default();
    match counts.iter_mut().find(|(known, _)| *known == value) {
        Some((_, count)) => *count += 1,
        None => counts.push((value, 1)),
    }
}

/// Where an answer left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Departure {
    cpu: u32,
    queue: u16,
}

/// Of one worker's answers: seen leaving, and left on its CPU, on its bucket's queue, and on both.
pub(super) type Departed = [u64; 4];

/// The taps of one direction, unless there are none.
pub(super) type Taps = Option<GroupObserver>;

/// The samples.
#[derive(Default)]
pub(super) struct Flows {
    received: Taps,
    sent: Taps,
    pub(super) seen_by_workers: Vec<rtrb::Consumer<Tuple>>,
    workers: ByFlow<usize>,
    receiving_cpus: ByFlow<u32>,
    /// By the flow that was answered.
    departures: ByFlow<Departure>,
}

impl Flows {
    pub(super) fn new(received: Taps, sent: Taps) -> Self {
        Self {
            received,
            sent,
            ..Self::default()
        }
    }

    /// Processes the samples since the last call.
    pub(super) fn collect(&mut self) {
        let now = Time::now();
        for (worker, flows) in self.seen_by_workers.iter_mut().enumerate() {
            while let Ok(flow) = flows.pop() {
                note(&mut self.workers, flow, worker);
            }
        }
        let receiving_cpus = &mut self.receiving_cpus;
        watch(&mut self.received, now, |flow, sighting| {
            note(receiving_cpus, flow, sighting.cpu);
        });
        let departures = &mut self.departures;
        watch(&mut self.sent, now, |answer, sighting| {
            // A frame too short to identify its queue is not sampled.
            if let Some(queue) = sighting.queue {
                let cpu = sighting.cpu;
                note(departures, answer.reversed(), Departure { cpu, queue });
            }
        });
    }

    /// For each worker of these CPUs: tapped datagrams of its flows, and those received on its CPU.
    pub(super) fn locality(&self, cpus: &[u32]) -> Vec<[u64; 2]> {
        self.joined(&self.receiving_cpus, cpus.len(), |worker, cpu| {
            [true, *cpu == cpus[worker]]
        })
    }

    /// For each worker of these CPUs: where its answers left. The bucket's queue is its number modulo `queues`.
    pub(super) fn departed(&self, cpus: &[u32], queues: u32) -> Vec<Departed> {
        self.joined(&self.departures, cpus.len(), |worker, left| {
            let on_cpu = left.cpu == cpus[worker];
            let on_queue = u32::from(left.queue) == worker as u32 % queues.max(1);
            [true, on_cpu, on_queue, on_cpu && on_queue]
        })
    }

    /// For each worker, per test: tapped datagrams of its flows for which the test of worker and value holds.
    fn joined<K, const TESTS: usize>(
        &self,
        tapped: &ByFlow<K>,
        workers: usize,
        tests: impl Fn(usize, &K) -> [bool; TESTS],
    ) -> Vec<[u64; TESTS]> {
        let mut sums = vec![[0.0; TESTS]; workers];
        for (flow, tapped) in tapped {
            let Some(seen) = self.workers.get(flow) else {
                continue;
            };
            let all: u64 = seen.iter().map(|(_, count)| count).sum();
            for (worker, count) in seen {
                let share = *count as f64 / all as f64;
                for (value, tapped) in tapped {
                    for (sum, holds) in sums[*worker].iter_mut().zip(tests(*worker, value)) {
                        *sum += f64::from(u8::from(holds)) * *tapped as f64 * share;
                    }
                }
            }
        }
        sums.into_iter()
            .map(|sums| sums.map(|sum: f64| sum.round() as u64))
            .collect()
    }
}

/// Processes the sightings of taps since the last call, with the addresses of each.
fn watch(taps: &mut Taps, now: Time, mut each: impl FnMut(Tuple, Sighting)) {
    // A lost device yields no more sightings; earlier ones still count.
    taps.take_if(|taps| {
        let drained = taps.drain(now, |sighting, _| {
            if let Ok(tuple) = Tuple::new(sighting.source, sighting.destination) {
                each(tuple, sighting);
            }
        });
        drained.is_err()
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(source: &str) -> Tuple {
        Tuple::new(source.parse().unwrap(), "10.0.0.9:9".parse().unwrap()).unwrap()
    }

    #[test]
    fn a_flow_that_two_workers_share_is_local_as_often_as_its_cpus_worker_saw_it() {
        let mut flows = Flows::new(None, None);
        let (shared, own) = (flow("10.0.0.1:1"), flow("10.0.0.2:1"));
        for worker in [0, 0, 0, 1] {
            note(&mut flows.workers, shared, worker);
        }
        note(&mut flows.workers, own, 1);
        for _ in 0..100 {
            note(&mut flows.receiving_cpus, shared, 4);
            note(&mut flows.receiving_cpus, own, 4);
        }
        // Not sampled by a worker, so assigned to none.
        note(&mut flows.receiving_cpus, flow("10.0.0.3:1"), 4);
        assert_eq!(flows.locality(&[4, 5]), [[75, 75], [125, 0]]);
    }

    #[test]
    fn an_answer_is_right_on_its_buckets_cpu_and_queue_together() {
        let mut flows = Flows::new(None, None);
        let peer = flow("10.0.0.1:1");
        note(&mut flows.workers, peer, 1);
        for (cpu, queue) in [(5, 1), (5, 1), (5, 0), (4, 1), (4, 0)] {
            note(&mut flows.departures, peer, Departure { cpu, queue });
        }
        assert_eq!(flows.departed(&[4, 5], 2), [[0; 4], [5, 3, 3, 2]]);
        // A device with one queue serves every bucket.
        assert_eq!(flows.departed(&[4, 5], 1)[1][2], 2);
    }
}
