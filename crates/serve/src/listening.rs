//! The parts that the plans of all servers with a socket per bucket share: where they listen, and how they are steered.

use corelane_rss::Steering;
use corelane_rss::balance::Policy;
use corelane_rss::steer::Families;
use corelane_worker::group::{self, GroupSettings};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Where a server listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketPlan {
    /// Listen address; port 0 lets the kernel choose.
    pub address: SocketAddr,
    /// Listens on an address that is not assigned to a device, such as one of a prefix routed to this machine.
    #[serde(default)]
    pub free_bind: bool,
    /// Leaves IPv4 to other sockets; otherwise the IPv6 wildcard address serves both families.
    #[serde(default)]
    pub ipv6_only: bool,
}

impl SocketPlan {
    /// On this address, without options.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            free_bind: false,
            ipv6_only: false,
        }
    }

    /// The families that it serves.
    pub(crate) fn families(&self) -> Families {
        group::families(self.address, self.ipv6_only)
    }

    /// Options of every socket.
    pub(crate) fn settings(&self) -> GroupSettings {
        GroupSettings {
            free_bind: self.free_bind,
            ipv6_only: self.ipv6_only,
            ..GroupSettings::default()
        }
    }
}

/// How the sockets of a server are steered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SteeringPlan {
    /// Key, table and CPUs: one worker per bucket.
    pub steering: Steering,
    /// Moves entries from loaded to idle buckets; `None` leaves the table as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebalance: Option<Policy>,
}

impl From<Steering> for SteeringPlan {
    /// The table stays as it is.
    fn from(steering: Steering) -> Self {
        Self {
            steering,
            rebalance: None,
        }
    }
}
