//! The plan of a UDP server: serialisable, so that it can be printed, passed to a child process and included in a
//! report.

use super::loops::LocalEchoes;
use crate::server::ServeError;
use crate::service;
use crate::udp::{Answers, Mode, Model};
use arc_swap::ArcSwap;
use corelane_host::memory::MemoryPolicy;
use corelane_rss::balance::Policy;
use corelane_rss::steer::Families;
use corelane_rss::{Bucket, Steerer, Steering, Tuple};
use corelane_worker::engine::{Datagram, EngineKind, EngineSettings};
use corelane_worker::group::{self, GroupSettings};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// A fully resolved UDP server plan.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UdpPlan {
    /// Listen address; port 0 lets the kernel choose.
    pub address: SocketAddr,
    /// Listens on an address that is not assigned to a device, such as one of a prefix routed to this machine.
    #[serde(default)]
    pub free_bind: bool,
    /// Leaves IPv4 to other sockets; otherwise the IPv6 wildcard address serves both families.
    #[serde(default)]
    pub ipv6_only: bool,
    /// Whether datagrams are answered or discarded.
    pub mode: Mode,
    /// How a datagram reaches its worker.
    pub model: Model,
    /// Key, table and CPUs: one worker per bucket, or a single one (`single`).
    pub steering: Steering,
    /// Moves entries from loaded to idle buckets; `None` leaves the table as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebalance: Option<Policy>,
    /// The requested engine; `None` probes and chooses.
    pub engine: Option<EngineKind>,
    /// How the engine moves datagrams.
    #[serde(flatten)]
    pub settings: EngineSettings,
    /// NUMA node of each worker's memory.
    #[serde(default)]
    pub memory: MemoryPolicy,
    /// Requested socket receive buffer in bytes; `None` keeps the system's default.
    pub receive_buffer_bytes: Option<usize>,
    /// Device to monitor for the CPU of the receive path; `None` leaves locality unknown.
    pub device: Option<String>,
    /// How it answers; `received` requires the device.
    #[serde(default)]
    pub answers: Answers,
    /// Number of transmit queues, if the device is to be monitored for the CPU and queue on which answers leave: bucket
    /// *i* has queue *i* modulo this number. `None` leaves that unknown.
    #[serde(default)]
    pub transmit_queues: Option<u32>,
    /// Compute hash, hash type and bucket of each datagram for the application.
    #[serde(default)]
    pub metadata: bool,
    /// Count datagrams by hash, hash type and bucket; requires their metadata.
    #[serde(default)]
    pub flows: bool,
}

impl UdpPlan {
    /// An echo server on `address`, steered by `steering`, with defaults otherwise.
    #[must_use]
    pub fn new(address: SocketAddr, steering: Steering) -> Self {
        Self {
            address,
            free_bind: false,
            ipv6_only: false,
            mode: Mode::Echo,
            model: Model::Exact,
            steering,
            rebalance: None,
            engine: None,
            settings: EngineSettings::default(),
            memory: MemoryPolicy::default(),
            receive_buffer_bytes: None,
            device: None,
            answers: Answers::default(),
            transmit_queues: None,
            metadata: false,
            flows: false,
        }
    }

    /// Rejects incompatible settings.
    pub(super) fn check(&self) -> Result<(), ServeError> {
        service::buckets(&self.steering)?;
        let (answers, model) = (self.answers, self.model);
        if answers != Answers::PerSend && model != Model::Exact {
            return Err(ServeError::Answers { answers, model });
        }
        if answers == Answers::Connected && self.rebalance.is_some() {
            return Err(ServeError::ConnectedFlows);
        }
        Ok(())
    }

    /// Options of every socket on the server's address.
    pub(super) fn socket_settings(&self) -> GroupSettings {
        GroupSettings {
            receive_buffer: self.receive_buffer_bytes,
            gro: self.settings.gro,
            destinations: self.settings.destinations,
            free_bind: self.free_bind,
            ipv6_only: self.ipv6_only,
        }
    }

    /// The families that it serves.
    pub(super) fn families(&self) -> Families {
        group::families(self.address, self.ipv6_only)
    }

    /// Number of workers, excluding the reader of a farm.
    pub(super) fn workers(&self) -> usize {
        match self.model {
            Model::Single => 1,
            _ => self.steering.table.buckets(),
        }
    }

    /// Whether the plan allows an answer to `peer`: to any address if the plan names an address; only to loopback and
    /// private networks if it listens on all addresses.
    pub(super) fn may_answer(&self, peer: IpAddr) -> bool {
        !self.address.ip().is_unspecified() || is_local(peer)
    }
}

/// What all threads of a server share.
pub(super) struct Common {
    pub(super) plan: UdpPlan,
    pub(super) address: SocketAddr,
    pub(super) steerer: ArcSwap<Steerer>,
    pub(super) echoes: LocalEchoes,
}

impl Common {
    /// A server with this plan, which listens on `address`.
    pub(super) fn new(plan: UdpPlan, address: SocketAddr) -> Arc<Self> {
        let steerer = ArcSwap::from_pointee(plan.steering.steerer());
        let common = Self {
            plan,
            address,
            steerer,
            echoes: LocalEchoes::new(),
        };
        common.refresh_echoes();
        Arc::new(common)
    }

    /// Updates what is known of the other echoes of this machine.
    pub(super) fn refresh_echoes(&self) {
        if self.plan.mode == Mode::Echo {
            self.echoes.refresh(self.address);
        }
    }

    /// The address and port that a datagram was sent to; `None` if this is a wildcard address and the kernel did not
    /// report it.
    pub(super) fn destination(&self, datagram: &Datagram<'_>) -> Option<SocketAddr> {
        let named = Some(self.address).filter(|address| !address.ip().is_unspecified());
        datagram.destination.or(named)
    }

    /// A datagram's addresses on the wire, which its hash takes: without scopes, which no packet carries. `None` if the
    /// destination is not known.
    pub(super) fn tuple(&self, datagram: &Datagram<'_>) -> Option<Tuple> {
        let unscoped = |address: SocketAddr| SocketAddr::new(address.ip(), address.port());
        Tuple::new(unscoped(datagram.peer), unscoped(self.destination(datagram)?)).ok()
    }

    /// The bucket that the hash selects.
    pub(super) fn bucket_of(&self, tuple: &Tuple) -> Bucket {
        self.steerer.load().bucket_of(tuple)
    }
}

/// Loopback, private (RFC 1918), unique local (RFC 4193) and link-local addresses.
fn is_local(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => address.is_loopback() || address.is_private() || address.is_link_local(),
        IpAddr::V6(address) => {
            address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_server_answers_only_local_networks() {
        let local = [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.1.1",
            "::1",
            "fd00::1",
            "fe80::1",
        ];
        let public = ["8.8.8.8", "172.32.0.1", "2001:db8::1", "::ffff:8.8.8.8"];
        for address in local {
            assert!(is_local(address.parse().unwrap()), "{address}");
        }
        for address in public {
            assert!(!is_local(address.parse().unwrap()), "{address}");
        }
    }
}
