//! The metrics of a TCP server.

use super::protocol::{BucketTcp, TcpServed};
use crate::metrics::{BucketServer, PREFIX, by_name, expose_connections, number, of_bucket};
use corelane_measure::metric::{Metric, Show};
use corelane_report::exposition::{Exposed, Exposition};

/// Segments received out of order.
pub static OUT_OF_ORDER: Metric<BucketTcp> =
    Metric::less("out_of_order_segments_total", "disorder", Show::Count)
        .about("Segments received out of order, sampled while connections are open.")
        .read(|bucket| number(bucket.out_of_order_segments));

/// Retransmitted segments.
pub static RETRANSMITTED: Metric<BucketTcp> =
    Metric::less("retransmitted_segments_total", "sent again", Show::Count)
        .about("Segments retransmitted, sampled while connections are open.")
        .read(|bucket| number(bucket.retransmitted_segments));

/// Stalls of connections.
pub static STALLS: Metric<BucketTcp> = Metric::less("stalls_total", "stalls", Show::Count)
    .about("Times that a connection made no progress for the time of `--stall`.")
    .read(|bucket| number(bucket.stalls));

static STALLED: Metric<BucketTcp> = Metric::less("stalled_connections", "stalled", Show::Count)
    .about("Connections stalled now.")
    .read(|bucket| number(bucket.stalled));

static ERRORS: Metric<BucketTcp> = Metric::less("errors_total", "errors", Show::Count)
    .about("Connections that failed or were aborted.")
    .read(|bucket| number(bucket.connections.errors().map(|(_, count)| count).sum()));

static ERRORS_BY_CAUSE: Metric<u64> = Metric::less("errors_by_cause_total", "errors", Show::Count)
    .about("Connections that failed or were aborted, by cause, over all buckets.")
    .read(|count| number(*count));

impl Exposed for TcpServed {
    fn expose(&self, exposition: &mut Exposition) {
        let bytes = |bucket: &BucketTcp| bucket.connections.bytes_received + bucket.connections.bytes_sent;
        let server = BucketServer {
            kind: "tcp",
            engine: &self.engine,
            steering: &self.steering,
            rebalanced: self.rebalanced.as_ref(),
            loads: self.buckets.iter().map(bytes).collect(),
        };
        server.expose(exposition);
        expose_connections(exposition, self.buckets.iter().map(|bucket| &bucket.connections));
        for metric in [&OUT_OF_ORDER, &RETRANSMITTED, &STALLS, &STALLED, &ERRORS] {
            let labels = |bucket: &BucketTcp| of_bucket(bucket.connections.bucket, bucket.connections.cpu);
            let buckets = self.buckets.iter().map(|bucket| (labels(bucket), bucket));
            exposition.add(PREFIX, metric, buckets);
        }
        exposition.add(PREFIX, &ERRORS_BY_CAUSE, by_name("cause", &self.errors()));
    }
}
