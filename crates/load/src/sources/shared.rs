//! Addresses whose ports several workers share.

use corelane_rss::plan::Landing;
use corelane_worker::outgoing::{FIRST_PORT, LAST_PORT, Lease, Ports};
use std::net::IpAddr;

/// Sockets per address planned with explicit ports. The remaining ports serve reopened connections, and replace ports
/// that other sockets hold.
pub const SOCKETS_AN_ADDRESS: usize = 60_000;

/// Sockets per address with ports chosen by the kernel: its default range has 28,232, and the search slows down as it
/// fills.
pub(super) const MOST_KERNEL_PORTS: usize = 16_384;

/// Addresses shared by several workers in turn; evenly loaded to within one socket.
pub(super) struct Shared {
    addresses: Vec<SharedAddress>,
    current: usize,
    /// Whether the kernel chooses the ports.
    kernel: bool,
    landing: Landing,
}

struct SharedAddress {
    address: IpAddr,
    sockets: usize,
    taken: usize,
}

impl Shared {
    /// Addresses for this many sockets; the kernel chooses their ports if allowed and efficient.
    pub(super) fn new(addresses: &[IpAddr], sockets: usize, kernel: bool, landing: Landing) -> Self {
        let shared = addresses.iter().zip(shares(sockets, addresses.len()));
        let shared = shared.map(|(address, sockets)| SharedAddress {
            address: *address,
            sockets,
            taken: 0,
        });
        Self {
            kernel: kernel && sockets.div_ceil(addresses.len()) <= MOST_KERNEL_PORTS,
            addresses: shared.collect(),
            current: 0,
            landing,
        }
    }

    /// The sources of the next worker's sockets.
    pub(super) fn take(&mut self, mut sockets: usize) -> Vec<Lease> {
        let mut leases = Vec::new();
        while sockets > 0 {
            let from = &mut self.addresses[self.current];
            let connections = sockets.min(from.sockets - from.taken);
            if connections == 0 {
                self.current += 1;
                continue;
            }
            leases.push(Lease {
                address: from.address,
                ports: if self.kernel {
                    Ports::Kernel
                } else {
                    from.range(connections)
                },
                connections,
                landing: self.landing,
            });
            from.taken += connections;
            sockets -= connections;
        }
        leases
    }
}

impl SharedAddress {
    /// The ports of the next sockets: spare ports are distributed in proportion.
    fn range(&self, sockets: usize) -> Ports {
        let ports = usize::from(LAST_PORT - FIRST_PORT) + 1;
        let place = |socket: usize| usize::from(FIRST_PORT) + socket * ports / self.sockets;
        Ports::Range {
            first: place(self.taken) as u16,
            last: (place(self.taken + sockets) - 1) as u16,
        }
    }
}

/// `total` split into `parts` that differ by at most one.
pub(crate) fn shares(total: usize, parts: usize) -> impl Iterator<Item = usize> {
    (0..parts).map(move |index| total / parts + usize::from(index < total % parts))
}
