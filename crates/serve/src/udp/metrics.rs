//! The metrics of a UDP server.

use super::served::{BucketServed, UdpServed};
use super::service::{DatagramService, Echo};
use crate::metrics::{BucketServer, PREFIX, by_name, locality, of_bucket, steering};
use corelane_measure::metric::{Metric, Sample, Show};
use corelane_report::exposition::{Exposed, Exposition};

/// Datagrams received.
pub static SEEN: Metric<BucketServed> = Metric::more("received_datagrams_total", "seen", Show::Count)
    .about("Datagrams received.")
    .read(|bucket| Sample::count(bucket.seen));

static SEEN_BYTES: Metric<BucketServed> = Metric::more("received_bytes_total", "received", Show::Bytes)
    .about("Payload bytes received in datagrams.")
    .read(|bucket| Sample::count(bucket.seen_bytes));

/// Datagrams answered.
pub static ANSWERED: Metric<BucketServed> = Metric::more("answered_datagrams_total", "answered", Show::Count)
    .about("Datagrams answered.")
    .read(|bucket| Sample::count(bucket.answered));

/// Datagrams lost.
pub static DROPPED: Metric<BucketServed> = Metric::less("dropped_datagrams_total", "dropped", Show::Count)
    .about("Datagrams lost before they were received, or not answered.")
    .read(|bucket| Sample::count(bucket.dropped.values().sum()));

static DROPPED_BY_CAUSE: Metric<u64> = Metric::less("dropped_by_cause_total", "dropped", Show::Count)
    .about("Datagrams lost, by cause, over all buckets and the socket that they may share.")
    .read(|count| Sample::count(*count));

/// Sampled datagrams in the bucket that their hash selects.
pub static STEERING: Metric<BucketServed> = steering().read(|bucket| Some(Sample::Share(bucket.steering())));

/// Sampled datagrams received on the CPU of their worker.
pub static LOCALITY: Metric<BucketServed> = locality().read(|bucket| Some(Sample::Share(bucket.locality())));

/// Sampled answers sent on the CPU of their worker and on the queue of their bucket.
pub static TX_LOCALITY: Metric<BucketServed> = Metric::more("tx_locality_ratio", "tx local", Show::Share)
    .about("Share of sampled answers since the start that left on the CPU of their worker and on the queue of their bucket.")
    .read(|bucket| Some(Sample::Share(bucket.tx_locality())));

impl Exposed for UdpServed {
    fn expose(&self, exposition: &mut Exposition) {
        let server = BucketServer {
            kind: Echo::NAME,
            engine: &self.engine,
            steering: &self.steering,
            rebalanced: self.rebalanced.as_ref(),
            loads: self.buckets.iter().map(|bucket| bucket.seen).collect(),
        };
        server.expose(exposition);
        // What is not measured has no series.
        for (metric, is_known) in [
            (&SEEN, true),
            (&SEEN_BYTES, true),
            (&ANSWERED, true),
            (&DROPPED, true),
            (&STEERING, true),
            (&LOCALITY, self.locality_unknown.is_none()),
            (&TX_LOCALITY, self.tx_locality_unknown.is_none()),
        ] {
            let buckets = self.buckets.iter().filter(|_| is_known);
            let labelled = buckets.map(|bucket| (of_bucket(bucket.bucket, bucket.cpu), bucket));
            exposition.add(PREFIX, metric, labelled);
        }
        let dropped = self.dropped();
        exposition.add(PREFIX, &DROPPED_BY_CAUSE, by_name("cause", &dropped));
    }
}
