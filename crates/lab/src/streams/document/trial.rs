//! One trial as it was counted.

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
    /// Which trial, and how it ended.
    #[serde(flatten)]
    pub tried: Tried,
    /// Requests answered as they should be, by the client's count; 0 for TCP.
    pub requests_ok: u64,
    /// Requests that the server answered, by its own count; `None` where it does not tell.
    pub served_requests: Option<u64>,
    /// What went wrong, by cause.
    #[serde(default)]
    pub errors: BTreeMap<String, u64>,
    /// Bytes that the client received.
    pub received_bytes: u64,
    /// Bytes that the client sent.
    pub sent_bytes: u64,
    /// From when a request was to be sent until it was answered.
    pub latency: Option<Histogram>,
    /// How late requests were sent, where a schedule said when.
    pub schedule_lag: Option<Histogram>,
    /// What became of the connections.
    pub connections: Connections,
    /// What TCP had to mend, and what stood still, on both sides.
    #[serde(default)]
    pub segments: Option<Segments>,
    /// What both sides of each bucket counted; empty where they do not tell.
    #[serde(default)]
    pub per_bucket: Vec<BucketBytes>,
    /// CPU time.
    #[serde(default)]
    pub cpu: CpuUse,
    /// How each CPU spent the time.
    #[serde(default)]
    pub cpu_shares: Vec<CpuShare>,
    /// Connections whose bucket is the one that their hash names.
    pub steering: Option<Share>,
    /// Counters of the kernel that moved and tell of a limit, by side and name: `server.overflows`.
    #[serde(default)]
    pub kernel: BTreeMap<String, u64>,
    /// Where memory went while every connection was open.
    pub memory: Option<Memory>,
    /// What the generator says limited it.
    pub limited_by: Option<String>,
    /// The reports of server and generator as they wrote them.
    #[serde(default)]
    pub raw: Value,
}

/// What became of the connections of a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Connections {
    /// Asked for.
    pub asked: u64,
    /// Established.
    pub opened: u64,
    /// Still open when measuring ended.
    pub held: u64,
    /// Those that never opened, by cause.
    #[serde(default)]
    pub failed: BTreeMap<String, u64>,
    /// Seconds until all that could be were open.
    pub opening_s: Option<f64>,
}

/// What TCP had to mend, and what stood still, of both sides together: the kernel's own counts of each connection (`TCP_INFO`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segments {
    /// Segments sent again.
    pub sent_again: u64,
    /// Segments received out of order.
    pub out_of_order: u64,
    /// Times that a connection made no progress for a while.
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

/// What both sides of one bucket counted, from the first connection to when everything had arrived. What a side cannot tell
/// apart by bucket is `None`.
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
