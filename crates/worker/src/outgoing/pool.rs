//! The ports of one worker at run time: selects the source of the next connection, and tracks when a port may be
//! reused.
//!
//! In: leases, servers, ends of connections, the time. Out: sources. A port whose connection this side closed first
//! stays in TIME_WAIT and is not offered until that ends.

use super::Lease;
use crate::Time;
use corelane_rss::{Bucket, Steerer, Steering, Tuple, same_address};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Duration of TIME_WAIT on Linux (`TCP_TIMEWAIT_LEN`).
const TIME_WAIT: Duration = Duration::from_secs(60);

/// The source of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    lease: u32,
    port: u16,
}

impl Source {
    /// The index of its lease.
    #[must_use]
    pub fn lease(&self) -> usize {
        self.lease as usize
    }
}

/// The ports of one worker.
pub struct PortPool {
    leases: Vec<Leased>,
    /// The next lease to try.
    cursor: usize,
    /// Which ports are offered for a server; `None`: all.
    aligned: Option<Aligned>,
}

struct Leased {
    address: IpAddr,
    /// Further connections allowed at this time.
    room: usize,
    /// Ports by what they contribute to the hash; one class if the pool is not aligned.
    classes: Vec<Class>,
}

#[derive(Default)]
struct Class {
    /// Ports never used; 0 each time if the kernel chooses.
    fresh: Option<Box<dyn Iterator<Item = u16> + Send>>,
    /// Used ports that are free, least recently freed first.
    free: VecDeque<u16>,
    /// Ports in TIME_WAIT, with the time at which they are free.
    resting: VecDeque<(Time, u16)>,
}

/// Offers only ports to which replies are steered to certain buckets.
struct Aligned {
    steerer: Steerer,
    /// The bits of the hash that index the table.
    mask: u32,
    /// The entries that name the buckets.
    entries: Vec<u32>,
    /// The entry to try first, so that all of them are used.
    first: usize,
}

/// State of a port after its connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// The peer closed first, or the connection was reset or never opened: free at once.
    Free,
    /// This side closed first: in TIME_WAIT.
    Rests,
    /// Another socket holds it, for an unknown time: it is offered again when a port in TIME_WAIT would be.
    Taken,
}

impl PortPool {
    /// The pool of these leases.
    #[must_use]
    pub fn new(leases: &[Lease]) -> Self {
        let leased = |lease: &Lease| Leased {
            address: lease.address,
            room: lease.connections,
            classes: vec![Class {
                fresh: Some(lease.clone().into_ports()),
                ..Class::default()
            }],
        };
        Self {
            leases: leases.iter().map(leased).collect(),
            cursor: 0,
            aligned: None,
        }
    }

    /// The pool of these leases that offers a port only if replies to it are steered to one of `buckets`. Leases whose
    /// address or ports the kernel chooses offer none, because the hash is not known before; nor does any lease if other
    /// than low bits of the hash select the bucket.
    #[must_use]
    pub fn aligned(leases: &[Lease], steering: &Steering, buckets: &[Bucket]) -> Self {
        let low_bits = steering.table.low_bits();
        let mask = (1 << low_bits.unwrap_or(0)) - 1;
        let period = (0..).zip(steering.table.period());
        let entries = period.filter(|(_, bucket)| low_bits.is_some() && buckets.contains(bucket));
        let aligned = Aligned {
            steerer: steering.steerer(),
            mask,
            entries: entries.map(|(entry, _)| entry).collect(),
            first: 0,
        };
        let leased = |lease: &Lease| {
            let mut classes: Vec<Class> = (0..=mask).map(|_| Class::default()).collect();
            let planned = lease.ports != super::Ports::Kernel && !lease.address.is_unspecified();
            for port in planned.then(|| lease.clone().into_ports()).into_iter().flatten() {
                let class = aligned.class(lease.address, port);
                classes[class].free.push_back(port);
            }
            Leased {
                address: lease.address,
                room: lease.connections,
                classes,
            }
        };
        Self {
            leases: leases.iter().map(leased).collect(),
            cursor: 0,
            aligned: Some(aligned),
        }
    }

    /// A source of a connection to `to` that no open connection has; `None` if all are in use or in TIME_WAIT.
    pub fn take(&mut self, to: SocketAddr, now: Time) -> Option<Source> {
        for _ in 0..self.leases.len() {
            let lease = self.cursor;
            self.cursor = (lease + 1) % self.leases.len();
            let leased = &mut self.leases[lease];
            if leased.room == 0 || leased.address.is_ipv4() != to.is_ipv4() {
                continue;
            }
            // Both ends of such a connection would be the same. Port 0 is the kernel's choice, never that of a server.
            let own = same_address(leased.address, to.ip()).then_some(to.port());
            let own = own.filter(|port| *port != 0);
            let port = match &mut self.aligned {
                None => leased.classes[0].take(own, now),
                Some(aligned) => {
                    let mut classes = aligned.classes(leased.address, to);
                    classes.find_map(|class| leased.classes[class].take(own, now))
                }
            };
            if let Some(port) = port {
                leased.room -= 1;
                let lease = lease as u32;
                return Some(Source { lease, port });
            }
        }
        None
    }

    /// The address to bind for this source; `None`: address and port are chosen by the kernel.
    #[must_use]
    pub fn address(&self, source: Source) -> Option<SocketAddr> {
        let address = self.leases[source.lease()].address;
        (source.port != 0 || !address.is_unspecified()).then(|| SocketAddr::new(address, source.port))
    }

    /// Releases a source.
    pub fn release(&mut self, source: Source, how: Release, now: Time) {
        let leased = &mut self.leases[source.lease()];
        leased.room += 1;
        let class = match &self.aligned {
            Some(aligned) => aligned.class(leased.address, source.port),
            None => 0,
        };
        let class = &mut leased.classes[class];
        match how {
            _ if source.port == 0 => {}
            Release::Free => class.free.push_back(source.port),
            Release::Rests | Release::Taken => class.resting.push_back((now + TIME_WAIT, source.port)),
        }
    }

    /// Whether the port of a source may rest: as many unused ones are left as its lease may open connections without it.
    #[must_use]
    pub fn may_rest(&self, source: Source) -> bool {
        let leased = &self.leases[source.lease()];
        let unused = leased.classes.iter().map(Class::unused);
        unused.fold(0, usize::saturating_add) > leased.room
    }

    /// When the first port leaves TIME_WAIT.
    #[must_use]
    pub fn next_free(&self) -> Option<Time> {
        let classes = self.leases.iter().flat_map(|leased| &leased.classes);
        classes
            .filter_map(|class| class.resting.front())
            .map(|(until, _)| *until)
            .min()
    }
}

impl Class {
    /// Ports that are neither used nor rest.
    fn unused(&self) -> usize {
        let fresh = self.fresh.as_ref().map_or(0, |fresh| fresh.size_hint().0);
        fresh.saturating_add(self.free.len())
    }

    /// A free port other than `own`.
    fn take(&mut self, own: Option<u16>, now: Time) -> Option<u16> {
        let usable = |port: &u16| Some(*port) != own;
        while let Some(port) = self.fresh.as_mut().and_then(Iterator::next) {
            match usable(&port) {
                true => return Some(port),
                // Other servers are reached from it.
                false => self.free.push_back(port),
            }
        }
        while let Some((until, port)) = self.resting.front().copied()
            && until <= now
        {
            self.resting.pop_front();
            self.free.push_back(port);
        }
        let place = self.free.iter().position(usable)?;
        self.free.remove(place)
    }
}

impl Aligned {
    /// The class of a port: what it contributes to the hash of replies.
    fn class(&self, address: IpAddr, port: u16) -> usize {
        let v4 = address.to_canonical().is_ipv4();
        (self.steerer.of_ports(0, port, v4) & self.mask) as usize
    }

    /// The classes whose ports, at this address, replies from a server reach in one of the buckets.
    fn classes(&mut self, address: IpAddr, to: SocketAddr) -> impl Iterator<Item = usize> {
        let reply = Tuple::new(to, SocketAddr::new(address, 0)).ok();
        let base = reply.map(|reply| self.steerer.hash_of(&reply) & self.mask);
        self.first = (self.first + 1) % self.entries.len().max(1);
        let (from, before) = (&self.entries[self.first..], &self.entries[..self.first]);
        let entries = from.iter().chain(before);
        base.into_iter()
            .flat_map(move |base| entries.clone().map(move |entry| (entry ^ base) as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outgoing::Ports;
    use corelane_rss::plan::Landing;

    const SERVER: &str = "10.0.0.9:80";

    fn pool(ports: Ports, connections: usize) -> PortPool {
        let address = "10.0.0.1".parse().unwrap();
        PortPool::new(&[Lease {
            address,
            ports,
            connections,
            landing: Landing::default(),
        }])
    }

    #[test]
    fn a_port_that_rests_is_not_offered_before_its_time() {
        let (mut pool, server) = (pool(Ports::Listed(vec![7, 9]), 2), SERVER.parse().unwrap());
        let start = Time::from_nanoseconds(0);
        let mut take = || pool.take(server, start).unwrap();
        let (seven, nine) = (take(), take());
        assert_eq!(pool.address(seven).unwrap().port(), 7);
        assert_eq!(pool.take(server, start), None);
        pool.release(seven, Release::Rests, start);
        assert_eq!(pool.take(server, start), None);
        assert_eq!(pool.next_free(), Some(start + TIME_WAIT));
        pool.release(nine, Release::Free, start);
        assert_eq!(pool.take(server, start), Some(nine));
        assert_eq!(pool.take(server, start + TIME_WAIT), Some(seven));
    }

    #[test]
    fn a_port_may_rest_while_another_is_left_for_each_connection() {
        let (mut pool, server) = (pool(Ports::Listed(vec![7, 8, 9]), 2), SERVER.parse().unwrap());
        let now = Time::from_nanoseconds(0);
        let first = pool.take(server, now).unwrap();
        assert!(
            pool.may_rest(first),
            "two ports for the other connection and the next"
        );
        let second = pool.take(server, now).unwrap();
        assert!(pool.may_rest(second));
        pool.release(first, Release::Rests, now);
        assert!(
            !pool.may_rest(second),
            "one port for the next connection, none for the one after"
        );
        pool.release(second, Release::Free, now);
        let third = pool.take(server, now).unwrap();
        assert!(!pool.may_rest(third));
        let mut kernel = self::pool(Ports::Kernel, 1);
        let any = kernel.take(server, now).unwrap();
        assert!(kernel.may_rest(any));
    }

    #[test]
    fn a_lease_opens_no_more_at_a_time_than_planned_but_has_more_ports() {
        let range = Ports::Range {
            first: 65_533,
            last: 65_535,
        };
        let (mut pool, server) = (pool(range, 1), SERVER.parse().unwrap());
        let now = Time::from_nanoseconds(0);
        for port in [65_533, 65_534, 65_535] {
            let source = pool.take(server, now).unwrap();
            assert_eq!(pool.address(source).unwrap().port(), port);
            assert_eq!(pool.take(server, now), None);
            pool.release(source, Release::Taken, now);
        }
        assert_eq!(pool.take(server, now), None);
    }

    #[test]
    fn the_kernel_chooses_ports_as_often_as_it_likes() {
        let mut pool = PortPool::new(&[Lease {
            address: "0.0.0.0".parse().unwrap(),
            ports: Ports::Kernel,
            connections: 1,
            landing: Landing::default(),
        }]);
        let now = Time::from_nanoseconds(0);
        for _ in 0..3 {
            let source = pool.take(SERVER.parse().unwrap(), now).unwrap();
            assert_eq!(pool.address(source), None);
            pool.release(source, Release::Rests, now);
        }
    }

    #[test]
    fn a_server_on_the_same_address_is_never_reached_from_its_own_port() {
        let mut pool = pool(Ports::Listed(vec![79, 80, 81]), 3);
        let (own, now) = ("10.0.0.1:80".parse().unwrap(), Time::from_nanoseconds(0));
        let ports = std::iter::from_fn(|| {
            let source = pool.take(own, now)?;
            pool.address(source).map(|address| address.port())
        });
        assert_eq!(ports.collect::<Vec<_>>(), [79, 81]);
        // The port that was skipped serves another server.
        let source = pool.take(SERVER.parse().unwrap(), now).unwrap();
        assert_eq!(pool.address(source).unwrap().port(), 80);
    }

    #[test]
    fn port_0_of_the_same_address_is_no_port_to_avoid() {
        let (target, now) = ("10.0.0.1:0".parse().unwrap(), Time::from_nanoseconds(0));
        assert!(pool(Ports::Kernel, 1).take(target, now).is_some());
        assert!(pool(Ports::Listed(vec![7]), 1).take(target, now).is_some());
    }
}
