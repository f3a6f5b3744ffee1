//! Results of a TCP generator: the final document of `load tcp`.

use super::plan::TcpPlan;
use super::transfer::{Bytes, Stall};
use crate::alignment::AlignmentCounts;
use crate::failure::Failures;
use crate::streams::StreamProtocol;
use corelane_measure::counters;
use corelane_measure::histogram::{Histogram, Summary};
use corelane_measure::time_series::TimeSeries;
use corelane_worker::worker_memory::WorkerMemory;
use serde::{Deserialize, Serialize};

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TcpLoadReport {
    /// `corelane/loaded-tcp/1`.
    pub schema: String,
    /// The engine that ran.
    pub engine: String,
    /// Why it is not the requested engine.
    pub engine_reason: Option<String>,
    /// Seconds spent opening connections.
    pub opening_s: f64,
    /// Seconds during which bytes were moved; when draining, until the last byte had arrived.
    pub running_s: f64,
    /// Sum over all workers.
    pub total: TcpCounts,
    /// Gbit/s sent by this end.
    pub sent_gbit_per_second: f64,
    /// Gbit/s received by this end.
    pub received_gbit_per_second: f64,
    /// Gbit sent and received per CPU second of this end.
    pub gbit_per_cpu_second: Option<f64>,
    /// CPU seconds of all workers while bytes were moved.
    pub cpu_s: f64,
    /// Time to open connections.
    pub connect: Option<Summary>,
    /// The complete histogram, as HdrHistogram V2.
    pub connect_histogram: Option<Histogram>,
    /// Bytes per second over time, both directions summed.
    #[serde(default, skip_serializing_if = "TimeSeries::is_empty")]
    pub over_time: TimeSeries,
    /// Lag of the timer that enforces a rate.
    #[serde(default)]
    pub schedule_lag: Option<Summary>,
    /// The complete histogram, as HdrHistogram V2.
    #[serde(default)]
    pub schedule_lag_histogram: Option<Histogram>,
    /// Bytes per second of the connections that were open until the end, both directions summed.
    pub rates: Option<Rates>,
    /// Where connections landed; absent if sources were not aligned.
    #[serde(rename = "landed", default, skip_serializing_if = "AlignmentCounts::is_empty")]
    pub alignment: AlignmentCounts,
    /// Stalled connections, longest stalls first; `total.stalls` counts all.
    pub stalled: Vec<Stall>,
    /// What limited the generator, if anything did.
    pub limited_by: Option<String>,
    /// Why the run failed as a whole: no connection could be opened, no byte was moved, or every connection ended or
    /// stalled.
    #[serde(default)]
    pub failed_because: Option<String>,
    /// Whether the run was stopped before its end.
    #[serde(default)]
    pub interrupted: bool,
    /// Notes required to interpret the figures.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Why the results show the generator's own limit: a rate was missed, or a worker stood still. `None` otherwise.
    #[serde(default)]
    pub behind_schedule: Option<String>,
    /// Each worker.
    pub workers: Vec<TcpWorkerCounts>,
    /// The plan that ran.
    pub plan: TcpPlan,
}

impl TcpLoadReport {
    /// Name and version of the document format.
    pub const SCHEMA: &'static str = Bytes::SCHEMA;
}

/// Distribution of the rates of connections, in bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Connections.
    pub connections: u64,
    /// Minimum.
    pub min: f64,
    /// 10th percentile.
    pub p10: f64,
    /// Median.
    pub median: f64,
    /// 90th percentile.
    pub p90: f64,
    /// Maximum.
    pub max: f64,
}

counters! {
    /// Counters of a run or worker.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct TcpCounts {
        /// Connections requested.
        pub asked: u64,
        /// Connections opened.
        pub opened: u64,
        /// Connections open when the run ended.
        pub open_at_end: u64,
        /// Connections that the server had not closed when draining timed out: some of their bytes may be in flight.
        #[serde(default)]
        pub undrained: u64,
        /// Connections that could not be opened, by cause.
        pub not_opened: Failures,
        /// Connections that ended before the run, by cause.
        pub broken: Failures,
        /// Bytes accepted by the kernel for sending.
        pub sent_bytes: u64,
        /// Bytes received.
        pub received_bytes: u64,
        /// Number of stalls.
        pub stalls: u64,
        /// Connections stalled at the end.
        pub stalled_at_end: u64,
        /// Retransmitted segments (`TCP_INFO`), of connections that were open until the end.
        pub retransmitted: u64,
        /// Segments received out of order (`TCP_INFO`), of the same connections.
        pub out_of_order: u64,
    }
}

/// Results of one worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TcpWorkerCounts {
    /// The CPU it ran on.
    pub cpu: u32,
    /// The bucket that its connections land on, if so planned.
    pub bucket: Option<u16>,
    /// Its counters.
    pub counts: TcpCounts,
    /// CPU seconds.
    pub cpu_s: f64,
    /// Seconds in which it neither ran nor waited for its CPU although it was due.
    #[serde(default)]
    pub stood_still_s: f64,
    /// NUMA placement of its memory; `None` in documents of versions that did not record it.
    #[serde(default)]
    pub memory: Option<WorkerMemory>,
    /// Gbit/s, both directions summed.
    pub gbit_per_second: f64,
}
