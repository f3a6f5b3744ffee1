//! The metrics of an HTTP server.

use super::protocol::{BucketHttp, Http, HttpServed};
use crate::handshakes::HandshakeCounts;
use crate::metrics::{PREFIX, by_name};
use crate::shared::summed;
use crate::streams::Protocol;
use corelane_measure::counters::Counters;
use corelane_measure::metric::{Metric, Sample, Show};
use corelane_report::exposition::{Exposed, Exposition};
use std::collections::BTreeMap;

/// Requests with a parsed head.
pub static REQUESTS: Metric<BucketHttp> = Metric::more("requests_total", "requests", Show::Count)
    .about("Requests with a parsed head.")
    .read(|bucket| Sample::count(bucket.requests));

/// Rejected requests, and connections that failed or were aborted.
pub static ERRORS: Metric<BucketHttp> = Metric::less("errors_total", "errors", Show::Count)
    .about("Requests rejected, and connections that failed or were aborted.")
    .read(|bucket| Sample::count(bucket.all_errors().map(|(_, count)| count).sum()));

static ERRORS_BY_CAUSE: Metric<u64> = Metric::less("errors_by_cause_total", "errors", Show::Count)
    .about("Requests rejected, and connections that failed or were aborted, by cause, over all buckets.")
    .read(|count| Sample::count(*count));

static RESPONSES: Metric<u64> = Metric::more("responses_total", "answered", Show::Count)
    .about("Responses by status, over all buckets.")
    .read(|count| Sample::count(*count));

impl HttpServed {
    /// Responses of all buckets by status.
    #[must_use]
    pub fn answers(&self) -> BTreeMap<u16, u64> {
        summed(self.buckets.iter().flat_map(|bucket| &bucket.answers))
    }
}

impl Exposed for HttpServed {
    fn expose(&self, exposition: &mut Exposition) {
        self.expose_streams(
            exposition,
            Http::NAME,
            (|bucket| &bucket.connections, |bucket| bucket.requests),
            &[&REQUESTS, &ERRORS],
            (&ERRORS_BY_CAUSE, &self.errors()),
        );
        exposition.add(PREFIX, &RESPONSES, by_name("status", &self.answers()));
        HandshakeCounts::sum(self.buckets.iter().map(|bucket| bucket.handshakes)).expose(exposition);
    }
}
