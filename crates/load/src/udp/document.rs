//! Results of a UDP generator: the final document of `load udp`.

use super::protocol::{DatagramProtocol, Probes};
use crate::account::merge;
use crate::alignment::AlignmentCounts;
use crate::document::{LoadReport, RunOutcome, is_default};
use crate::streams::OwnCounts;
use corelane_measure::counters;
use corelane_measure::counters::Counters;
use corelane_measure::histogram::{Histogram, Summary};
use corelane_worker::worker_memory::WorkerMemory;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// The outcome of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct UdpLoadReport<P: DatagramProtocol = Probes> {
    /// `corelane/loaded-NAME/1`, such as `corelane/loaded-udp/1`.
    pub schema: String,
    /// The target address.
    pub target: SocketAddr,
    /// The engine that ran.
    pub engine: String,
    /// Why it is not the requested engine, or not the fastest one.
    pub engine_reason: Option<String>,
    /// Seconds that opening the sockets took, before the first intended send; absent in documents of earlier versions.
    #[serde(default, skip_serializing_if = "is_default")]
    pub opening_s: f64,
    /// Seconds from the first intended send to the last.
    pub sending_s: f64,
    /// Number of sockets.
    pub sockets: usize,
    /// Sum over all workers.
    pub total: Counts<P::Counts>,
    /// Round trips from the intended send time; `None` without answers.
    pub round_trip: Option<Summary>,
    /// The complete histogram, as HdrHistogram V2.
    pub round_trip_histogram: Option<Histogram>,
    /// Schedule lag of datagrams; `None` without a schedule.
    pub schedule_lag: Option<Summary>,
    /// Where sockets landed; absent if sources were not aligned.
    #[serde(rename = "landed", default, skip_serializing_if = "AlignmentCounts::is_empty")]
    pub alignment: AlignmentCounts,
    /// How the run ended.
    #[serde(flatten)]
    pub outcome: RunOutcome,
    /// Each worker.
    pub workers: Vec<WorkerCounts<P::Counts>>,
    /// Each source address.
    pub sources: Vec<SourceCounts>,
}

/// What several runs amount to.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(bound = "C: OwnCounts")]
pub struct UdpSum<C> {
    /// Number of sockets.
    pub sockets: usize,
    /// Datagrams sent per second, as if all had run at the same time.
    pub sent_per_second: f64,
    /// Answers per second.
    pub returned_per_second: f64,
    /// Datagrams by outcome.
    pub total: Counts<C>,
    /// Round trips from the intended send time; `None` without answers.
    pub round_trip: Option<Summary>,
    /// The complete histogram, as HdrHistogram V2.
    pub round_trip_histogram: Option<Histogram>,
    /// Where sockets landed; absent if sources were not aligned.
    #[serde(rename = "landed", skip_serializing_if = "AlignmentCounts::is_empty")]
    pub alignment: AlignmentCounts,
    /// Source addresses.
    pub sources: Vec<SourceCounts>,
}

impl<P: DatagramProtocol> LoadReport for UdpLoadReport<P> {
    const SCHEMA: &'static str = P::SCHEMA;
    type Sum = UdpSum<P::Counts>;

    fn outcome(&self) -> &RunOutcome {
        &self.outcome
    }

    fn outcome_mut(&mut self) -> &mut RunOutcome {
        &mut self.outcome
    }

    fn check(&self) -> Result<(), String> {
        let Counts { sent, returned, .. } = &self.total;
        if returned > sent {
            return Err(format!("{returned} answers to {sent} datagrams"));
        }
        // Causes of what is lost are known of the whole only.
        let sum = Counts::sum(self.workers.iter().map(|worker| &worker.counts));
        match (*sent, *returned) == (sum.sent, sum.returned) {
            true => Ok(()),
            false => Err("the total is not the sum of the workers' counts".to_owned()),
        }
    }

    fn sum(reports: &[Self]) -> Self::Sum {
        let histograms = reports.iter().filter_map(|run| run.round_trip_histogram.as_ref());
        let (round_trip_histogram, round_trip) = merge(histograms);
        let sources = reports.iter().flat_map(|run| run.sources.iter().cloned());
        UdpSum {
            sockets: (reports.iter()).fold(0, |all, run| all.saturating_add(run.sockets)),
            sent_per_second: reports.iter().map(|run| run.per_second(run.total.sent)).sum(),
            returned_per_second: reports.iter().map(|run| run.per_second(run.total.returned)).sum(),
            total: Counts::sum(reports.iter().map(|run| &run.total)),
            round_trip,
            round_trip_histogram,
            alignment: AlignmentCounts::sum(reports.iter().map(|run| &run.alignment)),
            sources: SourceCounts::sum(sources),
        }
    }
}

counters! {
    /// Datagrams by outcome.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(bound = "C: OwnCounts")]
    pub struct Counts<C> {
        /// Datagrams accepted by the kernel.
        pub sent: u64,
        /// Payload bytes of these datagrams.
        pub sent_bytes: u64,
        /// Intact answers, duplicates excluded.
        pub returned: u64,
        /// Sent and neither returned nor dropped at the generator's own sockets; 0 if no answers were expected.
        pub lost: u64,
        /// Datagrams that the kernel dropped at the generator's own sockets, mostly because it read them too slowly. Of one
        /// worker, those with a bad checksum are among them.
        #[serde(default)]
        pub dropped_here: u64,
        /// Datagrams that reached the generator's own sockets with a bad checksum, of all workers: the kernel counts them
        /// for a network namespace. 0 of one worker.
        #[serde(default, skip_serializing_if = "is_default")]
        pub bad_checksum: u64,
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
        /// The protocol's own counters.
        #[serde(rename = "requests", default, skip_serializing_if = "is_default")]
        pub own: C,
    }
}

impl<C: OwnCounts> Counts<C> {
    /// What has causes: its name in timelines and metrics, its words in reports, and its counts.
    pub(super) fn by_cause(&self) -> impl Iterator<Item = (&str, &str, &BTreeMap<String, u64>)> {
        [
            ("answered", "answered", &self.errors),
            ("refused", "refused", &self.refused),
            ("network", "answered by ICMP", &self.network_errors),
        ]
        .into_iter()
    }

    /// The errors that occurred by name, as timelines and metrics have them.
    pub(super) fn errors_by_name(&self) -> BTreeMap<String, u64> {
        let counts = [
            ("corrupted", self.corrupted),
            ("duplicated", self.duplicated),
            ("too_late", self.too_late),
        ];
        let mut errors = BTreeMap::from(counts.map(|(name, count)| (name.to_owned(), count)));
        for (what, _, causes) in self.by_cause() {
            errors.extend(
                causes
                    .iter()
                    .map(|(cause, count)| (format!("{what}_{cause}"), *count)),
            );
        }
        errors.extend(self.own.errors());
        errors.retain(|_, count| *count > 0);
        errors
    }
}

/// Results of one worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(bound = "C: OwnCounts")]
pub struct WorkerCounts<C> {
    /// The CPU it ran on.
    pub cpu: u32,
    /// The bucket its sources were planned for.
    pub bucket: Option<u16>,
    /// Its counts.
    pub counts: Counts<C>,
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
    /// Sums the counts of each address and bucket.
    pub(super) fn sum(parts: impl Iterator<Item = Self>) -> Vec<Self> {
        let mut sums = BTreeMap::<_, Self>::new();
        for part in parts {
            let sum = sums.entry((part.bucket, part.address));
            sum.and_modify(|sum| {
                sum.sockets = sum.sockets.saturating_add(part.sockets);
                sum.sent.add(&part.sent);
                sum.returned.add(&part.returned);
            })
            .or_insert(part);
        }
        sums.into_values().collect()
    }
}
