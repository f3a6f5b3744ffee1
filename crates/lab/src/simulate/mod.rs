//! Many buckets on few CPUs: a simulation of what cannot run here.
//!
//! In: a [`Request`]: numbers of buckets, table sizes, flows and their sizes, key and hashed fields, a seed. Out: the
//! document of `lab simulate`: how full the fullest bucket is, what that leaves of the ideal throughput, and what
//! rebalancing the table would gain. Pure: no clock, no socket, and the same request gives the same document.
//!
//! What is simulated is where flows go: tuples are drawn, hashed as a network interface does, and looked up. What that
//! costs is taken to be the same everywhere: a bucket's throughput ends when its CPU is busy, and every datagram costs
//! the same. The flows of [`flows`] can be sent for real, and then reach the very buckets that the document names.

mod document;
mod draw;
pub mod metrics;
mod page;
mod round;
mod run;
mod sizes;
mod verdict;

pub use document::{LeftOut, Plan, SCHEMA, SimulateReport, Step, Trial};
pub use draw::{Flow, flows};
pub use run::Simulation;
pub use sizes::{Sizes, SizesError};

use corelane_load::pool::Pool;
use corelane_rss::{HashFields, IndirectionTable, Key};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use thiserror::Error;

/// What to simulate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Numbers of buckets, each from 1 to [`MOST_BUCKETS`].
    pub buckets: Vec<usize>,
    /// Sizes of the indirection table, each a power of two up to [`IndirectionTable::LARGEST`].
    pub table_sizes: Vec<usize>,
    /// Flows of each round, at most [`MOST_FLOWS`].
    pub flows: usize,
    /// Datagrams that all flows of a round send together.
    pub datagrams: u64,
    /// How the flows share the datagrams.
    pub sizes: Sizes,
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

/// Why there is no simulation.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum SimulateError {
    /// No bucket, or too many.
    #[error("{buckets} buckets: give 1 to {MOST_BUCKETS}")]
    Buckets {
        /// Buckets asked for.
        buckets: usize,
    },
    /// A size that the low bits of a hash cannot index.
    #[error(
        "a table of {size} entries: give powers of two up to {}, such as 128,512",
        IndirectionTable::LARGEST
    )]
    TableSize {
        /// Entries asked for.
        size: usize,
    },
    /// Every pair of table size and number of buckets would leave buckets without an entry.
    #[error(
        "no table has as many entries as there are buckets: give larger tables (--table-size) or fewer buckets"
    )]
    NothingFits,
    /// No flow, or too many.
    #[error("{flows} flows: give 1 to {MOST_FLOWS}")]
    Flows {
        /// Flows asked for.
        flows: usize,
    },
    /// Flows that would send nothing.
    #[error("{datagrams} datagrams for {flows} flows: give at least as many datagrams as flows, up to 10^15")]
    Datagrams {
        /// Datagrams asked for.
        datagrams: u64,
        /// Flows asked for.
        flows: usize,
    },
    /// Sizes that these flows cannot have.
    #[error(transparent)]
    Sizes(#[from] SizesError),
    /// The pool cannot give as many flows.
    #[error(
        "{clients} addresses with {ports} source ports each cannot make {flows} flows: give a larger pool"
    )]
    FewClients {
        /// Addresses of the pool.
        clients: usize,
        /// Source ports of each.
        ports: usize,
        /// Flows asked for.
        flows: usize,
    },
    /// The pool has too many addresses.
    #[error("the pool has more than {MOST_CLIENTS} addresses: give a smaller one; a /12 of IPv4 is enough")]
    ManyClients,
    /// An address of the pool cannot talk to the server.
    #[error("the pool and the server are of different address families: {0}")]
    Families(#[from] corelane_rss::TupleError),
    /// No round.
    #[error("no rounds: give at least 1")]
    NoRounds,
    /// A tolerance that is no share.
    #[error(transparent)]
    Balance(#[from] corelane_rss::balance::BalanceError),
}
