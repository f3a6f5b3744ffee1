//! The plan of `lab rebalance`.

use corelane_rss::Steering;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// What to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Request {
    /// Key, hashed fields, the initial table, and the CPU of each bucket.
    pub steering: Steering,
    /// Source address of the flows: an address of the bed's clients.
    pub client: IpAddr,
    /// The CPU of the generator.
    pub client_cpu: u32,
    /// Zipf exponent s: the load of the entry of rank k is proportional to k^-s.
    pub exponent: f64,
    /// Datagrams per second, over all entries.
    pub rate: f64,
    /// Seconds of each phase.
    pub duration_s: f64,
    /// Number of rounds; each loads different entries.
    pub rounds: u32,
    /// Table changes per minute while the table is changed all the time.
    pub changes_a_minute: u32,
    /// Accepted excess of the fullest bucket over the best level found, as a share of that level.
    pub tolerance: f64,
    /// Seed of the entries' ranks.
    pub seed: u64,
}
