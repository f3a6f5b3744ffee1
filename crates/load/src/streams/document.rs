//! Results of a generator over streams: the final document, and the merge of several.

use super::plan::StreamPlan;
use super::tls::TlsCounts;
use crate::alignment::AlignmentCounts;
use crate::failure::Failures;
use corelane_measure::counters;
use corelane_measure::counters::Counters;
use corelane_measure::histogram::{Histogram, Summary};
use corelane_measure::time_series::TimeSeries;
use corelane_worker::worker_memory::WorkerMemory;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamLoadReport<P> {
    /// `corelane/loaded-NAME/1`, such as `corelane/loaded-http/1`.
    pub schema: String,
    /// `closed`, `open`, or `mixed` where pools differ.
    pub model: String,
    /// The engine that ran.
    pub engine: String,
    /// Why it is not the requested engine.
    pub engine_reason: Option<String>,
    /// Seconds spent opening connections, before any request.
    pub opening_s: f64,
    /// Seconds during which requests were made.
    pub running_s: f64,
    /// Over all pools.
    #[serde(flatten)]
    pub counts: Counts,
    /// Successful requests per second.
    pub requests_per_second: f64,
    /// What limited the generator, if anything did.
    pub limited_by: Option<String>,
    /// Why the run failed as a whole: no connection could be opened, or no request succeeded.
    #[serde(default)]
    pub failed_because: Option<String>,
    /// Whether the run was stopped before its end.
    #[serde(default)]
    pub interrupted: bool,
    /// Longest time that answers of a closed loop were batched before processing, in microseconds; `None` without
    /// batching. Latencies include it.
    #[serde(default)]
    pub gather_us: Option<f64>,
    /// Why the results show the generator's own limit: the schedule was missed although connections were idle, or a
    /// worker stood still. `None` otherwise, also if the server kept every connection busy.
    #[serde(default)]
    pub behind_schedule: Option<String>,
    /// Notes required to interpret the figures.
    pub notes: Vec<String>,
    /// Resources used by the generator.
    pub client: ClientCost,
    /// Successful requests per second over time, or bytes of transfers; and the latencies of requests.
    #[serde(default, skip_serializing_if = "TimeSeries::is_empty")]
    pub over_time: TimeSeries,
    /// Each phase.
    pub phases: Vec<PhaseReport>,
    /// Each pool.
    pub pools: Vec<PoolCounts>,
    /// Each worker.
    pub workers: Vec<WorkerCounts>,
    /// The plan that ran.
    pub plan: StreamPlan<P>,
}

/// The merged results of several generators that ran at the same time, on one machine or several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamsMerged {
    /// `corelane/merged-NAME/1`, such as `corelane/merged-http/1`.
    pub schema: String,
    /// Number of merged documents.
    pub documents: usize,
    /// Over all.
    #[serde(flatten)]
    pub counts: Counts,
    /// Successful requests per second, as if all had run at the same time.
    pub requests_per_second: f64,
    /// Why each generator was limited or failed, if so.
    pub limited_by: Vec<String>,
    /// Pools, merged by name and target.
    pub pools: Vec<PoolCounts>,
}

/// Counts and times of a pool, or of one worker's part of a pool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// The counts.
    #[serde(flatten)]
    pub counts: Counts,
    /// The histograms that [`counts`](Self::counts) summarises.
    #[serde(flatten)]
    pub histograms: Histograms,
}

/// Counts, and summaries of times. Summaries of a worker's part are only computed for the whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// Connections by outcome.
    pub connections: ConnectionCounts,
    /// Requests by outcome.
    pub requests: RequestCounts,
    /// Bytes on connections.
    pub bytes: StreamBytes,
    /// From the intended start of a request to the end of its answer, for successful requests; `None` without any.
    pub latency: Option<Summary>,
    /// Time to open connections, including TLS handshakes.
    pub connect: Option<Summary>,
    /// Time of TLS handshakes; `None` without TLS.
    #[serde(default)]
    pub handshake: Option<Summary>,
    /// TLS statistics over all pools that use it; `None` without TLS.
    #[serde(default)]
    pub tls: Option<TlsCounts>,
    /// How late requests were sent behind their schedule, for any reason; `None` without a schedule.
    pub schedule_lag: Option<Summary>,
    /// Where connections landed; absent if sources were not aligned.
    #[serde(rename = "landed", default, skip_serializing_if = "AlignmentCounts::is_empty")]
    pub alignment: AlignmentCounts,
}

/// Complete histograms, as HdrHistogram V2; `null` if empty.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Histograms {
    /// Of [`Counts::latency`].
    #[serde(rename = "latency_histogram", with = "recorded")]
    pub latency: Histogram,
    /// Of [`Counts::connect`].
    #[serde(rename = "connect_histogram", with = "recorded")]
    pub connect: Histogram,
    /// Of [`Counts::handshake`].
    #[serde(rename = "handshake_histogram", with = "recorded", default)]
    pub handshake: Histogram,
    /// Of [`Counts::schedule_lag`].
    #[serde(rename = "schedule_lag_histogram", with = "recorded")]
    pub schedule_lag: Histogram,
}

/// Serialises a histogram; `None` if empty.
mod recorded {
    use super::{Deserialize, Histogram, Serialize};
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(histogram: &Histogram, serializer: S) -> Result<S::Ok, S::Error> {
        (histogram.count() > 0).then_some(histogram).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Histogram, D::Error> {
        Option::deserialize(deserializer).map(Option::unwrap_or_default)
    }
}

/// One phase, sampled from outside every few milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseReport {
    /// Its name.
    pub name: String,
    /// Seconds from the start of the run to the start of the phase.
    pub began_s: f64,
    /// Seconds from the start of the run to the end of the phase.
    pub ended_s: f64,
    /// Successful requests in it.
    pub ok: u64,
    /// Failed requests in it.
    pub failed: u64,
}

/// Results of one pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PoolCounts {
    /// Its name.
    pub name: String,
    /// The address of its server.
    pub target: SocketAddr,
    /// `closed` or `open`.
    pub model: String,
    /// Its counts and times.
    #[serde(flatten)]
    pub tally: Tally,
}

counters! {
    /// Requests by outcome: `begun` is the sum of `ok`, `failed`, `aborted` and `unfinished`.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct RequestCounts {
        /// Issued by the schedule, or begun by a connection.
        pub begun: u64,
        /// Written to a connection: upper bound of what the server received.
        pub sent: u64,
        /// Answered completely, with an expected status and body.
        pub ok: u64,
        /// Of those, answered after the measured time, while pending answers were awaited.
        #[serde(default)]
        pub ok_late: u64,
        /// Failed; also counted below by cause.
        pub failed: u64,
        /// Failures by cause.
        #[serde(flatten)]
        pub by_cause: Failures,
        /// Aborted by the client when their answer began, as configured in their pool.
        pub aborted: u64,
        /// Begun, and neither answered nor failed at the end of the run.
        pub unfinished: u64,
        /// Due on the schedule, but never begun.
        pub unsent: u64,
        /// Begun late because every connection was busy.
        pub waited_for_connection: u64,
        /// Bodies sent after 100 Continue.
        #[serde(default)]
        pub continued: u64,
        /// Bodies not sent because the final answer came first.
        #[serde(default)]
        pub body_refused: u64,
        /// Bodies sent without 100 Continue, after the timeout.
        #[serde(default)]
        pub continue_timeouts: u64,
    }
}

counters! {
    /// Connections by outcome.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct ConnectionCounts {
        /// Requested.
        pub asked: u64,
        /// Opened, including reopened ones.
        pub opened: u64,
        /// Of those, opened after the run began.
        pub opened_again: u64,
        /// Open at the end of the run.
        pub open_at_end: u64,
        /// Of those, connections without any answered request.
        #[serde(default)]
        pub open_unanswered: u64,
        /// Closed by the server normally.
        pub closed_by_server: u64,
        /// Reset by the server.
        pub reset_by_server: u64,
        /// Closed because of unexpected bytes.
        pub unasked_bytes: u64,
        /// Failed attempts, by cause.
        pub failed: Failures,
    }
}

counters! {
    /// Bytes on connections, without TCP headers; plaintext with TLS.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct StreamBytes {
        /// Sent.
        pub sent: u64,
        /// Received, including heads and chunk framing.
        pub received: u64,
        /// Of those, body bytes.
        pub body: u64,
    }
}

/// Resources used by the generator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientCost {
    /// CPU seconds of all workers while requests were made.
    pub cpu_s: f64,
    /// Of those, in user mode.
    pub user_s: f64,
    /// Of those, in the kernel.
    pub system_s: f64,
    /// Successful requests per CPU second of the client.
    pub requests_per_cpu_second: Option<f64>,
    /// Resident bytes of this process before connections were opened.
    pub resident_before_bytes: Option<u64>,
    /// Resident bytes with all connections open.
    pub resident_open_bytes: Option<u64>,
    /// The difference per open connection.
    pub bytes_a_connection: Option<f64>,
}

/// Results of one worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkerCounts {
    /// The CPU it ran on.
    pub cpu: u32,
    /// The bucket that its connections land on, if so planned.
    pub bucket: Option<u16>,
    /// Number of its connections.
    pub connections: u64,
    /// Its successful requests.
    pub ok: u64,
    /// CPU seconds.
    pub cpu_s: f64,
    /// Seconds that it was runnable while other threads had its CPU; 0 if the kernel does not report it.
    #[serde(default)]
    pub waited_for_cpu_s: f64,
    /// Seconds in which it neither ran nor waited for its CPU although it was due.
    #[serde(default)]
    pub stood_still_s: f64,
    /// NUMA placement of its memory; `None` in documents of versions that did not record it.
    #[serde(default)]
    pub memory: Option<WorkerMemory>,
}

impl StreamsMerged {
    /// Merges documents.
    #[must_use]
    pub fn of<P>(documents: &[StreamLoadReport<P>]) -> Self {
        let mut pools: Vec<PoolCounts> = Vec::new();
        for pool in documents.iter().flat_map(|document| &document.pools) {
            let same = |found: &&mut PoolCounts| (&found.name, found.target) == (&pool.name, pool.target);
            match pools.iter_mut().find(same) {
                Some(found) => found.tally = Tally::sum([&found.tally, &pool.tally]),
                None => pools.push(pool.clone()),
            }
        }
        let mut counts = Tally::sum(pools.iter().map(|pool| &pool.tally)).counts;
        // Fields missing in documents of earlier versions.
        let (mut open, mut unanswered) = (0, 0);
        for document in documents {
            open += document.counts.connections.open_at_end;
            unanswered += document.counts.connections.open_unanswered;
        }
        (counts.connections.open_at_end, counts.connections.open_unanswered) = (open, unanswered);
        let first = documents.first().map_or("", |document| &document.schema);
        Self {
            schema: first.replace("loaded", "merged"),
            documents: documents.len(),
            counts,
            requests_per_second: documents
                .iter()
                .map(|document| document.requests_per_second)
                .sum(),
            limited_by: documents
                .iter()
                .filter_map(|document| document.failed_because.as_ref().or(document.limited_by.as_ref()))
                .cloned()
                .collect(),
            pools,
        }
    }
}

impl Tally {
    /// Merges all parts, with summaries.
    #[must_use]
    pub fn sum<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut sum = Self::default();
        for part in parts {
            let (counts, other) = (&mut sum.counts, &part.counts);
            counts.connections.add(&other.connections);
            counts.requests.add(&other.requests);
            counts.bytes.add(&other.bytes);
            counts.alignment.add(&other.alignment);
            match (&mut counts.tls, &other.tls) {
                (Some(sum), Some(other)) => sum.add(other),
                (Some(_), None) => {}
                (sum, other) => sum.clone_from(other),
            }
            let (histograms, other) = (&mut sum.histograms, &part.histograms);
            histograms.latency.merge(&other.latency);
            histograms.connect.merge(&other.connect);
            histograms.handshake.merge(&other.handshake);
            histograms.schedule_lag.merge(&other.schedule_lag);
        }
        sum.counts.latency = sum.histograms.latency.summary();
        sum.counts.connect = sum.histograms.connect.summary();
        sum.counts.handshake = sum.histograms.handshake.summary();
        sum.counts.schedule_lag = sum.histograms.schedule_lag.summary();
        sum
    }
}
