//! The simulation: compared with the kernel if both can run, otherwise with known properties of RSS.

use corelane_lab::document::{Document, Head};
use corelane_lab::experiment::{self, Experiment, Schedule};
use corelane_lab::simulate::document::{
    IMBALANCE, LARGEST_FLOW, MOVES, RANDOM_IMBALANCE, REBALANCED_IMBALANCE,
};
use corelane_lab::simulate::{Flow, Request, SimulateReport, Simulation, Step, flows};
use corelane_load::udp::Skew;
use corelane_rss::steer::{self, Families};
use corelane_rss::{HashFields, IndirectionTable, Key, Steering};
use corelane_tests::{PATIENCE, undisturbed};
use corelane_worker::group::{self, GroupSettings};
use std::collections::HashSet;
use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};

fn request() -> Request {
    Request {
        buckets: vec![4],
        table_sizes: vec![128],
        flows: 1000,
        datagrams: 1_000_000,
        sizes: Skew::Uniform,
        hash_fields: HashFields::FourTuple,
        key: Key::VERIFICATION,
        clients: "172.16.0.0/16".parse().unwrap(),
        server: "10.11.2.1:8080".parse().unwrap(),
        seed: 1,
        rounds: 5,
        tolerance: 0.02,
        list_flows: false,
    }
}

/// Simulates, and interrupts the simulation after that many trials.
fn run(request: &Request, trials: usize) -> anyhow::Result<SimulateReport> {
    let mut simulation = Simulation::new(request.clone(), Head::default());
    let document = simulation.begin()?;
    let schedule = Schedule::untimed(request.rounds, request.seed);
    let interrupt = AtomicBool::new(false);
    experiment::run(
        &mut simulation,
        document,
        schedule,
        (&interrupt, None),
        |progress| {
            interrupt.store(progress.done == trials, Ordering::Relaxed);
        },
    )
}

fn simulated(request: &Request) -> SimulateReport {
    run(request, usize::MAX).unwrap()
}

fn step(request: &Request) -> Step {
    let [step] = &simulated(request).steps[..] else {
        panic!("one step for one table and one number of buckets")
    };
    step.clone()
}

/// Sends every datagram of the flows to a group of sockets steered by the kernel, and asserts that each bucket receives
/// exactly the datagrams and flows of the simulation.
fn the_kernel_agrees(hash_fields: HashFields, clients: &str, server: &str, families: Families) {
    const BUCKETS: usize = 8;
    let table = IndirectionTable::round_robin(128, BUCKETS).unwrap();
    let steering = Steering {
        key: Key::VERIFICATION,
        hash_fields,
        table,
        cpus: vec![0; BUCKETS],
        generation: 0,
    };
    let program = steer::program(&steering, families).unwrap();
    let group = group::udp(
        server.parse().unwrap(),
        BUCKETS,
        Some(&program),
        &GroupSettings::default(),
    )
    .unwrap();
    let request = Request {
        buckets: vec![BUCKETS],
        flows: 300,
        datagrams: 1500,
        sizes: Skew::Zipf { exponent: 0.8 },
        hash_fields,
        clients: clients.parse().unwrap(),
        server: group[0].local_addr().unwrap(),
        rounds: 1,
        ..request()
    };
    let per_bucket = step(&request).per_bucket;
    let steerer = steering.steerer();
    let (mut datagrams, mut reached, mut flows_left_out) = ([0; BUCKETS], [0; BUCKETS], [0; BUCKETS]);
    for flow in flows(&request, 0).unwrap() {
        let bucket = steerer.bucket_of(&flow.tuple).index();
        match source(&flow) {
            Ok(source) => {
                send_and_receive(&source, &group[bucket], &flow);
                datagrams[bucket] += flow.datagrams;
                reached[bucket] += 1;
            }
            // Another process uses the port.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                datagrams[bucket] += flow.datagrams;
                flows_left_out[bucket] += 1;
            }
            Err(error) => panic!("{}: {error}", flow.tuple),
        }
    }
    assert!(
        flows_left_out.iter().sum::<usize>() < 30,
        "too few sources are free: {flows_left_out:?}"
    );
    for (bucket, simulated) in per_bucket.iter().enumerate() {
        let flows = reached[bucket] + flows_left_out[bucket];
        assert_eq!(
            (simulated.datagrams, simulated.flows),
            (datagrams[bucket], flows),
            "bucket {bucket}"
        );
    }
    for socket in &group {
        socket.set_nonblocking(true).unwrap();
        assert!(
            socket.recv(&mut [0; 8]).is_err(),
            "a bucket received more than was simulated"
        );
    }
}

fn source(flow: &Flow) -> io::Result<UdpSocket> {
    let source = UdpSocket::bind(flow.tuple.source())?;
    source.connect(flow.tuple.destination())?;
    Ok(source)
}

/// Sends the flow's datagrams and receives each on the socket of the simulated bucket.
fn send_and_receive(source: &UdpSocket, bucket: &UdpSocket, flow: &Flow) {
    bucket.set_read_timeout(Some(PATIENCE)).unwrap();
    for number in 0..flow.datagrams {
        source.send(&number.to_be_bytes()).unwrap();
        let mut payload = [0; 8];
        let (_, peer) = bucket
            .recv_from(&mut payload)
            .unwrap_or_else(|error| panic!("{} did not reach its bucket: {error}", flow.tuple));
        assert_eq!((peer, u64::from_be_bytes(payload)), (flow.tuple.source(), number));
    }
}

#[test]
fn steered_ipv4_sockets_see_exactly_the_simulated_datagrams() {
    undisturbed(|| {
        for fields in [HashFields::TwoTuple, HashFields::FourTuple] {
            the_kernel_agrees(fields, "127.1.0.0/16", "127.0.0.1:0", Families::V4);
        }
    });
}

#[test]
fn steered_ipv6_sockets_see_exactly_the_simulated_datagrams() {
    undisturbed(|| {
        if UdpSocket::bind("[::1]:0").is_err() {
            eprintln!("skipped: this machine has no IPv6 loopback address");
            return;
        }
        the_kernel_agrees(HashFields::FourTuple, "::1", "[::1]:0", Families::V6);
    });
}

#[test]
fn the_same_request_gives_the_same_document_and_another_seed_another() {
    let request = Request {
        list_flows: true,
        ..request()
    };
    let text = |request: &Request| serde_json::to_string(&simulated(request)).unwrap();
    assert_eq!(text(&request), text(&request));
    let other = Request {
        seed: 2,
        ..request.clone()
    };
    assert_ne!(simulated(&request).flows, simulated(&other).flows);
}

#[test]
fn the_flows_listed_are_different_and_are_those_of_the_buckets() {
    let request = Request {
        list_flows: true,
        flows: 5000,
        ..request()
    };
    let report = simulated(&request);
    let different: HashSet<&str> = report.flows.iter().map(|flow| flow.source.as_str()).collect();
    assert_eq!(different.len(), 5000);
    let mut datagrams = [0; 4];
    for flow in &report.flows {
        let hash = u32::from_str_radix(flow.hash.strip_prefix("0x").unwrap(), 16).unwrap();
        datagrams[hash as usize % 128 % 4] += flow.datagrams;
    }
    let simulated: Vec<u64> = report.steps[0]
        .per_bucket
        .iter()
        .map(|bucket| bucket.datagrams)
        .collect();
    assert_eq!(simulated, datagrams);
    assert_eq!(datagrams.iter().sum::<u64>(), request.datagrams);
}

#[test]
fn with_very_many_flows_only_the_uneven_table_is_left() {
    // 128 entries over 48 buckets: 32 of them have 3, the others 2, so the fullest carries 3 / (128 / 48) = 1.125.
    let step = step(&Request {
        buckets: vec![48],
        flows: 1_000_000,
        rounds: 1,
        ..request()
    });
    for metric in [&IMBALANCE, &RANDOM_IMBALANCE] {
        let imbalance = metric.of(&step).unwrap();
        assert!((imbalance - 1.125).abs() < 0.04, "{}: {imbalance}", metric.name);
    }
}

#[test]
fn an_elephant_is_what_no_table_can_level() {
    let sizes = Skew::Elephants { flows: 1, share: 0.5 };
    let step = step(&Request {
        buckets: vec![8],
        sizes,
        ..request()
    });
    assert!(
        (LARGEST_FLOW.of(&step).unwrap() - 4.0).abs() < 0.01,
        "half of the traffic is four times an eighth"
    );
    assert!(IMBALANCE.range(&step).unwrap().minimum >= LARGEST_FLOW.range(&step).unwrap().maximum);
    let rebalanced = REBALANCED_IMBALANCE.of(&step).unwrap();
    assert!(
        (4.0..4.0 * 1.05).contains(&rebalanced),
        "the elephant alone, at best: {rebalanced}"
    );
}

#[test]
fn rebalancing_stays_between_the_bound_and_the_table_as_it_was() {
    let request = Request {
        buckets: vec![2, 4, 8, 16, 32],
        table_sizes: vec![32, 128, 4096],
        sizes: Skew::Zipf { exponent: 1.0 },
        ..request()
    };
    let report = simulated(&request);
    assert_eq!((report.steps.len(), report.trials.len()), (15, 75));
    for trial in &report.trials {
        assert!(
            trial.least_fullest_datagrams <= trial.rebalanced_fullest_datagrams,
            "{trial:?}"
        );
        assert!(
            trial.rebalanced_fullest_datagrams <= trial.fullest_datagrams,
            "{trial:?}"
        );
        assert!(
            trial.largest_flow_datagrams <= trial.least_fullest_datagrams,
            "{trial:?}"
        );
        assert!(
            trial.fullest_datagrams as usize * trial.buckets >= request.datagrams as usize,
            "{trial:?}"
        );
    }
}

#[test]
fn addresses_alone_put_all_flows_of_a_client_on_one_bucket() {
    let clients = "172.16.0.1".parse().unwrap();
    let by_address = step(&Request {
        hash_fields: HashFields::TwoTuple,
        clients,
        ..request()
    });
    assert_eq!(IMBALANCE.of(&by_address), Some(4.0));
    assert_eq!(
        MOVES.range(&by_address).unwrap().maximum,
        0.0,
        "moving the only entry in use does not help"
    );
}

#[test]
fn a_run_that_is_interrupted_tells_of_the_first_round() {
    let report = run(&request(), 1).unwrap();
    assert!(report.head().interrupted);
    assert_eq!((report.steps.len(), report.trials.len()), (1, 1));
}

#[test]
fn a_round_that_is_interrupted_enters_no_number() {
    let request = Request {
        buckets: vec![2, 4],
        ..request()
    };
    let whole = run(&request, 2).unwrap();
    let ended = run(&request, 3).unwrap();
    assert_eq!(ended.steps, whole.steps);
    // The raw trial is kept.
    assert_eq!((ended.trials.len(), whole.trials.len()), (3, 2));
}

#[test]
fn tables_with_fewer_entries_than_buckets_are_left_out_by_name() {
    let report = simulated(&Request {
        buckets: vec![4, 256],
        table_sizes: vec![128, 512],
        ..request()
    });
    let steps: Vec<(usize, usize)> = report
        .steps
        .iter()
        .map(|step| (step.table_size, step.buckets))
        .collect();
    assert_eq!(steps, [(128, 4), (512, 4), (512, 256)]);
    let [left_out] = &report.plan.left_out[..] else {
        panic!("{:?}", report.plan.left_out)
    };
    assert_eq!((left_out.table_size, left_out.buckets), (128, 256));
}

#[test]
fn a_table_whose_size_is_no_power_of_two_is_indexed_by_the_remainder() {
    let report = simulated(&Request {
        table_sizes: vec![48],
        list_flows: true,
        ..request()
    });
    let mut datagrams = [0; 4];
    for flow in &report.flows {
        let hash = u32::from_str_radix(flow.hash.trim_start_matches("0x"), 16).unwrap();
        datagrams[hash as usize % 48 % 4] += flow.datagrams;
    }
    let counted: Vec<u64> = (report.steps[0].per_bucket.iter())
        .map(|bucket| bucket.datagrams)
        .collect();
    assert_eq!(counted, datagrams);
}

/// A change that makes a request invalid.
type Fault = fn(&mut Request);

#[test]
fn requests_that_cannot_be_simulated_are_refused_with_the_reason() {
    let cases: [(Fault, &str); 12] = [
        (|request| request.buckets = vec![0], "0 buckets"),
        (|request| request.buckets = vec![1025], "1025 buckets"),
        (|request| request.table_sizes = vec![4097], "4097 entries"),
        (|request| request.table_sizes = vec![2], "larger tables"),
        (|request| request.flows = 0, "0 flows"),
        (|request| request.datagrams = 999, "999 datagrams"),
        (
            |request| request.sizes = "elephants:1000:5%".parse().unwrap(),
            "1000 elephants",
        ),
        (|request| request.clients = "10.0.0.0/8".parse().unwrap(), "/12"),
        (
            |request| request.clients = "2001:db8::/120".parse().unwrap(),
            "address families",
        ),
        (|request| request.rounds = 0, "no rounds"),
        (|request| request.tolerance = 2.0, "tolerance"),
        (
            |request| {
                request.clients = "10.0.0.1".parse().unwrap();
                request.flows = 64_513;
            },
            "64512 source ports",
        ),
    ];
    for (spoil, reason) in cases {
        let mut request = request();
        spoil(&mut request);
        let error = run(&request, usize::MAX).unwrap_err();
        assert!(error.to_string().contains(reason), "{reason}: {error}");
    }
}
