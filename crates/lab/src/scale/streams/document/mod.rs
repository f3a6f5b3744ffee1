//! The documents of `corelane lab scale http` and `tcp`: do requests and bytes over TCP scale with buckets, and what
//! stops them?
//!
//! In: what the lab planned and measured. Out: `"schema": "corelane/scale-http/1"` or `"corelane/scale-tcp/1"` as JSON,
//! both ways. The two differ in the metric that a step is judged by: requests
//! or bytes per second. All documents follow the same rules: changes only add fields, field names contain units, raw
//! trials are kept, and an unknown value is `null` with its reason beside it.

mod shape;

pub(crate) use super::memory::FEWEST_TO_SHARE;
pub use super::memory::{CacheGrowth, Memory, MemoryPerConnection};
pub use super::metrics::{BucketBytes, Connections, CpuUse, Segments, Trial};
pub use super::protocol::Protocol;
pub use shape::{Selection, Server, Shape, Traffic};

use super::metrics::{
    CLIENT_PER_REQUEST, LATENCY, LINEARITY, OF_REQUESTS, PAYLOAD, REQUESTS, SERVER_PER_REQUEST, STEERING,
};
use super::protocol::{HTTP, TCP};
use crate::columns::words;
use crate::document::document;
use crate::scale::limit::Limit;
use crate::scale::steps::{self, Kind, Report, active};
use corelane_measure::counters::Counters;
use corelane_measure::metric::{Measured, Metric};
use corelane_measure::statistics;
use corelane_report::reading::Reading;
use corelane_report::table::Column;
use corelane_worker::worker_memory::WorkerMemory;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The whole document; its schema is that of [`Protocol::facts`].
pub type StreamsReport = Report<ByteStreams>;

/// One step. Its metrics are those of [`Protocol::facts`].
pub type Step = steps::Step<ByteStreams>;

/// Steps that differ in the number of active buckets alone.
pub type Series<'a> = steps::Series<'a, ByteStreams>;

document!(StreamsReport, [HTTP.schema, TCP.schema], upgrade: fill_lacking);

/// What only these documents have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByteStreams {
    /// What was measured.
    pub protocol: Protocol,
    /// The command of the server under test; `None` if it was our own.
    pub subject: Option<String>,
    /// What was planned and cannot run here, and why.
    #[serde(default)]
    pub left_out: Vec<String>,
}

/// The metrics whose reason a reader looks for where they are missing.
const LOOKED_FOR: [&str; 7] = [
    REQUESTS.name,
    PAYLOAD.name,
    LINEARITY.name,
    LATENCY.name,
    SERVER_PER_REQUEST.name,
    CLIENT_PER_REQUEST.name,
    STEERING.name,
];

impl Kind for ByteStreams {
    type Selection = Selection;
    type Shape = Shape;
    type Found = Found;
    type Trial = Trial;

    const OF_WORKERS_ALONE: bool = false;

    fn name(&self) -> &'static str {
        self.protocol.facts().name
    }

    fn metrics(&self) -> &'static [&'static Metric<Trial>] {
        self.protocol.facts().metrics
    }

    fn columns() -> Vec<Reading<'static, Step>> {
        let traffic = Column::left("traffic").may_shrink();
        vec![
            words("server", |step: &Step| step.shape.server.to_string()),
            words("clients", |step: &Step| step.shape.placement.to_string()),
            Reading::new(traffic, |step: &Step| step.shape.load_words()),
            active(),
        ]
    }

    fn fill(found: &mut Found, valid: &[&Trial]) {
        let errors = valid
            .iter()
            .flat_map(|trial| [&trial.errors, &trial.connections.failed]);
        found.errors = Counters::sum(errors);
        let segments = valid.iter().filter_map(|trial| trial.segments);
        found.segments = segments.reduce(|sum, segments| sum.plus(&segments));
        found.kernel = Counters::sum(valid.iter().map(|trial| &trial.kernel));
        let memories = || valid.iter().filter_map(|trial| trial.memory.as_ref());
        let each: Vec<_> = memories().map(Memory::per_connection).collect();
        let median = |part: fn(&MemoryPerConnection) -> Option<f64>| {
            statistics::median(&each.iter().filter_map(part).collect::<Vec<_>>())
        };
        found.memory_per_connection = MemoryPerConnection {
            client_user_bytes: median(|each| each.client_user_bytes),
            server_user_bytes: median(|each| each.server_user_bytes),
            kernel_bytes: median(|each| each.kernel_bytes),
        };
        found.memory = memories().next_back().cloned();
        found.worker_memory = valid
            .last()
            .map_or_else(Vec::new, |trial| trial.worker_memory.clone());
    }

    fn missing(&self, step: &Step) -> Vec<&'static str> {
        let missing = LOOKED_FOR.into_iter().filter(|name| step.values().is_null(name));
        missing
            .chain(step.found.memory.is_none().then_some("memory"))
            .collect()
    }

    fn reason(&self, _step: &Step, field: &str) -> Option<&'static str> {
        (!self.is_news(field)).then_some("bytes are measured, not requests")
    }

    fn law_rate(&self, step: &Step) -> Option<f64> {
        Some(self.metrics()[0].of(step)? * self.protocol.facts().events)
    }

    fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// That there are no requests where bytes are measured is no news to a reader.
    fn is_news(&self, field: &str) -> bool {
        self.protocol == Protocol::Http || !OF_REQUESTS.contains(&field)
    }
}

impl StreamsReport {
    /// Where memory went in the step with the most connections, controls left out; `None` if there were too few.
    pub(crate) fn fullest_memory(&self) -> Option<&Memory> {
        let steps = self
            .steps
            .iter()
            .filter(|step| step.shape.server != Server::Reuseport);
        let all = steps.filter_map(|step| step.found.memory.as_ref());
        let most = all.max_by_key(|memory| memory.connections);
        most.filter(|memory| memory.connections >= FEWEST_TO_SHARE)
    }
}

/// The fields specific to steps of requests and bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Found {
    /// Errors of requests and connections by cause, summed over the valid trials.
    pub errors: BTreeMap<String, u64>,
    /// Segments that TCP sent again or received out of order, and stalls, summed over the valid trials.
    pub segments: Option<Segments>,
    /// Kernel counters that indicate a limit and increased, summed over the valid trials.
    pub kernel: BTreeMap<String, u64>,
    /// Memory per connection, medians.
    pub memory_per_connection: MemoryPerConnection,
    /// Memory use in the last valid trial.
    pub memory: Option<Memory>,
    /// NUMA placement of our server's workers in the last valid trial; empty if no policy was requested.
    #[serde(
        deserialize_with = "steps::through_json",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub worker_memory: Vec<WorkerMemory>,
    /// The limit of this step.
    pub limit: Option<Limit>,
}

impl Found {
    /// What went wrong and what the kernel counted, with how often, where it was. Segments sent again are left out
    /// where they have a number of their own.
    pub fn counted_errors(&self) -> impl Iterator<Item = (&str, u64)> {
        let reported = |name: &str| self.segments.is_some() && name.ends_with(".segments_sent_again");
        let counted = self.errors.iter().chain(&self.kernel);
        counted
            .map(|(what, times)| (what.as_str(), *times))
            .filter(move |(what, times)| *times > 0 && !reported(what))
    }
}
