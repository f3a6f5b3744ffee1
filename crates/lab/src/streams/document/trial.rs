//! The raw counts of one trial.

use super::Memory;
use crate::document::CpuShare;
use crate::steps;
use crate::tried::Tried;
use corelane_measure::histogram::Histogram;
use corelane_measure::share::Share;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// One trial. Counts are of the measured time alone, from when every connection was open.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The trial's step, round and status.
    #[serde(flatten)]
    pub tried: Tried,
    /// Requests answered correctly, counted by the client; 0 for TCP.
    pub requests_ok: u64,
    /// Requests that the server answered, by its own count; `None` if it does not report them.
    pub served_requests: Option<u64>,
    /// Errors by cause.
    #[serde(default)]
    pub errors: BTreeMap<String, u64>,
    /// Bytes that the client received.
    pub received_bytes: u64,
    /// Bytes that the client sent.
    pub sent_bytes: u64,
    /// Time from the intended send to the response.
    pub latency: Option<Histogram>,
    /// Delay of requests behind their schedule.
    pub schedule_lag: Option<Histogram>,
    /// Connection counts.
    pub connections: Connections,
    /// Retransmissions, reordering and stalls, on both sides.
    #[serde(default)]
    pub segments: Option<Segments>,
    /// Counts of both sides per bucket; empty if not reported.
    #[serde(default)]
    pub per_bucket: Vec<BucketBytes>,
    /// CPU time.
    #[serde(default)]
    pub cpu: CpuUse,
    /// CPU time shares.
    #[serde(default)]
    pub cpu_shares: Vec<CpuShare>,
    /// Connections on the bucket selected by their hash.
    pub steering: Option<Share>,
    /// Kernel counters that indicate a limit and increased, by side and name: `server.overflows`.
    #[serde(default)]
    pub kernel: BTreeMap<String, u64>,
    /// Where memory went while every connection was open.
    pub memory: Option<Memory>,
    /// Limits that the generator reported.
    pub limited_by: Option<String>,
    /// The reports of server and generator as they wrote them.
    #[serde(default)]
    pub raw: Value,
}

/// Connection counts of a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Connections {
    /// Connections requested.
    pub asked: u64,
    /// Connections established.
    pub opened: u64,
    /// Connections still open at the end of the measurement.
    pub held: u64,
    /// Connections that failed to open, by cause.
    #[serde(default)]
    pub failed: BTreeMap<String, u64>,
    /// Seconds until all successful connections were open.
    pub opening_s: Option<f64>,
}

/// Retransmissions, reordering and stalls of both sides, from the kernel's counts per connection (`TCP_INFO`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segments {
    /// Segments retransmitted.
    pub sent_again: u64,
    /// Segments received out of order.
    pub out_of_order: u64,
    /// Periods in which a connection made no progress.
    pub stalls: u64,
}

impl Segments {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            sent_again: self.sent_again + other.sent_again,
            out_of_order: self.out_of_order + other.out_of_order,
            stalls: self.stalls + other.stalls,
        }
    }
}

/// Counts of both sides of one bucket, from the first connection until everything had arrived. `None` if a side does
/// not count per bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketBytes {
    /// The bucket.
    pub bucket: u16,
    /// Connections whose source ports were planned for it.
    pub connections_planned: Option<u64>,
    /// Connections that came to it.
    pub connections: u64,
    /// Bytes that its clients sent.
    pub client_sent: Option<u64>,
    /// Bytes that its worker received.
    pub server_received: u64,
    /// Bytes that its worker sent.
    pub server_sent: u64,
    /// Bytes that its clients received.
    pub client_received: Option<u64>,
}

/// CPU time of a trial in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuUse {
    /// Of the server's processes.
    pub server_ns: Option<u64>,
    /// Of the client's process.
    pub client_ns: Option<u64>,
}

impl steps::Trial for Trial {
    fn tried(&self) -> &Tried {
        &self.tried
    }

    fn tried_mut(&mut self) -> &mut Tried {
        &mut self.tried
    }

    fn cpu_shares(&self) -> &[CpuShare] {
        &self.cpu_shares
    }
}

impl Trial {
    /// Bytes both ways, by the client's count.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.received_bytes + self.sent_bytes
    }
}
