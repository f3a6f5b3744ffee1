//! Many buckets on few CPUs: a simulation of what cannot run here.
//!
//! In: a [`Request`]: numbers of buckets, table sizes, flows and their sizes, key and hashed fields, a seed. Out: the
//! document of `lab simulate`: how full the fullest bucket is, what that leaves of the ideal throughput, and what
//! rebalancing the table would gain. Pure: no clock, no socket, and the same request gives the same document.
//!
//! What is simulated is where flows go: tuples are drawn, hashed as a network interface does, and looked up. What that
//! costs is taken to be the same everywhere: a bucket's throughput ends when its CPU is busy, and every datagram costs
//! the same. The flows of [`flows`] can be sent for real, and then reach the very buckets that the document names.

mod draw;
mod round;
mod sizes;
mod verdict;

pub use draw::{Flow, flows};
pub use sizes::{Sizes, SizesError};

use crate::documents::simulate::{LeftOut, Plan, SCHEMA, SimulateReport, Step, Trial};
use crate::runner::tool;
use corelane_load::pool::Pool;
use corelane_rss::{HashFields, IndirectionTable, Key};
use round::{Outcome, Round};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use thiserror::Error;

/// What to simulate.
#[derive(Debug, Clone, PartialEq)]
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
    pub tolerance: f64,
    /// Whether the document names the flows of the first round.
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

/// The most datagrams of a round, far from where whole numbers stop to be exact in a 64-bit float (2^53).
const MOST_DATAGRAMS: u64 = 1_000_000_000_000_000;

/// Simulates every step in every round. The first round is always complete; when `interrupt` is set, no other begins.
///
/// # Errors
/// See [`SimulateError`]; nothing is simulated then.
pub fn run(
    request: &Request,
    command_line: Vec<String>,
    version: &str,
    interrupt: &AtomicBool,
) -> Result<SimulateReport, SimulateError> {
    let (tables, left_out) = tables(request)?;
    check(request)?;
    let mut outcomes: Vec<Vec<Outcome>> = tables.iter().map(|_| Vec::new()).collect();
    let mut flows = Vec::new();
    let mut done = 0;
    while done < request.rounds && (done == 0 || !interrupt.load(Ordering::Relaxed)) {
        let round = Round::draw(request, done)?;
        for (table, outcomes) in tables.iter().zip(&mut outcomes) {
            outcomes.push(round.outcome(table, request.tolerance)?);
        }
        if done == 0 && request.list_flows {
            flows = round.listed();
        }
        done += 1;
    }
    let steps: Vec<Step> = outcomes
        .iter()
        .filter_map(|outcomes| step(outcomes, request.datagrams))
        .collect();
    Ok(SimulateReport {
        schema: SCHEMA.to_owned(),
        tool: tool(version),
        command_line,
        plan: plan(request, left_out),
        conclusions: verdict::conclusions(&steps),
        steps,
        trials: outcomes
            .into_iter()
            .flatten()
            .map(|outcome| outcome.trial)
            .collect(),
        flows,
        interrupted: done < request.rounds,
    })
}

/// The table of each step, by size, then by buckets; and the pairs that make none.
fn tables(request: &Request) -> Result<(Vec<IndirectionTable>, Vec<LeftOut>), SimulateError> {
    let (mut tables, mut left_out) = (Vec::new(), Vec::new());
    for &size in &request.table_sizes {
        if !size.is_power_of_two() || size > IndirectionTable::LARGEST {
            return Err(SimulateError::TableSize { size });
        }
        for &buckets in &request.buckets {
            if !(1..=MOST_BUCKETS).contains(&buckets) {
                return Err(SimulateError::Buckets { buckets });
            }
            match IndirectionTable::round_robin(size, buckets) {
                Ok(table) => tables.push(table),
                Err(_) => left_out.push(LeftOut {
                    table_size: size,
                    buckets,
                }),
            }
        }
    }
    if tables.is_empty() {
        return Err(SimulateError::NothingFits);
    }
    Ok((tables, left_out))
}

fn check(request: &Request) -> Result<(), SimulateError> {
    let (flows, datagrams) = (request.flows, request.datagrams);
    if !(1..=MOST_FLOWS).contains(&flows) {
        return Err(SimulateError::Flows { flows });
    }
    if !(flows as u64..=MOST_DATAGRAMS).contains(&datagrams) {
        return Err(SimulateError::Datagrams { datagrams, flows });
    }
    if request.rounds == 0 {
        return Err(SimulateError::NoRounds);
    }
    Ok(())
}

fn plan(request: &Request, left_out: Vec<LeftOut>) -> Plan {
    Plan {
        buckets: request.buckets.clone(),
        table_sizes: request.table_sizes.clone(),
        left_out,
        flows: request.flows,
        datagrams: request.datagrams,
        sizes: request.sizes.to_string(),
        hash_fields: request.hash_fields.to_string(),
        key: request.key.to_string(),
        clients: request.clients.to_string(),
        server: request.server.to_string(),
        seed: request.seed,
        rounds: request.rounds,
        rebalance_tolerance: request.tolerance,
    }
}

fn step(outcomes: &[Outcome], datagrams: u64) -> Option<Step> {
    let trials: Vec<&Trial> = outcomes.iter().map(|outcome| &outcome.trial).collect();
    Step::of(&trials, datagrams, outcomes.first()?.per_bucket.clone())
}
