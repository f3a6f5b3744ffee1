//! Datagrams of several flows, the simulated bridge that they go through, and the application that receives them.

use super::document::Request;
use anyhow::ensure;
use corelane_link::FrameLayout;
use corelane_link::memory::MemoryLink;
use corelane_load::pace::Pace;
use corelane_load::packets::{FlowChoice, GeneratedPlan, Sizes, frames};
use corelane_packet::{Dissection, HashTypes};
use corelane_proto::mark::Mark;
use corelane_rss::{IndirectionTable, Key};
use corelane_serve::bridge::{BridgePlan, Bridged, BucketsPlan, Simulated};
use corelane_stage::dispatch::{DispatchPlan, Given, Method, Policy, Protocol, Spread};
use corelane_stage::{Desk, Stage, StagePlans, Way, Work};
use fastrand::Rng;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Frames that come before workers take their turns, at most; also those of a batch.
const BURST: usize = 64;

/// Time between two frames.
const INTERVAL: Duration = Duration::from_micros(1);

/// UDP datagrams of so many flows in turn, IPv4, with marks.
pub(super) fn datagrams(
    flows: usize,
    sizes: Sizes,
    seed: u64,
) -> anyhow::Result<impl Iterator<Item = Vec<u8>> + use<>> {
    Ok(frames(&GeneratedPlan {
        sources: "10.0.0.0/16".parse()?,
        destinations: "192.0.2.1".parse()?,
        source_ports: (1024, 65_535),
        destination_ports: (53, 53),
        flows: FlowChoice::Fixed { flows },
        steering: None,
        sizes,
        pace: Pace::Flood,
        destination_link: [2, 0, 0, 0, 0, 1],
        source_link: [2, 0, 0, 0, 0, 2],
        seed,
    })?)
}

/// The frames that a stage makes of one.
pub(super) fn through(stage: &mut impl Stage, frame: Vec<u8>, now: Instant) -> Vec<Vec<u8>> {
    let (mut desk, mut frames) = (Desk::default(), vec![frame]);
    let mut work = Work::new(&mut desk, &mut frames, now);
    work.read();
    stage.run(&mut work);
    work.settle();
    let places = (0..work.len()).filter(|place| work.goes_on(*place));
    places.map(|place| work.frame(place).to_vec()).collect()
}

/// A bridge of one worker per bucket. Frames are handled where they arrive; what its stages make of them is dispatched anew.
pub(super) fn bridge(
    request: &Request,
    hash_types: HashTypes,
    stages: StagePlans,
) -> anyhow::Result<BridgePlan> {
    let direct = Given {
        method: Some(Method::Direct),
        policy: None,
    };
    let cpus = (0..request.buckets.into()).collect();
    Ok(BridgePlan {
        workers: Some(request.buckets.into()),
        burst: BURST,
        buckets: Some(BucketsPlan {
            key: Key::VERIFICATION,
            hash_types,
            table: IndirectionTable::round_robin(128, request.buckets.into())?,
            buckets: request.buckets,
            dispatch: DispatchPlan {
                protocols: [(Protocol::Ip, direct)].into(),
                ..DispatchPlan::default()
            },
        }),
        stages,
        ..BridgePlan::new(vec!["in".to_owned(), "out".to_owned()], cpus)
    })
}

/// How frames come to workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// By the hash of their headers, as a network interface selects a queue.
    Rss,
    /// To each in turn.
    InTurn,
    /// By chance.
    Random,
}

/// A simulated bridge, and what came out of it.
pub(super) struct Simulation {
    pub bridge: Simulated<MemoryLink, Way>,
    spread: Spread,
    /// Those that take turns, and to which frames come in turn.
    pub workers: Range<usize>,
    arrival: Arrival,
    draws: Rng,
    pub now: Instant,
    came: usize,
    application: Application,
}

impl Simulation {
    pub fn new(plan: &BridgePlan, arrival: Arrival, flows: usize, seed: u64) -> anyhow::Result<Simulation> {
        let layout = FrameLayout::new(1024, 8192, 0)?;
        let buckets = plan.buckets.as_ref().map(BucketsPlan::spread);
        let Some(spread) = buckets else {
            anyhow::bail!("a simulation needs buckets");
        };
        Ok(Simulation {
            bridge: Simulated::new(plan, seed, layout, |_, links| links, |_, way| way)?,
            spread,
            workers: 0..plan.workers.unwrap_or(1),
            arrival,
            draws: Rng::with_seed(seed),
            now: Instant::now(),
            came: 0,
            application: Application::new(flows),
        })
    }

    /// Lets a frame come to a worker. After some, each worker takes a turn: how many, and the order, are drawn.
    pub fn receive(&mut self, frame: &[u8]) -> anyhow::Result<()> {
        let worker = match self.arrival {
            Arrival::Rss => bucket_of(frame, &self.spread),
            Arrival::InTurn => self.workers.start + self.came % self.workers.len(),
            Arrival::Random => self.draws.usize(self.workers.clone()),
        };
        ensure!(
            self.bridge.receive(worker, frame)?,
            "the ring of worker {worker} is full"
        );
        self.came += 1;
        self.now += INTERVAL;
        if self.draws.usize(..BURST / 2) == 0 || self.came.is_multiple_of(BURST) {
            self.turns()?;
        }
        Ok(())
    }

    /// Lets each worker take a turn; returns the number of frames that moved.
    pub fn turns(&mut self) -> anyhow::Result<usize> {
        let mut order: Vec<usize> = self.workers.clone().collect();
        self.draws.shuffle(&mut order);
        let mut moved = 0;
        for worker in order {
            moved += self.bridge.turn(worker, self.now);
            for frame in self.bridge.sent(worker)?.iter() {
                self.application.receive(frame, worker, &self.spread);
            }
        }
        Ok(moved)
    }

    /// What came out, once nothing moves.
    pub fn ended(mut self) -> anyhow::Result<(Application, Bridged)> {
        while self.turns()? > 0 {}
        self.bridge.end(self.now);
        while self.turns()? > 0 {}
        Ok((self.application, self.bridge.bridged()))
    }
}

/// The bucket of a frame by its hash, of others 0.
pub(super) fn bucket_of(frame: &[u8], spread: &Spread) -> usize {
    let hash = Dissection::of(frame).ok().and_then(|packet| spread.hash(&packet));
    spread.bucket(Policy::Cpu, hash, 0).index()
}

/// What an application receives.
#[derive(Debug, Default)]
pub(super) struct Application {
    /// By flow, one more than the newest number.
    next: Vec<u32>,
    /// Whole datagrams.
    pub whole: u64,
    /// Those of them that came behind a newer one of their flow (RFC 4737, section 3).
    pub reordered: u64,
    /// Those of them that the bucket of their hash delivered.
    pub on_bucket: u64,
    /// Frames, by the bucket that delivered them.
    pub by_bucket: Vec<u64>,
}

impl Application {
    /// An application that receives flows which take turns.
    pub fn new(flows: usize) -> Application {
        Application {
            next: vec![0; flows],
            ..Application::default()
        }
    }

    pub fn receive(&mut self, frame: &[u8], bucket: usize, spread: &Spread) {
        self.by_bucket.resize(self.by_bucket.len().max(bucket + 1), 0);
        self.by_bucket[bucket] += 1;
        let Ok(packet) = Dissection::of(frame) else { return };
        let payload = frame.get(packet.transport_offset() + 8..packet.packet_end());
        let Some(Ok(mark)) = payload.map(Mark::read) else {
            return;
        };
        let flow = mark.sequence as usize % self.next.len();
        let next = &mut self.next[flow];
        self.whole += 1;
        self.reordered += u64::from(mark.sequence < *next);
        *next = (mark.sequence + 1).max(*next);
        let named = spread.hash(&packet).map(|hash| spread.table.bucket(hash.value));
        self.on_bucket += u64::from(named.is_some_and(|named| named.index() == bucket));
    }
}
