//! What a UDP generator sent and got back: the document that `load udp` ends with.

use crate::account::add_named;
use corelane_measure::histogram::{Histogram, Summary};
use corelane_worker::worker_memory::WorkerMemory;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// The outcome of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UdpLoaded {
    /// `corelane/loaded-udp/1`.
    pub schema: String,
    /// Where it sent.
    pub target: SocketAddr,
    /// The engine that ran.
    pub engine: String,
    /// Why it is not the engine asked for, or the faster one.
    pub engine_reason: Option<String>,
    /// Seconds from the first intended send to the last.
    pub sending_s: f64,
    /// Sockets.
    pub sockets: usize,
    /// What all workers counted together.
    pub total: Counts,
    /// Round trips from the intended send time; `None` when no answer came.
    pub round_trip: Option<Summary>,
    /// The same whole, as an HdrHistogram in V2 form.
    pub round_trip_histogram: Option<Histogram>,
    /// How late datagrams left behind their schedule; `None` without a schedule.
    pub schedule_lag: Option<Summary>,
    /// What kept the generator from doing what it was told, when something did.
    pub limited_by: Option<String>,
    /// Each worker.
    pub workers: Vec<WorkerLoaded>,
    /// Each source address.
    pub sources: Vec<SourceLoaded>,
}

/// Datagrams by fate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Datagrams that the kernel took.
    pub sent: u64,
    /// Payload bytes of them.
    pub sent_bytes: u64,
    /// Answers that came back intact for the first time.
    pub returned: u64,
    /// Sent and not returned; 0 when no answers were expected.
    pub lost: u64,
    /// Answers that came again.
    pub duplicated: u64,
    /// Answers overtaken by a later one (counted in `returned` too).
    pub reordered: u64,
    /// Answers that fail their check, or that were never asked for.
    pub corrupted: u64,
    /// Answers that are not what was asked for, by what they say; counted in `returned` too.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, u64>,
    /// Answers too far behind to be told from duplicates.
    pub too_late: u64,
    /// Datagrams on the schedule that were not sent before the run ended.
    pub unsent: u64,
    /// Datagrams that the kernel refused, by cause.
    pub refused: BTreeMap<String, u64>,
    /// Errors that the network sent back (ICMP), by cause; the datagrams that they are about count as sent.
    #[serde(default)]
    pub network_errors: BTreeMap<String, u64>,
}

impl Counts {
    /// Adds another worker's counts.
    pub fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.returned += other.returned;
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.corrupted += other.corrupted;
        self.too_late += other.too_late;
        self.unsent += other.unsent;
        add_named(&mut self.errors, &other.errors);
        add_named(&mut self.refused, &other.refused);
        add_named(&mut self.network_errors, &other.network_errors);
    }
}

/// One worker's part.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorkerLoaded {
    /// The CPU it ran on.
    pub cpu: u32,
    /// The bucket its sources were planned for.
    pub bucket: Option<u16>,
    /// Its counts.
    pub counts: Counts,
    /// Where its memory lies; `None` in reports of versions that did not ask.
    #[serde(default)]
    pub memory: Option<WorkerMemory>,
}

/// One source address's part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceLoaded {
    /// The address.
    pub address: IpAddr,
    /// The bucket it was planned for.
    pub bucket: Option<u16>,
    /// Sockets on it.
    pub sockets: usize,
    /// Datagrams queued to be sent from it.
    pub sent: u64,
    /// Answers returned for the first time.
    pub returned: u64,
}
