//! Results of a UDP server per bucket: the final document of `serve udp`.

use super::cause::DropCause;
use super::model::{Answers, Model};
use crate::shared::{share, summed};
use corelane_measure::counters::Counters;
use corelane_measure::share::Share;
use corelane_rss::Steering;
use corelane_worker::rebalancing::Rebalanced;
use corelane_worker::worker_memory::WorkerMemory;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Count of one flow, as far as its hash identifies it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowCount {
    /// The hash: `0x` and eight hexadecimal digits.
    pub hash: String,
    /// Hash type, as named by NDIS: `UDP_IPV4`, or `IPV4` for a 2-tuple.
    pub hash_type: String,
    /// The bucket that the hash selects.
    pub bucket: u16,
    /// The worker that received it.
    pub worker: u16,
    /// Datagrams.
    pub count: u64,
}

/// The counts of all flows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowCounts {
    /// One entry per hash, hash type, bucket and worker; by worker, in descending order of counts.
    pub flows: Vec<FlowCount>,
    /// Datagrams of further flows, after 65,536 per worker.
    pub uncounted: u64,
}

/// The counters of a UDP server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UdpServed {
    /// `corelane/served-udp/1`.
    pub schema: String,
    /// The listen address.
    pub address: SocketAddr,
    /// The engine that ran.
    pub engine: String,
    /// Why it is not the requested engine, or not the fastest one.
    pub engine_reason: Option<String>,
    /// How datagrams reached their workers.
    pub model: Model,
    /// How they were answered.
    #[serde(default)]
    pub answers: Answers,
    /// Steering settings, on which both ends must agree.
    pub steering: Steering,
    /// What rebalancing moved, if it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebalanced: Option<Rebalanced>,
    /// One entry per worker, in order: for its bucket, or (`single`) for all.
    pub buckets: Vec<BucketServed>,
    /// Datagrams lost at a socket shared by all workers (`shared`, `farm`), by cause.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub shared_dropped: BTreeMap<DropCause, u64>,
    /// Why `locality` is unknown, if it is.
    pub locality_unknown: Option<String>,
    /// Why `tx_locality` is unknown, if it is.
    #[serde(default)]
    pub tx_locality_unknown: Option<String>,
    /// Datagrams by hash, hash type and bucket, in the final document of a server that counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<Vec<FlowCount>>,
    /// Datagrams of flows beyond the 65,536 that each worker counts individually.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows_uncounted: Option<u64>,
}

/// The counters of one bucket.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct BucketServed {
    /// The bucket.
    pub bucket: u16,
    /// CPU of its worker.
    pub cpu: u32,
    /// Datagrams received.
    pub seen: u64,
    /// Payload bytes received.
    pub seen_bytes: u64,
    /// Datagrams answered.
    pub answered: u64,
    /// Datagrams lost, by cause, at this worker and its own socket.
    pub dropped: BTreeMap<DropCause, u64>,
    /// Datagrams sampled: their hash was recomputed in software.
    pub steering_samples: u64,
    /// Of those, datagrams whose hash selects this bucket.
    pub steering_right: u64,
    /// Datagrams of this bucket's flows for which the device tap recorded the receiving CPU.
    pub locality_samples: u64,
    /// Of those, datagrams received on this worker's CPU.
    pub locality_right: u64,
    /// Answers recorded by the device tap.
    #[serde(default)]
    pub tx_samples: u64,
    /// Of those, answers sent on this worker's CPU.
    #[serde(default)]
    pub tx_on_cpu: u64,
    /// Of those, answers sent on the bucket's queue.
    #[serde(default)]
    pub tx_on_queue: u64,
    /// Of those, answers sent on both.
    #[serde(default)]
    pub tx_right: u64,
    /// Answers of flows without a connected socket of their own although they should have one.
    #[serde(default)]
    pub answered_unconnected: u64,
    /// NUMA placement of its memory; `None` in documents of versions that did not record it.
    #[serde(default)]
    pub memory: Option<WorkerMemory>,
}

impl BucketServed {
    /// Sampled datagrams whose hash selects this bucket.
    #[must_use]
    pub fn steering(&self) -> Share {
        share(self.steering_right, self.steering_samples)
    }

    /// Sampled datagrams received on this worker's CPU.
    #[must_use]
    pub fn locality(&self) -> Share {
        share(self.locality_right, self.locality_samples)
    }

    /// Sampled answers that left on this worker's CPU and its bucket's queue.
    #[must_use]
    pub fn tx_locality(&self) -> Share {
        share(self.tx_right, self.tx_samples)
    }
}

impl UdpServed {
    /// Datagrams received by all buckets.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.sum(|bucket| bucket.seen)
    }

    /// Datagrams answered by all buckets.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.sum(|bucket| bucket.answered)
    }

    /// The sum of a share over all buckets.
    #[must_use]
    pub fn share(&self, of: fn(&BucketServed) -> Share) -> Share {
        Share::sum(self.buckets.iter().map(of))
    }

    /// Datagrams lost, by cause, over all workers and the socket they may share; see [`BucketServed::dropped`].
    #[must_use]
    pub fn dropped(&self) -> BTreeMap<DropCause, u64> {
        let buckets = self.buckets.iter().flat_map(|bucket| &bucket.dropped);
        summed(buckets.chain(&self.shared_dropped))
    }

    fn sum(&self, count: impl Fn(&BucketServed) -> u64) -> u64 {
        self.buckets.iter().map(count).sum()
    }
}
