//! Sources of UDP sockets and TCP connections: takes a request and the workers, returns leases, each for one worker.
//! Workers never request ports from each other at run time.
//!
//! A flow is identified by both ends' addresses and ports, so one address has at most 64,512 flows to one server (ports
//! 1,024 to 65,535). Larger plans need more addresses; the error says how many.

mod aligned;
mod request;
mod shared;
mod workers;

pub use corelane_worker::group::Transport;
pub use corelane_worker::outgoing::{FIRST_PORT, LAST_PORT, Lease, Ports};
pub(crate) use request::FlowDirection;
pub use request::{Align, AlignBy, SourceError, SourceRequest};
pub use shared::SOCKETS_AN_ADDRESS;
pub(crate) use shared::shares;
#[cfg(test)]
pub(crate) use workers::OTHER_DESCRIPTORS;
pub(crate) use workers::Workers;
pub use workers::{PlannedWorker, ReplySteering, Steerings, WorkerRequest};

use corelane_rss::plan::Landing;
use corelane_worker::engine::Remote;
use shared::{MOST_KERNEL_PORTS, Shared};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Maximum number of pool addresses considered: an IPv6 prefix can hold more than can be tried.
const MOST_ADDRESSES: usize = 1 << 20;

/// Loopback addresses considered where the target hashes addresses only: some 16 for each bucket of the largest table.
const LOOPBACK_TRIED: usize = 1 << 16;

impl SourceRequest {
    /// The workers of a generator with their leases; workers without sources are omitted. With [`Align::Bucket`] there is
    /// one worker per bucket for UDP, whose sockets keep their ports; for TCP a worker connects to all buckets on its CPU,
    /// and the ports of connections that are reopened may be in TIME_WAIT.
    ///
    /// # Errors
    /// If the sources do not suffice, or do not reach the required buckets, see [`SourceError`].
    pub fn plan(
        &self,
        request: &WorkerRequest,
        transport: Transport,
    ) -> Result<Vec<PlannedWorker>, SourceError> {
        self.plan_all(&[], request, transport)
    }

    /// As [`plan`](Self::plan), with the sockets shared evenly by the target and these further addresses of its server.
    ///
    /// # Errors
    /// As `plan`.
    pub fn plan_all(
        &self,
        others: &[SocketAddr],
        request: &WorkerRequest,
        transport: Transport,
    ) -> Result<Vec<PlannedWorker>, SourceError> {
        if let Some(target) = self.target.address() {
            if target.port() == 0 {
                return Err(SourceError::TargetPort);
            }
            if transport == Transport::Udp
                && let Err(refused @ SourceError::Broadcast { .. }) = route(target)
            {
                return Err(refused);
            }
        }
        let per_bucket = match self.align {
            Align::Owner => true,
            Align::Bucket => transport == Transport::Udp,
            Align::Even | Align::Kernel => false,
        };
        let workers = request.place(self.sockets, per_bucket, self.by)?;
        let mut planned = workers.planned(self.align, self.by)?;
        let mut shares = shares(self.sockets, 1 + others.len());
        let mut leases = |target: Remote| {
            let sockets = shares.next().unwrap_or(0);
            let part = SourceRequest {
                target,
                sockets,
                ..self.clone()
            };
            part.leases(&workers, transport)
        };
        for (worker, leases) in planned.iter_mut().zip(leases(self.target.clone())?) {
            worker.leases = leases;
        }
        for other in others {
            for (worker, leases) in planned.iter_mut().zip(leases((*other).into())?) {
                worker.others.push(leases);
            }
        }
        planned.retain(|worker| worker.sockets() > 0);
        Ok(planned)
    }

    /// The leases of every worker.
    pub(crate) fn leases(
        &self,
        workers: &Workers<'_>,
        transport: Transport,
    ) -> Result<Vec<Vec<Lease>>, SourceError> {
        let kernel = self.align == Align::Kernel;
        let Some(target) = self.target.address() else {
            return match kernel && self.pool.is_none() {
                true => Ok(shares(self.sockets, workers.count()).map(portless).collect()),
                false => Err(SourceError::Unix {
                    target: self.target.clone(),
                }),
            };
        };
        // If the kernel chooses the ports, the routing table may choose the address.
        if kernel && self.pool.is_none() && self.sockets <= MOST_KERNEL_PORTS {
            return self.spread(&[unspecified(target.ip())], workers.count());
        }
        let by_address = !kernel && workers.hash_addresses_alone(self.by)?;
        let most = if by_address { MOST_ADDRESSES } else { self.sockets };
        let addresses = self.addresses(target, most.clamp(1, MOST_ADDRESSES), by_address)?;
        if kernel {
            self.spread(&addresses, workers.count())
        } else {
            aligned::plan((self, target), workers, transport, &addresses)
        }
    }

    /// At most `most` addresses to connect from, in the order of the pool; `by_address` if they select the bucket.
    fn addresses(&self, to: SocketAddr, most: usize, by_address: bool) -> Result<Vec<IpAddr>, SourceError> {
        let target = to.ip();
        if let Some(pool) = &self.pool {
            // On loopback a host may connect from the target address itself.
            let usable = pool
                .addresses_like(target)
                .filter(|address| *address != target || target.is_loopback());
            let addresses: Vec<IpAddr> = usable.take(most).collect();
            if addresses.is_empty() {
                let pool_text = pool.to_string();
                return Err(match pool.addresses_like(target).next() {
                    Some(_) => SourceError::OnlyTarget { target },
                    None => SourceError::EmptyPool {
                        pool: pool_text,
                        target,
                    },
                });
            }
            return Ok(addresses);
        }
        // All of 127.0.0.0/8 is local, so additional addresses are free. With `by_address` they select the bucket.
        let needed = match by_address {
            true => LOOPBACK_TRIED,
            false => self.sockets.div_ceil(SOCKETS_AN_ADDRESS),
        };
        if needed > 1 && matches!(target, IpAddr::V4(target) if target.is_loopback()) {
            let first = u32::from(Ipv4Addr::new(127, 1, 0, 1));
            let address = |index: usize| Ipv4Addr::from(first + index as u32).into();
            return Ok((0..needed).map(address).collect());
        }
        route(to).map(|address| vec![address])
    }

    /// Distributes the sockets over the addresses in order, evenly to within one, so that few workers share an address.
    fn spread(&self, addresses: &[IpAddr], workers: usize) -> Result<Vec<Vec<Lease>>, SourceError> {
        let needed = self.sockets.div_ceil(SOCKETS_AN_ADDRESS);
        if needed > addresses.len() {
            return Err(self.too_many(needed, addresses.len()));
        }
        let mut shared = Shared::new(addresses, self.sockets, true, Landing::default());
        let shares = shares(self.sockets, workers);
        Ok(shares.map(|sockets| shared.take(sockets)).collect())
    }
}

/// The lease of so many connections to a Unix socket.
fn portless(connections: usize) -> Vec<Lease> {
    vec![Lease {
        address: Ipv4Addr::UNSPECIFIED.into(),
        ports: Ports::None,
        connections,
        landing: Landing::default(),
    }]
}

fn unspecified(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// The source address that the routing table selects for the target. Sends nothing.
fn route(target: SocketAddr) -> Result<IpAddr, SourceError> {
    let local = || -> io::Result<SocketAddr> {
        let socket = UdpSocket::bind(SocketAddr::new(unspecified(target.ip()), 0))?;
        socket.connect(target)?;
        socket.local_addr()
    };
    local()
        .map(|local| local.ip())
        .map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => SourceError::Broadcast { target },
            _ => SourceError::Route { target, error },
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    type Planned = Result<Vec<PlannedWorker>, SourceError>;

    fn plan(pool: Option<&str>, sockets: usize, cpus: &[u32]) -> Planned {
        plan_to("127.0.0.1:8080", pool, sockets, cpus)
    }

    fn plan_to(target: &str, pool: Option<&str>, sockets: usize, cpus: &[u32]) -> Planned {
        let request = SourceRequest {
            target: target.parse().unwrap(),
            pool: pool.map(|pool| pool.parse().unwrap()),
            align: Align::Kernel,
            by: AlignBy::Forward,
            sockets,
        };
        let workers = WorkerRequest {
            steering: Steerings::default(),
            buckets: None,
            cpus: cpus.to_vec(),
            descriptor_limit: usize::MAX,
        };
        request.plan(&workers, Transport::Tcp)
    }

    /// Every leased address and port; asserts that each occurs at most once.
    fn leased(workers: &[PlannedWorker]) -> HashSet<(IpAddr, u16)> {
        let mut seen = HashSet::new();
        for lease in workers.iter().flat_map(|worker| &worker.leases) {
            let ports: Vec<u16> = match &lease.ports {
                Ports::Kernel | Ports::None => continue,
                Ports::Range { first, last } => (*first..=*last).collect(),
                Ports::Listed(ports) => ports.clone(),
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

    fn connections(workers: &[PlannedWorker]) -> Vec<usize> {
        workers.iter().map(PlannedWorker::sockets).collect()
    }

    #[test]
    fn few_connections_leave_address_and_port_to_the_kernel() {
        let workers = plan(None, 5, &[0, 1]).unwrap();
        assert_eq!(connections(&workers), [3, 2]);
        let lease = &workers[0].leases[0];
        assert_eq!(
            (lease.address.is_unspecified(), &lease.ports),
            (true, &Ports::Kernel)
        );
    }

    #[test]
    fn a_million_connections_share_no_source() {
        let cpus: Vec<u32> = (0..56).map(|worker| worker % 2).collect();
        for pool in [None, Some("10.100.0.0/24")] {
            let workers = plan(pool, 1_000_000, &cpus).unwrap();
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
        let workers = plan(Some("10.0.0.0/24"), 1_000, &[0, 1, 0]).unwrap();
        let used: HashSet<IpAddr> = workers
            .iter()
            .flat_map(|worker| &worker.leases)
            .map(|lease| lease.address)
            .collect();
        assert_eq!(used.len(), 254);
        assert_eq!(connections(&workers).iter().sum::<usize>(), 1_000);
    }

    #[test]
    fn a_target_without_a_port_is_refused() {
        let error = plan_to("127.0.0.1:0", Some("127.0.0.1"), 1, &[0]).unwrap_err();
        assert!(matches!(error, SourceError::TargetPort), "{error}");
    }

    #[test]
    fn too_few_addresses_are_refused_with_the_number_needed() {
        let error = plan(Some("10.0.0.1-10.0.0.3"), 1_000_000, &[0])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("need 17 source addresses, and there are 3"),
            "{error}"
        );
        let error = plan(Some("2001:db8::/64"), 1, &[0]).unwrap_err().to_string();
        assert!(error.contains("no address of the family of 127.0.0.1"), "{error}");
    }
}
