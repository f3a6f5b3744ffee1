//! The metrics of a TCP server.

use super::protocol::{BucketTcp, Tcp, TcpServed};
use crate::handshakes::HandshakeCounts;
use crate::streams::Protocol;
use corelane_measure::counters::Counters;
use corelane_measure::metric::{Metric, Sample, Show};
use corelane_report::exposition::{Exposed, Exposition};

/// Segments received out of order.
pub static OUT_OF_ORDER: Metric<BucketTcp> =
    Metric::less("out_of_order_segments_total", "disorder", Show::Count)
        .about("Segments received out of order, sampled while connections are open.")
        .read(|bucket| Sample::count(bucket.out_of_order_segments));

/// Retransmitted segments.
pub static RETRANSMITTED: Metric<BucketTcp> =
    Metric::less("retransmitted_segments_total", "sent again", Show::Count)
        .about("Segments retransmitted, sampled while connections are open.")
        .read(|bucket| Sample::count(bucket.retransmitted_segments));

/// Stalls of connections.
pub static STALLS: Metric<BucketTcp> = Metric::less("stalls_total", "stalls", Show::Count)
    .about("Times that a connection made no progress for the time of `--stall`.")
    .read(|bucket| Sample::count(bucket.stalls));

static STALLED: Metric<BucketTcp> = Metric::less("stalled_connections", "stalled", Show::Count)
    .about("Connections stalled now.")
    .read(|bucket| Sample::count(bucket.stalled));

static ERRORS: Metric<BucketTcp> = Metric::less("errors_total", "errors", Show::Count)
    .about("Connections that failed or were aborted.")
    .read(|bucket| Sample::count(bucket.all_errors().map(|(_, count)| count).sum()));

static ERRORS_BY_CAUSE: Metric<u64> = Metric::less("errors_by_cause_total", "errors", Show::Count)
    .about("Connections that failed or were aborted, by cause, over all buckets.")
    .read(|count| Sample::count(*count));

impl Exposed for TcpServed {
    fn expose(&self, exposition: &mut Exposition) {
        let bytes = |bucket: &BucketTcp| bucket.connections.bytes_received + bucket.connections.bytes_sent;
        self.expose_streams(
            exposition,
            Tcp::NAME,
            (|bucket| &bucket.connections, bytes),
            &[&OUT_OF_ORDER, &RETRANSMITTED, &STALLS, &STALLED, &ERRORS],
            (&ERRORS_BY_CAUSE, &self.errors()),
        );
        HandshakeCounts::sum(self.buckets.iter().map(|bucket| bucket.handshakes)).expose(exposition);
    }
}
