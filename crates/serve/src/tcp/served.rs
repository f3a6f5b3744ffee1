//! What a TCP server took and sent, per bucket: the document that `serve tcp` ends with.

use super::plan::TcpMode;
use corelane_rss::Steering;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// The counts of a TCP server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TcpServed {
    /// `corelane/served-tcp/1`.
    pub schema: String,
    /// Where it listened.
    pub address: SocketAddr,
    /// What it did with each connection.
    pub mode: TcpMode,
    /// The engine that ran.
    pub engine: String,
    /// Why it is not the engine asked for.
    pub engine_reason: Option<String>,
    /// What both ends must agree on.
    pub steering: Steering,
    /// One entry a bucket, in order.
    pub buckets: Vec<BucketTcp>,
}

/// The counts of one bucket.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct BucketTcp {
    /// The bucket.
    pub bucket: u16,
    /// Where its worker runs.
    pub cpu: u32,
    /// Connections that came.
    pub accepted: u64,
    /// Connections that are open, or were when the server was stopped.
    pub open: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Bytes that the kernel took to be sent.
    pub bytes_sent: u64,
    /// Segments received out of order (`TCP_INFO`), of connections looked at while open: what the last look of one that
    /// was reset did not see is missing.
    pub out_of_order_segments: u64,
    /// Segments sent again (`TCP_INFO`), counted alike.
    pub retransmitted_segments: u64,
    /// Times that a connection began to stand still.
    pub stalls: u64,
    /// Connections that stand still.
    pub stalled: u64,
    /// Connections that could not be accepted, by cause.
    pub accept_failed: BTreeMap<String, u64>,
    /// Connections that ended otherwise than closed, by cause.
    pub broken: BTreeMap<String, u64>,
}

impl TcpServed {
    /// One count of all buckets.
    #[must_use]
    pub fn sum(&self, count: impl Fn(&BucketTcp) -> u64) -> u64 {
        self.buckets.iter().map(count).sum()
    }
}
