//! Source addresses and ports of TCP connections: a pool, a target and a number of connections enter; leases, one
//! worker's each, leave. Workers never ask each other for a port.
//!
//! A connection is named by both ends' addresses and ports, so one address opens at most 64,512 connections to one server
//! (ports 1,024 to 65,535). Beyond that more addresses are needed, and the plan says how many.

mod aligned;
mod ports;

pub use ports::{PortPool, Release, Source};

use crate::pool::Pool;
use corelane_rss::Steering;
use corelane_rss::plan::PlanError;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use thiserror::Error;

/// The first port that is leased: those below are for privileged servers.
pub const FIRST_PORT: u16 = 1_024;

/// The last port.
pub const LAST_PORT: u16 = u16::MAX;

/// Connections of one address that explicit ports are planned for: what is left of its ports serves connections that are
/// opened again, and replaces ports that others hold.
pub const CONNECTIONS_AN_ADDRESS: usize = 60_000;

/// Connections of one address for which the kernel chooses ports well: its default range holds 28,232, and the search
/// gets long as it fills.
const MOST_KERNEL_PORTS: usize = 16_384;

/// Addresses of a pool that are looked at: an IPv6 prefix holds more than anyone can try.
const MOST_ADDRESSES: usize = 1 << 20;

/// Descriptors that a worker needs beside its connections: engine, waker, standard streams, and a margin.
pub(crate) const OTHER_DESCRIPTORS: usize = 64;

/// How the source of a connection is chosen, with the target's steering in mind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Align {
    /// Left to the kernel, or planned without regard to the hash.
    #[default]
    Kernel,
    /// Every bucket of the target gets the same number of connections.
    Even,
    /// Each worker's connections land on the buckets of its own CPU.
    Bucket,
}

/// One source address of one worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The address; unspecified leaves it to the routing table.
    pub address: IpAddr,
    /// Its ports.
    pub ports: LeasedPorts,
    /// Connections open at a time.
    pub connections: usize,
}

impl Lease {
    /// The address, and how many ports of it the kernel is to choose.
    pub(crate) fn kernel_ports(&self) -> (IpAddr, usize) {
        let chosen = self.ports == LeasedPorts::Kernel;
        (self.address, if chosen { self.connections } else { 0 })
    }
}

/// The source ports of a lease: at least as many as connections, the rest for opening again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeasedPorts {
    /// The kernel chooses.
    Kernel,
    /// All from the first to the last.
    Range {
        /// The first.
        first: u16,
        /// The last.
        last: u16,
    },
    /// Exactly these.
    Listed(Vec<u16>),
}

/// The part of a plan that says from where one worker connects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerSources {
    /// The CPU of the worker.
    pub cpu: u32,
    /// The bucket that all its connections land on.
    pub bucket: Option<u16>,
    /// Its leases.
    pub leases: Vec<Lease>,
}

/// What is asked of the sources.
#[derive(Debug, Clone, Copy)]
pub struct SourceRequest<'a> {
    /// Where the connections go.
    pub target: SocketAddr,
    /// Addresses to connect from; `None` leaves the choice to the routing table.
    pub pool: Option<&'a Pool>,
    /// Connections in all.
    pub connections: usize,
    /// The CPU of each worker.
    pub cpus: &'a [u32],
    /// How sources are chosen.
    pub align: Align,
    /// The target's steering document.
    pub steering: Option<&'a Steering>,
    /// The buckets to land on; `None` for all. Only sources that are aligned can choose.
    pub buckets: Option<&'a [u16]>,
}

/// Why there is no plan of sources.
#[derive(Debug, Error)]
pub enum SourceError {
    /// A pool without addresses of the target's family.
    #[error("the source pool {pool} has no address of {target}'s family")]
    EmptyPool {
        /// The pool as written.
        pool: String,
        /// The target.
        target: IpAddr,
    },
    /// More connections than the addresses have ports.
    #[error(
        "{connections} connections to one server need {needed} source addresses, and there are {addresses}: give a wider \
         --sources (a prefix that is routed here: `ip route add local 10.100.0.0/16 dev lo`)"
    )]
    Ports {
        /// Connections asked for.
        connections: usize,
        /// Addresses they need.
        needed: usize,
        /// Addresses there are.
        addresses: usize,
    },
    /// Alignment without knowing the target's steering.
    #[error("--align needs the server's steering document: give its file with --steering")]
    NoSteering,
    /// A bucket that no source reaches.
    #[error("no source reaches bucket {bucket} often enough: widen --sources, or steer by the 4-tuple")]
    Unreached {
        /// The bucket.
        bucket: u16,
    },
    /// A worker whose CPU works for no bucket.
    #[error("no bucket of the server is on CPU {cpu}: give the CPUs of its steering document with --cpus")]
    NoBucketOnCpu {
        /// The CPU.
        cpu: u32,
    },
    /// The route to the target.
    #[error("no route to {target}: {error}")]
    Route {
        /// The target.
        target: SocketAddr,
        /// What the kernel said.
        error: std::io::Error,
    },
    /// The ports cannot be planned.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

impl SourceRequest<'_> {
    /// Leases for every worker, in the order of `cpus`.
    ///
    /// # Errors
    /// When the sources do not suffice, or do not reach where they shall, see [`SourceError`].
    pub fn plan(&self) -> Result<Vec<WorkerSources>, SourceError> {
        let addresses = self.addresses()?;
        match self.align {
            Align::Kernel => self.spread(&addresses),
            Align::Even | Align::Bucket => aligned::plan(self, &addresses),
        }
    }

    /// Addresses to connect from, in the order of the pool.
    fn addresses(&self) -> Result<Vec<IpAddr>, SourceError> {
        let target = self.target.ip();
        if let Some(pool) = self.pool {
            let most = self.connections.clamp(1, MOST_ADDRESSES);
            let addresses: Vec<IpAddr> = pool.addresses_like(target).take(most).collect();
            if addresses.is_empty() {
                let pool = pool.to_string();
                return Err(SourceError::EmptyPool { pool, target });
            }
            return Ok(addresses);
        }
        // Every address of 127.0.0.0/8 is this machine's: more of them cost nothing.
        let needed = self.connections.div_ceil(CONNECTIONS_AN_ADDRESS);
        if needed > 1 && matches!(target, IpAddr::V4(target) if target.is_loopback()) {
            let first = u32::from(Ipv4Addr::new(127, 1, 0, 1));
            let address = |index: usize| Ipv4Addr::from(first + index as u32).into();
            return Ok((0..needed).map(address).collect());
        }
        route(self.target).map(|address| vec![address])
    }

    /// Connections in order over the addresses in order, so that every address has the same number of them, give or take
    /// one, and few workers share one.
    fn spread(&self, addresses: &[IpAddr]) -> Result<Vec<WorkerSources>, SourceError> {
        check_ports(self.connections, addresses.len())?;
        let kernel = self.connections.div_ceil(addresses.len()) <= MOST_KERNEL_PORTS;
        let mut workers: Vec<WorkerSources> = self.cpus.iter().map(|cpu| empty(*cpu, None)).collect();
        let mut free = shares(self.connections, workers.len()).collect::<Vec<_>>();
        let mut worker = 0;
        for (address, mut connections) in addresses.iter().zip(shares(self.connections, addresses.len())) {
            let mut ports = Cutter::new(connections);
            while connections > 0 {
                while free[worker] == 0 {
                    worker += 1;
                }
                let taken = connections.min(free[worker]);
                free[worker] -= taken;
                connections -= taken;
                let ports = if kernel {
                    LeasedPorts::Kernel
                } else {
                    ports.cut(taken)
                };
                // To a wildcard the kernel chooses the address with the route.
                let address = match self.pool {
                    None if kernel => unspecified(self.target.ip()),
                    _ => *address,
                };
                workers[worker].leases.push(Lease {
                    address,
                    ports,
                    connections: taken,
                });
            }
        }
        Ok(workers)
    }
}

/// Cuts the ports of one address into ranges, each as much wider than its connections as all of them are.
struct Cutter {
    connections: usize,
    cut: usize,
}

impl Cutter {
    const PORTS: usize = (LAST_PORT - FIRST_PORT) as usize + 1;

    fn new(connections: usize) -> Self {
        Self { connections, cut: 0 }
    }

    fn cut(&mut self, connections: usize) -> LeasedPorts {
        let place = |cut: usize| cut * Self::PORTS / self.connections;
        let (first, end) = (place(self.cut), place(self.cut + connections));
        self.cut += connections;
        LeasedPorts::Range {
            first: FIRST_PORT + first as u16,
            last: FIRST_PORT + (end - 1) as u16,
        }
    }
}

fn check_ports(connections: usize, addresses: usize) -> Result<(), SourceError> {
    let needed = connections.div_ceil(CONNECTIONS_AN_ADDRESS);
    if needed <= addresses {
        return Ok(());
    }
    Err(SourceError::Ports {
        connections,
        needed,
        addresses,
    })
}

fn empty(cpu: u32, bucket: Option<u16>) -> WorkerSources {
    WorkerSources {
        cpu,
        bucket,
        leases: Vec::new(),
    }
}

fn unspecified(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// The address that the routing table chooses for packets to the target. Nothing is sent.
fn route(target: SocketAddr) -> Result<IpAddr, SourceError> {
    let local = || -> std::io::Result<SocketAddr> {
        let socket = UdpSocket::bind(SocketAddr::new(unspecified(target.ip()), 0))?;
        socket.connect(target)?;
        socket.local_addr()
    };
    local()
        .map(|local| local.ip())
        .map_err(|error| SourceError::Route { target, error })
}

/// The CPU of each worker: as many as asked for, or as descriptor tables are needed, in which case each worker gets one
/// of its own.
pub(crate) fn fit_descriptors(cpus: &[u32], connections: usize, limit: usize) -> (Vec<u32>, bool) {
    let room = limit.saturating_sub(OTHER_DESCRIPTORS).max(1);
    if connections <= room {
        return (cpus.to_vec(), false);
    }
    // A multiple of the CPUs, so that each has the same number of workers.
    let tables = connections.div_ceil(room).next_multiple_of(cpus.len());
    let workers = tables.max(cpus.len());
    (cpus.iter().copied().cycle().take(workers).collect(), true)
}

/// `total` split into `parts` that differ by at most one.
pub(crate) fn shares(total: usize, parts: usize) -> impl Iterator<Item = usize> {
    (0..parts).map(move |index| total / parts + usize::from(index < total % parts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn request<'a>(pool: Option<&'a Pool>, connections: usize, cpus: &'a [u32]) -> SourceRequest<'a> {
        SourceRequest {
            target: "127.0.0.1:8080".parse().unwrap(),
            pool,
            connections,
            cpus,
            align: Align::Kernel,
            steering: None,
            buckets: None,
        }
    }

    /// Every address and port that is leased, each at most once.
    fn leased(workers: &[WorkerSources]) -> HashSet<(IpAddr, u16)> {
        let mut seen = HashSet::new();
        for lease in workers.iter().flat_map(|worker| &worker.leases) {
            let ports: Vec<u16> = match &lease.ports {
                LeasedPorts::Kernel => continue,
                LeasedPorts::Range { first, last } => (*first..=*last).collect(),
                LeasedPorts::Listed(ports) => ports.clone(),
            };
            assert!(ports.len() >= lease.connections, "{lease:?}");
            for port in ports {
                assert!(
                    seen.insert((lease.address, port)),
                    "{} {port} twice",
                    lease.address
                );
            }
        }
        seen
    }

    fn connections(workers: &[WorkerSources]) -> Vec<usize> {
        let of = |worker: &WorkerSources| worker.leases.iter().map(|lease| lease.connections).sum();
        workers.iter().map(of).collect()
    }

    #[test]
    fn few_connections_leave_address_and_port_to_the_kernel() {
        let workers = request(None, 5, &[0, 1]).plan().unwrap();
        assert_eq!(connections(&workers), [3, 2]);
        let lease = &workers[0].leases[0];
        assert_eq!(
            (lease.address.is_unspecified(), &lease.ports),
            (true, &LeasedPorts::Kernel)
        );
    }

    #[test]
    fn a_million_connections_share_no_source() {
        let cpus: Vec<u32> = (0..56).map(|worker| worker % 2).collect();
        for pool in [None, Some("10.100.0.0/24".parse::<Pool>().unwrap())] {
            let workers = request(pool.as_ref(), 1_000_000, &cpus).plan().unwrap();
            assert_eq!(connections(&workers).iter().sum::<usize>(), 1_000_000);
            assert!(
                connections(&workers)
                    .iter()
                    .all(|count| count.abs_diff(17_857) <= 1)
            );
            let ports = leased(&workers);
            if pool.is_none() {
                assert!(ports.len() >= 1_000_000);
                assert!(ports.iter().all(|(address, _)| address.is_loopback()));
            }
        }
    }

    #[test]
    fn every_address_of_a_pool_is_used_when_there_are_connections_for_it() {
        let pool: Pool = "10.0.0.0/24".parse().unwrap();
        let workers = request(Some(&pool), 1_000, &[0, 1, 0]).plan().unwrap();
        let used: HashSet<IpAddr> = workers
            .iter()
            .flat_map(|worker| &worker.leases)
            .map(|lease| lease.address)
            .collect();
        assert_eq!(used.len(), 254);
        assert_eq!(connections(&workers).iter().sum::<usize>(), 1_000);
    }

    #[test]
    fn too_few_addresses_are_refused_with_the_number_needed() {
        let pool: Pool = "10.0.0.1-10.0.0.3".parse().unwrap();
        let error = request(Some(&pool), 1_000_000, &[0])
            .plan()
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("need 17 source addresses, and there are 3"),
            "{error}"
        );
        let other: Pool = "2001:db8::/64".parse().unwrap();
        let error = request(Some(&other), 1, &[0]).plan().unwrap_err().to_string();
        assert!(error.contains("no address of 127.0.0.1's family"), "{error}");
    }
}
