//! The metrics that servers share, each declared once: for the table that a server prints at its end, and for its
//! endpoint. Each server declares those of its protocol.

use crate::streams::{ConnectionCounts, StreamsServed};
use corelane_measure::metric::{Metric, Sample, Show};
use corelane_report::exposition::{Exposed, Exposition, Labels};
use corelane_rss::Steering;
use corelane_worker::rebalancing::Rebalanced;
use std::collections::BTreeMap;
use std::fmt::Display;

/// The beginning of the names of all servers' metrics.
pub(crate) const PREFIX: &str = "corelane_serve";

static GENERATION: Metric<Steering> = Metric::explaining("table_generation", "generation", Show::Count)
    .about("Generation of the indirection table, which every change increases.")
    .read(|steering| Sample::count(steering.generation));

static BALANCE: Metric<Vec<u64>> = Metric::more("balance_ratio", "balance", Show::Ratio)
    .about("Mean load of a bucket since the start, divided by the highest of any bucket; 1 if all are equal.")
    .read(|loads| {
        let (sum, most) = (loads.iter().sum::<u64>(), loads.iter().max()?);
        (*most > 0).then(|| Sample::Number(sum as f64 / loads.len() as f64 / *most as f64))
    });

static DECISIONS: Metric<Rebalanced> =
    Metric::explaining("rebalance_decisions_total", "decisions", Show::Count)
        .about("Decisions of rebalancing, of which most move nothing.")
        .read(|rebalanced| Sample::count(rebalanced.decisions));

static MOVED: Metric<Rebalanced> = Metric::explaining("rebalance_moved_entries_total", "moved", Show::Count)
    .about("Entries of the indirection table moved by rebalancing.")
    .read(|rebalanced| Sample::count(rebalanced.moved));

/// Declares the share of samples in the bucket that their hash selects, to be completed.
pub(crate) const fn steering<T>() -> Metric<T> {
    Metric::more("steering", "steering", Show::Share)
        .about("Sampled datagrams, or connections, received by the bucket that their hash selects.")
}

static STEERING: Metric<ConnectionCounts> =
    steering().read(|connections| Some(Sample::Share(connections.steering())));

/// Declares the share of samples received on the CPU of their worker, to be completed.
pub(crate) const fn locality<T>() -> Metric<T> {
    Metric::more("locality_ratio", "locality", Show::Share).about(
        "Share of sampled datagrams, or accepted connections, since the start whose receive path ran on the CPU of their worker.",
    )
}

static LOCALITY: Metric<ConnectionCounts> =
    locality().read(|connections| Some(Sample::Share(connections.locality())));

/// Connections accepted.
pub static ACCEPTED: Metric<ConnectionCounts> =
    Metric::more("accepted_connections_total", "accepted", Show::Count)
        .about("Connections accepted.")
        .read(|connections| Sample::count(connections.accepted));

/// Connections open now.
pub static OPEN: Metric<ConnectionCounts> = Metric::explaining("open_connections", "open", Show::Count)
    .about("Connections open now.")
    .read(|connections| Sample::count(connections.open));

/// Bytes received on connections.
pub static RECEIVED: Metric<ConnectionCounts> = Metric::more("received_bytes_total", "received", Show::Bytes)
    .about("Bytes received on connections.")
    .read(|connections| Sample::count(connections.bytes_received));

/// Bytes sent on connections.
pub static SENT: Metric<ConnectionCounts> = Metric::more("sent_bytes_total", "sent", Show::Bytes)
    .about("Bytes that the kernel accepted for sending on connections.")
    .read(|connections| Sample::count(connections.bytes_sent));

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
        let about = "The server: its kind, engine and version.";
        let engine = vec![("engine", self.engine.to_owned())];
        exposition.info(PREFIX, about, self.kind, engine);
        exposition.add(PREFIX, &BALANCE, [(Labels::new(), &self.loads)]);
        expose_table(exposition, PREFIX, self.steering, self.rebalanced);
    }
}

fn expose_table(
    exposition: &mut Exposition,
    prefix: &'static str,
    steering: &Steering,
    rebalanced: Option<&Rebalanced>,
) {
    exposition.add(prefix, &GENERATION, [(Labels::new(), steering)]);
    let rebalanced = || rebalanced.map(|rebalanced| (Labels::new(), rebalanced));
    exposition.add(prefix, &DECISIONS, rebalanced());
    exposition.add(prefix, &MOVED, rebalanced());
}

/// The table of another program's group that is rebalanced.
#[derive(Debug)]
pub struct ForeignTable {
    /// The steering in force.
    pub steering: Steering,
    /// What was moved.
    pub rebalanced: Rebalanced,
}

impl Exposed for ForeignTable {
    fn expose(&self, exposition: &mut Exposition) {
        expose_table(
            exposition,
            "corelane_steer",
            &self.steering,
            Some(&self.rebalanced),
        );
    }
}

/// A bucket's counts of connections, and its load.
type OfBucket<B> = (fn(&B) -> &ConnectionCounts, fn(&B) -> u64);

impl<B, O> StreamsServed<B, O> {
    /// Adds what every server of connections exposes; `load` is that of a bucket, `own` are the metrics of the protocol,
    /// and `errors` counts by cause.
    pub(crate) fn expose_streams(
        &self,
        exposition: &mut Exposition,
        kind: &'static str,
        (connections, load): OfBucket<B>,
        own: &[&'static Metric<B>],
        (by_cause, errors): (&'static Metric<u64>, &BTreeMap<String, u64>),
    ) {
        let server = BucketServer {
            kind,
            engine: &self.engine,
            steering: &self.steering,
            rebalanced: self.rebalanced.as_ref(),
            loads: self.buckets.iter().map(load).collect(),
        };
        server.expose(exposition);
        let labels = |bucket| {
            let counts: &ConnectionCounts = connections(bucket);
            of_bucket(counts.bucket, counts.cpu)
        };
        for metric in [&ACCEPTED, &OPEN, &RECEIVED, &SENT, &STEERING, &LOCALITY] {
            let buckets = self.buckets.iter();
            let buckets = buckets.map(|bucket| (labels(bucket), connections(bucket)));
            exposition.add(PREFIX, metric, buckets);
        }
        for metric in own {
            let buckets = self.buckets.iter().map(|bucket| (labels(bucket), bucket));
            exposition.add(PREFIX, metric, buckets);
        }
        exposition.add(PREFIX, by_cause, by_name("cause", errors));
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
