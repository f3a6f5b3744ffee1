//! Simulates many buckets on few CPUs.
//!
//! In: a [`Request`]: numbers of buckets, table sizes, flows and their sizes, key and hashed fields, a seed. Out: the
//! document of `lab simulate`: how full the fullest bucket is, what that leaves of the ideal throughput, and what
//! rebalancing the table would gain. Pure: no clock, no socket, and the same request gives the same document.
//!
//! It simulates the path of flows: tuples are drawn, hashed as in a network interface, and looked up. Costs are assumed
//! equal: a bucket's throughput is limited by its CPU, and every datagram costs the same. The flows of [`flows`] can be
//! sent for real, and then reach the very buckets that the document names.

pub mod document;
mod page;
mod round;
mod run;
mod sizes;
mod verdict;

pub use document::{LeftOut, Plan, SCHEMA, SimulateReport, Step, Trial};
pub use round::{Flow, flows};
pub use run::Simulation;

use corelane_load::pool::Pool;
use corelane_load::udp::Skew;
use corelane_rss::{HashFields, Key};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// What to simulate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Numbers of buckets, each from 1 to [`MOST_BUCKETS`].
    pub buckets: Vec<usize>,
    /// Sizes of the indirection table, each from 1 to [`corelane_rss::IndirectionTable::LARGEST`].
    pub table_sizes: Vec<usize>,
    /// Flows of each round, at most [`MOST_FLOWS`].
    pub flows: usize,
    /// Datagrams that all flows of a round send together.
    pub datagrams: u64,
    /// How the flows share the datagrams.
    pub sizes: Skew,
    /// Which fields are hashed.
    pub hash_fields: HashFields,
    /// The hash key.
    pub key: Key,
    /// Where the flows come from; at most [`MOST_CLIENTS`] addresses.
    pub clients: Pool,
    /// Where the flows go.
    pub server: SocketAddr,
    /// The seed of all draws.
    pub seed: u64,
    /// Rounds, each with flows of its own.
    pub rounds: u32,
    /// How far above the lowest level found a rebalanced bucket may stay, as a share of that level.
    #[serde(rename = "rebalance_tolerance")]
    pub tolerance: f64,
    /// Whether the document names the flows of the first round.
    #[serde(skip)]
    pub list_flows: bool,
}

/// The most buckets simulated. The widest devices of today have a few hundred queues.
pub const MOST_BUCKETS: usize = 1024;

/// The most flows of a round: they are kept in memory, about 80 bytes each.
pub const MOST_FLOWS: usize = 1_000_000;

/// The most client addresses, as many as a /12 of IPv4 has: they are kept in memory.
pub const MOST_CLIENTS: usize = 1 << 20;
