//! One trial as it was counted.

use super::{Memory, Protocol};
use crate::document::CpuShare;
use crate::document::TrialStatus;
use corelane_measure::histogram::Histogram;
use corelane_measure::share::Share;
use corelane_measure::statistics;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// One trial. Counts are of the measured time alone, from when every connection was open.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Index into the report's steps.
    pub step: usize,
    /// The round; trials of one round were measured next to each other.
    pub round: usize,
    /// Whether the numbers may be used.
    pub status: TrialStatus,
    /// Why not, in words.
    pub why: Option<String>,
    /// Seconds that were measured.
    pub duration_s: f64,
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
    /// Why a field is null: field name to reason.
    #[serde(default)]
    pub unknown: BTreeMap<String, String>,
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

impl Trial {
    /// A trial that counted nothing, to be filled in.
    #[must_use]
    pub fn new(step: usize, round: usize) -> Self {
        Self {
            step,
            round,
            status: TrialStatus::Valid,
            why: None,
            duration_s: 0.0,
            requests_ok: 0,
            served_requests: None,
            errors: BTreeMap::new(),
            received_bytes: 0,
            sent_bytes: 0,
            latency: None,
            schedule_lag: None,
            connections: Connections::default(),
            segments: None,
            per_bucket: Vec::new(),
            cpu: CpuUse::default(),
            cpu_shares: Vec::new(),
            steering: None,
            kernel: BTreeMap::new(),
            memory: None,
            limited_by: None,
            unknown: BTreeMap::new(),
            raw: Value::Null,
        }
    }

    /// Whether the numbers may be used.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.status == TrialStatus::Valid && self.duration_s > 0.0
    }

    /// Requests answered a second.
    #[must_use]
    pub fn requests_per_s(&self) -> f64 {
        self.requests_ok as f64 / self.duration_s
    }

    /// Bytes both ways, in Gb/s (10^9 bits).
    #[must_use]
    pub fn gbit_s(&self) -> f64 {
        (self.received_bytes + self.sent_bytes) as f64 * 8.0 / 1e9 / self.duration_s
    }

    /// What the trial is judged by: requests a second, or Gb/s.
    #[must_use]
    pub fn main_rate(&self, protocol: Protocol) -> f64 {
        match protocol {
            Protocol::Http => self.requests_per_s(),
            Protocol::Tcp => self.gbit_s(),
        }
    }

    /// CPU microseconds of one side for each request.
    #[must_use]
    pub fn cpu_us_per_request(&self, cpu_ns: Option<u64>) -> Option<f64> {
        statistics::ratio(cpu_ns? as f64 / 1e3, self.requests_ok as f64)
    }

    /// Bytes, either way, for each second of CPU time of one side.
    #[must_use]
    pub fn bytes_per_cpu_s(&self, cpu_ns: Option<u64>) -> Option<f64> {
        let bytes = (self.received_bytes + self.sent_bytes) as f64;
        statistics::ratio(bytes, cpu_ns? as f64 / 1e9)
    }

    /// CPU nanoseconds of one side for each KiB, either way.
    #[must_use]
    pub fn cpu_ns_per_kib(&self, cpu_ns: Option<u64>) -> Option<f64> {
        let kib = (self.received_bytes + self.sent_bytes) as f64 / 1024.0;
        statistics::ratio(cpu_ns? as f64, kib)
    }
}
