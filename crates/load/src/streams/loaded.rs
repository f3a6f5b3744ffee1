//! What a generator of requests asked and got: the document that it ends with; and several of them in one.

use super::plan::{PlannedPool, StreamPlan};
use super::tls::TlsLoaded;
use crate::failure::Failures;
use corelane_measure::histogram::{Histogram, Summary};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamLoaded<P> {
    /// `corelane/loaded-NAME/1`, such as `corelane/loaded-http/1`.
    pub schema: String,
    /// `closed`, `open`, or `mixed` where pools differ.
    pub model: String,
    /// The engine that ran.
    pub engine: String,
    /// Why it is not the engine asked for.
    pub engine_reason: Option<String>,
    /// Seconds it took to open the connections, before any request.
    pub opening_s: f64,
    /// Seconds in which requests were made.
    pub running_s: f64,
    /// Over all pools.
    #[serde(flatten)]
    pub counts: Counts,
    /// Successful requests a second.
    pub requests_per_second: f64,
    /// What kept the generator from doing what it was told, when something did.
    pub limited_by: Option<String>,
    /// The longest that answers of a closed loop gathered before they were taken, in microseconds; `None` where each was taken
    /// as it came. Latencies include it.
    #[serde(default)]
    pub gather_us: Option<f64>,
    /// Why the schedule was not kept though connections were free: the generator alone was in the way, and what was measured
    /// is its own limit. `None` where it was kept, where a server kept every connection busy, and without a schedule.
    #[serde(default)]
    pub behind_schedule: Option<String>,
    /// What the reader should know to judge the figures.
    pub notes: Vec<String>,
    /// What the generator itself cost.
    pub client: ClientCost,
    /// Each phase.
    pub phases: Vec<PhaseLoaded>,
    /// Each pool.
    pub pools: Vec<PoolLoaded>,
    /// Each worker.
    pub workers: Vec<WorkerLoaded>,
    /// The plan that ran.
    pub plan: StreamPlan<P>,
}

/// What several generators asked and got together, that ran at the same time, on one machine or many.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamsMerged {
    /// `corelane/merged-NAME/1`, such as `corelane/merged-http/1`.
    pub schema: String,
    /// Documents that went into it.
    pub documents: usize,
    /// Over all.
    #[serde(flatten)]
    pub counts: Counts,
    /// Successful requests a second, as if all had run at the same time.
    pub requests_per_second: f64,
    /// What limited each generator that was limited.
    pub limited_by: Vec<String>,
    /// Pools of one name and target together.
    pub pools: Vec<PoolLoaded>,
}

/// What was counted and timed, of one worker's part of a pool or of a whole pool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// The counts.
    #[serde(flatten)]
    pub counts: Counts,
    /// The times, which [`counts`](Self::counts) summarises.
    #[serde(flatten)]
    pub histograms: Histograms,
}

/// What was counted, and the summaries of what was timed. Those of a worker's part are made with the whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// Connections by fate.
    pub connections: ConnectionCounts,
    /// Requests by fate.
    pub requests: RequestCounts,
    /// Bytes on connections.
    pub bytes: StreamBytes,
    /// From the intended start of a request to the end of its answer, successful ones only; `None` when there are none.
    pub latency: Option<Summary>,
    /// How long connections took to open, TLS handshakes included.
    pub connect: Option<Summary>,
    /// How long TLS handshakes took; `None` without TLS.
    #[serde(default)]
    pub handshake: Option<Summary>,
    /// What became of TLS, over all pools that use it; `None` where none does.
    #[serde(default)]
    pub tls: Option<TlsLoaded>,
    /// How late requests were sent behind their schedule, for whatever reason; `None` without a schedule.
    pub schedule_lag: Option<Summary>,
}

/// What was timed, whole, as HdrHistograms in V2 form; `null` in documents where nothing was.
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

/// A histogram in documents, which have none where nothing was recorded.
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

/// One phase, as it was seen from outside every few milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseLoaded {
    /// Its name.
    pub name: String,
    /// Seconds from the start of the run to its beginning.
    pub began_s: f64,
    /// Seconds from the start of the run to its end.
    pub ended_s: f64,
    /// Successful requests in it.
    pub ok: u64,
    /// Failed requests in it.
    pub failed: u64,
}

/// One pool's part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PoolLoaded {
    /// Its name.
    pub name: String,
    /// The server that it asks.
    pub target: SocketAddr,
    /// `closed` or `open`.
    pub model: String,
    /// What was counted and timed of it.
    #[serde(flatten)]
    pub tally: Tally,
}

/// Requests by fate: `begun` is `ok`, `failed`, `aborted` and `unfinished` together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestCounts {
    /// Taken from the schedule, or begun by a connection.
    pub begun: u64,
    /// Written to a connection: what the server can have seen.
    pub sent: u64,
    /// Answered in full, with an expected status and the promised body.
    pub ok: u64,
    /// All others that ended, each counted below by cause.
    pub failed: u64,
    /// By cause.
    #[serde(flatten)]
    pub by_cause: Failures,
    /// Given up by the client itself as their answer began, as their pool asks for.
    pub aborted: u64,
    /// Begun, and neither answered nor failed when the run ended.
    pub unfinished: u64,
    /// Due on the schedule, and never begun.
    pub unsent: u64,
    /// Begun late because every connection was busy.
    pub waited_for_connection: u64,
    /// Bodies that were sent because the server asked for them (100 Continue).
    #[serde(default)]
    pub continued: u64,
    /// Bodies that were not sent because the answer came first.
    #[serde(default)]
    pub body_refused: u64,
    /// Bodies that were sent although the server had not asked for them in time.
    #[serde(default)]
    pub continue_timeouts: u64,
}

/// Connections by fate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionCounts {
    /// Asked for.
    pub asked: u64,
    /// Opened, the first time or again.
    pub opened: u64,
    /// Of those, opened after the run began.
    pub opened_again: u64,
    /// Open when the run ended.
    pub open_at_end: u64,
    /// Of those, connections on which no request was ever answered.
    #[serde(default)]
    pub open_unanswered: u64,
    /// Closed by the server in good order.
    pub closed_by_server: u64,
    /// Reset by the server.
    pub reset_by_server: u64,
    /// Ended because bytes came that nobody asked for.
    pub unasked_bytes: u64,
    /// Attempts that failed, by cause.
    pub failed: Failures,
}

/// Bytes on connections, TCP headers left out; with TLS in plain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamBytes {
    /// Sent.
    pub sent: u64,
    /// Received, heads and chunk lines included.
    pub received: u64,
    /// Of those, bodies.
    pub body: u64,
}

/// What the generator itself cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientCost {
    /// CPU seconds of all workers while requests were made.
    pub cpu_s: f64,
    /// Of those, in user code.
    pub user_s: f64,
    /// Of those, in the kernel.
    pub system_s: f64,
    /// Successful requests a CPU second of the client.
    pub requests_per_cpu_second: Option<f64>,
    /// Resident bytes of this process before connections were opened.
    pub resident_before_bytes: Option<u64>,
    /// Resident bytes with all of them open.
    pub resident_open_bytes: Option<u64>,
    /// The difference, by connection that was open.
    pub bytes_a_connection: Option<f64>,
}

/// One worker's part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkerLoaded {
    /// The CPU it ran on.
    pub cpu: u32,
    /// The bucket that its connections land on, where they were planned so.
    pub bucket: Option<u16>,
    /// Connections leased to it.
    pub connections: u64,
    /// Its requests that were answered as expected.
    pub ok: u64,
    /// CPU seconds.
    pub cpu_s: f64,
    /// Seconds that it was ready to run while others had its CPU; 0 where the kernel does not tell.
    #[serde(default)]
    pub waited_for_cpu_s: f64,
}

impl PoolLoaded {
    /// What was counted and timed of a planned pool.
    pub(crate) fn new<P>(planned: &PlannedPool<P>, tally: Tally) -> Self {
        Self {
            name: planned.name.clone(),
            target: planned.target,
            model: planned.model.name().to_owned(),
            tally,
        }
    }
}

impl StreamsMerged {
    /// These documents as one.
    #[must_use]
    pub fn of<P>(documents: &[StreamLoaded<P>]) -> Self {
        let mut pools: Vec<PoolLoaded> = Vec::new();
        for pool in documents.iter().flat_map(|document| &document.pools) {
            let same = |found: &&mut PoolLoaded| (&found.name, found.target) == (&pool.name, pool.target);
            match pools.iter_mut().find(same) {
                Some(found) => found.tally = Tally::sum([&found.tally, &pool.tally]),
                None => pools.push(pool.clone()),
            }
        }
        let mut counts = Tally::sum(pools.iter().map(|pool| &pool.tally)).counts;
        // What pools of earlier versions leave out.
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
                .filter_map(|document| document.limited_by.clone())
                .collect(),
            pools,
        }
    }
}

impl Tally {
    /// All of them in one, with summaries.
    #[must_use]
    pub fn sum<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut sum = Self::default();
        for part in parts {
            let (counts, other) = (&mut sum.counts, &part.counts);
            counts.connections.add(&other.connections);
            counts.requests.add(&other.requests);
            counts.bytes.add(&other.bytes);
            counts.tls = TlsLoaded::sum(counts.tls.iter().chain(&other.tls));
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

impl RequestCounts {
    /// Adds what `other` counted.
    pub fn add(&mut self, other: &Self) {
        self.begun += other.begun;
        self.sent += other.sent;
        self.ok += other.ok;
        self.failed += other.failed;
        self.by_cause.add(&other.by_cause);
        self.aborted += other.aborted;
        self.unfinished += other.unfinished;
        self.unsent += other.unsent;
        self.waited_for_connection += other.waited_for_connection;
        self.continued += other.continued;
        self.body_refused += other.body_refused;
        self.continue_timeouts += other.continue_timeouts;
    }
}

impl ConnectionCounts {
    /// Adds what `other` counted.
    pub fn add(&mut self, other: &Self) {
        self.asked += other.asked;
        self.opened += other.opened;
        self.opened_again += other.opened_again;
        self.open_at_end += other.open_at_end;
        self.open_unanswered += other.open_unanswered;
        self.closed_by_server += other.closed_by_server;
        self.reset_by_server += other.reset_by_server;
        self.unasked_bytes += other.unasked_bytes;
        self.failed.add(&other.failed);
    }
}

impl StreamBytes {
    /// Adds what `other` counted.
    pub fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.received += other.received;
        self.body += other.body;
    }
}
