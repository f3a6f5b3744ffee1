//! Plans of the UDP generator: a request becomes leases with the requested properties, or is rejected with a named
//! cause.

use corelane_load::sources::{
    Align, AlignBy, PlannedWorker, Ports, ReplySteering, SourceError, SourceRequest, Steerings, Transport,
    WorkerRequest,
};
use corelane_load::udp::Skew;
use corelane_load::udp::{Probes, UdpPlan};
use corelane_rss::plan::Landings;
use corelane_rss::{Bucket, HashFields, IndirectionTable, Key, Steering, Tuple};
use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;

fn steering(hash_fields: HashFields, buckets: usize) -> Steering {
    Steering {
        key: Key::VERIFICATION,
        hash_fields,
        table: IndirectionTable::round_robin(128, buckets).unwrap(),
        cpus: (0..buckets as u32).collect(),
        generation: 0,
    }
}

struct Asked {
    sources: SourceRequest,
    workers: WorkerRequest,
}

impl Asked {
    fn resolve(&self) -> Result<UdpPlan, SourceError> {
        let probes = Probes::new(510).unwrap();
        let workers = self.sources.plan(&self.workers, Transport::Udp)?;
        Ok(UdpPlan::new(
            self.sources.target.address().unwrap(),
            probes,
            workers,
        ))
    }
}

fn request(sources: &str, sockets: usize) -> Asked {
    Asked {
        sources: SourceRequest {
            target: "10.11.2.1:8080".parse().unwrap(),
            pool: Some(sources.parse().unwrap()),
            align: Align::Kernel,
            by: AlignBy::Forward,
            sockets,
        },
        workers: WorkerRequest {
            steering: Steerings::default(),
            buckets: None,
            cpus: vec![0, 1],
            descriptor_limit: 1_000_000,
        },
    }
}

fn bucket_request(sources: &str, sockets: usize, hash_fields: HashFields, buckets: usize) -> Asked {
    let mut request = request(sources, sockets);
    request.sources.align = Align::Bucket;
    request.workers.steering = Some(steering(hash_fields, buckets)).into();
    request
}

/// Asserts that every leased (address, port) maps to its worker's bucket; 2-tuple leases hold for any port.
fn assert_on_buckets(plan: &UdpPlan, steering: &Steering) {
    let steerer = steering.steerer();
    for worker in &plan.workers {
        for lease in &worker.leases {
            let ports = match &lease.ports {
                Ports::Listed(ports) => ports.clone(),
                Ports::Kernel | Ports::None | Ports::Range { .. } => vec![0, 1, 40_000],
            };
            for port in ports {
                let tuple = Tuple::new(SocketAddr::new(lease.address, port), plan.target).unwrap();
                let bucket = steerer.bucket_of(&tuple).index();
                assert_eq!(
                    Some(bucket as u16),
                    worker.bucket,
                    "{} port {port}",
                    lease.address
                );
            }
        }
    }
}

#[test]
fn under_skew_the_largest_flow_is_the_first_buckets_and_all_shares_are_everything() {
    let even = bucket_request("10.11.2.0/24", 16, HashFields::TwoTuple, 2)
        .resolve()
        .unwrap();
    assert!(even.workers.iter().all(|worker| worker.weights.is_empty()));
    let plan = even.skewed(Skew::Elephant { share: 0.5 });
    let weights: Vec<&[f64]> = plan.workers.iter().map(|worker| &worker.weights[..]).collect();
    assert_eq!([weights[0].len(), weights[1].len()], [8, 8]);
    assert!((weights[0][0] - 0.5).abs() < 1e-12);
    assert!(
        weights.concat()[1..]
            .iter()
            .all(|weight| (weight - 0.5 / 15.0).abs() < 1e-12)
    );
}

#[test]
fn addresses_land_on_the_bucket_they_are_leased_for() {
    for buckets in [1, 2, 3, 4, 8, 11] {
        let request = bucket_request("10.11.2.0/24", 4 * buckets, HashFields::TwoTuple, buckets);
        let plan = request.resolve().unwrap();
        assert_eq!(plan.workers.len(), buckets);
        assert!(plan.workers.iter().all(|worker| worker.sockets() == 4));
        assert_on_buckets(&plan, request.workers.steering.forward.as_ref().unwrap());
    }
}

#[test]
fn ports_land_on_the_bucket_they_are_leased_for_and_none_is_leased_twice() {
    let request = bucket_request("10.11.2.3-10.11.2.5", 90_000, HashFields::FourTuple, 4);
    let plan = request.resolve().unwrap();
    assert_eq!(plan.sockets(), 90_000);
    let steering = request.workers.steering.forward.as_ref().unwrap();
    assert_on_buckets(&plan, steering);
    let mut seen = HashSet::new();
    for lease in plan.workers.iter().flat_map(|worker| &worker.leases) {
        let Ports::Listed(ports) = &lease.ports else {
            panic!("a 4-tuple plan lists its ports")
        };
        assert!(ports.iter().all(|port| seen.insert((lease.address, *port))));
    }
}

#[test]
fn sockets_are_spread_evenly_over_workers_and_addresses() {
    let plan = request("10.11.2.3-10.11.2.6", 10).resolve().unwrap();
    let counts: Vec<usize> = plan.workers.iter().map(|worker| worker.sockets()).collect();
    assert_eq!(counts.iter().sum::<usize>(), 10);
    assert!(counts.iter().all(|count| *count >= 4), "{counts:?}");
}

#[test]
fn workers_take_descriptor_tables_of_their_own_when_one_would_overflow() {
    let mut small = request("10.11.0.0/16", 65_536);
    small.workers.descriptor_limit = 20_000;
    let plan = small.resolve().unwrap();
    assert_eq!(plan.sockets(), 65_536);
    assert!(
        plan.workers
            .iter()
            .all(|worker| worker.own_descriptors && worker.sockets() < 20_000)
    );
    let enough = request("10.11.0.0/16", 65_536).resolve().unwrap();
    assert!(enough.workers.iter().all(|worker| !worker.own_descriptors));
}

#[test]
fn more_sockets_than_ports_take_more_addresses_or_are_refused() {
    let plan = request("10.11.2.3,10.11.2.4", 100_000).resolve().unwrap();
    assert_eq!(plan.sockets(), 100_000);
    let refused = request("10.11.2.3", 100_000).resolve().unwrap_err();
    assert!(
        matches!(
            refused,
            SourceError::Ports {
                needed: 2,
                addresses: 1,
                ..
            }
        ),
        "{refused}"
    );
}

#[test]
fn what_cannot_be_planned_is_refused_by_name() {
    let unreached = bucket_request("10.11.2.3", 8, HashFields::TwoTuple, 4)
        .resolve()
        .unwrap_err();
    assert!(unreached.to_string().contains("bucket"), "{unreached}");
    let mut no_steering = request("10.11.2.0/24", 8);
    no_steering.sources.align = Align::Bucket;
    assert!(matches!(no_steering.resolve(), Err(SourceError::NoSteering)));
    let family = request("2001:db8::/64", 8).resolve().unwrap_err();
    assert!(matches!(family, SourceError::EmptyPool { .. }), "{family}");
    let itself = request("10.11.2.1", 8).resolve().unwrap_err();
    assert!(matches!(itself, SourceError::OnlyTarget { .. }), "{itself}");
    let mut broadcast = request("10.11.2.0/24", 8);
    broadcast.sources.target = "255.255.255.255:9".parse().unwrap();
    let broadcast = broadcast.resolve().unwrap_err();
    assert!(matches!(broadcast, SourceError::Broadcast { .. }), "{broadcast}");
    assert!(Probes::new(65_508).is_err());
}

/// Steering with the buckets on two CPUs in turn.
fn on_two_cpus(hash_fields: HashFields, buckets: usize) -> Steering {
    Steering {
        cpus: (0..buckets as u32).map(|bucket| bucket % 2).collect(),
        ..steering(hash_fields, buckets)
    }
}

/// A request whose sources are aligned by `steering` in a direction.
fn by(by: AlignBy, sources: &str, sockets: usize, steering: &Steering) -> Asked {
    let mut request = bucket_request(sources, sockets, steering.hash_fields, 1);
    request.sources.by = by;
    request.workers.steering = Some(steering.clone()).into();
    request
}

/// A device that receives replies.
fn device(steering: &Steering) -> Option<ReplySteering> {
    Some(ReplySteering {
        device: "eth0".to_owned(),
        steering: steering.clone(),
    })
}

#[test]
fn sources_satisfy_the_directions_that_were_asked_for() {
    let own = on_two_cpus(HashFields::FourTuple, 4);
    let mut other = on_two_cpus(HashFields::FourTuple, 2);
    other.key = "40".repeat(40).replace("4040", "4f6b").parse().unwrap();
    for (direction, of_replies) in [
        (AlignBy::Reply, None),
        (AlignBy::Both, None),
        (AlignBy::Reply, Some(&other)),
        (AlignBy::Both, Some(&other)),
    ] {
        for align in [Align::Bucket, Align::Even] {
            let mut asked = by(direction, "10.11.2.0/28", 800, &own);
            asked.sources.align = align;
            asked.workers.steering.reply = of_replies.and_then(device);
            for transport in [Transport::Udp, Transport::Tcp] {
                let planned = asked.sources.plan(&asked.workers, transport).unwrap();
                let replies = of_replies.unwrap_or(&own);
                assert_landed(&planned, (&own, replies), &asked.sources);
            }
        }
    }
}

/// Asserts that every leased source lands as its lease says, on buckets of its worker's CPU if so aligned, and that
/// buckets have equal numbers of sockets.
fn assert_landed(planned: &[PlannedWorker], (own, replies): (&Steering, &Steering), asked: &SourceRequest) {
    let what = format!("{:?} {:?}", asked.by, asked.align);
    let (forward, reply) = match asked.by {
        AlignBy::Forward => (Some(own), None),
        AlignBy::Reply => (None, Some(replies)),
        AlignBy::Both => (Some(own), Some(replies)),
    };
    let landings = Landings::new(forward, reply);
    let (mut sockets, mut seen) = ([BTreeMap::new(), BTreeMap::new()], HashSet::new());
    for worker in planned {
        for lease in &worker.leases {
            for port in lease.clone().into_ports() {
                let source = SocketAddr::new(lease.address, port);
                assert!(seen.insert(source), "{source} twice: {what}");
                let landing = landings.of(&Tuple::new(source, asked.target.address().unwrap()).unwrap());
                assert_eq!(landing, lease.landing, "{source}: {what}");
            }
            let ends = [(lease.landing.forward, forward), (lease.landing.reply, reply)];
            for (sockets, (bucket, steering)) in sockets.iter_mut().zip(ends) {
                let Some(bucket) = bucket else { continue };
                *sockets.entry(bucket).or_insert(0) += lease.connections;
                let cpu = steering.map(|steering| steering.cpus[bucket.index()]);
                assert!(asked.align == Align::Even || cpu == Some(worker.cpu), "{what}");
            }
        }
    }
    for (sockets, steering) in sockets.iter().zip([forward, reply]) {
        let Some(steering) = steering else { continue };
        let each = asked.sockets / steering.table.buckets();
        assert_eq!(sockets.len(), steering.table.buckets(), "{what}");
        assert!(
            sockets.values().all(|sockets| *sockets == each),
            "{what}: {sockets:?}"
        );
    }
}

#[test]
fn a_symmetric_key_satisfies_both_directions_only_on_one_bucket() {
    let mut symmetric = on_two_cpus(HashFields::FourTuple, 2);
    symmetric.key = "6d5a".repeat(20).parse().unwrap();
    let mut asked = by(AlignBy::Both, "10.11.2.0/28", 100, &symmetric);
    let planned = asked.sources.plan(&asked.workers, Transport::Tcp).unwrap();
    assert_landed(&planned, (&symmetric, &symmetric), &asked.sources);
    // The same key with the buckets swapped at the other end: no source satisfies both.
    let swapped =
        IndirectionTable::from_entries((0..128).map(|entry| Bucket::new((entry + 1) % 2)).collect());
    asked.workers.steering.reply = device(&Steering {
        table: swapped.unwrap(),
        ..symmetric
    });
    let error = asked.sources.plan(&asked.workers, Transport::Tcp).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("lands on bucket 0 and 0 (replies), 1 and 1 (replies)"),
        "{error}"
    );
}

#[test]
fn ends_that_hash_different_fields_cannot_both_be_satisfied() {
    let mut asked = by(
        AlignBy::Both,
        "10.11.2.0/28",
        100,
        &on_two_cpus(HashFields::FourTuple, 2),
    );
    asked.workers.steering.reply = device(&on_two_cpus(HashFields::TwoTuple, 2));
    let error = asked.sources.plan(&asked.workers, Transport::Udp).unwrap_err();
    assert!(matches!(error, SourceError::Fields), "{error}");
}

#[test]
fn where_only_addresses_are_hashed_both_directions_are_satisfied_by_addresses() {
    let own = on_two_cpus(HashFields::TwoTuple, 4);
    for align in [Align::Bucket, Align::Even] {
        let mut asked = by(AlignBy::Both, "10.11.0.0/16", 160, &own);
        asked.sources.align = align;
        let planned = asked.sources.plan(&asked.workers, Transport::Tcp).unwrap();
        let (mut sockets, landings) = (BTreeMap::new(), Landings::new(Some(&own), Some(&own)));
        for (worker, lease) in planned
            .iter()
            .flat_map(|worker| worker.leases.iter().map(move |lease| (worker, lease)))
        {
            let source = SocketAddr::new(lease.address, 0);
            assert_eq!(
                landings.of(&Tuple::new(source, asked.sources.target.address().unwrap()).unwrap()),
                lease.landing
            );
            *sockets.entry((worker.cpu, lease.landing)).or_insert(0) += lease.connections;
        }
        // Two workers with two or four buckets in each direction.
        let (landings, each) = match align {
            Align::Bucket => (2 * 2 * 2, 20),
            _ => (2 * 4 * 4, 5),
        };
        assert_eq!(sockets.len(), landings, "{align:?}: {sockets:?}");
        assert!(
            sockets.values().all(|sockets| *sockets == each),
            "{align:?}: {sockets:?}"
        );
    }
}

#[test]
fn many_connections_aligned_both_ways_fill_several_addresses() {
    let own = on_two_cpus(HashFields::FourTuple, 4);
    let asked = by(AlignBy::Both, "10.11.2.2-10.11.2.5", 65_000, &own);
    let planned = asked.sources.plan(&asked.workers, Transport::Tcp).unwrap();
    assert_landed(&planned, (&own, &own), &asked.sources);
}
