//! Buckets of several workers, between rings with faults.

use corelane_link::memory::MemoryLink;
use corelane_link::{FaultPlan, FrameLayout, Injected, Wrapped};
use corelane_measure::counters::Counters;
use corelane_packet::{Dissection, HashTypes};
use corelane_rss::{Bucket, IndirectionTable, Key};
use corelane_serve::bridge::{BridgePlan, BucketsPlan, Simulated};
use corelane_stage::dispatch::{DispatchPlan, Given, Method, Policy, Protocol, Spread};
use corelane_stage::reassembly::{Placement, Plan};
use corelane_stage::{Batch, Stage, StagePlans, Way, Work};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
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
    /// Frames that wait for one bucket and protocol at most.
    pub limit: u32,
    /// Whether all workers take another plan on the way.
    pub replans: bool,
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

/// How often each frame came from links, behind their faults.
pub type Came = Arc<Mutex<BTreeMap<Vec<u8>, u32>>>;

/// The stages of a bucket, around which a test looks at the frames.
pub struct Watched {
    came: Came,
    bucket: Bucket,
    way: Way,
}

impl Watched {
    /// Writes the bucket that a frame leaves from into its first byte.
    fn sign<B: Batch>(&self, work: &mut Work<'_, B>) {
        work.settle();
        for place in 0..work.len() {
            if work.goes_on(place) {
                work.frame_mut(place)[0] = self.bucket.index() as u8;
            }
        }
    }
}

impl Stage for Watched {
    fn run<B: Batch>(&mut self, work: &mut Work<'_, B>) {
        if let Some(lent) = work.lent() {
            let mut came = self.came.lock().unwrap();
            for number in 0..lent.frames() {
                *came.entry(lent.frame(number).to_vec()).or_default() += 1;
            }
        }
        self.way.run(work);
        self.sign(work);
    }

    fn end<B: Batch>(&mut self, work: &mut Work<'_, B>) {
        self.way.end(work);
        self.sign(work);
    }

    fn take_over(&mut self, old: Watched) {
        self.way.take_over(old.way);
    }
}

/// The time of the simulation: nanoseconds since its start.
#[derive(Clone)]
pub struct Clock(Instant, Arc<AtomicU64>);

impl Clock {
    pub fn now(&self) -> Instant {
        self.0 + Duration::from_nanos(self.1.load(Ordering::Relaxed))
    }

    pub fn go_on(&self, time: Duration) {
        self.1.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }
}

pub type Faulty = Wrapped<MemoryLink, Box<dyn FnMut() -> Instant>>;

pub struct Simulation {
    bridge: Simulated<Faulty, Watched>,
    spread: Spread,
    pub clock: Clock,
    pub came: Came,
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
                limit: self.limit,
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

/// Watches the stages of buckets.
fn watched(came: &Came) -> impl Fn(Bucket, Way) -> Watched + use<> {
    let came = Arc::clone(came);
    move |bucket, way| Watched {
        came: Arc::clone(&came),
        bucket,
        way,
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
        let came = Came::default();
        let stages = watched(&came);
        Simulation {
            bridge: Simulated::new(&plan, scenario.seed, layout, links, stages).unwrap(),
            spread,
            clock,
            came,
            delivered: vec![Vec::new(); scenario.workers],
        }
    }

    /// Lets every worker take a plan with another method, which moves packets if that of the scenario does, and less memory.
    pub fn replan(&mut self, scenario: &Scenario) {
        let mut plan = scenario.plan();
        plan.buckets.as_mut().unwrap().dispatch.default = match scenario.method {
            Method::Direct => Method::Direct,
            Method::Deferred => Method::Hybrid,
            Method::Hybrid => Method::Deferred,
        };
        plan.stages.reassemble.as_mut().unwrap().memory = 1 << 20;
        self.bridge.replan(&plan, watched(&self.came));
    }

    /// No frame will come.
    pub fn end(&mut self) {
        self.bridge.end(self.clock.now());
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

    pub fn bucket_of(&self, frame: &[u8]) -> Option<Bucket> {
        let packet = Dissection::of(frame).ok()?;
        Some(self.spread.table.bucket(self.spread.hash(&packet)?.value))
    }

    /// A count of reassembly.
    pub fn count(&self, name: &str) -> u64 {
        self.bridge.bridged().stages["reassemble"][name]
    }

    /// What stages dropped, and queues refused, by cause.
    pub fn dropped(&self) -> BTreeMap<String, u64> {
        let mut dropped = self.bridge.bridged().dropped;
        dropped.retain(|_, count| *count > 0);
        dropped
    }

    /// Frames that faults affected.
    pub fn injected(&self) -> Injected {
        Counters::sum(self.bridge.queues().filter_map(Wrapped::injected))
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
