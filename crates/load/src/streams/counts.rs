//! Counts and times of a generator over streams, of one worker or summed.

use super::tls::TlsCounts;
use crate::alignment::AlignmentCounts;
use crate::document::is_default;
use crate::failure::Failures;
use corelane_measure::counters;
use corelane_measure::counters::Counters;
use corelane_measure::histogram::{Histogram, Summary};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Counters that only one protocol has; `()` for none.
pub trait OwnCounts:
    Counters + Default + fmt::Debug + PartialEq + Serialize + DeserializeOwned + Send + 'static
{
    /// Each with its name in reports.
    fn in_words(&self) -> Vec<(String, u64)> {
        Vec::new()
    }

    /// Lines of the report on them.
    fn lines(&self) -> Vec<String> {
        Vec::new()
    }

    /// Those that are errors, by name; without those that did not occur.
    fn errors(&self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }

    /// Of a cache: the keys that were found, and all that were asked for.
    fn hits(&self) -> Option<[u64; 2]> {
        None
    }

    /// Answers that no correct server gives; `None` if that is not checked.
    fn wrong(&self) -> Option<u64> {
        None
    }

    /// What a reader of the report has to know of them.
    fn note(&self) -> Option<String> {
        None
    }

    /// Answers by the class of their status, from 200 on: 2xx, 3xx, 4xx, 5xx; `None` if there is no answer with a status.
    fn by_class(&self) -> Option<[u64; 4]> {
        None
    }
}

impl OwnCounts for () {}

/// Counts and times of a pool, or of one worker's part of a pool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally<C> {
    /// The counts.
    #[serde(flatten)]
    pub counts: Counts<C>,
    /// The histograms that [`counts`](Self::counts) summarises.
    #[serde(flatten)]
    pub histograms: Histograms,
}

/// Counts, and summaries of times. Summaries of a worker's part are only computed for the whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts<C> {
    /// Connections by outcome.
    pub connections: ConnectionCounts,
    /// Requests by outcome.
    pub requests: RequestCounts<C>,
    /// Bytes on connections.
    pub bytes: StreamBytes,
    /// From the intended start of a request to the end of its answer, for successful requests; `None` without any.
    pub latency: Option<Summary>,
    /// Time to open connections, including TLS handshakes.
    pub connect: Option<Summary>,
    /// Time of TLS handshakes; `None` without TLS.
    #[serde(default)]
    pub handshake: Option<Summary>,
    /// TLS statistics over all pools that use it; `None` without TLS.
    #[serde(default)]
    pub tls: Option<TlsCounts>,
    /// How late requests were sent behind their schedule, for any reason; `None` without a schedule.
    pub schedule_lag: Option<Summary>,
    /// Where connections landed; absent if sources were not aligned.
    #[serde(rename = "landed", default, skip_serializing_if = "AlignmentCounts::is_empty")]
    pub alignment: AlignmentCounts,
}

counters! {
    /// Complete histograms, as HdrHistogram V2; `null` if empty.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    pub struct Histograms {
        /// Of [`Counts::latency`].
        #[serde(rename = "latency_histogram", with = "recorded")]
        pub latency: Histogram,
        /// Of [`Counts::connect`].
        #[serde(rename = "connect_histogram", with = "recorded")]
        pub connect: Histogram,
        /// Of [`Counts::handshake`].
        #[serde(rename = "handshake_histogram", with = "recorded", default)]
        pub handshake: Histogram,
        /// Of [`Counts::schedule_lag`].
        #[serde(rename = "schedule_lag_histogram", with = "recorded")]
        pub schedule_lag: Histogram,
    }
}

/// Serialises a histogram; `None` if empty.
mod recorded {
    use super::{Deserialize, Histogram, Serialize};
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(histogram: &Histogram, serializer: S) -> Result<S::Ok, S::Error> {
        (histogram.count() > 0).then_some(histogram).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Histogram, D::Error> {
        Option::deserialize(deserializer).map(Option::unwrap_or_default)
    }
}

counters! {
    /// Requests by outcome: `begun` is the sum of `ok`, `failed`, `aborted` and `unfinished`.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct RequestCounts<C> {
        /// Issued by the schedule, or begun by a connection.
        pub begun: u64,
        /// Written to a connection: upper bound of what the server received.
        pub sent: u64,
        /// Answered completely, with an expected status and body.
        pub ok: u64,
        /// Of those, answered after the measured time, while pending answers were awaited.
        #[serde(default)]
        pub ok_late: u64,
        /// Failed; also counted below by cause.
        pub failed: u64,
        /// Failures by cause.
        #[serde(flatten)]
        pub by_cause: Failures,
        /// Aborted by the client when their answer began, as configured in their pool.
        pub aborted: u64,
        /// Begun, and neither answered nor failed at the end of the run.
        pub unfinished: u64,
        /// Due on the schedule, but never begun: the sum of the next three. Documents of versions that did not divide it have
        /// only this.
        pub unsent: u64,
        /// Of those, requests for which no connection was free.
        #[serde(default, skip_serializing_if = "is_default")]
        pub unsent_waiting: u64,
        /// Of those, requests that the generator did not send although a connection was free.
        #[serde(default, skip_serializing_if = "is_default")]
        pub unsent_late: u64,
        /// Of those, requests that were due within the last 5 ms, which a generator that is not late may need.
        #[serde(default, skip_serializing_if = "is_default")]
        pub unsent_at_end: u64,
        /// Begun late because every connection was busy.
        pub waited_for_connection: u64,
        /// The protocol's own counters.
        #[serde(flatten)]
        pub own: C,
    }
}

impl<C> RequestCounts<C> {
    /// What cannot be, see [`LoadReport::check`](crate::LoadReport::check).
    pub(super) fn check(&self) -> Result<(), String> {
        let (begun, ok, ok_late) = (self.begun, self.ok, self.ok_late);
        let (failed, aborted, unfinished) = (self.failed, self.aborted, self.unfinished);
        let ended = <u64 as Counters>::sum([ok, failed, aborted, unfinished]);
        if ended != begun {
            return Err(format!(
                "{begun} requests began, and {ok} ok, {failed} failed, {aborted} aborted and {unfinished} unfinished ones are {ended}"
            ));
        }
        let by_cause = self.by_cause.total();
        if ok_late > ok || by_cause != failed {
            return Err(format!(
                "{ok_late} of {ok} requests late, {failed} failed, {by_cause} by cause"
            ));
        }
        Ok(())
    }
}

counters! {
    /// Connections by outcome.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct ConnectionCounts {
        /// Requested.
        pub asked: u64,
        /// Opened, including reopened ones.
        pub opened: u64,
        /// Of those, opened after the run began.
        pub opened_again: u64,
        /// Open at the end of the run.
        pub open_at_end: u64,
        /// Of those, connections without any answered request.
        #[serde(default)]
        pub open_unanswered: u64,
        /// Closed by the server normally.
        pub closed_by_server: u64,
        /// Closed by the client after their last response, before the server did.
        #[serde(default, skip_serializing_if = "is_default")]
        pub closed_by_client: u64,
        /// Reset by the server.
        pub reset_by_server: u64,
        /// Closed because of unexpected bytes.
        pub unasked_bytes: u64,
        /// Failed attempts, by cause.
        pub failed: Failures,
    }
}

impl ConnectionCounts {
    /// Connections opened before the run began.
    #[must_use]
    pub fn opened_first(&self) -> u64 {
        self.opened.saturating_sub(self.opened_again)
    }
}

counters! {
    /// Bytes on connections, without TCP headers; plaintext with TLS.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct StreamBytes {
        /// Sent.
        pub sent: u64,
        /// Received, including heads and chunk framing.
        pub received: u64,
        /// Of those, body bytes.
        pub body: u64,
    }
}

impl<C: OwnCounts> Tally<C> {
    /// Merges all parts, with summaries.
    #[must_use]
    pub fn sum<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Self
    where
        C: 'a,
    {
        let mut sum = Self::default();
        for part in parts {
            let (counts, other) = (&mut sum.counts, &part.counts);
            counts.connections.add(&other.connections);
            counts.requests.add(&other.requests);
            counts.bytes.add(&other.bytes);
            counts.alignment.add(&other.alignment);
            counts.tls = TlsCounts::sum([&counts.tls, &other.tls]);
            sum.histograms.add(&part.histograms);
        }
        sum.counts.latency = sum.histograms.latency.summary();
        sum.counts.connect = sum.histograms.connect.summary();
        sum.counts.handshake = sum.histograms.handshake.summary();
        sum.counts.schedule_lag = sum.histograms.schedule_lag.summary();
        sum
    }
}
