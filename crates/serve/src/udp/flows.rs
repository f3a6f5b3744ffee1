//! Locality of flows: the worker that received a flow, the CPU of its receive path, and the CPU and queue on which its
//! answers left; samples of the same traffic, joined by the flow's source address.
//!
//! In: sources sampled by workers, and sightings of the device taps. Out: per worker, the number of tapped datagrams,
//! and of those received or answered on the correct CPU. If several workers share a flow, its tapped datagrams are
//! distributed in proportion to the workers' samples: the kernel does not select the worker by the receiving CPU in
//! that case, so the two are independent within a flow.

use corelane_worker::locality::{Observer, Sighting};
use std::collections::HashMap;
use std::net::SocketAddr;

/// Maximum number of flows remembered; further flows are ignored.
const MOST_FLOWS: usize = 65_536;

/// Frequencies of a few values (workers, CPUs).
struct Tally<K>(Vec<(K, u64)>);

/// Tallies by flow.
type ByFlow<K> = HashMap<SocketAddr, Tally<K>>;

fn note<K: PartialEq>(flows: &mut ByFlow<K>, source: SocketAddr, value: K) {
    if flows.len() >= MOST_FLOWS && !flows.contains_key(&source) {
        return;
    }
    let Tally(counts) = flows.entry(source).or_insert(Tally(Vec::new()));
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

/// Of one worker's answers, the number seen leaving, and the number that left on the correct CPU and queue.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Departed {
    pub(super) samples: u64,
    pub(super) on_cpu: u64,
    pub(super) on_queue: u64,
    /// On both the bucket's CPU and its queue.
    pub(super) right: u64,
}

/// The samples.
pub(super) struct Flows {
    /// The tap of received packets.
    received: Option<Observer>,
    sent: Option<Observer>,
    pub(super) seen_by_workers: Vec<rtrb::Consumer<SocketAddr>>,
    workers: ByFlow<usize>,
    receiving_cpus: ByFlow<u32>,
    /// By the answered peer.
    departures: ByFlow<Departure>,
}

impl Flows {
    pub(super) fn new(received: Option<Observer>, sent: Option<Observer>) -> Self {
        Self {
            received,
            sent,
            seen_by_workers: Vec::new(),
            workers: HashMap::new(),
            receiving_cpus: HashMap::new(),
            departures: HashMap::new(),
        }
    }

    /// Processes the samples since the last call.
    pub(super) fn collect(&mut self) {
        for (worker, flows) in self.seen_by_workers.iter_mut().enumerate() {
            while let Ok(source) = flows.pop() {
                note(&mut self.workers, source, worker);
            }
        }
        let receiving_cpus = &mut self.receiving_cpus;
        watch(&mut self.received, |sighting| {
            note(receiving_cpus, sighting.source, sighting.cpu);
        });
        let departures = &mut self.departures;
        watch(&mut self.sent, |sighting| {
            // A frame too short to identify its queue is not sampled.
            if let Some(queue) = sighting.queue {
                let cpu = sighting.cpu;
                note(departures, sighting.destination, Departure { cpu, queue });
            }
        });
    }

    /// For each worker of these CPUs: tapped datagrams of its flows, and those received on its CPU.
    pub(super) fn locality(&self, cpus: &[u32]) -> Vec<(u64, u64)> {
        let count =
            |counts: &dyn Fn(usize, &u32) -> bool| self.joined(&self.receiving_cpus, cpus.len(), counts);
        let all = count(&|_, _| true);
        let local = count(&|worker, cpu| *cpu == cpus[worker]);
        all.into_iter().zip(local).collect()
    }

    /// For each worker of these CPUs: where its answers left. The bucket's queue is its number modulo `queues`.
    pub(super) fn departed(&self, cpus: &[u32], queues: u32) -> Vec<Departed> {
        let on_cpu = |worker: usize, left: &Departure| left.cpu == cpus[worker];
        let on_queue =
            |worker: usize, left: &Departure| u32::from(left.queue) == worker as u32 % queues.max(1);
        let count =
            |counts: &dyn Fn(usize, &Departure) -> bool| self.joined(&self.departures, cpus.len(), counts);
        let samples = count(&|_, _| true);
        let (cpu, queue) = (count(&on_cpu), count(&on_queue));
        let right = count(&|worker, left| on_cpu(worker, left) && on_queue(worker, left));
        let departed = |worker| Departed {
            samples: samples[worker],
            on_cpu: cpu[worker],
            on_queue: queue[worker],
            right: right[worker],
        };
        (0..cpus.len()).map(departed).collect()
    }

    /// For each worker: tapped datagrams of its flows for which `counts`, given worker and value, is true.
    fn joined<K>(&self, tapped: &ByFlow<K>, workers: usize, counts: &dyn Fn(usize, &K) -> bool) -> Vec<u64> {
        let mut sums = vec![0.0; workers];
        for (source, tapped) in tapped {
            let Some(Tally(seen)) = self.workers.get(source) else {
                continue;
            };
            let all: u64 = seen.iter().map(|(_, count)| count).sum();
            for (worker, count) in seen {
                let counted = tapped.0.iter().filter(|(value, _)| counts(*worker, value));
                let counted: u64 = counted.map(|(_, count)| count).sum();
                sums[*worker] += counted as f64 * *count as f64 / all as f64;
            }
        }
        sums.into_iter().map(|sum| sum.round() as u64).collect()
    }
}

/// Processes a tap's sightings since the last call.
fn watch(observer: &mut Option<Observer>, each: impl FnMut(Sighting)) {
    // A lost device yields no more sightings; earlier ones still count.
    if observer
        .as_mut()
        .is_some_and(|tap| tap.drain(MOST_FLOWS, each).is_err())
    {
        *observer = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_that_two_workers_share_is_local_as_often_as_its_cpus_worker_saw_it() {
        let mut flows = Flows::new(None, None);
        let (shared, own) = ("10.0.0.1:1".parse().unwrap(), "10.0.0.2:1".parse().unwrap());
        for worker in [0, 0, 0, 1] {
            note(&mut flows.workers, shared, worker);
        }
        note(&mut flows.workers, own, 1);
        for _ in 0..100 {
            note(&mut flows.receiving_cpus, shared, 4);
            note(&mut flows.receiving_cpus, own, 4);
        }
        // Not sampled by a worker: assigned to none.
        note(&mut flows.receiving_cpus, "10.0.0.3:1".parse().unwrap(), 4);
        assert_eq!(flows.locality(&[4, 5]), [(75, 75), (125, 0)]);
    }

    #[test]
    fn an_answer_is_right_on_its_buckets_cpu_and_queue_together() {
        let mut flows = Flows::new(None, None);
        let peer = "10.0.0.1:1".parse().unwrap();
        note(&mut flows.workers, peer, 1);
        for (cpu, queue) in [(5, 1), (5, 1), (5, 0), (4, 1), (4, 0)] {
            note(&mut flows.departures, peer, Departure { cpu, queue });
        }
        let expected = Departed {
            samples: 5,
            on_cpu: 3,
            on_queue: 3,
            right: 2,
        };
        assert_eq!(flows.departed(&[4, 5], 2), [Departed::default(), expected]);
        // A device with one queue serves every bucket.
        assert_eq!(flows.departed(&[4, 5], 1)[1].on_queue, 2);
    }
}
