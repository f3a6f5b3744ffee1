//! A protocol with requests in flight as a pipeline, against a scripted server in a simulated network: numbers of eight
//! bytes, echoed.

use super::*;
use crate::failure::Failure;
use crate::live;
use crate::sources::{self, Lease, Ports};
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
const BYTES: usize = 8;

/// Numbers, several in flight; the server returns each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Echo {
    depth: usize,
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
    type Shared = ();
    type Counts = ();
    type Error = Infallible;

    fn depth(&self) -> usize {
        self.depth
    }

    fn prepare(&self, _: &Timeouts) -> Result<(), Infallible> {
        Ok(())
    }

    fn choose((): &(), random: &mut fastrand::Rng) -> u64 {
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

/// What the server does with the numbers of a connection that it has not answered.
#[derive(Clone, Copy)]
enum Script {
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
}

struct Server {
    script: Script,
    last: Time,
    unanswered: HashMap<Id, Vec<u8>>,
    /// The most numbers that were unanswered at a time.
    most: usize,
}

impl Server {
    /// Serves until nothing has happened for one virtual minute; returns the most unanswered numbers.
    fn serve(mut self, seat: Seat, listener: SimulatedListener, settings: &EngineSettings) -> usize {
        let mut engine = seat.engine(settings).unwrap();
        engine.ops().listen(listener).unwrap();
        self.last = engine.now();
        while engine.now().since(self.last) < Duration::from_secs(60) {
            let until = engine.now() + Duration::from_secs(1);
            engine.turn(until, &mut self).unwrap();
            if matches!(self.script, Script::OneASecond) && engine.now() >= until {
                self.answer_one(engine.ops());
            }
        }
        self.most
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
            _ => {}
        }
    }
}

/// One connection, eight requests in flight, 24 in all.
fn plan() -> StreamPlan<Echo> {
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
        weights: Vec::new(),
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
        ..StreamPlan::new(pool, 0.0, &[worker])
    }
}

/// The counts and times of a run, and the most requests that were unanswered at the server.
fn run(plan: StreamPlan<Echo>, script: Script, piece: usize) -> (Tally<()>, usize) {
    let network = Network::new(NetworkSettings::default());
    let listener = network.listener(SERVER.parse().unwrap()).unwrap();
    let (server_seat, client_seat) = (network.seat(), network.seat());
    let server = Server {
        script,
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
        let tally = outcome.groups.into_iter().next().unwrap().tally;
        (tally, server.join().unwrap())
    })
}

/// Begun, answered, failed and unfinished requests.
fn outcomes(tally: &Tally<()>) -> [u64; 4] {
    let requests = &tally.counts.requests;
    [requests.begun, requests.ok, requests.failed, requests.unfinished]
}

#[test]
fn a_closed_loop_keeps_eight_in_flight_answered_in_order_in_pieces_of_any_size() {
    // The server answers only eight together, so fewer in flight would time out.
    for piece in (1..20).chain([65_536]) {
        let (tally, most) = run(plan(), Script::Together(8), piece);
        assert_eq!((outcomes(&tally), most), ([24, 24, 0, 0], 8), "{piece}");
        assert_eq!(tally.counts.connections.opened, 1);
        assert_eq!(tally.counts.bytes.received, 24 * BYTES as u64);
    }
}

#[test]
fn answers_out_of_order_are_wrong_and_no_answer_fails_all_in_flight() {
    let (tally, _) = run(plan(), Script::Swapped, 65_536);
    assert_eq!(tally.counts.requests.by_cause.of(Failure::WrongBody), 24);
    let (tally, _) = run(plan(), Script::Silent, 65_536);
    assert_eq!(outcomes(&tally), [24, 0, 24, 0]);
    assert_eq!(tally.counts.requests.by_cause.of(Failure::RequestTimeout), 24);
}

#[test]
fn a_close_in_the_middle_fails_what_is_in_flight_and_the_next_connection_goes_on() {
    for piece in [1, 7, BYTES, 65_536] {
        let (tally, _) = run(plan(), Script::ThreeThenClose, piece);
        let [begun, ok, failed, unfinished] = outcomes(&tally);
        assert_eq!((begun, ok + failed, unfinished), (24, 24, 0), "{piece}");
        let counts = &tally.counts;
        assert_eq!(
            counts.requests.by_cause.of(Failure::ClosedEarly) % 8,
            0,
            "{piece}"
        );
        assert!(counts.connections.closed_by_server >= 2 && ok == 3 * counts.connections.closed_by_server);
    }
}

#[test]
fn what_follows_the_last_answer_ends_the_connection() {
    let mut plan = plan();
    plan.requests = Some(8);
    let (tally, _) = run(plan, Script::OneMore, 65_536);
    assert_eq!(outcomes(&tally), [8, 8, 0, 0]);
    assert_eq!(tally.counts.connections.unasked_bytes, 1);
}

#[test]
fn a_connection_makes_no_more_requests_than_planned_and_pauses_when_all_are_answered() {
    let mut limited = plan();
    limited.pools[0].requests_a_connection = Some(6);
    let (tally, most) = run(limited, Script::Together(6), 65_536);
    assert_eq!((outcomes(&tally), most), ([24, 24, 0, 0], 6));
    assert_eq!(tally.counts.connections.opened, 4);
    let mut thinking = plan();
    thinking.pools[0].model = Model::Closed { think_s: 1.0 };
    let (tally, most) = run(thinking, Script::Together(8), 65_536);
    assert_eq!((outcomes(&tally), most), ([24, 24, 0, 0], 8));
}

#[test]
fn an_open_loop_counts_from_when_each_request_was_due() {
    let mut plan = plan();
    plan.pools[0].model = Model::Open { per_second: 1_000.0 };
    let (tally, most) = run(plan, Script::Together(8), 65_536);
    assert_eq!((outcomes(&tally), most), ([24, 24, 0, 0], 8));
    let latency = tally.histograms.latency.summary().unwrap();
    // The first of eight waits for seven more, one per millisecond; the last for none.
    assert!(
        latency.max_ns >= 7_000_000 && latency.max_ns < 8_000_000,
        "{latency:?}"
    );
    assert!(latency.min_ns < 1_000_000, "{latency:?}");
    assert_eq!(tally.counts.requests.waited_for_connection, 0);
}

#[test]
fn the_last_answers_are_awaited_as_long_as_they_keep_coming() {
    let mut plan = plan();
    plan.requests = Some(8);
    plan.phases[0].until.duration_s = Some(0.5);
    (plan.timeouts.request_s, plan.timeouts.drain_s) = (60.0, 3.0);
    let (tally, _) = run(plan.clone(), Script::OneASecond, 65_536);
    assert_eq!(outcomes(&tally), [8, 8, 0, 0]);
    assert_eq!(tally.counts.requests.ok_late, 8);
    let (tally, _) = run(plan.clone(), Script::Silent, 65_536);
    assert_eq!(outcomes(&tally), [8, 0, 0, 8]);
    // Ten times that long at most.
    (plan.requests, plan.pools[0].protocol.depth, plan.timeouts.drain_s) = (Some(24), 24, 1.5);
    let (tally, _) = run(plan, Script::OneASecond, 65_536);
    let [begun, answered, _, unfinished] = outcomes(&tally);
    assert_eq!((begun, answered + unfinished), (24, 24));
    assert!((15..=17).contains(&answered), "{answered}");
}
