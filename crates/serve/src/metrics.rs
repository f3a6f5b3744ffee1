//! The metrics that servers share, each declared once: for the table that a server prints at its end, and for its
//! endpoint. Each server declares those of its protocol.

use crate::streams::ConnectionCounts;
use corelane_measure::metric::{Metric, Sample, Show};
use corelane_report::exposition::{Exposition, Labels};
use corelane_rss::Steering;
use corelane_worker::rebalancing::Rebalanced;
use std::collections::BTreeMap;
use std::fmt::Display;

/// The beginning of the names of all servers' metrics.
pub(crate) const PREFIX: &str = "corelane_serve";

/// A whole number as a sample.
pub(crate) fn number(count: u64) -> Option<Sample<'static>> {
    Some(Sample::Number(count as f64))
}

static INFO: Metric<()> = Metric::explaining("info", "server", Show::Count)
    .about("The server: its kind, engine and version.")
    .read(|()| number(1));

static GENERATION: Metric<Steering> = Metric::explaining("table_generation", "generation", Show::Count)
    .about("Generation of the indirection table, which every change increases.")
    .read(|steering| number(steering.generation));

static BALANCE: Metric<Vec<u64>> = Metric::more("balance_ratio", "balance", Show::Ratio)
    .about("Mean load of a bucket since the start, divided by the highest of any bucket; 1 if all are equal.")
    .read(|loads| {
        let (sum, most) = (loads.iter().sum::<u64>(), loads.iter().max()?);
        (*most > 0).then(|| Sample::Number(sum as f64 / loads.len() as f64 / *most as f64))
    });

static DECISIONS: Metric<Rebalanced> =
    Metric::explaining("rebalance_decisions_total", "decisions", Show::Count)
        .about("Decisions of rebalancing, of which most move nothing.")
        .read(|rebalanced| number(rebalanced.decisions));

static MOVED: Metric<Rebalanced> = Metric::explaining("rebalance_moved_entries_total", "moved", Show::Count)
    .about("Entries of the indirection table moved by rebalancing.")
    .read(|rebalanced| number(rebalanced.moved));

/// Connections accepted.
pub static ACCEPTED: Metric<ConnectionCounts> =
    Metric::more("accepted_connections_total", "accepted", Show::Count)
        .about("Connections accepted.")
        .read(|connections| number(connections.accepted));

/// Connections open now.
pub static OPEN: Metric<ConnectionCounts> = Metric::explaining("open_connections", "open", Show::Count)
    .about("Connections open now.")
    .read(|connections| number(connections.open));

/// Bytes received on connections.
pub static RECEIVED: Metric<ConnectionCounts> = Metric::more("received_bytes_total", "received", Show::Bytes)
    .about("Bytes received on connections.")
    .read(|connections| number(connections.bytes_received));

/// Bytes sent on connections.
pub static SENT: Metric<ConnectionCounts> = Metric::more("sent_bytes_total", "sent", Show::Bytes)
    .about("Bytes that the kernel accepted for sending on connections.")
    .read(|connections| number(connections.bytes_sent));

/// What every bucket server exposes.
pub(crate) struct BucketServer<'a> {
    /// `udp`, `tcp` or `http`.
    pub(crate) kind: &'static str,
    pub(crate) engine: &'a str,
    pub(crate) steering: &'a Steering,
    pub(crate) rebalanced: Option<&'a Rebalanced>,
    /// The load of each bucket: datagrams, requests or bytes.
    pub(crate) loads: Vec<u64>,
}

impl BucketServer<'_> {
    pub(crate) fn expose(&self, exposition: &mut Exposition) {
        let labels = [
            ("kind", self.kind),
            ("engine", self.engine),
            ("version", env!("CARGO_PKG_VERSION")),
        ];
        let labels = labels.map(|(label, value)| (label, value.to_owned()));
        exposition.add(PREFIX, &INFO, [(labels.to_vec(), &())]);
        exposition.add(PREFIX, &GENERATION, [(Labels::new(), self.steering)]);
        exposition.add(PREFIX, &BALANCE, [(Labels::new(), &self.loads)]);
        let rebalanced = || self.rebalanced.map(|rebalanced| (Labels::new(), rebalanced));
        exposition.add(PREFIX, &DECISIONS, rebalanced());
        exposition.add(PREFIX, &MOVED, rebalanced());
    }
}

/// Adds the metrics of connections.
pub(crate) fn expose_connections<'a>(
    exposition: &mut Exposition,
    connections: impl Iterator<Item = &'a ConnectionCounts> + Clone,
) {
    for metric in [&ACCEPTED, &OPEN, &RECEIVED, &SENT] {
        let buckets = connections
            .clone()
            .map(|counts| (of_bucket(counts.bucket, counts.cpu), counts));
        exposition.add(PREFIX, metric, buckets);
    }
}

/// The labels of a bucket. Its worker stays on its CPU, which therefore adds no series.
pub(crate) fn of_bucket(bucket: u16, cpu: u32) -> Labels {
    vec![("bucket", bucket.to_string()), ("cpu", cpu.to_string())]
}

/// Counts by name, with the name as a label.
pub(crate) fn by_name<'a, N: Display>(
    label: &'static str,
    counts: &'a BTreeMap<N, u64>,
) -> impl Iterator<Item = (Labels, &'a u64)> {
    counts
        .iter()
        .map(move |(name, count)| (vec![(label, name.to_string())], count))
}
