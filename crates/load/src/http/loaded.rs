//! What an HTTP generator asked and got: the document that `load http` ends with.

use super::plan::HttpPlan;
use super::tls::TlsLoaded;
use crate::failure::Failures;
use corelane_measure::histogram::{Histogram, Summary};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HttpLoaded {
    /// [`HttpLoaded::SCHEMA`].
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
    /// Connections over all pools.
    pub connections: ConnectionCounts,
    /// Requests over all pools, by fate.
    pub requests: RequestCounts,
    /// Successful requests a second.
    pub requests_per_second: f64,
    /// Bytes over all pools.
    pub bytes: HttpBytes,
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
    pub plan: HttpPlan,
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
    /// Its connections.
    pub connections: ConnectionCounts,
    /// Its requests, by fate.
    pub requests: RequestCounts,
    /// Its bytes.
    pub bytes: HttpBytes,
    /// As in the whole.
    pub latency: Option<Summary>,
    /// The same whole, as an HdrHistogram in V2 form.
    pub latency_histogram: Option<Histogram>,
    /// As in the whole.
    pub connect: Option<Summary>,
    /// The same whole.
    pub connect_histogram: Option<Histogram>,
    /// As in the whole.
    #[serde(default)]
    pub handshake: Option<Summary>,
    /// The same whole.
    #[serde(default)]
    pub handshake_histogram: Option<Histogram>,
    /// As in the whole.
    #[serde(default)]
    pub tls: Option<TlsLoaded>,
    /// As in the whole.
    pub schedule_lag: Option<Summary>,
    /// The same whole.
    pub schedule_lag_histogram: Option<Histogram>,
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
pub struct HttpBytes {
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

impl HttpLoaded {
    /// Name and version of the document.
    pub const SCHEMA: &'static str = "corelane/loaded-http/1";
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

impl HttpBytes {
    /// Adds what `other` counted.
    pub fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.received += other.received;
        self.body += other.body;
    }
}
