//! Datagrams in fragments through buckets of several workers, with faults: each is delivered whole, once, on the bucket that
//! its final hash names, or its frames are counted under a name.

use super::traffic::{Datagram, identified};
use corelane_link::memory::MemoryLink;
use corelane_link::{FaultPlan, FrameLayout, Wrapped};
use corelane_packet::{Dissection, HashTypes};
use corelane_rss::{Bucket, IndirectionTable, Key};
use corelane_serve::bridge::{BridgePlan, BucketsPlan, Simulated};
use corelane_stage::dispatch::{DispatchPlan, Given, Method, Policy, Protocol, Spread};
use corelane_stage::reassembly::{Placement, Plan};
use corelane_stage::{Batch, Stage, StagePlans, Way, Work};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How fragments come to workers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrival {
    /// By the hash of their addresses.
    Rss,
    /// One after the other.
    RoundRobin,
    /// By chance.
    Random,
}

#[derive(Clone, Debug)]
pub struct Scenario {
    pub seed: u64,
    pub buckets: u16,
    pub workers: usize,
    pub hash_types: HashTypes,
    pub at: Placement,
    pub method: Method,
    /// Of all packets; `None`: the usual one.
    pub policy: Option<Policy>,
    pub decapsulates: bool,
    pub arrival: Arrival,
    pub faults: FaultPlan,
}

/// What packets of IP are queued for.
fn packets() -> [Protocol; 4] {
    [
        Protocol::Ip,
        Protocol::Ip6,
        Protocol::IpDirect,
        Protocol::Ip6Direct,
    ]
}

/// Writes the bucket that a frame leaves from into its first byte.
struct Sign(Bucket);

impl Stage for Sign {
    fn run<B: Batch>(&mut self, work: &mut Work<'_, B>) {
        for place in (0..work.len())
            .filter(|place| work.goes_on(*place))
            .collect::<Vec<_>>()
        {
            work.frame_mut(place)[0] = self.0.index() as u8;
        }
    }
}

/// The time of the simulation: nanoseconds since its start.
#[derive(Clone)]
struct Clock(Instant, Arc<AtomicU64>);

impl Clock {
    fn now(&self) -> Instant {
        self.0 + Duration::from_nanos(self.1.load(Ordering::Relaxed))
    }

    fn go_on(&self, time: Duration) {
        self.1.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }
}

type Faulty = Wrapped<MemoryLink, Box<dyn FnMut() -> Instant>>;

pub struct Simulation {
    bridge: Simulated<Faulty, (Way, Sign)>,
    spread: Spread,
    clock: Clock,
    /// By worker.
    pub delivered: Vec<Vec<Vec<u8>>>,
}

impl Scenario {
    fn plan(&self) -> BridgePlan {
        let given = Given {
            method: None,
            policy: self.policy,
        };
        let buckets = BucketsPlan {
            key: Key::VERIFICATION,
            hash_types: self.hash_types,
            table: IndirectionTable::round_robin(128, self.buckets.into()).unwrap(),
            buckets: self.buckets,
            dispatch: DispatchPlan {
                default: self.method,
                limit: 4096,
                protocols: packets().map(|protocol| (protocol, given)).into(),
            },
        };
        let stages = StagePlans {
            reassemble: Some(Plan {
                at: self.at,
                timeout: 1.0,
                ..Plan::default()
            }),
            decapsulate: self.decapsulates.then(Default::default),
            ..StagePlans::default()
        };
        BridgePlan {
            workers: Some(self.workers),
            burst: 64,
            buckets: Some(buckets),
            stages,
            ..BridgePlan::new(
                vec!["in".to_owned(), "out".to_owned()],
                (0..self.workers as u32).collect(),
            )
        }
    }
}

impl Simulation {
    pub fn new(scenario: &Scenario) -> Simulation {
        let plan = scenario.plan();
        let spread = plan.buckets.as_ref().unwrap().spread();
        let clock = Clock(Instant::now(), Arc::default());
        let links = |worker, links: [MemoryLink; 2]| {
            let seed = scenario.seed * 100 + worker as u64;
            let faults = [
                FaultPlan {
                    seed,
                    ..scenario.faults
                },
                FaultPlan::default(),
            ];
            let mut faults = faults.into_iter();
            links.map(|link| {
                let clock = clock.clone();
                let time: Box<dyn FnMut() -> Instant> = Box::new(move || clock.now());
                Wrapped::faulty_by(link, faults.next().unwrap(), time)
            })
        };
        let layout = FrameLayout::new(1024, 8192, 0).unwrap();
        let stages = |bucket, way| (way, Sign(bucket));
        Simulation {
            bridge: Simulated::new(&plan, scenario.seed, layout, links, stages).unwrap(),
            spread,
            clock,
            delivered: vec![Vec::new(); scenario.workers],
        }
    }

    /// Lets a frame come to a worker.
    pub fn receive(&mut self, scenario: &Scenario, number: usize, frame: &[u8], draws: &mut Rng) {
        let packet = Dissection::of(frame).unwrap();
        let two = packet.rss_input(HashTypes::TWO_TUPLE).unwrap();
        let by_hash = self.spread.table.bucket(two.hash(&self.spread.toeplitz).value);
        let worker = match scenario.arrival {
            Arrival::Rss => by_hash.index() % scenario.workers,
            Arrival::RoundRobin => number % scenario.workers,
            Arrival::Random => draws.usize(..scenario.workers),
        };
        assert!(self.bridge.receive(worker, frame).unwrap());
    }

    /// Takes turns in a random order until nothing moves.
    pub fn settle(&mut self, draws: &mut Rng) {
        loop {
            let mut order: Vec<usize> = (0..self.delivered.len()).collect();
            draws.shuffle(&mut order);
            let now = self.clock.now();
            let moved: usize = order
                .into_iter()
                .map(|worker| self.bridge.turn(worker, now))
                .sum();
            for (worker, delivered) in self.delivered.iter_mut().enumerate() {
                let sent = self.bridge.sent(worker).unwrap();
                delivered.extend(sent.iter().map(<[u8]>::to_vec));
            }
            if moved == 0 {
                return;
            }
        }
    }

    fn bucket_of(&self, frame: &[u8]) -> Option<Bucket> {
        let packet = Dissection::of(frame).ok()?;
        Some(self.spread.table.bucket(self.spread.hash(&packet)?.value))
    }

    /// A count of reassembly.
    pub fn count(&self, name: &str) -> u64 {
        self.bridge.bridged().stages["reassemble"][name]
    }

    /// Asserts that every frame is in one cell, and every row adds up.
    pub fn balances(&self, scenario: &Scenario) {
        let bridged = self.bridge.bridged();
        for stream in &bridged.dispatch.as_ref().unwrap().workstreams {
            let row = &stream.row;
            assert_eq!(row.length, 0, "{scenario:?}");
            assert_eq!(
                row.handled,
                row.dispatched + row.hybrid + row.queued,
                "{scenario:?}"
            );
        }
        assert_eq!(bridged.unaccounted(), 0, "{scenario:?}");
    }
}

fn udp_at(frame: &[u8]) -> usize {
    Dissection::of(frame).unwrap().transport_offset()
}

/// What came of the datagrams of a scenario.
struct Outcome {
    /// How often each datagram was delivered, by flow and number.
    delivered: BTreeMap<(u32, u32), u32>,
    /// Datagrams that left behind a later one of their flow.
    overtaken: u64,
    handed_over: u64,
    simulation: Simulation,
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

fn run(scenario: &Scenario) -> Outcome {
    let mut simulation = Simulation::new(scenario);
    let mut draws = Rng::with_seed(scenario.seed);
    let datagrams = sent(&mut draws);
    let mtu = draws.usize(600..1500);
    let fragments = datagrams.iter().flat_map(|datagram| datagram.fragments(mtu));
    for (number, fragment) in fragments.enumerate() {
        simulation.receive(scenario, number, &fragment, &mut draws);
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
    simulation.bridge.end(simulation.clock.now());
    simulation.settle(&mut draws);

    judged(scenario, &datagrams, simulation)
}

/// Asserts that what was delivered is what was sent, by the bucket of its hash, and counts it.
fn judged(scenario: &Scenario, datagrams: &[Datagram], simulation: Simulation) -> Outcome {
    let originals: BTreeMap<_, _> = datagrams
        .iter()
        .map(|datagram| ((datagram.flow, datagram.number), datagram))
        .collect();
    let (mut delivered, mut overtaken) = (BTreeMap::new(), 0);
    for frames in &simulation.delivered {
        let mut newest = BTreeMap::new();
        for frame in frames {
            let Some(name) = identified(frame) else {
                assert!(
                    scenario.faults.corrupt + scenario.faults.truncate > 0.0,
                    "{scenario:?}"
                );
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
        simulation,
    }
}

fn scenario(seed: u64, faults: FaultPlan) -> Scenario {
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
    }
}

#[test]
fn without_faults_every_datagram_is_delivered_whole_and_once_wherever_its_fragments_meet() {
    for seed in 1..=40 {
        let mut scenario = scenario(seed, FaultPlan::default());
        if scenario.at == Placement::Arrival && scenario.method == Method::Direct {
            // Fragments that come apart do not meet: nothing moves them.
            scenario.arrival = Arrival::Rss;
        }
        let outcome = run(&scenario);
        assert_eq!(outcome.simulation.count("timeout"), 0, "{scenario:?}");
        assert_eq!(outcome.delivered.len(), 400, "{scenario:?}");
        assert!(
            outcome.delivered.values().all(|times| *times == 1),
            "{scenario:?}"
        );
    }
}

#[test]
fn with_every_fault_a_datagram_is_delivered_whole_and_at_most_once_or_its_frames_are_counted() {
    let faults = FaultPlan {
        drop: 0.03,
        truncate: 0.01,
        corrupt: 0.02,
        reorder: 0.05,
        delayed: 0.05,
        delay: Duration::from_millis(5),
        ..FaultPlan::default()
    };
    let mut lost = 0;
    for seed in 1..=60 {
        let scenario = scenario(seed, faults);
        let outcome = run(&scenario);
        assert!(
            outcome.delivered.values().all(|times| *times == 1),
            "{scenario:?}"
        );
        lost += 400 - outcome.delivered.len();
    }
    assert!(lost > 600, "{lost}: faults had an effect");
}

#[test]
fn a_repeated_fragment_makes_no_second_datagram() {
    let faults = FaultPlan {
        duplicate: 0.2,
        ..FaultPlan::default()
    };
    for seed in 1..=30 {
        let scenario = Scenario {
            at: Placement::Owner,
            ..scenario(seed, faults)
        };
        let outcome = run(&scenario);
        assert_eq!(outcome.delivered.len(), 400, "{scenario:?}");
        let mut draws = Rng::with_seed(seed);
        let datagrams = sent(&mut draws);
        let mtu = draws.usize(600..1500);
        for datagram in datagrams {
            let times = outcome.delivered[&(datagram.flow, datagram.number)];
            let most = if datagram.fragments(mtu).len() > 1 { 1 } else { 2 };
            assert!(times <= most, "{scenario:?}");
        }
    }
}

#[test]
fn under_two_fields_a_flow_stays_in_order_and_under_four_it_is_seen_where_it_does_not() {
    let mut overtaken = 0;
    for seed in 1..=40 {
        let of = |hash_types, method| Scenario {
            hash_types,
            method,
            at: Placement::Arrival,
            arrival: Arrival::Rss,
            ..scenario(seed, FaultPlan::default())
        };
        for method in [Method::Direct, Method::Deferred, Method::Hybrid] {
            let scenario = of(HashTypes::TWO_TUPLE, method);
            let outcome = run(&scenario);
            assert_eq!((outcome.overtaken, outcome.handed_over), (0, 0), "{scenario:?}");
        }
        overtaken += run(&of(HashTypes::FOUR_TUPLE, Method::Hybrid)).overtaken;
    }
    println!("overtaken under four fields: {overtaken} of {}", 40 * 400);
}

#[test]
fn the_same_seed_gives_the_same_frames() {
    let faults = FaultPlan {
        drop: 0.05,
        reorder: 0.1,
        ..FaultPlan::default()
    };
    for seed in 1..=10 {
        let scenario = scenario(seed, faults);
        let [first, second] = [0, 1].map(|_| run(&scenario).simulation.delivered);
        assert!(first == second, "{scenario:?}");
    }
}
