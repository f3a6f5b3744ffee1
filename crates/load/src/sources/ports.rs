//! The ports of one worker at run time: selects the source of the next connection, and tracks when a port may be
//! reused.
//!
//! In: leases, ends of connections, the time. Out: sources. A port whose connection this side closed first stays in
//! TIME_WAIT and is not offered until that ends.

use super::Lease;
use corelane_worker::Time;
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

/// The ports of one worker.
pub struct PortPool {
    leases: Vec<Leased>,
    /// The next lease to try.
    cursor: usize,
}

struct Leased {
    address: IpAddr,
    /// Further connections allowed at this time.
    room: usize,
    /// Ports never used; 0 each time if the kernel chooses.
    fresh: Box<dyn Iterator<Item = u16> + Send>,
    /// Used ports that are free, least recently freed first.
    free: VecDeque<u16>,
    /// Ports in TIME_WAIT, with the time at which they are free.
    resting: VecDeque<(Time, u16)>,
}

/// State of a port after its connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// The peer closed first, or the connection was reset or never opened: free at once.
    Free,
    /// This side closed first: in TIME_WAIT.
    Rests,
    /// Another socket holds it.
    Taken,
}

impl PortPool {
    /// The pool of these leases.
    #[must_use]
    pub fn new(leases: &[Lease]) -> Self {
        let leased = |lease: &Lease| Leased {
            address: lease.address,
            room: lease.connections,
            fresh: lease.clone().into_ports(),
            free: VecDeque::new(),
            resting: VecDeque::new(),
        };
        Self {
            leases: leases.iter().map(leased).collect(),
            cursor: 0,
        }
    }

    /// A source without an open connection; `None` if all are in use or in TIME_WAIT.
    pub fn take(&mut self, now: Time) -> Option<Source> {
        for _ in 0..self.leases.len() {
            let lease = self.cursor;
            self.cursor = (lease + 1) % self.leases.len();
            let leased = &mut self.leases[lease];
            if leased.room == 0 {
                continue;
            }
            if let Some(port) = leased.take(now) {
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
        let address = self.leases[source.lease as usize].address;
        (source.port != 0 || !address.is_unspecified()).then(|| SocketAddr::new(address, source.port))
    }

    /// Releases a source.
    pub fn release(&mut self, source: Source, how: Release, now: Time) {
        let leased = &mut self.leases[source.lease as usize];
        leased.room += 1;
        match how {
            _ if source.port == 0 => {}
            Release::Free => leased.free.push_back(source.port),
            Release::Rests | Release::Taken => leased.resting.push_back((now + TIME_WAIT, source.port)),
        }
    }

    /// When the first port leaves TIME_WAIT.
    #[must_use]
    pub fn next_free(&self) -> Option<Time> {
        let resting = self.leases.iter().filter_map(|leased| leased.resting.front());
        resting.map(|(until, _)| *until).min()
    }
}

impl Leased {
    fn take(&mut self, now: Time) -> Option<u16> {
        self.fresh.next().or_else(|| {
            while let Some((until, port)) = self.resting.front().copied()
                && until <= now
            {
                self.resting.pop_front();
                self.free.push_back(port);
            }
            self.free.pop_front()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::Ports;

    fn pool(ports: Ports, connections: usize) -> PortPool {
        let address = "10.0.0.1".parse().unwrap();
        PortPool::new(&[Lease {
            address,
            ports,
            connections,
        }])
    }

    #[test]
    fn a_port_that_rests_is_not_offered_before_its_time() {
        let mut pool = pool(Ports::Listed(vec![7, 9]), 2);
        let start = Time::from_nanoseconds(0);
        let (seven, nine) = (pool.take(start).unwrap(), pool.take(start).unwrap());
        assert_eq!(pool.address(seven).unwrap().port(), 7);
        assert_eq!(pool.take(start), None);
        pool.release(seven, Release::Rests, start);
        assert_eq!(pool.take(start), None);
        assert_eq!(pool.next_free(), Some(start + TIME_WAIT));
        pool.release(nine, Release::Free, start);
        assert_eq!(pool.take(start), Some(nine));
        assert_eq!(pool.take(start + TIME_WAIT), Some(seven));
    }

    #[test]
    fn a_lease_opens_no_more_at_a_time_than_planned_but_has_more_ports() {
        let mut pool = pool(
            Ports::Range {
                first: 65_533,
                last: 65_535,
            },
            1,
        );
        let now = Time::from_nanoseconds(0);
        for port in [65_533, 65_534, 65_535] {
            let source = pool.take(now).unwrap();
            assert_eq!(pool.address(source).unwrap().port(), port);
            assert_eq!(pool.take(now), None);
            pool.release(source, Release::Taken, now);
        }
        assert_eq!(pool.take(now), None);
    }

    #[test]
    fn the_kernel_chooses_ports_as_often_as_it_likes() {
        let mut pool = PortPool::new(&[Lease {
            address: "0.0.0.0".parse().unwrap(),
            ports: Ports::Kernel,
            connections: 1,
        }]);
        let now = Time::from_nanoseconds(0);
        for _ in 0..3 {
            let source = pool.take(now).unwrap();
            assert_eq!(pool.address(source), None);
            pool.release(source, Release::Rests, now);
        }
    }
}
