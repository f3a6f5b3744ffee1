//! What a TCP generator moved, and what stood in its way: the document that `load tcp` ends with.

use super::plan::TcpPlan;
use crate::failure::Failures;
use corelane_measure::histogram::{Histogram, Summary};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TcpLoaded {
    /// `corelane/loaded-tcp/1`.
    pub schema: String,
    /// The engine that ran.
    pub engine: String,
    /// Why it is not the engine asked for.
    pub engine_reason: Option<String>,
    /// Seconds it took to open the connections.
    pub opening_s: f64,
    /// Seconds in which bytes were moved; where it was waited for the last of them, until it had arrived.
    pub running_s: f64,
    /// What all workers counted together.
    pub total: TcpCounts,
    /// 10^9 bits a second that this end sent.
    pub sent_gbit_per_second: f64,
    /// 10^9 bits a second that it received.
    pub received_gbit_per_second: f64,
    /// 10^9 bits sent and received a CPU second of this end.
    pub gbit_per_cpu_second: Option<f64>,
    /// CPU seconds of all workers while bytes were moved.
    pub cpu_s: f64,
    /// How long connections took to open.
    pub connect: Option<Summary>,
    /// The same whole, as an HdrHistogram in V2 form.
    pub connect_histogram: Option<Histogram>,
    /// How late it was looked what a rate allows.
    #[serde(default)]
    pub schedule_lag: Option<Summary>,
    /// The same whole, as an HdrHistogram in V2 form.
    #[serde(default)]
    pub schedule_lag_histogram: Option<Histogram>,
    /// Bytes a second of the connections that were open to the end, both ways together.
    pub rates: Option<Rates>,
    /// Connections that stood still, those that did so longest first; `total.stalls` counts all.
    pub stalled: Vec<Stall>,
    /// What kept the generator from doing what it was told, when something did.
    pub limited_by: Option<String>,
    /// Why a rate was not kept though the generator alone was in the way. `None` where it was kept, and without a rate.
    #[serde(default)]
    pub behind_schedule: Option<String>,
    /// Each worker.
    pub workers: Vec<TcpWorkerLoaded>,
    /// The plan that ran.
    pub plan: TcpPlan,
}

/// How evenly connections fared, bytes a second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Connections.
    pub connections: u64,
    /// The slowest.
    pub min: f64,
    /// One in ten was no faster.
    pub p10: f64,
    /// Half were no faster.
    pub median: f64,
    /// Nine in ten were no faster.
    pub p90: f64,
    /// The fastest.
    pub max: f64,
}

/// A connection that made no progress for a while.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stall {
    /// This end.
    pub local: Option<SocketAddr>,
    /// The other end.
    pub peer: SocketAddr,
    /// Seconds from the start of the run to when it stood still.
    pub since_s: f64,
    /// How long it did; until the end of the run if it never went on.
    pub for_s: f64,
    /// Whether it went on.
    pub ended: bool,
    /// Bytes that it had moved by then, both ways.
    pub bytes: u64,
}

/// What is counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpCounts {
    /// Connections asked for.
    pub asked: u64,
    /// Connections opened.
    pub opened: u64,
    /// Connections open when the run ended.
    pub open_at_end: u64,
    /// Connections that the server had not ended when waiting for that was over: bytes of theirs may be on their way.
    #[serde(default)]
    pub undrained: u64,
    /// Connections that could not be opened, by cause.
    pub not_opened: Failures,
    /// Connections that ended before the run did, by cause.
    pub broken: Failures,
    /// Bytes that the kernel took.
    pub sent_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// How often a connection stood still.
    pub stalls: u64,
    /// Connections that stand still at the end.
    pub stalled_at_end: u64,
    /// Segments sent again (`TCP_INFO`), of connections that were open to the end.
    pub retransmitted: u64,
    /// Segments that came out of order (`TCP_INFO`), of the same.
    pub out_of_order: u64,
}

impl TcpCounts {
    /// Adds what `other` counted.
    pub fn add(&mut self, other: &Self) {
        self.asked += other.asked;
        self.opened += other.opened;
        self.open_at_end += other.open_at_end;
        self.undrained += other.undrained;
        self.not_opened.add(&other.not_opened);
        self.broken.add(&other.broken);
        self.sent_bytes += other.sent_bytes;
        self.received_bytes += other.received_bytes;
        self.stalls += other.stalls;
        self.stalled_at_end += other.stalled_at_end;
        self.retransmitted += other.retransmitted;
        self.out_of_order += other.out_of_order;
    }
}

/// One worker's part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TcpWorkerLoaded {
    /// The CPU it ran on.
    pub cpu: u32,
    /// The bucket that its connections land on, where they were planned so.
    pub bucket: Option<u16>,
    /// What it counted.
    pub counts: TcpCounts,
    /// CPU seconds.
    pub cpu_s: f64,
    /// 10^9 bits a second, both ways together.
    pub gbit_per_second: f64,
}
