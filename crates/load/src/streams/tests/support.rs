//! A protocol with requests in flight as a pipeline, against a scripted server in a simulated network: numbers of eight
//! bytes, echoed.

use crate::failure::Failure;
use crate::live;
use crate::sources::{self, Lease, Ports};
use crate::streams::*;
use corelane_rss::plan::Landing;
use corelane_worker::Time;
use corelane_worker::crew::Job;
use corelane_worker::engine::simulated::{Network, NetworkSettings, Seat, SimulatedListener};
use corelane_worker::engine::{Engine, EngineSettings, Event, Handler, Id, Ops};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

const SERVER: &str = "10.0.0.1:7";
pub(super) const BYTES: usize = 8;

/// Numbers, several in flight; the server returns each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Echo {
    pub(super) depth: usize,
}

impl StreamProtocol for Echo {
    const NAME: &'static str = "echo";
    const SCHEMA: &'static str = "corelane/loaded-echo/1";
    type Traffic = Answered;
    type Requests = ();
    type Request = u64;
    type InFlight = Pipeline<u64>;
    /// What was received of an answer.
    type Exchange = Vec<u8>;
    type Shared = Chosen;
    type Counts = ();
    type Error = Infallible;

    fn depth(&self) -> usize {
        self.depth
    }

    fn prepare(&self, _: &Timeouts) -> Result<(), Infallible> {
        Ok(())
    }

    fn share((): &(), part: Part) -> Chosen {
        Chosen {
            part: Some(part),
            ..Chosen::default()
        }
    }

    fn choose((): &(), chosen: &mut Chosen, random: &mut fastrand::Rng) -> u64 {
        chosen.numbers += 1;
        random.u64(..)
    }

    fn begin(turn: &mut Turn<'_, Self, impl ConnectionOutput>, _: Ask) -> Step {
        turn.out.write(&turn.request.to_be_bytes()).unwrap();
        turn.counts.requests.sent += 1;
        turn.counts.bytes.sent += BYTES as u64;
        *turn.deadline = (*turn.deadline).min(turn.now + turn.terms.request_timeout);
        Step::Wait
    }

    fn receive(turn: &mut Turn<'_, Self, impl ConnectionOutput>, bytes: &mut &[u8]) -> Step {
        let received = &mut *turn.exchange;
        let (own, others) = bytes.split_at(bytes.len().min(BYTES - received.len()));
        received.extend_from_slice(own);
        *bytes = others;
        if received.len() < BYTES {
            return Step::Wait;
        }
        *turn.deadline = turn.now + turn.terms.request_timeout;
        let wrong = (received[..] != turn.request.to_be_bytes()).then_some(Failure::WrongBody);
        received.clear();
        Step::Complete { wrong, stays: true }
    }

    fn expired(_: &mut Turn<'_, Self, impl ConnectionOutput>) -> Step {
        Step::Failed(Failure::RequestTimeout)
    }
}

/// What one part of the load chose.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    pub(super) numbers: u64,
    pub(super) part: Option<Part>,
}

/// What the server does with the numbers of a connection that it has not answered.
#[derive(Clone, Copy)]
pub(super) enum Script {
    /// Answers once there are this many.
    Together(usize),
    /// Answers the first three of eight, then closes its side.
    ThreeThenClose,
    /// Answers eight, the second first and the first last.
    Swapped,
    /// Never answers.
    Silent,
    /// Answers, and sends one number more.
    OneMore,
    /// Answers one when nothing has happened for a second.
    OneASecond,
    /// Answers one, then closes its side.
    OneThenClose,
    /// Answers each of so many, then leaves, and comes back after a time, if one is given.
    Leaves(usize, Leave, Option<Duration>),
}

/// How a server leaves.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Leave {
    /// It resets its connections and listens no more.
    Dies,
    /// It answers nothing.
    FallsSilent,
}

struct Server {
    script: Script,
    network: Network,
    listener: Option<Id>,
    /// When it comes back.
    back: Time,
    /// How many it answers before it leaves.
    left: usize,
    last: Time,
    unanswered: HashMap<Id, Vec<u8>>,
    /// The most numbers that were unanswered at a time.
    most: usize,
}

impl Server {
    /// Serves until nothing has happened for one virtual minute; returns the most unanswered numbers.
    fn serve(mut self, seat: Seat, listener: SimulatedListener, settings: &EngineSettings) -> usize {
        let mut engine = seat.engine(settings).unwrap();
        self.listener = Some(engine.ops().listen(listener).unwrap());
        self.last = engine.now();
        if let Script::Leaves(after, ..) = self.script {
            self.left = after;
        }
        while engine.now().since(self.last) < Duration::from_secs(60) {
            let until = engine.now() + Duration::from_secs(1);
            engine.turn(until.min(self.back), &mut self).unwrap();
            if engine.now() >= self.back {
                self.come_back(engine.ops());
            }
            if matches!(self.script, Script::OneASecond) && engine.now() >= until {
                self.answer_one(engine.ops());
            }
        }
        self.most
    }

    fn answer_each(&mut self, ops: &mut Ops, id: Id, now: Time) {
        let Script::Leaves(_, how, back) = self.script else {
            return;
        };
        let numbers = self.unanswered.entry(id).or_default();
        let count = self.left.min(numbers.len() / BYTES);
        let answers: Vec<u8> = numbers.drain(..count * BYTES).collect();
        if count == 0 {
            return;
        }
        ops.write(id, &answers).unwrap();
        self.left -= count;
        if self.left > 0 {
            return;
        }
        self.back = back.map_or(Time::NEVER, |back| now + back);
        if how == Leave::Dies {
            self.listener
                .take()
                .into_iter()
                .for_each(|listener| ops.close(listener));
            // What was written leaves before.
            self.unanswered.drain().for_each(|(id, _)| ops.shutdown(id));
        }
    }

    fn come_back(&mut self, ops: &mut Ops) {
        (self.back, self.left) = (Time::NEVER, usize::MAX);
        if self.listener.is_none() {
            let listener = self.network.listener(SERVER.parse().unwrap()).unwrap();
            self.listener = Some(ops.listen(listener).unwrap());
        }
        let ids: Vec<Id> = self.unanswered.keys().copied().collect();
        for id in ids {
            self.answer_each(ops, id, Time::NEVER);
        }
    }

    fn answer_one(&mut self, ops: &mut Ops) {
        for (id, numbers) in self
            .unanswered
            .iter_mut()
            .filter(|(_, numbers)| numbers.len() >= BYTES)
        {
            let answer: Vec<u8> = numbers.drain(..BYTES).collect();
            ops.write(*id, &answer).unwrap();
        }
    }
}

impl Handler for Server {
    fn event(&mut self, ops: &mut Ops, now: Time, id: Id, event: Event<'_>) {
        self.last = now;
        let numbers = self.unanswered.entry(id).or_default();
        match event {
            Event::Bytes(bytes) => numbers.extend_from_slice(bytes),
            Event::PeerClosed => return ops.close(id),
            Event::Closed(_) => {
                self.unanswered.remove(&id);
                return;
            }
            _ => return,
        }
        let count = numbers.len() / BYTES;
        self.most = self.most.max(count);
        match self.script {
            Script::Together(wanted) if count >= wanted => {
                let answers: Vec<u8> = numbers.drain(..count * BYTES).collect();
                ops.write(id, &answers).unwrap();
            }
            Script::ThreeThenClose if count >= 8 => {
                ops.write(id, &numbers[..3 * BYTES]).unwrap();
                ops.shutdown(id);
                numbers.clear();
            }
            Script::Swapped if count >= 8 => {
                numbers.rotate_left(BYTES);
                ops.write(id, &std::mem::take(numbers)).unwrap();
            }
            Script::OneMore if count >= 8 => {
                numbers.extend_from_slice(&[0; BYTES]);
                ops.write(id, &std::mem::take(numbers)).unwrap();
            }
            Script::OneThenClose if count >= 1 => {
                ops.write(id, &std::mem::take(numbers)).unwrap();
                ops.shutdown(id);
            }
            Script::Leaves(..) => self.answer_each(ops, id, now),
            _ => {}
        }
    }
}

/// One connection, eight requests in flight, 24 in all.
pub(super) fn plan() -> StreamPlan<Echo> {
    let lease = Lease {
        address: "10.0.0.2".parse().unwrap(),
        ports: Ports::Kernel,
        connections: 1,
        landing: Landing::default(),
    };
    let worker = sources::PlannedWorker {
        cpu: 0,
        bucket: None,
        own_descriptors: false,
        leases: vec![lease],
        ..sources::PlannedWorker::default()
    };
    let pool = PlannedPool::new(SERVER.parse().unwrap(), Echo { depth: 8 }, 1);
    StreamPlan {
        phases: vec![PlannedPhase::hold(Until::default())],
        requests: Some(24),
        timeouts: Timeouts {
            connect_s: 3.0,
            request_s: 5.0,
            drain_s: 10.0,
            ..Timeouts::default()
        },
        ..StreamPlan::new(vec![pool], 0.0, &[worker])
    }
}

/// The counts and times of a run, and the most requests that were unanswered at the server.
pub(super) fn run(plan: StreamPlan<Echo>, script: Script, piece: usize) -> (Tally<()>, usize) {
    let (outcome, most) = run_over(NetworkSettings::default(), plan, script, piece);
    (outcome.groups.into_iter().next().unwrap().tally, most)
}

/// The outcome of a run over such a network, and the most requests that were unanswered at the server.
pub(super) fn run_over(
    network: NetworkSettings,
    plan: StreamPlan<Echo>,
    script: Script,
    piece: usize,
) -> (Outcome<Echo>, usize) {
    let network = Network::new(network);
    let listener = network.listener(SERVER.parse().unwrap()).unwrap();
    let (server_seat, client_seat) = (network.seat(), network.seat());
    let server = Server {
        script,
        network: network.clone(),
        listener: None,
        back: Time::NEVER,
        left: usize::MAX,
        last: Time::default(),
        unanswered: HashMap::new(),
        most: 0,
    };
    let settings = EngineSettings {
        stream_buffer_bytes: piece,
        ..EngineSettings::default()
    };
    let common = Arc::new(Common {
        observer: None,
        terms: Terms::of_plan(&plan).unwrap(),
        stop: Arc::default(),
        phases: PhaseTimes::new(plan.phases.len()),
        quotas: Quotas::of(&plan.phases).map(Arc::new),
        plan,
    });
    std::thread::scope(|scope| {
        let server_settings = settings.clone();
        let server = scope.spawn(move || server.serve(server_seat, listener, &server_settings));
        let mut engine = client_seat.engine(&settings).unwrap();
        let live = live::workers([0].into_iter());
        let mut generator = Generator::new(Arc::clone(&common), 0, live, engine.now());
        generator.prepare(&mut engine).unwrap();
        let start = engine.now();
        common.phases.begin(0, start, &common.plan.phases);
        let outcome = generator.run(&mut engine, start).unwrap();
        drop(engine);
        (outcome, server.join().unwrap())
    })
}

/// Begun, answered, failed and unfinished requests.
pub(super) fn outcomes(tally: &Tally<()>) -> [u64; 4] {
    let requests = &tally.counts.requests;
    [requests.begun, requests.ok, requests.failed, requests.unfinished]
}
