//! Results of a UDP generator: the final document of `load udp`.

use super::protocol::{DatagramProtocol, Probes};
use crate::alignment::AlignmentCounts;
use corelane_measure::counters;
use corelane_measure::histogram::{Histogram, Summary};
use corelane_measure::time_series::TimeSeries;
use corelane_worker::worker_memory::WorkerMemory;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// The outcome of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UdpLoadReport {
    /// `corelane/loaded-NAME/1`, such as `corelane/loaded-udp/1`.
    pub schema: String,
    /// The target address.
    pub target: SocketAddr,
    /// The engine that ran.
    pub engine: String,
    /// Why it is not the requested engine, or not the fastest one.
    pub engine_reason: Option<String>,
    /// Seconds from the first intended send to the last.
    pub sending_s: f64,
    /// Number of sockets.
    pub sockets: usize,
    /// Sum over all workers.
    pub total: Counts,
    /// Round trips from the intended send time; `None` without answers.
    pub round_trip: Option<Summary>,
    /// The complete histogram, as HdrHistogram V2.
    pub round_trip_histogram: Option<Histogram>,
    /// Answers per second over time, or datagrams sent if none are answered; and their round trips.
    #[serde(default, skip_serializing_if = "TimeSeries::is_empty")]
    pub over_time: TimeSeries,
    /// Schedule lag of datagrams; `None` without a schedule.
    pub schedule_lag: Option<Summary>,
    /// Where sockets landed; absent if sources were not aligned.
    #[serde(rename = "landed", default, skip_serializing_if = "AlignmentCounts::is_empty")]
    pub alignment: AlignmentCounts,
    /// What limited the generator, if anything did.
    pub limited_by: Option<String>,
    /// Why the run failed as a whole: nothing was sent, or nothing was answered.
    #[serde(default)]
    pub failed_because: Option<String>,
    /// Whether the run was stopped before its end.
    #[serde(default)]
    pub interrupted: bool,
    /// Notes required to interpret the figures.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Each worker.
    pub workers: Vec<WorkerCounts>,
    /// Each source address.
    pub sources: Vec<SourceCounts>,
}

impl UdpLoadReport {
    /// Name and version of the document format of probes.
    pub const SCHEMA: &'static str = Probes::SCHEMA;
}

counters! {
    /// Datagrams by outcome.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Counts {
        /// Datagrams accepted by the kernel.
        pub sent: u64,
        /// Payload bytes of these datagrams.
        pub sent_bytes: u64,
        /// Intact answers, duplicates excluded.
        pub returned: u64,
        /// Sent and neither returned nor dropped by the generator's own sockets; 0 if no answers were expected.
        pub lost: u64,
        /// Datagrams that the kernel dropped at the generator's own sockets, mostly because it read them too slowly.
        #[serde(default)]
        pub dropped_here: u64,
        /// Duplicate answers.
        pub duplicated: u64,
        /// Answers overtaken by a later one (also counted in `returned`).
        pub reordered: u64,
        /// Answers that fail their check, or match no request.
        pub corrupted: u64,
        /// Intact answers with unexpected content, by what they say; also counted in `returned`.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        pub errors: BTreeMap<String, u64>,
        /// Answers too far behind to be distinguished from duplicates.
        pub too_late: u64,
        /// Datagrams on the schedule that were not sent before the end of the run.
        pub unsent: u64,
        /// Datagrams refused by the kernel, by cause.
        pub refused: BTreeMap<String, u64>,
        /// ICMP errors received, by cause; the datagrams concerned count as sent.
        #[serde(default)]
        pub network_errors: BTreeMap<String, u64>,
    }
}

impl Counts {
    /// The errors that occurred by name, as timelines and metrics have them.
    pub(super) fn errors_by_name(&self) -> BTreeMap<String, u64> {
        let counts = [
            ("corrupted", self.corrupted),
            ("duplicated", self.duplicated),
            ("too_late", self.too_late),
        ];
        let causes = [
            ("refused", &self.refused),
            ("network", &self.network_errors),
            ("answered", &self.errors),
        ];
        let causes = causes.into_iter().flat_map(|(what, causes)| {
            let causes = causes.iter();
            causes.map(move |(cause, count)| (format!("{what}_{cause}"), *count))
        });
        let counts = counts.map(|(name, count)| (name.to_owned(), count));
        let all = counts.into_iter().chain(causes);
        all.filter(|(_, count)| *count > 0).collect()
    }
}

/// Results of one worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorkerCounts {
    /// The CPU it ran on.
    pub cpu: u32,
    /// The bucket its sources were planned for.
    pub bucket: Option<u16>,
    /// Its counts.
    pub counts: Counts,
    /// Seconds in which it neither ran nor waited for its CPU although it was due.
    #[serde(default)]
    pub stood_still_s: f64,
    /// NUMA placement of its memory; `None` in documents of versions that did not record it.
    #[serde(default)]
    pub memory: Option<WorkerMemory>,
}

/// Results of one source address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceCounts {
    /// The address.
    pub address: IpAddr,
    /// The bucket it was planned for.
    pub bucket: Option<u16>,
    /// Number of its sockets.
    pub sockets: usize,
    /// Datagrams queued for sending from it.
    pub sent: u64,
    /// Answers, duplicates excluded.
    pub returned: u64,
}

impl SourceCounts {
    pub(super) fn new(address: IpAddr, bucket: Option<u16>) -> Self {
        Self {
            address,
            bucket,
            sockets: 0,
            sent: 0,
            returned: 0,
        }
    }
}
