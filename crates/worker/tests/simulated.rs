//! The simulated network: its clock, its faults, and runs that depend only on the seed, not on thread scheduling.

use corelane_worker::Time;
use corelane_worker::engine::simulated::{Network, NetworkCounters, NetworkSettings, Seat, SimulatedSocket};
use corelane_worker::engine::{Engine, EngineSettings, Event, Id, Ops};
use proptest::prelude::*;
use std::net::SocketAddr;
use std::time::Duration;

const SERVER: &str = "10.0.0.1:7001";
const CLIENT: &str = "10.0.0.2:7002";

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn faulty(seed: u64) -> NetworkSettings {
    NetworkSettings {
        seed,
        loss: 0.1,
        duplication: 0.1,
        reordering: 0.2,
        ..NetworkSettings::default()
    }
}

/// The time at which a datagram returned, and its number.
type Trace = Vec<(u64, u32)>;

/// A server with its production loop: it ends when nothing has arrived for one second.
fn serve(seat: Seat, socket: SimulatedSocket) {
    let mut engine = seat.engine(&EngineSettings::default()).unwrap();
    engine.ops().datagrams(socket).unwrap();
    let mut last = engine.now();
    while engine.now().since(last) < Duration::from_secs(1) {
        let mut echo = |ops: &mut Ops, now: Time, id: Id, event: Event<'_>| {
            if let Event::Datagrams(datagrams) = event {
                last = now;
                for datagram in datagrams {
                    let payload = datagram.payload;
                    let fill = |buffer: &mut [u8]| buffer.copy_from_slice(payload);
                    ops.send_to(id, Some(datagram.peer), payload.len(), fill).unwrap();
                }
            }
        };
        let deadline = engine.now() + Duration::from_millis(100);
        engine.turn(deadline, &mut echo).unwrap();
    }
}

/// A generator that sends a number every 10 µs, 1,000 in total, and records the replies.
fn generate(seat: Seat, socket: SimulatedSocket) -> Trace {
    let mut engine = seat.engine(&EngineSettings::default()).unwrap();
    let id = engine.ops().datagrams(socket).unwrap();
    let begin = engine.now();
    let mut trace = Trace::new();
    let mut note = |_: &mut Ops, now: Time, _: Id, event: Event<'_>| {
        if let Event::Datagrams(datagrams) = event {
            for datagram in datagrams {
                let number = u32::from_be_bytes(datagram.payload.try_into().unwrap());
                trace.push((now.nanoseconds(), number));
            }
        }
    };
    for number in 0..1_000u32 {
        let intended = begin + Duration::from_micros(10) * number;
        while engine.now() < intended {
            engine.turn(intended, &mut note).unwrap();
        }
        assert_eq!(engine.now(), intended, "a virtual clock is never late");
        engine
            .ops()
            .send_to(id, Some(address(SERVER)), 4, |buffer| {
                buffer.copy_from_slice(&number.to_be_bytes());
            })
            .unwrap();
    }
    let end = engine.now() + Duration::from_millis(10);
    while engine.now() < end {
        engine.turn(end, &mut note).unwrap();
    }
    trace
}

fn run(settings: NetworkSettings) -> (Trace, NetworkCounters) {
    let network = Network::new(settings);
    let server = network.socket(address(SERVER)).unwrap();
    let client = network.socket(address(CLIENT)).unwrap();
    let (server_seat, client_seat) = (network.seat(), network.seat());
    let serving = std::thread::spawn(move || serve(server_seat, server));
    let generating = std::thread::spawn(move || generate(client_seat, client));
    let trace = generating.join().unwrap();
    serving.join().unwrap();
    (trace, network.counters())
}

#[test]
fn a_seed_decides_a_run_of_many_threads() {
    let first = run(faulty(1));
    for _ in 0..5 {
        assert_eq!(run(faulty(1)), first);
    }
    assert_ne!(run(faulty(2)).0, first.0);
}

#[test]
fn a_perfect_network_returns_everything_in_order_after_twice_the_delay() {
    let (trace, counters) = run(NetworkSettings::default());
    let begin = Network::new(NetworkSettings::default()).now();
    let expected: Trace = (0..1_000u32)
        .map(|number| {
            let sent = begin + Duration::from_micros(10) * number;
            ((sent + Duration::from_micros(100)).nanoseconds(), number)
        })
        .collect();
    assert_eq!(trace, expected);
    let all = NetworkCounters {
        sent: 2_000,
        delivered: 2_000,
        ..NetworkCounters::default()
    };
    assert_eq!(counters, all);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn every_datagram_is_accounted_for(seed: u64, loss in 0.0..1.0, duplication in 0.0..1.0, queue in 1usize..20) {
        let settings = NetworkSettings { loss, duplication, socket_queue: queue, ..faulty(seed) };
        let (trace, counters) = run(settings);
        let NetworkCounters { sent, duplicated, lost, no_socket, overflowed, delivered, .. } = counters;
        prop_assert_eq!(sent + duplicated, lost + no_socket + overflowed + delivered);
        prop_assert!(trace.len() as u64 <= delivered);
    }
}

#[test]
fn faults_occur_about_as_often_as_configured() {
    let (_, counters) = run(faulty(3));
    let part = |count: u64| count as f64 / counters.sent as f64;
    for (count, configured) in [
        (counters.lost, 0.1),
        (counters.duplicated, 0.1),
        (counters.reordered, 0.2),
    ] {
        assert!((part(count) - configured).abs() < 0.03, "{counters:?}");
    }
}

#[test]
fn engines_of_one_thread_take_turns() {
    let network = Network::new(NetworkSettings::default());
    let settings = EngineSettings::default();
    let mut engines = [
        network.engine(&settings).unwrap(),
        network.engine(&settings).unwrap(),
    ];
    let addresses = [address(SERVER), address(CLIENT)];
    for (engine, bind) in engines.iter_mut().zip(addresses) {
        let socket = network.socket(bind).unwrap();
        engine.ops().datagrams(socket).unwrap();
    }
    // Both ends return the datagram to each other until it was sent 100 times.
    let mut bounces = 0;
    let socket = network.socket(address("10.0.0.3:1")).unwrap();
    let third = engines[0].ops().datagrams(socket).unwrap();
    engines[0]
        .ops()
        .send_to(third, Some(addresses[1]), 1, |_| {})
        .unwrap();
    let begin = network.now();
    while bounces < 100 {
        for engine in &mut engines {
            let mut throw = |ops: &mut Ops, _: Time, id: Id, event: Event<'_>| {
                if let Event::Datagrams(datagrams) = event {
                    for datagram in datagrams {
                        bounces += 1;
                        ops.send_to(id, Some(datagram.peer), 1, |_| {}).unwrap();
                    }
                }
            };
            engine.turn(begin + Duration::from_secs(1), &mut throw).unwrap();
        }
    }
    assert_eq!(network.now().since(begin), Duration::from_micros(50 * 100));
}

#[test]
fn a_group_is_steered_and_a_wrong_answer_drops() {
    let network = Network::new(NetworkSettings::default());
    let steer = |source: SocketAddr, _| usize::from(source.port() % 3);
    let group = network.group(address(SERVER), 2, steer).unwrap();
    assert!(network.socket(address(SERVER)).is_err(), "the address is in use");
    let mut engine = network.engine(&EngineSettings::default()).unwrap();
    let members: Vec<Id> = group
        .into_iter()
        .map(|socket| engine.ops().datagrams(socket).unwrap())
        .collect();
    for port in 3..9 {
        let client = network.socket((address(CLIENT).ip(), port).into()).unwrap();
        let id = engine.ops().datagrams(client).unwrap();
        engine
            .ops()
            .send_to(id, Some(address(SERVER)), 0, |_| {})
            .unwrap();
    }
    let mut seen = Vec::new();
    let mut note = |_: &mut Ops, _: Time, id: Id, event: Event<'_>| {
        if let Event::Datagrams(datagrams) = event {
            seen.extend(datagrams.map(|datagram| (id, datagram.peer.port())));
        }
    };
    let end = engine.now() + Duration::from_millis(1);
    while engine.now() < end {
        engine.turn(end, &mut note).unwrap();
    }
    seen.sort();
    let expected = [(members[0], 3), (members[0], 6), (members[1], 4), (members[1], 7)];
    assert_eq!(seen, expected);
    assert_eq!(network.counters().no_socket, 2);
}

#[test]
fn real_sockets_and_simulated_engines_do_not_mix() {
    let network = Network::new(NetworkSettings::default());
    let mut engine = network.engine(&EngineSettings::default()).unwrap();
    let real = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let error = engine.ops().datagrams(real).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
}
