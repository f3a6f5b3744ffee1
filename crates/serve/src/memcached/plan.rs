//! The plan of a memcached server: serialisable, so that it can be printed, passed to a child process and included in a
//! report.

use super::behaviour::Behaviour;
use super::error::{LEAST_PARTITION, MemcachedError};
use crate::streams::Listening;
use corelane_measure::words;
use corelane_rss::Steering;
use corelane_worker::tls::Certificate;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;

/// A Unix socket to listen on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnixSocket {
    /// Its path. A socket that an ended server left there is replaced.
    pub path: PathBuf,
    /// Its permissions, such as `0o700`.
    pub mode: u32,
}

/// What decides on the worker of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UdpSteering {
    /// The key; if it has none that is readable, the table.
    Key,
    /// The hash of its addresses, by the table.
    Table,
}

words!(UdpSteering, RemoteReads);

/// How a worker answers a `get`, `gets` or `mg` of a key that another worker owns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemoteReads {
    /// The owner answers, by way of mailboxes.
    Handoff,
    /// From the memory of the owner, if the owner would change nothing; otherwise the owner answers.
    #[default]
    Direct,
}

/// A fully resolved plan of a memcached server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MemcachedPlan {
    /// Listener settings; the address is that of TCP.
    #[serde(flatten)]
    pub listening: Listening,
    /// Whether it listens for TCP.
    pub tcp: bool,
    /// Further addresses of TCP.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more_addresses: Vec<SocketAddr>,
    /// Addresses of UDP.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub udp: Vec<SocketAddr>,
    /// Whether a program that reads the key steers datagrams to its owner. Merged ones (`UDP_GRO`), which have several keys, are not
    /// received then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub steer_keys: bool,
    /// A Unix socket, which has no TLS: not beside TLS on TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unix: Option<UnixSocket>,
    /// Bytes of memory for items and their index, over all workers.
    pub memory_bytes: u64,
    /// Maximum number of connections; one more gets an error and is closed.
    pub connections: u32,
    /// Maximum size of an item, as memcached counts it: 48 bytes more than its key and value, and some.
    pub largest_item: u32,
    /// Seed of the hash of keys, which decides on the worker of each; `None` draws one at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Verbosity, which `stats settings` reports.
    #[serde(default)]
    pub verbosity: u8,
    /// Settings that change what requests do.
    #[serde(default)]
    pub behaviour: Behaviour,
    /// How keys of other workers are read.
    #[serde(default)]
    pub remote_reads: RemoteReads,
    /// Nothing is loaded ahead of the requests that need it: the control that shows what loading ahead gains.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_prefetch: bool,
    /// Certificate for TLS on TCP; `None` for plaintext.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Certificate>,
    /// File to which the self-signed certificate is written, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_certificate: Option<PathBuf>,
}

impl MemcachedPlan {
    /// A server on `address`, steered by `steering`, with the defaults of memcached otherwise: 64 MiB, 1,024 connections, items
    /// of 1 MiB.
    #[must_use]
    pub fn new(address: SocketAddr, steering: Steering) -> Self {
        Self {
            listening: Listening {
                backlog: 1_024,
                ..Listening::new(address, steering)
            },
            tcp: true,
            more_addresses: Vec::new(),
            udp: Vec::new(),
            steer_keys: false,
            unix: None,
            memory_bytes: 64 << 20,
            connections: 1_024,
            largest_item: 1 << 20,
            seed: None,
            verbosity: 0,
            behaviour: Behaviour::default(),
            remote_reads: RemoteReads::default(),
            no_prefetch: false,
            tls: None,
            write_certificate: None,
        }
    }

    /// One for tests, of so many workers.
    #[cfg(test)]
    pub(super) fn of_workers(workers: usize) -> Self {
        use corelane_rss::{HashFields, IndirectionTable, Key};
        let steering = Steering {
            key: Key::VERIFICATION,
            hash_fields: HashFields::FourTuple,
            table: IndirectionTable::round_robin(128, workers).expect("a table"),
            cpus: vec![0; workers],
            generation: 0,
        };
        Self::new(SocketAddr::from(([127, 0, 0, 1], 0)), steering)
    }

    /// Number of workers: partitions of the items.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.listening.steered.steering.table.buckets()
    }

    /// Bytes of the partition of each worker.
    #[must_use]
    pub fn partition_bytes(&self) -> u64 {
        self.memory_bytes / self.workers().max(1) as u64
    }

    /// How datagrams are steered; `None` without UDP.
    #[must_use]
    pub fn udp_steering(&self) -> Option<UdpSteering> {
        let steering = match self.steer_keys && self.workers() > 1 {
            true => UdpSteering::Key,
            false => UdpSteering::Table,
        };
        (!self.udp.is_empty()).then_some(steering)
    }

    /// Whether merged datagrams are received.
    pub(super) fn merges(&self) -> bool {
        self.udp_steering() == Some(UdpSteering::Table)
    }

    /// Whether answers to datagrams have to name the address that was asked.
    pub(super) fn needs_destinations(&self) -> bool {
        self.udp.iter().any(|address| address.ip().is_unspecified())
    }

    /// Rejects sizes that do not fit together.
    pub(super) fn check(&self) -> Result<(), MemcachedError> {
        let (partition, workers) = (self.partition_bytes(), self.workers());
        if self.tls.is_some() && self.unix.is_some() && self.tcp {
            return Err(MemcachedError::EncryptedUnix);
        }
        if partition < LEAST_PARTITION {
            let bytes = self.memory_bytes;
            return Err(MemcachedError::Memory { bytes, workers });
        }
        let item = self.largest_item;
        if u64::from(item) * 2 > partition {
            return Err(MemcachedError::Item { item, partition });
        }
        Ok(())
    }
}
