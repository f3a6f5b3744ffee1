//! What a UDP server saw and did, per bucket: the document that `serve udp` ends with.

use super::describe::FlowCount;
use crate::udp::{Answers, Model};
use corelane_rss::Steering;
use corelane_worker::worker_memory::WorkerMemory;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// The counts of a UDP server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UdpServed {
    /// `corelane/served-udp/1`.
    pub schema: String,
    /// Where it listened.
    pub address: SocketAddr,
    /// The engine that ran.
    pub engine: String,
    /// Why it is not the engine asked for, or the faster one.
    pub engine_reason: Option<String>,
    /// How datagrams found their workers.
    pub model: Model,
    /// How they were answered.
    #[serde(default)]
    pub answers: Answers,
    /// What both ends must agree on.
    pub steering: Steering,
    /// One entry a worker, in order: of its bucket, or (`single`) of all.
    pub buckets: Vec<BucketServed>,
    /// Datagrams lost, by cause, at a socket that all workers share (`shared`, `farm`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub shared_dropped: BTreeMap<String, u64>,
    /// Why `locality` is unknown, when it is.
    pub locality_unknown: Option<String>,
    /// Why `tx_locality` is unknown, when it is.
    #[serde(default)]
    pub tx_locality_unknown: Option<String>,
    /// Datagrams by hash, hash type and bucket, in the last document of a server that counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<Vec<FlowCount>>,
    /// Datagrams of flows beyond the 65,536 that each worker counts apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows_uncounted: Option<u64>,
}

/// The counts of one bucket.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct BucketServed {
    /// The bucket.
    pub bucket: u16,
    /// Where its worker runs.
    pub cpu: u32,
    /// Datagrams received.
    pub seen: u64,
    /// Payload bytes received.
    pub seen_bytes: u64,
    /// Datagrams answered.
    pub answered: u64,
    /// Datagrams lost here, by cause. Before they were seen: `full_buffers` (of the worker's own socket), `mailbox_full`
    /// (between a reader and the worker). Seen but not answered:
    /// `queue_full`, `refused_port`, `refused_peer`, `truncated`, and the causes of failed sends.
    pub dropped: BTreeMap<String, u64>,
    /// Datagrams whose hash was computed again in software.
    pub steering_samples: u64,
    /// Those whose hash names this bucket.
    pub steering_right: u64,
    /// Datagrams of this bucket's flows for which the device tap saw the receiving CPU.
    pub locality_samples: u64,
    /// Those received on this worker's CPU.
    pub locality_right: u64,
    /// Answers that the device tap saw leaving.
    #[serde(default)]
    pub tx_samples: u64,
    /// Those that left on this worker's CPU.
    #[serde(default)]
    pub tx_on_cpu: u64,
    /// Those that left on the bucket's queue.
    #[serde(default)]
    pub tx_on_queue: u64,
    /// Those that left on both.
    #[serde(default)]
    pub tx_right: u64,
    /// Answers of flows that got no connected socket of their own, where they were to have one.
    #[serde(default)]
    pub answered_unconnected: u64,
    /// Where its memory lies; `None` in reports of versions that did not ask.
    #[serde(default)]
    pub memory: Option<WorkerMemory>,
}

impl BucketServed {
    /// Share of sampled datagrams whose hash names this bucket, 0 to 1; `None` without samples.
    #[must_use]
    pub fn steering_ok(&self) -> Option<f64> {
        share(self.steering_right, self.steering_samples)
    }

    /// Share of sampled datagrams received on this worker's CPU, 0 to 1; `None` without samples.
    #[must_use]
    pub fn locality(&self) -> Option<f64> {
        share(self.locality_right, self.locality_samples)
    }

    /// Share of sampled answers that left on this worker's CPU and its bucket's queue, 0 to 1; `None` without samples.
    #[must_use]
    pub fn tx_locality(&self) -> Option<f64> {
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

    /// Share of all sampled datagrams whose hash names the bucket that got them.
    #[must_use]
    pub fn steering_ok(&self) -> Option<f64> {
        share(
            self.sum(|bucket| bucket.steering_right),
            self.sum(|bucket| bucket.steering_samples),
        )
    }

    /// Share of all sampled datagrams received on their worker's CPU.
    #[must_use]
    pub fn locality(&self) -> Option<f64> {
        share(
            self.sum(|bucket| bucket.locality_right),
            self.sum(|bucket| bucket.locality_samples),
        )
    }

    /// Datagrams lost here, by cause, over all workers and the socket they may share; see [`BucketServed::dropped`].
    #[must_use]
    pub fn dropped(&self) -> BTreeMap<String, u64> {
        let mut sum = self.shared_dropped.clone();
        for (cause, count) in self.buckets.iter().flat_map(|bucket| &bucket.dropped) {
            *sum.entry(cause.clone()).or_default() += count;
        }
        sum
    }

    fn sum(&self, count: impl Fn(&BucketServed) -> u64) -> u64 {
        self.buckets.iter().map(count).sum()
    }
}

fn share(right: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| right as f64 / of as f64)
}
