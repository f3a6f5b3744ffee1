//! The part of the plan that only this protocol has.

use super::keys::LONGEST_KEY;
use super::ledger::{Counter, Known};
use super::mix::{Mix, Operation};
use super::parts::Added;
use super::popularity::Popularity;
use super::sizes::{LARGEST_VALUE, Sizer, Sizes};
use crate::needs::HISTOGRAM_BYTES;
use crate::pace::Pace;
use crate::streams::{Model, PlannedPhase, StreamPlan, Until};
use crate::udp::{self, UdpPlan};
use corelane_measure::words;
use serde::{Deserialize, Serialize};

/// Requests to a memcached server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Memcached {
    /// Number of keys.
    pub keys: u64,
    /// What every key begins with. Keys with this prefix hold values of this generator only.
    pub prefix: String,
    /// Sizes of keys in bytes, with the prefix; longer if a key needs more for its number.
    pub key_size: Sizes,
    /// Sizes of values in bytes.
    pub value_size: Sizes,
    /// How often each key is asked for.
    pub popularity: Popularity,
    /// Weights of the operations.
    pub mix: Mix,
    /// Seconds after which values expire; `None` for never.
    #[serde(default)]
    pub ttl_s: Option<u32>,
    /// Requests in flight on a connection, at most.
    pub pipeline: usize,
    /// Keys of one request that reads.
    pub multi_get: usize,
    /// Whether meta commands are sent.
    #[serde(default)]
    pub meta: bool,
    /// What follows a miss.
    pub on_miss: OnMiss,
    /// Number in the values that this run writes, above 0; other runs have others.
    pub run: u32,
    /// Whether each key is stored once, in turn, instead of the mix.
    #[serde(default)]
    pub prefill: bool,
    /// Who owns the keys, if each worker uses those of its bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owners: Option<PlannedOwners>,
}

/// Which bucket of the server owns a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedOwners {
    /// Seed of the server's hash of keys.
    pub seed: u64,
    /// Number of its workers.
    pub partitions: usize,
}

impl Memcached {
    /// Bytes of a request, at most: a key has up to 250 bytes, and the rest of a line up to 100.
    #[must_use]
    pub fn request_bytes(&self) -> usize {
        let value = Sizer::new(self.value_size, 0, LARGEST_VALUE).most();
        (LONGEST_KEY + 100) * self.multi_get + value
    }

    /// Whether the owner of each key that is used can be planned.
    ///
    /// # Errors
    /// Why not.
    pub fn owned_alone(&self) -> Result<(), &'static str> {
        match self.mix.has(Operation::Incr) || self.mix.has(Operation::Decr) {
            true => {
                Err("counters have keys of their own, whose owners differ: leave incr and decr out of --mix")
            }
            false => Ok(()),
        }
    }

    /// Bytes of what all workers know about the keys.
    pub(super) fn known_bytes(&self) -> u64 {
        let of_each = [
            (true, size_of::<Known>()),
            (self.mix.has(Operation::Incr), size_of::<Counter>()),
            (self.mix.has(Operation::Decr), size_of::<Counter>()),
            (self.mix.extends(), size_of::<Added>()),
        ];
        let used = of_each
            .into_iter()
            .filter(|(is_used, _)| *is_used && !self.prefill);
        let bytes: usize = used.map(|(_, bytes)| bytes).sum();
        self.keys.saturating_mul(bytes as u64)
    }

    /// Bytes of the times of all operations that can occur: also those that follow others.
    pub(super) fn times_bytes(&self) -> u64 {
        let occurs = |operation: &Operation| match operation {
            Operation::Set => true,
            Operation::Gets => self.mix.has(Operation::Gets) || self.mix.has(Operation::Cas),
            Operation::Add => [Operation::Add, Operation::Incr, Operation::Decr]
                .iter()
                .any(|operation| self.mix.has(*operation)),
            operation => self.mix.has(*operation),
        };
        HISTOGRAM_BYTES
            * Operation::ALL
                .iter()
                .filter(|operation| occurs(operation))
                .count() as u64
    }
}

/// Unanswered requests of all sockets while keys are stored, or one per socket: a usual receive buffer has room for so many of 1 KiB, so that
/// none is lost.
const FILLING_UNANSWERED: usize = 64;

impl StreamPlan<Memcached> {
    /// The same clients, which store every key of every server once.
    #[must_use]
    pub fn filling(mut self) -> Self {
        let all = self.connections() as u64;
        let fewest = self.pools.iter().map(|pool| pool.connections as u64).min();
        let keys = self.pools.iter().map(|pool| pool.protocol.keys).max();
        for pool in &mut self.pools {
            pool.model = Model::Closed { think_s: 0.0 };
            pool.protocol.prefill = true;
        }
        // Requests are shared among the connections; the pool with the fewest stores all keys, too.
        let each = keys.unwrap_or(0).div_ceil(fewest.unwrap_or(1));
        self.requests = Some(each * all);
        self.phases = vec![PlannedPhase::hold(Until::default())];
        self
    }
}

impl UdpPlan<Memcached> {
    /// The same clients, which store every key once.
    #[must_use]
    pub fn filling(mut self) -> Self {
        self.protocol.prefill = true;
        self.pace = Pace::Window {
            datagrams: (FILLING_UNANSWERED / self.sockets().max(1)).max(1) as u32,
        };
        self.until = udp::Until {
            duration_s: None,
            datagrams: Some(self.protocol.keys),
        };
        self
    }
}

/// What follows a miss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnMiss {
    /// A request that stores the value, as users of a cache do.
    Set,
    /// Nothing.
    Nothing,
}

words!(OnMiss);

/// The most keys of one request.
pub const MOST_KEYS: usize = 128;
