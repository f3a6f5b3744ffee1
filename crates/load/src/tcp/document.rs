//! Results of a TCP generator: the final document of `load tcp`.

use super::plan::TcpPlan;
use super::transfer::{Bytes, Stall};
use crate::account::merge;
use crate::alignment::AlignmentCounts;
use crate::document::{LoadReport, RunOutcome};
use crate::failure::Failures;
use crate::streams::{StreamProtocol, TlsCounts};
use corelane_measure::counters;
use corelane_measure::counters::Counters;
use corelane_measure::histogram::{Histogram, Summary};
use corelane_measure::metric::{Metric, Sample, Show};
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
    /// Time of TLS handshakes; absent without TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshake: Option<Summary>,
    /// TLS statistics; absent without TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsCounts>,
    /// The complete histogram, as HdrHistogram V2.
    pub connect_histogram: Option<Histogram>,
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
    /// How the run ended.
    #[serde(flatten)]
    pub outcome: RunOutcome,
    /// Why the results show the generator's own limit: a rate was missed, or a worker stood still. `None` otherwise.
    #[serde(default)]
    pub behind_schedule: Option<String>,
    /// Each worker.
    pub workers: Vec<TcpWorkerCounts>,
    /// The plan that ran.
    pub plan: TcpPlan,
}

/// What several runs amount to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TcpSum {
    /// Counters of all runs.
    pub total: TcpCounts,
    /// Gbit/s sent, as if all had run at the same time.
    pub sent_gbit_per_second: f64,
    /// Gbit/s received.
    pub received_gbit_per_second: f64,
    /// Gbit sent and received per CPU second of the generators.
    pub gbit_per_cpu_second: Option<f64>,
    /// CPU seconds while bytes were moved.
    pub cpu_s: f64,
    /// Time to open connections.
    pub connect: Option<Summary>,
    /// The complete histogram, as HdrHistogram V2.
    pub connect_histogram: Option<Histogram>,
    /// Lag of the timer that enforces a rate.
    pub schedule_lag: Option<Summary>,
    /// The complete histogram, as HdrHistogram V2.
    pub schedule_lag_histogram: Option<Histogram>,
    /// TLS statistics; absent without TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsCounts>,
    /// Where connections landed; absent if sources were not aligned.
    #[serde(rename = "landed", skip_serializing_if = "AlignmentCounts::is_empty")]
    pub alignment: AlignmentCounts,
    /// Stalled connections, longest stalls first.
    pub stalled: Vec<Stall>,
}

impl LoadReport for TcpLoadReport {
    const SCHEMA: &'static str = Bytes::SCHEMA;
    const OVER_TIME: &'static Metric<f64> = &Metric::more("gbit_over_time", "sum over time", Show::Fixed(3))
        .unit("Gbit/s")
        .read(|bytes| Some(Sample::Number(bytes * 8.0 / 1e9)));
    type Sum = TcpSum;

    fn outcome(&self) -> &RunOutcome {
        &self.outcome
    }

    fn outcome_mut(&mut self) -> &mut RunOutcome {
        &mut self.outcome
    }

    fn check(&self) -> Result<(), String> {
        match self.total == TcpCounts::sum(self.workers.iter().map(|worker| &worker.counts)) {
            true => Ok(()),
            false => Err("the total is not the sum of the workers' counts".to_owned()),
        }
    }

    fn sum(reports: &[Self]) -> TcpSum {
        let all = || reports.iter();
        let (connect_histogram, connect) = merge(all().filter_map(|run| run.connect_histogram.as_ref()));
        let (schedule_lag_histogram, schedule_lag) =
            merge(all().filter_map(|run| run.schedule_lag_histogram.as_ref()));
        let total = TcpCounts::sum(all().map(|run| &run.total));
        let cpu_s = all().map(|run| run.cpu_s).sum();
        TcpSum {
            sent_gbit_per_second: all().map(|run| run.sent_gbit_per_second).sum(),
            received_gbit_per_second: all().map(|run| run.received_gbit_per_second).sum(),
            gbit_per_cpu_second: total.gbit_per_cpu_second(cpu_s),
            total,
            cpu_s,
            connect,
            connect_histogram,
            schedule_lag,
            schedule_lag_histogram,
            tls: TlsCounts::sum(all().map(|run| &run.tls)),
            alignment: AlignmentCounts::sum(all().map(|run| &run.alignment)),
            stalled: longest(all().flat_map(|run| run.stalled.iter().cloned())),
        }
    }
}

/// Maximum number of stalls listed in a document.
const STALLS_NAMED: usize = 256;

/// The longest stalls, longest first.
pub(super) fn longest(stalls: impl Iterator<Item = Stall>) -> Vec<Stall> {
    let mut stalls: Vec<Stall> = stalls.collect();
    stalls.sort_by(|one, other| other.for_s.total_cmp(&one.for_s));
    stalls.truncate(STALLS_NAMED);
    stalls
}

impl TcpCounts {
    /// Gbit sent and received per CPU second.
    pub(super) fn gbit_per_cpu_second(&self, cpu_s: f64) -> Option<f64> {
        let gbit = (self.sent_bytes as f64 + self.received_bytes as f64) * 8.0 / 1e9;
        Some(gbit / cpu_s).filter(|rate| rate.is_finite())
    }
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
        /// Bytes accepted by the kernel for sending; with TLS of plaintext, less the overhead of records that are still
        /// queued.
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
