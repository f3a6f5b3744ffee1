//! The generator against an echo server in a simulated network: the outcome of every datagram is counted correctly
//! under loss, duplication and reordering, and a schedule is kept to the nanosecond.

use super::generator::{Generator, Shared, Tally};
use super::plan::{UdpPlan, Until};
use crate::contact::Span;
use crate::live;
use crate::pace::Pace;
use crate::sources::{PlannedWorker, Steerings};
use crate::udp::{Probes, Skew};
use corelane_host::memory::MemoryPolicy;
use corelane_worker::Time;
use corelane_worker::crew::Job;
use corelane_worker::engine::simulated::{Network, NetworkSettings, Seat, SimulatedSocket};
use corelane_worker::engine::{Engine, EngineSettings, Event, Id, Ops};
use proptest::prelude::*;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

const SERVER: &str = "10.0.0.1:8080";

/// Echoes so many datagrams and damages every `damage`-th answer (0: none); ends after one second without datagrams.
fn echo(seat: Seat, socket: SimulatedSocket, damage: u64, most: u64) {
    let mut engine = seat.engine(&EngineSettings::default()).unwrap();
    engine.ops().datagrams(socket).unwrap();
    let (mut last, mut answered) = (engine.now(), 0_u64);
    while engine.now().since(last) < Duration::from_secs(1) {
        let mut answer = |ops: &mut Ops, now: Time, id: Id, event: Event<'_>| {
            let Event::Datagrams(datagrams) = event else {
                return;
            };
            last = now;
            for datagram in datagrams {
                if answered == most {
                    return;
                }
                answered += 1;
                let fill = |out: &mut [u8]| {
                    out.copy_from_slice(datagram.payload);
                    out[20] ^= u8::from(damage > 0 && answered.is_multiple_of(damage));
                };
                ops.send_to(id, Some(datagram.peer), datagram.payload.len(), fill)
                    .unwrap();
            }
        };
        let until = engine.now() + Duration::from_millis(100);
        engine.turn(until, &mut answer).unwrap();
    }
}

/// Runs a generator of three sockets to its end.
fn run(settings: NetworkSettings, pace: Pace, until: Until, damage: u64) -> Tally<()> {
    run_with_weights(settings, pace, until, damage, &[])
}

/// The same, with sockets that send in proportion to their weights.
fn run_with_weights(
    settings: NetworkSettings,
    pace: Pace,
    until: Until,
    damage: u64,
    weights: &[f64],
) -> Tally<()> {
    run_against(settings, pace, until, (damage, u64::MAX), weights)
}

/// The same, with a server that damages some answers and gives so many at most.
fn run_against(
    settings: NetworkSettings,
    pace: Pace,
    until: Until,
    (damage, most): (u64, u64),
    weights: &[f64],
) -> Tally<()> {
    let network = Network::new(settings);
    let server: SocketAddr = SERVER.parse().unwrap();
    let socket = network.socket(server).unwrap();
    let (server_seat, client_seat) = (network.seat(), network.seat());
    let sources: Vec<SimulatedSocket> = (1..=3)
        .map(|port| {
            let source = network.socket(SocketAddr::from(([10, 0, 0, 2], port))).unwrap();
            source.connect(server);
            source
        })
        .collect();
    std::thread::scope(|scope| {
        scope.spawn(move || echo(server_seat, socket, damage, most));
        let mut engine = client_seat.engine(&EngineSettings::default()).unwrap();
        let generator = generator(&mut engine, sources, pace, until, weights);
        let start = engine.now() + Duration::from_millis(1);
        generator.run(&mut engine, start).unwrap()
    })
}

fn generator(
    engine: &mut impl Engine,
    sources: Vec<SimulatedSocket>,
    pace: Pace,
    until: Until,
    weights: &[f64],
) -> Generator<Probes> {
    let plan = UdpPlan {
        target: SERVER.parse().unwrap(),
        protocol: Probes::new(64).unwrap(),
        pace,
        until,
        answers: true,
        loss_timeout_s: 0.2,
        drain_s: Some(0.8),
        engine: None,
        settings: EngineSettings::default(),
        memory: MemoryPolicy::FirstTouch,
        skew: if weights.is_empty() {
            Skew::None
        } else {
            Skew::Zipf { exponent: 1.0 }
        },
        notes: Vec::new(),
        steering: Steerings::default(),
        workers: vec![PlannedWorker {
            weights: weights.to_vec(),
            ..PlannedWorker::default()
        }],
    };
    let live = live::workers([0].into_iter());
    let shared = Shared {
        plan: Arc::new(plan),
        requests: Arc::new(()),
        stop: Arc::default(),
        live,
        observer: None,
    };
    let mut generator = Generator::new(0, shared);
    for (lease, source) in sources.into_iter().enumerate() {
        generator.add(engine.ops().datagrams(source).unwrap(), lease);
    }
    generator
}

fn datagrams(count: u64) -> Until {
    Until {
        duration_s: None,
        datagrams: Some(count),
    }
}

#[test]
fn a_schedule_is_kept_to_the_nanosecond_under_a_virtual_clock() {
    let pace = Pace::Rate { per_second: 10_000.0 };
    let until = Until {
        duration_s: Some(0.1),
        datagrams: None,
    };
    let outcome = run(NetworkSettings::default(), pace, until, 0);
    assert_eq!((outcome.counts.sent, outcome.counts.returned), (1000, 1000));
    assert_eq!((outcome.counts.lost, outcome.counts.unsent), (0, 0));
    assert_eq!(outcome.schedule_lag.summary().unwrap().max_ns, 0);
    let delay = NetworkSettings::default().delay.as_nanos() as u64;
    let shortest = outcome.round_trip.summary().unwrap().min_ns;
    // The histogram has three significant digits.
    assert!(
        shortest.abs_diff(2 * delay) * 1000 <= 2 * delay,
        "{shortest} ns, not twice {delay}"
    );
}

#[test]
fn the_last_answers_may_be_awaited_for_longer_than_others() {
    let settings = NetworkSettings {
        delay: Duration::from_millis(300),
        ..NetworkSettings::default()
    };
    let outcome = run(settings, Pace::Window { datagrams: 8 }, datagrams(24), 0);
    let counts = &outcome.counts;
    assert_eq!((counts.sent, counts.returned, counts.lost), (24, 24, 0));
}

#[test]
fn damaged_answers_are_told_from_lost_ones() {
    let outcome = run(
        NetworkSettings::default(),
        Pace::Window { datagrams: 8 },
        datagrams(1000),
        10,
    );
    let counts = &outcome.counts;
    assert_eq!((counts.sent, counts.corrupted, counts.returned), (1000, 100, 900));
    assert_eq!(counts.lost, 100, "a damaged answer is no answer");
}

#[test]
fn under_skew_every_flow_sends_its_share_at_any_pace() {
    let until = Until {
        duration_s: Some(0.5),
        datagrams: Some(20_000),
    };
    for pace in [
        Pace::Window { datagrams: 16 },
        Pace::Flood,
        Pace::Rate { per_second: 30_000.0 },
    ] {
        let outcome = run_with_weights(NetworkSettings::default(), pace, until, 0, &[0.6, 0.3, 0.1]);
        let sent: u64 = outcome.leases.iter().map(|(sent, _)| sent).sum();
        assert!(sent > 1_000, "{pace:?}: {sent}");
        for ((lease, _), weight) in outcome.leases.iter().zip([0.6, 0.3, 0.1]) {
            let due = sent as f64 * weight;
            assert!((*lease as f64 - due).abs() <= 2.0, "{pace:?}: {lease} of {sent}");
        }
        assert_eq!(outcome.counts.sent, sent, "{pace:?}");
    }
}

#[test]
fn a_server_that_answers_nothing_any_more_is_silent() {
    let until = Until {
        duration_s: Some(3.0),
        datagrams: None,
    };
    for pace in [Pace::Rate { per_second: 1_000.0 }, Pace::Window { datagrams: 16 }] {
        let run = |most: u64| run_against(NetworkSettings::default(), pace, until, (0, most), &[]);
        let silent = run(500);
        assert_eq!(silent.counts.returned, 500, "{pace:?}");
        let [
            Span {
                since,
                until: Time::NEVER,
                gone: None,
            },
        ] = silent.lost[..]
        else {
            panic!("{pace:?}: {:?}", silent.lost);
        };
        // The clock begins at one second.
        assert!(
            since <= Time::from_nanoseconds(1_505_000_000),
            "{pace:?}: {since:?}"
        );
        assert_eq!(run(u64::MAX).lost, [], "{pace:?}");
    }
    // A few lost datagrams are no silence.
    let slow = Pace::Rate { per_second: 4.0 };
    let few = run_against(NetworkSettings::default(), slow, until, (0, 3), &[]);
    assert_eq!(
        (few.counts.sent, few.counts.returned, few.lost),
        (12, 3, Vec::new())
    );
    // It begins with the first that is not answered.
    let until = Until {
        duration_s: Some(9.0),
        ..until
    };
    let slow = run_against(NetworkSettings::default(), slow, until, (0, 4), &[]);
    let since: Vec<Time> = slow.lost.iter().map(|span| span.since).collect();
    let [first] = since[..] else { panic!("{since:?}") };
    assert!(
        first <= Time::from_nanoseconds(2_005_000_000),
        "four in a second: {first:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn every_datagram_has_one_fate_under_any_faults(
        seed: u64,
        loss in 0.0..0.3,
        duplication in 0.0..0.3,
        reordering in 0.0..0.3,
        window in 1_u32..64,
        count in 1_u64..1500,
    ) {
        let settings = NetworkSettings { seed, loss, duplication, reordering, ..NetworkSettings::default() };
        let counts = run(settings, Pace::Window { datagrams: window }, datagrams(count), 0).counts;
        prop_assert_eq!(counts.sent, count, "losses do not stop a window for ever");
        prop_assert_eq!(counts.returned + counts.lost, counts.sent);
        prop_assert_eq!(counts.corrupted, 0);
        if loss == 0.0 {
            prop_assert_eq!(counts.lost, 0);
        }
        if duplication == 0.0 {
            prop_assert_eq!(counts.duplicated, 0);
        }
        if reordering == 0.0 && duplication == 0.0 {
            prop_assert_eq!(counts.reordered, 0);
        }
    }
}
