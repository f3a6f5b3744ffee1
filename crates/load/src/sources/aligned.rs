//! Sources chosen by the target's hash, so that every bucket gets its share, or so that each worker's sockets land on
//! the buckets of that worker.
//!
//! If the target hashes ports, matching ports are computed, not searched for (`corelane_rss::plan`). If it hashes
//! addresses only, matching addresses are chosen, each with all of its ports.

use super::{
    FIRST_PORT, LAST_PORT, Lease, Ports, SOCKETS_AN_ADDRESS, Shared, SourceError, SourceRequest, Transport,
    Workers, shares,
};
use corelane_rss::{Steering, plan};
use std::net::IpAddr;

/// The leases found, and the number of sockets without a source.
struct Found {
    /// The leases of each worker.
    leases: Vec<Vec<Lease>>,
    missing: usize,
    /// Buckets that no source reaches.
    unreached: Vec<u16>,
}

/// Leases for every worker.
pub(super) fn plan(
    request: &SourceRequest,
    workers: &Workers<'_>,
    transport: Transport,
    addresses: &[IpAddr],
) -> Result<Vec<Vec<Lease>>, SourceError> {
    let steering = workers.steering()?;
    let aims = workers.aims(request.align)?;
    // Sockets required per bucket: each worker's share, spread over its target buckets.
    let mut wanted: Vec<Vec<usize>> = vec![vec![0; aims.len()]; steering.table.buckets()];
    // The buckets that get one more follow those of the worker before, so that the remainders are spread evenly.
    let mut first = 0;
    for (worker, (aims, sockets)) in aims.iter().zip(shares(request.sockets, aims.len())).enumerate() {
        for (place, part) in shares(sockets, aims.len()).enumerate() {
            wanted[usize::from(aims[(place + first) % aims.len()])][worker] += part;
        }
        first += sockets;
    }
    let found = if workers.hash_addresses_alone() {
        by_address(request, steering, transport, addresses, &wanted)
    } else {
        by_port(request, steering, transport, addresses, wanted)?
    };
    if !found.unreached.is_empty() {
        return Err(SourceError::Unreached {
            pool: request.pool_text(),
            buckets: found.unreached,
        });
    }
    if found.missing > 0 {
        let had = (request.sockets - found.missing).max(1);
        let needed = (addresses.len() * request.sockets).div_ceil(had);
        return Err(request.too_many(needed.max(addresses.len() + 1), addresses.len()));
    }
    Ok(found.leases)
}

/// Leases of ports that land on each bucket.
fn by_port(
    request: &SourceRequest,
    steering: &Steering,
    transport: Transport,
    addresses: &[IpAddr],
    mut missing: Vec<Vec<usize>>,
) -> Result<Found, SourceError> {
    // A reopened connection needs a port that is not in TIME_WAIT.
    let ports_a_socket = match transport {
        Transport::Udp => 1,
        Transport::Tcp => 2,
    };
    let mut leases = vec![Vec::new(); missing[0].len()];
    let unsatisfied = |wanted: &[usize]| wanted.iter().any(|wanted| *wanted > 0);
    let mut unreached: Vec<u16> = (0..missing.len() as u16).collect();
    unreached.retain(|bucket| unsatisfied(&missing[usize::from(*bucket)]));
    // Every address contributes its share.
    let share = request.sockets.div_ceil(addresses.len());
    let share = share.div_ceil(unreached.len().max(1)).max(1);
    for address in addresses {
        if !missing.iter().any(|wanted| unsatisfied(wanted)) {
            break;
        }
        let (range, most) = (FIRST_PORT..=LAST_PORT, share * ports_a_socket);
        let planned = plan::ports(steering, *address, request.target, range, Some(most))?;
        unreached.retain(|bucket| planned.buckets[usize::from(*bucket)].is_empty());
        for (missing, ports) in missing.iter_mut().zip(&planned.buckets) {
            let (mut ports, mut room) = (&ports[..], share);
            for (worker, missing) in missing.iter_mut().enumerate() {
                let connections = (*missing).min(room).min(ports.len());
                if connections == 0 {
                    continue;
                }
                let (mine, rest) = ports.split_at((connections * ports_a_socket).min(ports.len()));
                ports = rest;
                room -= connections;
                *missing -= connections;
                leases[worker].push(Lease {
                    address: *address,
                    ports: Ports::Listed(mine.to_vec()),
                    connections,
                });
            }
        }
    }
    Ok(Found {
        leases,
        missing: missing.iter().flatten().sum(),
        unreached,
    })
}

/// Leases of addresses that land on each bucket regardless of port. Connections have ports of their own, so the plan
/// records the bucket of each.
fn by_address(
    request: &SourceRequest,
    steering: &Steering,
    transport: Transport,
    addresses: &[IpAddr],
    wanted: &[Vec<usize>],
) -> Found {
    let totals: Vec<usize> = wanted.iter().map(|wanted| wanted.iter().sum()).collect();
    let most = totals.iter().max().copied();
    let addresses = addresses.iter().copied();
    let planned = plan::addresses(&steering.steerer(), request.target, addresses, 0, most);
    let mut found = Found {
        leases: vec![Vec::new(); wanted[0].len()],
        missing: 0,
        unreached: Vec::new(),
    };
    for (bucket, (reached, total)) in planned.buckets.iter().zip(totals).enumerate() {
        let room = reached.len() * SOCKETS_AN_ADDRESS;
        if total > 0 && room == 0 {
            found.unreached.push(bucket as u16);
        } else if total > room {
            found.missing += total - room;
        } else if total > 0 {
            let mut shared = Shared::new(reached, total, transport == Transport::Udp);
            for (leases, wanted) in found.leases.iter_mut().zip(&wanted[bucket]) {
                leases.extend(shared.take(*wanted));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::{Align, PlannedWorker, WorkerRequest};
    use corelane_rss::{HashFields, IndirectionTable, Key, Tuple};
    use std::collections::BTreeMap;
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
            sockets,
        }
    }

    fn workers(steering: Option<&Steering>, buckets: Option<&[u16]>, cpus: &[u32]) -> WorkerRequest {
        WorkerRequest {
            steering: steering.cloned(),
            buckets: buckets.map(<[u16]>::to_vec),
            cpus: cpus.to_vec(),
            descriptor_limit: usize::MAX,
        }
    }

    /// Connections of each (worker's CPU, bucket), computed by the steering itself from the leased sources.
    fn landed(
        workers: &[PlannedWorker],
        steering: &Steering,
        target: SocketAddr,
    ) -> BTreeMap<(u32, u16), usize> {
        let (steerer, mut landed) = (steering.steerer(), BTreeMap::new());
        for worker in workers {
            for lease in &worker.leases {
                let ports: Vec<u16> = match &lease.ports {
                    Ports::Listed(ports) => ports.clone(),
                    Ports::Range { first, last } => (*first..=*last).collect(),
                    Ports::Kernel => panic!("aligned ports are explicit"),
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
                let request = request(Some("10.0.0.0/24"), 800, align);
                let workers = workers(Some(&steering), None, &[0, 1]);
                let planned = request.plan(&workers, Transport::Tcp).unwrap();
                let landed = landed(&planned, &steering, request.target);
                assert_eq!(
                    landed.into_iter().collect::<Vec<_>>(),
                    expected,
                    "{fields:?} {align:?}"
                );
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
                let request = request(Some("10.0.0.0/24"), 800, align);
                let workers = workers(Some(&steering), Some(&[0, 1]), &[0, 1]);
                let planned = request.plan(&workers, Transport::Tcp).unwrap();
                let landed = landed(&planned, &steering, request.target);
                assert_eq!(
                    landed.into_iter().collect::<Vec<_>>(),
                    expected,
                    "{fields:?} {align:?}"
                );
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
}
