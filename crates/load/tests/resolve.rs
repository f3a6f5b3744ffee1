//! Plans of the UDP generator: a request becomes leases with the requested properties, or is rejected with a named
//! cause.

use corelane_load::sources::{Align, Ports, SourceError, SourceRequest, Transport, WorkerRequest};
use corelane_load::udp::Skew;
use corelane_load::udp::{Probes, UdpPlan};
use corelane_rss::{HashFields, IndirectionTable, Key, Steering, Tuple};
use std::collections::HashSet;
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
        Ok(UdpPlan::new(self.sources.target, probes, workers))
    }
}

fn request(sources: &str, sockets: usize) -> Asked {
    Asked {
        sources: SourceRequest {
            target: "10.11.2.1:8080".parse().unwrap(),
            pool: Some(sources.parse().unwrap()),
            align: Align::Kernel,
            sockets,
        },
        workers: WorkerRequest {
            steering: None,
            buckets: None,
            cpus: vec![0, 1],
            descriptor_limit: 1_000_000,
        },
    }
}

fn bucket_request(sources: &str, sockets: usize, hash_fields: HashFields, buckets: usize) -> Asked {
    let mut request = request(sources, sockets);
    request.sources.align = Align::Bucket;
    request.workers.steering = Some(steering(hash_fields, buckets));
    request
}

/// Asserts that every leased (address, port) maps to its worker's bucket; 2-tuple leases hold for any port.
fn assert_on_buckets(plan: &UdpPlan, steering: &Steering) {
    let steerer = steering.steerer();
    for worker in &plan.workers {
        for lease in &worker.leases {
            let ports = match &lease.ports {
                Ports::Listed(ports) => ports.clone(),
                Ports::Kernel | Ports::Range { .. } => vec![0, 1, 40_000],
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
        assert_on_buckets(&plan, request.workers.steering.as_ref().unwrap());
    }
}

#[test]
fn ports_land_on_the_bucket_they_are_leased_for_and_none_is_leased_twice() {
    let request = bucket_request("10.11.2.3-10.11.2.5", 90_000, HashFields::FourTuple, 4);
    let plan = request.resolve().unwrap();
    assert_eq!(plan.sockets(), 90_000);
    let steering = request.workers.steering.as_ref().unwrap();
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
    assert!(matches!(itself, SourceError::EmptyPool { .. }), "{itself}");
    assert!(Probes::new(65_508).is_err());
}
