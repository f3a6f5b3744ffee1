//! The metrics of a memcached server.

use super::counters::Events;
use super::protocol::{BucketMemcached, Memcached, MemcachedServed};
use crate::handshakes::HandshakeCounts;
use crate::metrics::{PREFIX, by_name};
use crate::shared::summed;
use crate::streams::Protocol;
use corelane_measure::counters::Counters;
use corelane_measure::metric::{Metric, Sample, Show};
use corelane_report::exposition::{Exposed, Exposition};

/// Requests about keys.
pub static REQUESTS: Metric<BucketMemcached> = Metric::more("key_requests_total", "requests", Show::Count)
    .about("Keys read, stored, changed, touched and deleted, or looked for in vain.")
    .read(|bucket| Sample::count(bucket.requests()));

/// Items in the cache.
pub static ITEMS: Metric<BucketMemcached> = Metric::explaining("items", "items", Show::Count)
    .about("Items in the cache, and expired ones whose memory is not reclaimed yet.")
    .read(|bucket| Sample::count(bucket.items));

static ITEM_BYTES: Metric<BucketMemcached> = Metric::explaining("item_bytes", "item bytes", Show::Bytes)
    .about("Bytes of the items in the cache, with what the cache keeps of each.")
    .read(|bucket| Sample::count(bucket.item_bytes));

/// Items evicted.
pub static EVICTED: Metric<BucketMemcached> = Metric::less("evicted_items_total", "evicted", Show::Count)
    .about("Items evicted for others, neither expired nor flushed.")
    .read(|bucket| Sample::count(bucket.evicted));

static EXPIRED: Metric<BucketMemcached> = Metric::explaining("expired_items_total", "expired", Show::Count)
    .about("Expired items whose memory was reclaimed.")
    .read(|bucket| Sample::count(bucket.expired));

/// Units of work that another worker did.
pub static HANDED_OVER: Metric<BucketMemcached> =
    Metric::less("handed_over_total", "handed over", Show::Count)
        .about("Requests about a key that were handed over to the worker that owns it.")
        .read(|bucket| Sample::count(bucket.events.handed_over));

/// Units of work about a key of the worker that was asked.
pub static LOCAL: Metric<BucketMemcached> = Metric::more("local_total", "local", Show::Count)
    .about("Requests about a key that the worker which received them owns.")
    .read(|bucket| Sample::count(bucket.events.local));

/// The share of these.
pub static LOCAL_KEYS: Metric<BucketMemcached> = Metric::more("local_keys_ratio", "local", Show::Share)
    .about("Share of the requests about a key, since the start, that the worker which received them owns.")
    .read(|bucket| Some(Sample::Share(bucket.events.locality())));

/// What a handoff costs.
pub static HANDOFF: Metric<BucketMemcached> = Metric::less("handoff_ns", "handoff", Show::Nanoseconds)
    .about("Mean time from handing a request over to the end of its answer; one of 64 is timed.")
    .read(|bucket| bucket.handoffs.mean_ns().map(Sample::Number));

static HANDOFFS_TIMED: Metric<BucketMemcached> =
    Metric::explaining("handoffs_timed_total", "timed", Show::Count)
        .about("Handoffs that were timed, one of 64.")
        .read(|bucket| Sample::count(bucket.handoffs.handoffs_timed));

static HANDOFFS_SECONDS: Metric<BucketMemcached> =
    Metric::less("handoffs_timed_seconds_total", "time", Show::Fixed(6))
        .about("Time from handing these over to the end of their answers, together.")
        .read(|bucket| Some(Sample::Number(bucket.handoffs.handoffs_timed_ns as f64 / 1e9)));

static HANDOFFS_REFUSED: Metric<BucketMemcached> =
    Metric::less("handoffs_refused_total", "refused", Show::Count)
        .about("Times that a request was not handed over because the mailbox of the owner had no room.")
        .read(|bucket| Sample::count(bucket.handoffs.handoffs_refused));

static HANDOFF_QUEUE: Metric<BucketMemcached> =
    Metric::less("handoff_queue_ratio", "fullest", Show::WholeShare)
        .about("How full a mailbox of requests to another worker was at most.")
        .read(|bucket| Some(Sample::Number(bucket.handoff_queue_percent as f64 / 100.0)));

/// Units of work about a key of another worker that were answered from its memory.
pub static READ_DIRECTLY: Metric<BucketMemcached> =
    Metric::more("read_directly_total", "read directly", Show::Count)
        .about("Requests about a key of another worker that were answered from its memory.")
        .read(|bucket| Sample::count(bucket.events.read_directly));

static REJECTED: Metric<BucketMemcached> =
    Metric::less("rejected_connections_total", "rejected", Show::Count)
        .about("Connections refused because the limit was reached.")
        .read(|bucket| Sample::count(bucket.events.rejected_connections));

static PAUSES: Metric<BucketMemcached> = Metric::less("pauses_total", "pauses", Show::Count)
    .about("Times that a connection was not served until its client had taken earlier answers.")
    .read(|bucket| Sample::count(bucket.events.pauses));

static DATAGRAMS_RECEIVED: Metric<BucketMemcached> =
    Metric::more("udp_received_total", "datagrams", Show::Count)
        .about("Datagrams received.")
        .read(|bucket| Sample::count(bucket.datagrams_received));

static DATAGRAMS_SENT: Metric<BucketMemcached> = Metric::more("udp_sent_total", "answers", Show::Count)
    .about("Datagrams sent.")
    .read(|bucket| Sample::count(bucket.datagrams_sent));

static UNANSWERED_BY_CAUSE: Metric<u64> =
    Metric::less("udp_unanswered_by_cause_total", "unanswered", Show::Count)
        .about("Datagrams that got no answer, by cause, over all buckets.")
        .read(|count| Sample::count(*count));

static NOT_READ_BY_CAUSE: Metric<u64> = Metric::less("not_read_by_cause_total", "not read", Show::Count)
    .about("Reads of a key of another worker that were handed over, by cause, over all buckets.")
    .read(|count| Sample::count(*count));

static COMMANDS: Metric<u64> = Metric::more("commands_total", "commands", Show::Count)
    .about("Requests by command and outcome, named as memcached's statistics, over all buckets.")
    .read(|count| Sample::count(*count));

static ERRORS_BY_CAUSE: Metric<u64> = Metric::less("connection_errors_by_cause_total", "errors", Show::Count)
    .about("Connections of memcached that failed, by cause, over all buckets.")
    .read(|count| Sample::count(*count));

impl Exposed for MemcachedServed {
    fn expose(&self, exposition: &mut Exposition) {
        self.expose_streams(
            exposition,
            Memcached::NAME,
            (|bucket| &bucket.connections, BucketMemcached::requests),
            &[
                &REQUESTS,
                &ITEMS,
                &ITEM_BYTES,
                &EVICTED,
                &EXPIRED,
                &LOCAL,
                &LOCAL_KEYS,
                &READ_DIRECTLY,
                &HANDED_OVER,
                &HANDOFFS_TIMED,
                &HANDOFFS_SECONDS,
                &HANDOFFS_REFUSED,
                &HANDOFF_QUEUE,
                &REJECTED,
                &PAUSES,
                &DATAGRAMS_RECEIVED,
                &DATAGRAMS_SENT,
            ],
            (&ERRORS_BY_CAUSE, &self.errors()),
        );
        let commands = summed(self.buckets.iter().flat_map(|bucket| &bucket.commands));
        exposition.add(PREFIX, &COMMANDS, by_name("command", &commands));
        let events = Events::sum(self.buckets.iter().map(|bucket| bucket.events));
        let unanswered = events.unanswered().into();
        exposition.add(PREFIX, &UNANSWERED_BY_CAUSE, by_name("cause", &unanswered));
        let not_read = events.not_read_by_cause().into();
        exposition.add(PREFIX, &NOT_READ_BY_CAUSE, by_name("cause", &not_read));
        HandshakeCounts::sum(self.buckets.iter().map(|bucket| bucket.handshakes)).expose(exposition);
    }
}
