//! Sources chosen by the target's hash: so that every bucket gets its share, or so that each worker's connections land on
//! the buckets of its own CPU.
//!
//! Where the target hashes ports, the ports that land on a bucket are computed, not tried (`corelane_rss::plan`); where it
//! hashes addresses alone, the addresses that do, each with all of its ports.

use super::{
    Align, CONNECTIONS_AN_ADDRESS, FIRST_PORT, LAST_PORT, Lease, LeasedPorts, SourceError, SourceRequest,
    WorkerSources, empty, shares,
};
use corelane_rss::{HashFields, Steering, plan};
use std::net::IpAddr;

/// Ports leased for one connection, so that one that is opened again finds a port that does not rest.
const PORTS_A_CONNECTION: usize = 2;

/// Leases for every worker.
pub(super) fn plan(
    request: &SourceRequest<'_>,
    addresses: &[IpAddr],
) -> Result<Vec<WorkerSources>, SourceError> {
    let steering = request.steering.ok_or(SourceError::NoSteering)?;
    let buckets: Vec<u16> = (0..steering.table.buckets() as u16).collect();
    let takers = takers(request, steering, &buckets)?;
    // How many connections each bucket needs: from each worker its share, over the buckets that it takes.
    let mut wanted: Vec<Vec<usize>> = vec![vec![0; request.cpus.len()]; buckets.len()];
    for (worker, connections) in shares(request.connections, request.cpus.len()).enumerate() {
        let mine: Vec<usize> = (0..buckets.len())
            .filter(|bucket| takers[*bucket].contains(&worker))
            .collect();
        for place in 0..mine.len() {
            // Whose turn it is to get one more differs by worker, so that no bucket gets them all.
            let part = connections / mine.len() + usize::from(place < connections % mine.len());
            wanted[mine[(place + worker) % mine.len()]][worker] += part;
        }
    }
    let found = match steering.hash_fields {
        HashFields::FourTuple => by_port(request, steering, addresses, &wanted)?,
        HashFields::TwoTuple => by_address(request, steering, addresses, &wanted)?,
    };
    let mut workers: Vec<WorkerSources> = request.cpus.iter().map(|cpu| empty(*cpu, None)).collect();
    for (bucket, leases) in found.into_iter().enumerate() {
        for (worker, lease) in leases {
            workers[worker].leases.push(lease);
        }
        for worker in takers[bucket].iter().filter(|_| request.align == Align::Bucket) {
            let only = takers.iter().filter(|takers| takers.contains(worker)).count() == 1;
            workers[*worker].bucket = only.then_some(buckets[bucket]);
        }
    }
    Ok(workers)
}

/// The workers that connect to each bucket.
fn takers(
    request: &SourceRequest<'_>,
    steering: &Steering,
    buckets: &[u16],
) -> Result<Vec<Vec<usize>>, SourceError> {
    let all: Vec<usize> = (0..request.cpus.len()).collect();
    let wanted = |bucket: &u16| request.buckets.is_none_or(|wanted| wanted.contains(bucket));
    if request.align == Align::Even {
        let takers = |bucket: &u16| if wanted(bucket) { all.clone() } else { Vec::new() };
        return Ok(buckets.iter().map(takers).collect());
    }
    let on = |bucket: &u16, worker: &usize| {
        wanted(bucket) && steering.cpus.get(usize::from(*bucket)) == request.cpus.get(*worker)
    };
    let takers: Vec<Vec<usize>> = (buckets.iter())
        .map(|bucket| all.iter().copied().filter(|worker| on(bucket, worker)).collect())
        .collect();
    for (worker, cpu) in request.cpus.iter().enumerate() {
        if !takers.iter().any(|takers| takers.contains(&worker)) {
            return Err(SourceError::NoBucketOnCpu { cpu: *cpu });
        }
    }
    Ok(takers)
}

/// Leases of ports that land on each bucket, with the worker that gets each.
fn by_port(
    request: &SourceRequest<'_>,
    steering: &Steering,
    addresses: &[IpAddr],
    wanted: &[Vec<usize>],
) -> Result<Vec<Vec<(usize, Lease)>>, SourceError> {
    let mut missing = wanted.to_vec();
    let mut found: Vec<Vec<(usize, Lease)>> = vec![Vec::new(); wanted.len()];
    let per_address = request.connections.div_ceil(addresses.len());
    let reached = wanted
        .iter()
        .filter(|wanted| wanted.iter().any(|wanted| *wanted > 0))
        .count()
        .max(1);
    for address in addresses {
        if missing.iter().flatten().all(|missing| *missing == 0) {
            break;
        }
        let planned = plan::ports(steering, *address, request.target, FIRST_PORT..=LAST_PORT, None)?;
        for (bucket, missing) in missing.iter_mut().enumerate() {
            let mut ports = planned.buckets.get(bucket).map_or(&[][..], Vec::as_slice);
            // Every address gives its share.
            let mut room = per_address.div_ceil(reached).max(1).min(ports.len());
            for (worker, missing) in missing.iter_mut().enumerate() {
                let connections = (*missing).min(room).min(ports.len());
                if connections == 0 {
                    continue;
                }
                let (mine, rest) = ports.split_at((connections * PORTS_A_CONNECTION).min(ports.len()));
                ports = rest;
                room -= connections;
                *missing -= connections;
                found[bucket].push((
                    worker,
                    Lease {
                        address: *address,
                        ports: LeasedPorts::Listed(mine.to_vec()),
                        connections,
                    },
                ));
            }
        }
    }
    let short: usize = missing.iter().flatten().sum();
    if short > 0 {
        let had = (request.connections - short).max(1);
        return Err(SourceError::Ports {
            connections: request.connections,
            needed: (addresses.len() * request.connections)
                .div_ceil(had)
                .max(addresses.len() + 1),
            addresses: addresses.len(),
        });
    }
    Ok(found)
}

/// Leases of addresses that land on each bucket whatever their port.
fn by_address(
    request: &SourceRequest<'_>,
    steering: &Steering,
    addresses: &[IpAddr],
    wanted: &[Vec<usize>],
) -> Result<Vec<Vec<(usize, Lease)>>, SourceError> {
    let planned = plan::addresses(
        &steering.steerer(),
        request.target,
        addresses.iter().copied(),
        0,
        None,
    );
    let mut found = vec![Vec::new(); wanted.len()];
    for (bucket, wanted) in wanted.iter().enumerate() {
        let total: usize = wanted.iter().sum();
        let reached = planned.buckets.get(bucket).map_or(&[][..], Vec::as_slice);
        if total > reached.len() * CONNECTIONS_AN_ADDRESS {
            return Err(SourceError::Unreached {
                bucket: bucket as u16,
            });
        }
        let mut rooms: Vec<(IpAddr, super::Cutter, usize)> = (reached.iter())
            .zip(shares(total, reached.len()))
            .map(|(address, share)| (*address, super::Cutter::new(share), share))
            .collect();
        let mut current = 0;
        for (worker, wanted) in wanted.iter().enumerate() {
            let mut missing = *wanted;
            while missing > 0 {
                let (address, cutter, room) = &mut rooms[current];
                let connections = missing.min(*room);
                if connections > 0 {
                    let ports = cutter.cut(connections);
                    found[bucket].push((
                        worker,
                        Lease {
                            address: *address,
                            ports,
                            connections,
                        },
                    ));
                    *room -= connections;
                    missing -= connections;
                }
                if *room == 0 {
                    current += 1;
                }
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Pool;
    use corelane_rss::{IndirectionTable, Key, Tuple};
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

    /// Connections of each (worker's CPU, bucket), as the steering itself sees the leased sources.
    fn landed(
        workers: &[WorkerSources],
        steering: &Steering,
        target: SocketAddr,
    ) -> BTreeMap<(u32, u16), usize> {
        let (steerer, mut landed) = (steering.steerer(), BTreeMap::new());
        for worker in workers {
            for lease in &worker.leases {
                let ports: Vec<u16> = match &lease.ports {
                    LeasedPorts::Listed(ports) => ports.clone(),
                    LeasedPorts::Range { first, last } => (*first..=*last).collect(),
                    LeasedPorts::Kernel => panic!("aligned ports are explicit"),
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
        let pool: Pool = "10.0.0.0/24".parse().unwrap();
        let target = "10.9.0.1:8080".parse().unwrap();
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
                let request = SourceRequest {
                    target,
                    pool: Some(&pool),
                    connections: 800,
                    cpus: &[0, 1],
                    align,
                    steering: Some(&steering),
                    buckets: None,
                };
                let landed = landed(&request.plan().unwrap(), &steering, target);
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
        let pool: Pool = "10.0.0.0/24".parse().unwrap();
        let target = "10.9.0.1:8080".parse().unwrap();
        for fields in [HashFields::FourTuple, HashFields::TwoTuple] {
            let steering = steering(fields);
            for (align, expected) in [
                (Align::Bucket, vec![((0, 0), 400), ((1, 1), 400)]),
                (
                    Align::Even,
                    vec![((0, 0), 200), ((0, 1), 200), ((1, 0), 200), ((1, 1), 200)],
                ),
            ] {
                let request = SourceRequest {
                    target,
                    pool: Some(&pool),
                    connections: 800,
                    cpus: &[0, 1],
                    align,
                    steering: Some(&steering),
                    buckets: Some(&[0, 1]),
                };
                let landed = landed(&request.plan().unwrap(), &steering, target);
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
        let request = SourceRequest {
            target: "127.0.0.1:8080".parse().unwrap(),
            pool: None,
            connections: 8,
            cpus: &[0, 7],
            align: Align::Bucket,
            steering: Some(&steering),
            buckets: None,
        };
        let error = request.plan().unwrap_err().to_string();
        assert!(error.contains("CPU 7"), "{error}");
        let without = SourceRequest {
            steering: None,
            ..request
        };
        assert!(matches!(without.plan(), Err(SourceError::NoSteering)));
    }

    #[test]
    fn more_connections_than_a_bucket_has_ports_need_more_addresses() {
        let steering = steering(HashFields::FourTuple);
        let pool: Pool = "10.0.0.1".parse().unwrap();
        let request = SourceRequest {
            target: "10.9.0.1:8080".parse().unwrap(),
            pool: Some(&pool),
            connections: 100_000,
            cpus: &[0, 1],
            align: Align::Even,
            steering: Some(&steering),
            buckets: None,
        };
        let error = request.plan().unwrap_err();
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
