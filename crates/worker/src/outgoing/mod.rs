//! Sources of outgoing connections: ports leased to one worker, and a [`Connector`] that picks among them so that replies
//! are steered to the bucket of that worker.
//!
//! Post: "Application awareness of receive side scaling (RSS) on FreeBSD" leaves outgoing connections for later, because
//! the kernel chooses the port, and with it the hash, when it is too late to choose. Here the port is chosen by the
//! hash: it is linear, so the ports of a lease are sorted once by what they contribute to it, and a connection costs one
//! hash and one lookup.
//!
//! Workers never ask each other for ports. For one server those of one address need no division: each port belongs to
//! exactly one bucket, so workers of different buckets never pick the same. Workers with the same bucket need leases that
//! differ. With several servers over UDP, which binds a port once, a port that another worker holds is skipped.

mod connector;
mod pool;

pub use crate::system::address::on_device_of;
pub use connector::{Connector, ConnectorCounts, ConnectorSource};
pub use pool::{PortPool, Release, Source};

use corelane_rss::plan::Landing;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// The first leased port: lower ports are reserved for privileged servers.
pub const FIRST_PORT: u16 = 1_024;

/// The last port.
pub const LAST_PORT: u16 = u16::MAX;

/// One source address of one worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The address; unspecified: chosen by the routing table.
    pub address: IpAddr,
    /// Its ports.
    pub ports: Ports,
    /// Simultaneously open connections or sockets.
    pub connections: usize,
    /// Where all of its connections land, as far as planned.
    #[serde(default, skip_serializing_if = "Landing::is_any")]
    pub landing: Landing,
}

/// The source ports of a lease: at least one per connection, the rest for reopening.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ports {
    /// Chosen by the kernel.
    Kernel,
    /// None: connections to a Unix socket have no address, either.
    None,
    /// A range.
    Range {
        /// The first.
        first: u16,
        /// The last.
        last: u16,
    },
    /// A list.
    Listed(Vec<u16>),
}

impl Lease {
    /// All ports of one address from [`FIRST_PORT`], for as many connections at a time.
    #[must_use]
    pub fn of(address: IpAddr) -> Lease {
        let (first, last) = (FIRST_PORT, LAST_PORT);
        Lease {
            address,
            ports: Ports::Range { first, last },
            connections: (first..=last).len(),
            landing: Landing::default(),
        }
    }

    /// The ports in order; without end 0 if the kernel chooses them, or there are none.
    pub fn into_ports(self) -> Box<dyn Iterator<Item = u16> + Send> {
        match self.ports {
            Ports::Kernel | Ports::None => Box::new(std::iter::repeat(0)),
            Ports::Range { first, last } => Box::new(first..=last),
            Ports::Listed(ports) => Box::new(ports.into_iter()),
        }
    }

    /// Whether there are spare ports to replace those that other sockets hold.
    #[must_use]
    pub fn has_spare_ports(&self) -> bool {
        let ports = match &self.ports {
            Ports::Kernel | Ports::None => return false,
            Ports::Range { first, last } => (*first..=*last).len(),
            Ports::Listed(ports) => ports.len(),
        };
        ports > self.connections
    }
}
