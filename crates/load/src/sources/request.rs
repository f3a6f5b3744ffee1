//! What is asked of the sources of one target, and why they cannot be planned.

use crate::pool::Pool;
use corelane_rss::plan::Landing;
use corelane_worker::engine::Remote;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{IpAddr, SocketAddr};
use thiserror::Error;

/// How sources are aligned with the target's steering.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Align {
    /// Chosen by the kernel, or planned regardless of the hash.
    #[default]
    Kernel,
    /// Every bucket of the target gets the same number of sockets.
    Even,
    /// Each worker's sockets land on the buckets of its own CPU, or on its one bucket.
    Bucket,
    /// One worker per bucket, which owns the keys that its requests are about.
    Owner,
}

/// The direction whose packets are aligned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlignBy {
    /// What the server receives lands on the chosen buckets of the server.
    #[default]
    Forward,
    /// What the server answers lands on the chosen buckets of this machine.
    Reply,
    /// Both, from the same source.
    Both,
}

impl AlignBy {
    /// The aligned directions; the first one decides which workers there are.
    pub(crate) fn directions(self) -> &'static [FlowDirection] {
        match self {
            Self::Forward => &[FlowDirection::Forward],
            Self::Reply => &[FlowDirection::Reply],
            Self::Both => &[FlowDirection::Forward, FlowDirection::Reply],
        }
    }
}

/// The direction of packets, as the client sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlowDirection {
    Forward,
    Reply,
}

/// Requirements on the sources of one target.
#[derive(Debug, Clone)]
pub struct SourceRequest {
    /// Where the connections or datagrams go.
    pub target: Remote,
    /// Source addresses; `None`: chosen by the routing table.
    pub pool: Option<Pool>,
    /// How sources are aligned.
    pub align: Align,
    /// In which direction.
    pub by: AlignBy,
    /// Sockets, or simultaneously open connections, over all workers.
    pub sockets: usize,
}

/// Why sources cannot be planned.
#[derive(Debug, Error)]
pub enum SourceError {
    /// A target without a port.
    #[error("port 0 cannot be reached: give a port from 1 to 65535")]
    TargetPort,
    /// A pool without addresses of the target's family.
    #[error("the source pool {pool} has no address of the family of {target}: give addresses of that family")]
    EmptyPool {
        /// The pool as written.
        pool: String,
        /// The target.
        target: IpAddr,
    },
    /// A pool of the target's address alone.
    #[error("the source pool has {target} only, which is the target itself: give other addresses")]
    OnlyTarget {
        /// The target.
        target: IpAddr,
    },
    /// More sockets than the addresses have ports.
    #[error(
        "{sockets} sockets to one server need {needed} source addresses, and there are {addresses}: give a wider --sources \
         (a prefix that is routed here: `ip route add local 10.100.0.0/16 dev lo`)"
    )]
    Ports {
        /// Requested sockets.
        sockets: usize,
        /// Addresses required.
        needed: usize,
        /// Addresses available.
        addresses: usize,
    },
    /// Alignment without the target's steering document.
    #[error(
        "--align needs the steering document of the server, and for replies of this machine: give its file with --steering, \
         or the receiving device with --dev"
    )]
    NoSteering,
    /// One end hashes ports, the other does not.
    #[error(
        "one end hashes a 4tuple, the other a 2tuple, and no plan satisfies both: align by one direction, or let both hash \
         the same fields"
    )]
    Fields,
    /// Buckets that no source reaches.
    #[error(
        "no source of {pool} lands on bucket {} with this steering document: widen --sources, or hash ports, too, if they \
         are not hashed (--hash 4tuple)",
        list(.landings)
    )]
    Unreached {
        /// The pool as written.
        pool: String,
        /// Landings without a source.
        landings: Vec<Landing>,
    },
    /// Sources of connections to a Unix socket.
    #[error("connections to {target} have neither addresses nor ports: leave --sources and --align out")]
    Unix {
        /// The target.
        target: Remote,
    },
    /// A worker whose CPU has no bucket of the receiving end.
    #[error("no bucket of {steered_by} is on CPU {cpu}: give CPUs that have one with --cpus")]
    NoBucketOnCpu {
        /// What has the buckets.
        steered_by: &'static str,
        /// The CPU.
        cpu: u32,
    },
    /// A broadcast address (`__ip4_datagram_connect` refuses one to sockets without `SO_BROADCAST`).
    #[error("{target} is a broadcast address, or a route prohibits it: give the address of one host")]
    Broadcast {
        /// The target.
        target: SocketAddr,
    },
    /// No route to the target.
    #[error("no route to {target}: {error}")]
    Route {
        /// The target.
        target: SocketAddr,
        /// The error of the kernel.
        error: io::Error,
    },
}

impl SourceRequest {
    pub(super) fn too_many(&self, needed: usize, addresses: usize) -> SourceError {
        SourceError::Ports {
            sockets: self.sockets,
            needed,
            addresses,
        }
    }

    pub(super) fn pool_text(&self) -> String {
        let written = self.pool.as_ref().map(Pool::to_string);
        written.unwrap_or_else(|| "the routing table's choice".to_owned())
    }
}

/// Landings named in an error.
const LANDINGS_NAMED: usize = 16;

fn list(landings: &[Landing]) -> String {
    let mut named: Vec<String> = landings.iter().map(Landing::to_string).collect();
    if named.len() > LANDINGS_NAMED {
        named.truncate(LANDINGS_NAMED);
        named.push(format!("and {} more", landings.len() - LANDINGS_NAMED));
    }
    named.join(", ")
}
