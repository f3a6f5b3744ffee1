//! Which flows reached which worker, and which CPU their receive path ran on: two samples of the same traffic, joined by
//! the flow's source.
//!
//! In: sources that workers saw, and (source, CPU) pairs that the device tap saw. Out: per bucket, how many tapped
//! datagrams there were and how many of them were received on the worker's CPU.

use corelane_worker::locality::Observer;
use std::collections::HashMap;
use std::net::SocketAddr;

/// Flows remembered; with more, the first ones seen stand for the rest.
const MOST_FLOWS: usize = 65_536;

/// The two samples.
pub(super) struct Flows {
    observer: Option<Observer>,
    seen_by_workers: Vec<rtrb::Consumer<SocketAddr>>,
    owner: HashMap<SocketAddr, u16>,
    received_on: HashMap<(SocketAddr, u32), u64>,
}

impl Flows {
    pub(super) fn new(observer: Option<Observer>, seen_by_workers: Vec<rtrb::Consumer<SocketAddr>>) -> Self {
        Self {
            observer,
            seen_by_workers,
            owner: HashMap::new(),
            received_on: HashMap::new(),
        }
    }

    /// Takes in what was sampled since the last call.
    pub(super) fn collect(&mut self) {
        for (bucket, flows) in self.seen_by_workers.iter_mut().enumerate() {
            while let Ok(source) = flows.pop() {
                if self.owner.len() < MOST_FLOWS || self.owner.contains_key(&source) {
                    self.owner.insert(source, bucket as u16);
                }
            }
        }
        let Some(observer) = &mut self.observer else {
            return;
        };
        let received_on = &mut self.received_on;
        let watched = observer.drain(MOST_FLOWS, |sighting| {
            let key = (sighting.source, sighting.cpu);
            if received_on.len() < MOST_FLOWS || received_on.contains_key(&key) {
                *received_on.entry(key).or_default() += 1;
            }
        });
        // A device that went away shows nothing more; what it showed before still counts.
        if watched.is_err() {
            self.observer = None;
        }
    }

    /// Tapped datagrams of `bucket`, and those of them received on `cpu`.
    pub(super) fn locality(&self, bucket: u16, cpu: u32) -> (u64, u64) {
        let mine = self
            .received_on
            .iter()
            .filter(|((source, _), _)| self.owner.get(source) == Some(&bucket));
        mine.fold((0, 0), |(all, local), ((_, on), count)| {
            (all + count, local + if *on == cpu { *count } else { 0 })
        })
    }
}
