//! Runs a scenario, and judges what was delivered.

use super::simulation::{Arrival, Scenario, Simulation};
use super::traffic::{Datagram, identified};
use corelane_link::FaultPlan;
use corelane_packet::{Dissection, HashTypes};
use corelane_rss::Bucket;
use corelane_stage::dispatch::Method;
use corelane_stage::reassembly::Placement;
use fastrand::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

fn udp_at(frame: &[u8]) -> usize {
    Dissection::of(frame).unwrap().transport_offset()
}

/// What came of the datagrams of a scenario.
pub struct Outcome {
    /// How often each datagram was delivered, by flow and number.
    pub delivered: BTreeMap<(u32, u32), u32>,
    /// Datagrams that left behind a later one of their flow.
    pub overtaken: u64,
    pub handed_over: u64,
    /// Frames delivered that are no whole datagram.
    pub unidentified: u64,
    /// The fragments of each datagram; one, if it fits.
    pub fragments: BTreeMap<(u32, u32), Vec<Vec<u8>>>,
    pub simulation: Simulation,
}

fn sent(draws: &mut Rng) -> Vec<Datagram> {
    let mut numbers = BTreeMap::new();
    (0..400)
        .map(|_| {
            let flow = draws.u32(..24);
            let number = numbers.entry(flow).or_insert(0);
            *number += 1;
            let payload = if draws.bool() {
                draws.usize(8..400)
            } else {
                draws.usize(600..6000)
            };
            Datagram::new(flow, *number, payload)
        })
        .collect()
}

pub fn run(scenario: &Scenario) -> Outcome {
    let mut simulation = Simulation::new(scenario);
    let mut draws = Rng::with_seed(scenario.seed);
    let datagrams = sent(&mut draws);
    let mtu = draws.usize(600..1500);
    let fragments: Vec<_> = datagrams
        .iter()
        .flat_map(|datagram| datagram.fragments(mtu))
        .collect();
    for (number, fragment) in fragments.iter().enumerate() {
        if scenario.replans && number == fragments.len() / 2 {
            simulation.replan(scenario);
        }
        simulation.receive(scenario, number, fragment, &mut draws);
        if draws.u8(..16) == 0 {
            simulation.clock.go_on(Duration::from_millis(1));
            simulation.settle(&mut draws);
        }
    }
    // Delayed frames come, and then all that still waits has waited too long.
    for _ in 0..4 {
        simulation.settle(&mut draws);
        simulation.clock.go_on(Duration::from_millis(500));
    }
    simulation.settle(&mut draws);
    simulation.end();
    simulation.settle(&mut draws);

    let named = |datagram: &Datagram| ((datagram.flow, datagram.number), datagram.fragments(mtu));
    Outcome {
        fragments: datagrams.iter().map(named).collect(),
        ..judged(scenario, &datagrams, simulation)
    }
}

/// Asserts that what was delivered is what was sent, by the bucket of its hash, and counts it.
fn judged(scenario: &Scenario, datagrams: &[Datagram], simulation: Simulation) -> Outcome {
    let originals: BTreeMap<_, _> = datagrams
        .iter()
        .map(|datagram| ((datagram.flow, datagram.number), datagram))
        .collect();
    let (mut delivered, mut overtaken, mut unidentified) = (BTreeMap::new(), 0, 0);
    for frames in &simulation.delivered {
        let mut newest = BTreeMap::new();
        for frame in frames {
            let Some(name) = identified(frame) else {
                assert!(
                    scenario.faults.corrupt + scenario.faults.truncate > 0.0,
                    "{scenario:?}"
                );
                unidentified += 1;
                continue;
            };
            let original = originals[&name];
            // A flipped bit before the UDP header need not show: of Ethernet or IPv6 no checksum covers all.
            let from = if scenario.faults.corrupt > 0.0 {
                udp_at(&original.frame)
            } else {
                1
            };
            let bits = frame[from..].iter().zip(&original.frame[from..]);
            let flipped: u32 = bits.map(|(one, other)| (one ^ other).count_ones()).sum();
            assert_eq!(frame.len(), original.frame.len(), "{scenario:?}");
            if scenario.faults.corrupt > 0.0 && flipped >= 2 {
                // Two bits of one datagram may cancel out in the checksum.
                unidentified += 1;
                continue;
            }
            assert_eq!(flipped, 0, "{scenario:?}");
            if scenario.method != Method::Direct {
                let signed = Bucket::new(frame[0].into());
                assert_eq!(Some(signed), simulation.bucket_of(frame), "{scenario:?}");
            }
            *delivered.entry(name).or_insert(0) += 1;
            let last = newest.entry(name.0).or_insert(0);
            overtaken += u64::from(name.1 < *last);
            *last = name.1.max(*last);
        }
    }
    simulation.balances(scenario);
    Outcome {
        delivered,
        overtaken,
        handed_over: simulation.count("handed_over"),
        unidentified,
        fragments: BTreeMap::new(),
        simulation,
    }
}

pub fn scenario(seed: u64, faults: FaultPlan) -> Scenario {
    let mut draws = Rng::with_seed(seed ^ 0x9e37_79b9);
    let buckets = draws.u16(1..=6);
    Scenario {
        seed,
        buckets,
        workers: draws.usize(1..=usize::from(buckets).min(3)),
        hash_types: [
            HashTypes::TWO_TUPLE,
            HashTypes::FOUR_TUPLE,
            HashTypes::DRIVER_DEFAULT,
        ][draws.usize(..3)],
        at: [Placement::Arrival, Placement::Owner][draws.usize(..2)],
        method: [Method::Direct, Method::Deferred, Method::Hybrid][draws.usize(..3)],
        policy: None,
        decapsulates: false,
        arrival: [Arrival::Rss, Arrival::RoundRobin, Arrival::Random][draws.usize(..3)],
        faults,
        limit: 4096,
        replans: false,
    }
}

type Names = BTreeSet<(u32, u32)>;

impl Outcome {
    /// Datagrams that were not delivered.
    pub fn missing(&self) -> Names {
        let names = self.fragments.keys().copied();
        names.filter(|name| !self.delivered.contains_key(name)).collect()
    }

    /// How often a datagram came as it was sent: each of its fragments.
    pub fn times_it_came(&self, name: &(u32, u32)) -> u32 {
        let came = self.simulation.came.lock().unwrap();
        let times = |fragment| came.get(fragment).copied().unwrap_or_default();
        let fragments = self.fragments[name].iter();
        fragments.map(times).min().unwrap_or_default()
    }

    /// Datagrams of which a fragment did not come as it was sent.
    pub fn harmed(&self) -> Names {
        let names = self.fragments.keys().copied();
        names.filter(|name| self.times_it_came(name) == 0).collect()
    }

    /// How many fragments these datagrams have, and how many of those came as they were sent.
    pub fn fragments_of(&self, names: &Names) -> (u64, u64) {
        let came = self.simulation.came.lock().unwrap();
        let fragments = || names.iter().flat_map(|name| &self.fragments[name]);
        let are_there = fragments().filter(|fragment| came.contains_key(*fragment));
        (fragments().count() as u64, are_there.count() as u64)
    }
}
