//! Aligned sources land where their workers are.

use super::*;
use crate::sources::{Align, AlignBy, PlannedWorker, ReplySteering, WorkerRequest};
use corelane_rss::{HashFields, IndirectionTable, Key, Steering};
use std::net::SocketAddr;

fn steering(hash_fields: HashFields) -> Steering {
    Steering {
        key: Key::VERIFICATION,
        hash_fields,
        table: IndirectionTable::round_robin(128, 4).unwrap(),
        cpus: vec![0, 1, 0, 1],
        generation: 0,
    }
}

fn request(pool: Option<&str>, sockets: usize, align: Align) -> SourceRequest {
    SourceRequest {
        target: "10.9.0.1:8080".parse().unwrap(),
        pool: pool.map(|pool| pool.parse().unwrap()),
        align,
        by: AlignBy::Forward,
        sockets,
    }
}

fn workers(steering: Option<&Steering>, buckets: Option<&[u16]>, cpus: &[u32]) -> WorkerRequest {
    WorkerRequest {
        steering: steering.cloned().into(),
        buckets: buckets.map(<[u16]>::to_vec),
        cpus: cpus.to_vec(),
        descriptor_limit: usize::MAX,
    }
}

/// Connections of each (worker's CPU, bucket), computed by the steering itself from the leased sources.
fn landed(workers: &[PlannedWorker], steering: &Steering, target: SocketAddr) -> BTreeMap<(u32, u16), usize> {
    let (steerer, mut landed) = (steering.steerer(), BTreeMap::new());
    for worker in workers {
        for lease in &worker.leases {
            let ports: Vec<u16> = match &lease.ports {
                Ports::Listed(ports) => ports.clone(),
                Ports::Range { first, last } => (*first..=*last).collect(),
                Ports::Kernel | Ports::None => panic!("aligned ports are explicit"),
            };
            assert!(ports.len() >= lease.connections);
            let buckets: Vec<u16> = (ports.iter())
                .map(|port| Tuple::new(SocketAddr::new(lease.address, *port), target).unwrap())
                .map(|tuple| steerer.bucket_of(&tuple).index() as u16)
                .collect();
            assert!(
                buckets.iter().all(|bucket| *bucket == buckets[0]),
                "one lease, one bucket"
            );
            *landed.entry((worker.cpu, buckets[0])).or_default() += lease.connections;
        }
    }
    landed
}

/// Plans 800 connections of two workers, and compares where they land.
fn assert_landed(
    (steering, buckets): (&Steering, Option<&[u16]>),
    align: Align,
    expected: Vec<((u32, u16), usize)>,
) {
    let request = request(Some("10.0.0.0/24"), 800, align);
    let workers = workers(Some(steering), buckets, &[0, 1]);
    let planned = request.plan(&workers, Transport::Tcp).unwrap();
    let landed = landed(&planned, steering, request.target.address().unwrap());
    assert_eq!(
        landed.into_iter().collect::<Vec<_>>(),
        expected,
        "{:?} {align:?}",
        steering.hash_fields
    );
}

#[test]
fn aligned_connections_land_on_the_buckets_of_their_workers_cpu() {
    for fields in [HashFields::FourTuple, HashFields::TwoTuple] {
        let steering = steering(fields);
        for (align, expected) in [
            (
                Align::Bucket,
                vec![((0, 0), 200), ((0, 2), 200), ((1, 1), 200), ((1, 3), 200)],
            ),
            (
                Align::Even,
                (0..2)
                    .flat_map(|cpu| (0..4).map(move |bucket| ((cpu, bucket), 100)))
                    .collect(),
            ),
        ] {
            assert_landed((&steering, None), align, expected);
        }
    }
}

#[test]
fn connections_land_on_the_buckets_that_were_asked_for_alone() {
    for fields in [HashFields::FourTuple, HashFields::TwoTuple] {
        let steering = steering(fields);
        for (align, expected) in [
            (Align::Bucket, vec![((0, 0), 400), ((1, 1), 400)]),
            (
                Align::Even,
                vec![((0, 0), 200), ((0, 1), 200), ((1, 0), 200), ((1, 1), 200)],
            ),
        ] {
            assert_landed((&steering, Some(&[0, 1])), align, expected);
        }
    }
}

#[test]
fn a_worker_whose_cpu_has_no_bucket_is_refused() {
    let steering = steering(HashFields::FourTuple);
    let request = request(Some("10.0.0.0/24"), 8, Align::Bucket);
    let error = request
        .plan(&workers(Some(&steering), None, &[0, 7]), Transport::Tcp)
        .unwrap_err()
        .to_string();
    assert!(error.contains("CPU 7"), "{error}");
    let without = request.plan(&workers(None, None, &[0, 7]), Transport::Tcp);
    assert!(matches!(without, Err(SourceError::NoSteering)));
}

#[test]
fn more_connections_than_a_bucket_has_ports_need_more_addresses() {
    let steering = steering(HashFields::FourTuple);
    let request = request(Some("10.0.0.1"), 100_000, Align::Even);
    let error = request
        .plan(&workers(Some(&steering), None, &[0, 1]), Transport::Tcp)
        .unwrap_err();
    assert!(
        matches!(
            error,
            SourceError::Ports {
                needed: 2..,
                addresses: 1,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_wide_pool_is_planned_in_seconds_even_if_a_landing_is_out_of_reach() {
    let even = steering(HashFields::FourTuple);
    let request = request(Some("10.0.0.0/16"), 1_000_000, Align::Even);
    let planned = request
        .plan(&workers(Some(&even), None, &[0, 1]), Transport::Tcp)
        .unwrap();
    assert_eq!(
        landed(&planned, &even, request.target.address().unwrap())
            .values()
            .sum::<usize>(),
        1_000_000
    );

    // A symmetric key hashes both directions alike, so no port lands on bucket 0 here and on bucket 1 there.
    let symmetric = Steering {
        key: Key::from_bytes(&[0x6d, 0x5a].repeat(20)).unwrap(),
        ..steering(HashFields::FourTuple)
    };
    let reply = Steering {
        cpus: vec![1, 0, 1, 0],
        ..symmetric.clone()
    };
    let both = SourceRequest {
        by: AlignBy::Both,
        align: Align::Bucket,
        ..request
    };
    let mut apart = workers(Some(&symmetric), None, &[0, 1]);
    apart.steering.reply = Some(ReplySteering {
        device: "eth0".to_owned(),
        steering: reply,
    });
    let error = both.plan(&apart, Transport::Tcp).unwrap_err();
    assert!(matches!(error, SourceError::Unreached { .. }), "{error}");
}
