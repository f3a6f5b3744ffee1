//! Which flows reached which worker, and which CPU their receive path ran on: two samples of the same traffic, joined by
//! the flow's source.
//!
//! In: sources that workers saw, and (source, CPU) pairs that the device tap saw. Out: per worker, how many tapped
//! datagrams there were and how many of them were received on the worker's CPU. Where several workers share a flow, its
//! tapped datagrams are shared out as the workers saw them: the kernel does not choose the worker by the receiving CPU
//! there, so the two are independent within a flow.

use corelane_worker::locality::Observer;
use std::collections::HashMap;
use std::net::SocketAddr;

/// Flows remembered; with more, the first ones seen stand for the rest.
const MOST_FLOWS: usize = 65_536;

/// How often each of a few numbers (workers, CPUs) came up.
#[derive(Default)]
struct Tally(Vec<(u32, u64)>);

impl Tally {
    fn add(&mut self, number: u32) {
        match self.0.iter_mut().find(|(known, _)| *known == number) {
            Some((_, count)) => *count += 1,
            None => self.0.push((number, 1)),
        }
    }

    fn total(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    fn of(&self, number: u32) -> u64 {
        let found = self.0.iter().find(|(known, _)| *known == number);
        found.map_or(0, |(_, count)| *count)
    }
}

/// Tallies by flow.
type ByFlow = HashMap<SocketAddr, Tally>;

fn note(flows: &mut ByFlow, source: SocketAddr, number: u32) {
    if flows.len() < MOST_FLOWS || flows.contains_key(&source) {
        flows.entry(source).or_default().add(number);
    }
}

/// The two samples.
pub(super) struct Flows {
    observer: Option<Observer>,
    seen_by_workers: Vec<rtrb::Consumer<SocketAddr>>,
    workers: ByFlow,
    receiving_cpus: ByFlow,
}

impl Flows {
    pub(super) fn new(observer: Option<Observer>, seen_by_workers: Vec<rtrb::Consumer<SocketAddr>>) -> Self {
        Self {
            observer,
            seen_by_workers,
            workers: HashMap::new(),
            receiving_cpus: HashMap::new(),
        }
    }

    /// Takes in what was sampled since the last call.
    pub(super) fn collect(&mut self) {
        for (worker, flows) in self.seen_by_workers.iter_mut().enumerate() {
            while let Ok(source) = flows.pop() {
                note(&mut self.workers, source, worker as u32);
            }
        }
        let Some(observer) = &mut self.observer else {
            return;
        };
        let receiving_cpus = &mut self.receiving_cpus;
        let watched = observer.drain(MOST_FLOWS, |sighting| {
            note(receiving_cpus, sighting.source, sighting.cpu);
        });
        // A device that went away shows nothing more; what it showed before still counts.
        if watched.is_err() {
            self.observer = None;
        }
    }

    /// For each worker of these CPUs: tapped datagrams of its flows, and those of them received on its CPU.
    pub(super) fn locality(&self, cpus: &[u32]) -> Vec<(u64, u64)> {
        let mut sums = vec![(0.0, 0.0); cpus.len()];
        for (source, tapped) in &self.receiving_cpus {
            let Some(workers) = self.workers.get(source) else {
                continue;
            };
            let (seen, all) = (workers.total() as f64, tapped.total() as f64);
            for (worker, count) in &workers.0 {
                let worker = *worker as usize;
                let share = *count as f64 / seen;
                sums[worker].0 += all * share;
                sums[worker].1 += tapped.of(cpus[worker]) as f64 * share;
            }
        }
        let whole = |(all, local): (f64, f64)| (all.round() as u64, local.round() as u64);
        sums.into_iter().map(whole).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_that_two_workers_share_is_local_as_often_as_its_cpus_worker_saw_it() {
        let mut flows = Flows::new(None, Vec::new());
        let (shared, own) = ("10.0.0.1:1".parse().unwrap(), "10.0.0.2:1".parse().unwrap());
        for worker in [0, 0, 0, 1] {
            note(&mut flows.workers, shared, worker);
        }
        note(&mut flows.workers, own, 1);
        for _ in 0..100 {
            note(&mut flows.receiving_cpus, shared, 4);
            note(&mut flows.receiving_cpus, own, 4);
        }
        // Nobody saw this one: it belongs to no worker.
        note(&mut flows.receiving_cpus, "10.0.0.3:1".parse().unwrap(), 4);
        assert_eq!(flows.locality(&[4, 5]), [(75, 75), (125, 0)]);
    }
}
