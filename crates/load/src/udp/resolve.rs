//! From what a user asked for to a plan: which addresses and ports each worker sends from.
//!
//! In: a [`UdpRequest`]. Out: a [`UdpPlan`] in which every source is leased to one worker and, where buckets are to be hit,
//! lands on the bucket it was planned for; or the reason why there is none.

use super::plan::{
    FIRST_WIDE_PORT, LAST_WIDE_PORT, Lease, PlannedWorker, Ports, UdpLoadError, UdpPlan, Until,
};
use super::weights;
use crate::pace::Pace;
use crate::pool::Pool;
use crate::udp::Skew;
use corelane_host::memory::MemoryPolicy;
use corelane_proto::probe::Stamp;
use corelane_rss::plan as rss_plan;
use corelane_rss::{HashFields, Steering};
use corelane_worker::engine::{EngineKind, EngineSettings};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Sockets of one address that the kernel is left to choose ports for: its default range holds 28,232.
const MOST_KERNEL_PORTS: usize = 16_384;

/// Ports of one address that sockets can be bound to.
const PORTS_AN_ADDRESS: usize = (LAST_WIDE_PORT - FIRST_WIDE_PORT) as usize + 1;

/// Addresses of a pool that are looked at: an IPv6 prefix holds more than anyone can try.
const MOST_ADDRESSES: usize = 1 << 20;

/// Descriptors that a worker needs beside its sockets: engine, waker, standard streams, and a margin.
const OTHER_DESCRIPTORS: usize = 64;

/// Over what the sources are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// Evenly over the workers, wherever the hash puts them.
    Even,
    /// One worker a bucket of the target, its sources chosen to land there.
    Buckets,
}

/// What a user asks of the UDP generator.
#[derive(Debug, Clone)]
pub struct UdpRequest {
    /// Where to send.
    pub target: SocketAddr,
    /// Source addresses; `None` leaves the choice to the routing table.
    pub sources: Option<Pool>,
    /// The target's steering document.
    pub steering: Option<Steering>,
    /// Over what to spread.
    pub spread: Spread,
    /// With [`Spread::Buckets`], the buckets to hit: all when `None`.
    pub buckets: Option<Vec<u16>>,
    /// Sockets in all.
    pub sockets: usize,
    /// One worker a CPU of this list; with [`Spread::Buckets`], bucket *i* is sent to from its *i*-th.
    pub cpus: Vec<u32>,
    /// Bytes of payload.
    pub payload_bytes: usize,
    /// How the sockets share the traffic.
    pub skew: Skew,
    /// When to send.
    pub pace: Pace,
    /// When to stop.
    pub until: Until,
    /// Whether the target answers.
    pub answers: bool,
    /// The engine asked for.
    pub engine: Option<EngineKind>,
    /// From which node each worker's memory comes.
    pub memory: MemoryPolicy,
    /// How datagrams are moved: batch size, `UDP_SEGMENT`, `UDP_GRO`, the node of the buffers.
    pub moving: EngineSettings,
    /// Descriptors that one table may hold.
    pub descriptor_limit: usize,
}

/// Seconds without an answer after which what is outstanding counts as lost, unless asked otherwise: far above any
/// round trip inside a machine or a building.
const LOSS_TIMEOUT_S: f64 = 0.2;

impl UdpRequest {
    /// Decides everything.
    ///
    /// # Errors
    /// When the payload cannot be, or when the sources do not suffice; see [`UdpLoadError`].
    pub fn resolve(&self) -> Result<UdpPlan, UdpLoadError> {
        Stamp::new(self.payload_bytes)?;
        let workers = match self.spread {
            Spread::Even => self.spread_evenly()?,
            Spread::Buckets => self.spread_over_buckets()?,
        };
        let mut workers = fit_descriptors(workers, self.descriptor_limit);
        weights::deal(self.skew, &mut workers);
        Ok(UdpPlan {
            target: self.target,
            payload_bytes: self.payload_bytes,
            pace: self.pace,
            until: self.until,
            answers: self.answers,
            loss_timeout_s: LOSS_TIMEOUT_S,
            engine: self.engine,
            batch: self.moving.datagram_batch,
            coalesce: self.moving.coalesce,
            gro: self.moving.gro,
            memory: self.memory,
            buffer_memory: self.moving.memory,
            skew: self.skew,
            workers,
        })
    }

    fn spread_evenly(&self) -> Result<Vec<PlannedWorker>, UdpLoadError> {
        let addresses = self.addresses(self.sockets)?;
        let mut workers: Vec<_> = self.cpus.iter().map(|cpu| worker(*cpu, None)).collect();
        let count = workers.len();
        for (index, sockets) in shares(self.sockets, addresses.len().max(count)).enumerate() {
            let (address, taker) = (addresses[index % addresses.len()], index % count);
            add_sockets(&mut workers[taker].leases, address, sockets);
        }
        workers.retain(|worker| worker.sockets() > 0);
        self.check_ports(&workers, addresses.len())?;
        widen(&mut workers);
        Ok(workers)
    }

    /// No address may need more ports than it has.
    fn check_ports(&self, workers: &[PlannedWorker], addresses: usize) -> Result<(), UdpLoadError> {
        let leased: usize = workers.iter().map(PlannedWorker::sockets).sum();
        let needed = leased.div_ceil(PORTS_AN_ADDRESS);
        if needed > addresses {
            return Err(UdpLoadError::Ports {
                sockets: self.sockets,
                needed,
                addresses,
            });
        }
        Ok(())
    }

    fn spread_over_buckets(&self) -> Result<Vec<PlannedWorker>, UdpLoadError> {
        let steering = self.steering.as_ref().ok_or(UdpLoadError::NoSteering)?;
        let buckets = match &self.buckets {
            Some(buckets) => buckets.clone(),
            None => (0..steering.table.buckets() as u16).collect(),
        };
        let mut workers = Vec::new();
        let mut unreached = Vec::new();
        let planned = match steering.hash_fields {
            HashFields::TwoTuple => self.leases_by_address(steering, &buckets)?,
            HashFields::FourTuple => self.leases_by_port(steering, &buckets)?,
        };
        for (bucket, leases) in buckets.iter().zip(planned) {
            if leases.is_empty() {
                unreached.push(*bucket);
            }
            let cpu = self.cpus[usize::from(*bucket) % self.cpus.len()];
            workers.push(PlannedWorker {
                leases,
                ..worker(cpu, Some(*bucket))
            });
        }
        if unreached.is_empty() {
            widen(&mut workers);
            return Ok(workers);
        }
        Err(UdpLoadError::Unreached {
            pool: self.pool_text(),
            buckets: unreached,
        })
    }

    /// Sources whose addresses alone decide the bucket: any port of theirs will do.
    fn leases_by_address(
        &self,
        steering: &Steering,
        buckets: &[u16],
    ) -> Result<Vec<Vec<Lease>>, UdpLoadError> {
        let most = self.sockets.div_ceil(buckets.len().max(1));
        let pool = self.addresses(MOST_ADDRESSES)?;
        let plan = rss_plan::addresses(&steering.steerer(), self.target, pool, 0, Some(most));
        let shares: Vec<usize> = shares(self.sockets, buckets.len()).collect();
        let mut planned = Vec::new();
        for (bucket, sockets) in buckets.iter().zip(shares) {
            let addresses = plan
                .buckets
                .get(usize::from(*bucket))
                .map_or(&[][..], Vec::as_slice);
            let needed = sockets.div_ceil(PORTS_AN_ADDRESS);
            if !addresses.is_empty() && needed > addresses.len() {
                return Err(UdpLoadError::Ports {
                    sockets,
                    needed,
                    addresses: addresses.len(),
                });
            }
            let mut leases = Vec::new();
            for (address, sockets) in addresses.iter().zip(self::shares(sockets, addresses.len())) {
                add_sockets(&mut leases, *address, sockets);
            }
            planned.push(leases);
        }
        Ok(planned)
    }

    /// Sources whose ports decide the bucket, address after address until there are enough.
    fn leases_by_port(&self, steering: &Steering, buckets: &[u16]) -> Result<Vec<Vec<Lease>>, UdpLoadError> {
        let pool = self.addresses(MOST_ADDRESSES)?;
        let mut missing: Vec<usize> = shares(self.sockets, buckets.len()).collect();
        let mut planned = vec![Vec::new(); buckets.len()];
        let addresses = pool.len();
        for address in pool {
            if missing.iter().all(|missing| *missing == 0) {
                return Ok(planned);
            }
            let most = missing.iter().max().copied();
            let range = FIRST_WIDE_PORT..=LAST_WIDE_PORT;
            let ports = rss_plan::ports(steering, address, self.target, range, most)?;
            for (index, bucket) in buckets.iter().enumerate() {
                let found = ports
                    .buckets
                    .get(usize::from(*bucket))
                    .map_or(&[][..], Vec::as_slice);
                // A datagram from the server's own address and port would be the server's.
                let usable = found.iter().copied().filter(|port| *port != self.target.port());
                let taken: Vec<u16> = usable.take(missing[index]).collect();
                missing[index] -= taken.len();
                if !taken.is_empty() {
                    planned[index].push(Lease {
                        address,
                        ports: Ports::Listed(taken),
                    });
                }
            }
        }
        let short: usize = missing.iter().sum();
        if short > 0 && planned.iter().all(|leases| !leases.is_empty()) {
            let needed = addresses * self.sockets / (self.sockets - short).max(1) + 1;
            return Err(UdpLoadError::Ports {
                sockets: self.sockets,
                needed,
                addresses,
            });
        }
        Ok(planned)
    }

    /// At most `most` source addresses of the target's family, the target's own left out.
    fn addresses(&self, most: usize) -> Result<Vec<IpAddr>, UdpLoadError> {
        let target = self.target.ip();
        let Some(pool) = &self.sources else {
            let any = match (target, self.spread) {
                // The hash needs the address itself. To a loopback target the routing table chooses the target's own.
                (target, Spread::Buckets) if target.is_loopback() => target,
                (_, Spread::Buckets) => return Err(UdpLoadError::NoSources),
                (IpAddr::V4(_), Spread::Even) => Ipv4Addr::UNSPECIFIED.into(),
                (IpAddr::V6(_), Spread::Even) => Ipv6Addr::UNSPECIFIED.into(),
            };
            return Ok(vec![any]);
        };
        let usable = pool.addresses_like(target).filter(|address| *address != target);
        let addresses: Vec<_> = usable.take(most.max(1)).collect();
        if addresses.is_empty() {
            return Err(UdpLoadError::EmptyPool {
                pool: self.pool_text(),
                target,
            });
        }
        Ok(addresses)
    }

    fn pool_text(&self) -> String {
        self.sources
            .as_ref()
            .map_or_else(|| "the routing table's address".to_owned(), Pool::to_string)
    }
}

fn worker(cpu: u32, bucket: Option<u16>) -> PlannedWorker {
    PlannedWorker {
        cpu,
        bucket,
        own_descriptors: false,
        leases: Vec::new(),
        weights: Vec::new(),
    }
}

fn add_sockets(leases: &mut Vec<Lease>, address: IpAddr, sockets: usize) {
    if sockets == 0 {
        return;
    }
    match leases.iter_mut().find(|lease| lease.address == address) {
        Some(Lease {
            ports: Ports::Any(count),
            ..
        }) => *count += sockets,
        _ => leases.push(Lease {
            address,
            ports: Ports::Any(sockets),
        }),
    }
}

/// Addresses of which more ports are leased, over all workers, than the kernel would give take them from the whole range.
fn widen(workers: &mut [PlannedWorker]) {
    let mut leased: HashMap<IpAddr, usize> = HashMap::new();
    for lease in workers.iter().flat_map(|worker| &worker.leases) {
        *leased.entry(lease.address).or_default() += lease.ports.count();
    }
    for lease in workers.iter_mut().flat_map(|worker| &mut worker.leases) {
        if let Ports::Any(count) = lease.ports
            && leased[&lease.address] > MOST_KERNEL_PORTS
        {
            lease.ports = Ports::Wide(count);
        }
    }
}

/// `total` split into `parts` that differ by at most one.
fn shares(total: usize, parts: usize) -> impl Iterator<Item = usize> {
    (0..parts).map(move |index| total / parts + usize::from(index < total % parts))
}

/// Splits workers until each one's sockets fit a descriptor table, and gives them tables of their own when one table would
/// not hold them all.
fn fit_descriptors(workers: Vec<PlannedWorker>, limit: usize) -> Vec<PlannedWorker> {
    let room = limit.saturating_sub(OTHER_DESCRIPTORS).max(1);
    let all: usize = workers.iter().map(PlannedWorker::sockets).sum();
    if all <= room {
        return workers;
    }
    let mut fitting = Vec::new();
    for whole in workers {
        let mut part = PlannedWorker {
            own_descriptors: true,
            leases: Vec::new(),
            weights: Vec::new(),
            ..whole
        };
        for lease in whole.leases {
            let mut rest = Some(lease);
            while let Some(lease) = rest {
                let free = room - part.sockets();
                let (now, later) = split(lease, free);
                part.leases.extend(now);
                rest = later;
                if rest.is_some() {
                    let next = PlannedWorker {
                        leases: Vec::new(),
                        weights: Vec::new(),
                        ..part
                    };
                    fitting.push(std::mem::replace(&mut part, next));
                }
            }
        }
        fitting.push(part);
    }
    fitting
}

/// The first `count` ports of a lease, and the rest.
fn split(lease: Lease, count: usize) -> (Option<Lease>, Option<Lease>) {
    let Lease { address, ports } = lease;
    let (now, later) = match ports {
        Ports::Any(all) => (Ports::Any(all.min(count)), Ports::Any(all.saturating_sub(count))),
        Ports::Wide(all) => (
            Ports::Wide(all.min(count)),
            Ports::Wide(all.saturating_sub(count)),
        ),
        Ports::Listed(mut all) => {
            let later = all.split_off(count.min(all.len()));
            (Ports::Listed(all), Ports::Listed(later))
        }
    };
    let some = |ports: Ports| (ports.count() > 0).then_some(Lease { address, ports });
    (some(now), some(later))
}
