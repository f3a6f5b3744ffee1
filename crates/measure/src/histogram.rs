//! Histograms of durations: round trips, schedule lag.
//!
//! In: nanoseconds, one at a time, or another histogram. Out: percentiles, a [`Summary`] for documents, and the
//! HdrHistogram V2 interchange form (deflated, base64) that other tools read.
//!
//! Values are kept to three significant digits from 1 ns to [`LARGEST_NANOSECONDS`]. A larger value is recorded at that
//! limit and counted in [`Histogram::beyond_range`].

use crate::counters::Counters;
use crate::quantity;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::serialization::{self, DeserializeError, Serializer as _, V2DeflateSerializer};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use thiserror::Error;

/// The largest recorded duration: one minute. A later response is useless to any user, and the bounded range keeps
/// a histogram under 250 KiB, so each worker can have its own.
pub const LARGEST_NANOSECONDS: u64 = 60_000_000_000;

/// Three significant digits: finer than the repeatability of an experiment's rounds.
const SIGNIFICANT_DIGITS: u8 = 3;

/// A bounded histogram of durations in nanoseconds.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// HdrHistogram V2, deflated, base64.
    #[serde(rename = "hdr_v2_base64", serialize_with = "write", deserialize_with = "read")]
    values: hdrhistogram::Histogram<u64>,
    #[serde(default)]
    beyond_range: u64,
}

/// The summary of a histogram in a document. All times are nanoseconds; all are 0 if `count` is 0.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Durations recorded.
    pub count: u64,
    /// Minimum.
    pub min_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 95th percentile; `None` in documents of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95_ns: Option<u64>,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Maximum.
    pub max_ns: u64,
    /// The mean.
    pub mean_ns: f64,
    /// Number of durations longer than [`LARGEST_NANOSECONDS`].
    #[serde(default)]
    pub beyond_range: u64,
}

/// A parse error of a histogram.
#[derive(Debug, Error)]
pub enum HistogramError {
    /// The text is not base64.
    #[error("the histogram is not base64 ({0}): copy it whole, as it was written")]
    Base64(base64::DecodeError),
    /// The bytes are no histogram.
    #[error("the histogram is not in the HdrHistogram V2 form ({0}): copy it whole, as it was written")]
    Form(DeserializeError),
}

/// From the median to the longest, in one line.
impl fmt::Display for Summary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = [
            ("median", Some(self.p50_ns)),
            ("p90", Some(self.p90_ns)),
            ("p95", self.p95_ns),
            ("p99", Some(self.p99_ns)),
            ("p99.9", Some(self.p999_ns)),
            ("longest", Some(self.max_ns)),
        ];
        let known = times.into_iter().filter_map(|(name, time)| Some((name, time?)));
        let words: Vec<String> = known
            .map(|(name, time)| format!("{name} {}", quantity::duration(time as f64)))
            .collect();
        out.write_str(&words.join(", "))
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty histogram.
    #[must_use]
    pub fn new() -> Self {
        let values = hdrhistogram::Histogram::new_with_bounds(1, LARGEST_NANOSECONDS, SIGNIFICANT_DIGITS)
            .expect(
                "a range from 1 with an upper end of at least 2, and digits from 0 to 5, are always accepted",
            );
        Self {
            values,
            beyond_range: 0,
        }
    }

    /// Records one duration.
    pub fn record(&mut self, nanoseconds: u64) {
        self.record_many(nanoseconds, 1);
    }

    /// Records a duration that occurred `times` times.
    pub fn record_many(&mut self, nanoseconds: u64, times: u64) {
        if nanoseconds > LARGEST_NANOSECONDS {
            self.beyond_range = self.beyond_range.saturating_add(times);
        }
        self.values
            .saturating_record_n(nanoseconds.min(LARGEST_NANOSECONDS), times);
    }

    /// How many durations were recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.values.len()
    }

    /// The histogram, if anything was recorded.
    #[must_use]
    pub fn if_any(self) -> Option<Self> {
        (self.count() > 0).then_some(self)
    }

    /// The recorded durations in nanoseconds, to three digits, from the shortest; with how often each occurred.
    pub fn recorded(&self) -> impl Iterator<Item = (u64, u64)> {
        let values = self.values.iter_recorded();
        values.map(|value| (value.value_iterated_to(), value.count_at_value()))
    }

    /// How many durations were longer than [`LARGEST_NANOSECONDS`]; they count in every percentile, at that limit.
    #[must_use]
    pub fn beyond_range(&self) -> u64 {
        self.beyond_range
    }

    /// The nanoseconds that `percent` (0 to 100) of the durations did not exceed; `None` when nothing was recorded.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> Option<u64> {
        // A value represents all durations with the same three digits, and may exceed the maximum slightly.
        let longest = self.values.max().min(LARGEST_NANOSECONDS);
        (self.count() > 0).then(|| self.values.value_at_percentile(percent).min(longest))
    }

    /// The summary for documents; `None` when nothing was recorded.
    #[must_use]
    pub fn summary(&self) -> Option<Summary> {
        Some(Summary {
            count: self.count(),
            min_ns: self.values.min(),
            p50_ns: self.percentile(50.0)?,
            p90_ns: self.percentile(90.0)?,
            p95_ns: self.percentile(95.0),
            p99_ns: self.percentile(99.0)?,
            p999_ns: self.percentile(99.9)?,
            max_ns: self.percentile(100.0)?,
            mean_ns: self.values.mean(),
            beyond_range: self.beyond_range,
        })
    }

    /// Reads the HdrHistogram V2 form, deflated or not, whatever range and digits it was written with. Durations
    /// beyond this range are recorded at its limit and counted.
    ///
    /// # Errors
    /// When the text is not base64 or not a V2 histogram.
    pub fn from_v2_base64(text: &str) -> Result<Self, HistogramError> {
        let bytes = BASE64.decode(text.trim()).map_err(HistogramError::Base64)?;
        let foreign: hdrhistogram::Histogram<u64> = serialization::Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(HistogramError::Form)?;
        let mut histogram = Self::new();
        for value in foreign.iter_recorded() {
            histogram.record_many(value.value_iterated_to(), value.count_at_value());
        }
        Ok(histogram)
    }
}

impl Counters for Histogram {
    fn add(&mut self, other: &Self) {
        self.values
            .add(&other.values)
            .expect("two histograms of one range always add");
        self.beyond_range = self.beyond_range.saturating_add(other.beyond_range);
    }

    /// All of it if `earlier` is no former state of this histogram.
    fn since(&self, earlier: &Self) -> Self {
        let mut since = self.clone();
        if since.values.subtract(&earlier.values).is_err() {
            // It is none of its former states.
            return self.clone();
        }
        since.beyond_range = self.beyond_range.saturating_sub(earlier.beyond_range);
        since
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Histogram").field(&self.summary()).finish()
    }
}

fn write<S: Serializer>(values: &hdrhistogram::Histogram<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&v2_base64(values))
}

fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<hdrhistogram::Histogram<u64>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let histogram = Histogram::from_v2_base64(&text).map_err(D::Error::custom)?;
    Ok(histogram.values)
}

/// The HdrHistogram V2 form, deflated, in base64.
fn v2_base64(values: &hdrhistogram::Histogram<u64>) -> String {
    let mut encoded = Vec::new();
    V2DeflateSerializer::new()
        .serialize(values, &mut encoded)
        .expect("a vector takes any number of bytes, and the counts fit the form's 64 bits");
    BASE64.encode(encoded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        for value in values {
            histogram.record(*value);
        }
        histogram
    }

    #[test]
    fn percentiles_keep_three_digits() {
        let histogram = of(&(1..=1000).map(|step| step * 1000).collect::<Vec<_>>());
        let summary = histogram.summary().unwrap();
        assert_eq!(summary.count, 1000);
        for (found, wanted) in [
            (summary.min_ns, 1_000),
            (summary.p50_ns, 500_000),
            (summary.p95_ns.unwrap(), 950_000),
            (summary.p99_ns, 990_000),
            (summary.max_ns, 1_000_000),
        ] {
            assert!(found.abs_diff(wanted) * 1000 <= wanted, "{found} for {wanted}");
        }
        let mut rare = Histogram::new();
        rare.record_many(1_000, 9_994);
        rare.record_many(2_000, 6);
        let times = [99.9, 99.95].map(|percent| rare.percentile(percent));
        assert_eq!(times, [Some(1_000), Some(2_000)]);
    }

    #[test]
    fn the_words_of_a_summary_name_what_it_has() {
        let mut summary = of(&[1_000]).summary().unwrap();
        let words = "median 1 \u{b5}s, p90 1 \u{b5}s, p95 1 \u{b5}s, p99 1 \u{b5}s, p99.9 1 \u{b5}s, longest 1 \u{b5}s";
        assert_eq!(summary.to_string(), words);
        // As in a document of an earlier version.
        summary.p95_ns = None;
        assert_eq!(summary.to_string(), words.replace("p95 1 \u{b5}s, ", ""));
        let json = serde_json::to_value(summary).unwrap();
        assert_eq!(serde_json::from_value::<Summary>(json).unwrap(), summary);
    }

    #[test]
    fn a_duration_beyond_the_range_is_counted_under_its_own_name() {
        let histogram = of(&[1_000, u64::MAX, LARGEST_NANOSECONDS + 1]);
        assert_eq!(histogram.beyond_range(), 2);
        assert_eq!(histogram.count(), 3);
        let summary = histogram.summary().unwrap();
        assert_eq!(
            (summary.p999_ns, summary.max_ns),
            (LARGEST_NANOSECONDS, LARGEST_NANOSECONDS)
        );
    }

    #[test]
    fn nothing_recorded_has_no_percentile() {
        assert_eq!(Histogram::new().percentile(50.0), None);
        assert_eq!(Histogram::new().summary(), None);
    }

    #[test]
    fn a_document_carries_the_whole_histogram() {
        let histogram = of(&[0, 1, 5_000, 2 * LARGEST_NANOSECONDS]);
        let text = serde_json::to_string(&histogram).unwrap();
        let back: Histogram = serde_json::from_str(&text).unwrap();
        assert_eq!(back, histogram);
        assert_eq!(back.beyond_range(), 1);
    }

    #[test]
    fn a_histogram_of_another_range_is_read() {
        let mut foreign = hdrhistogram::Histogram::<u64>::new_with_bounds(1, u64::MAX / 2, 2).unwrap();
        foreign.record(1_000_000).unwrap();
        foreign.record(LARGEST_NANOSECONDS * 2).unwrap();
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&foreign, &mut bytes)
            .unwrap();
        let read = Histogram::from_v2_base64(&BASE64.encode(bytes)).unwrap();
        assert_eq!((read.count(), read.beyond_range()), (2, 1));
    }

    #[test]
    fn text_that_is_no_histogram_is_refused_with_the_reason() {
        let refused = Histogram::from_v2_base64("AAAA").unwrap_err().to_string();
        assert!(
            refused.starts_with("the histogram is not in the HdrHistogram V2 form"),
            "{refused}"
        );
        let refused = Histogram::from_v2_base64("not base64!").unwrap_err().to_string();
        assert!(refused.starts_with("the histogram is not base64"), "{refused}");
    }

    proptest! {
        #[test]
        fn interchange_and_merging_lose_nothing(
            left in proptest::collection::vec(any::<u64>(), 0..50),
            right in proptest::collection::vec(0..LARGEST_NANOSECONDS, 0..50),
        ) {
            let (one, two) = (of(&left), of(&right));
            let mut merged = one.clone();
            merged.add(&two);
            prop_assert_eq!(&merged, &of(&[left, right].concat()));
            let back = Histogram::from_v2_base64(&v2_base64(&merged.values)).unwrap();
            prop_assert_eq!(back.count(), merged.count());
            for percent in [0.0, 50.0, 99.0, 100.0] {
                prop_assert_eq!(back.percentile(percent), merged.percentile(percent));
            }
        }

        #[test]
        fn damaged_text_never_panics(mut bytes in Just(v2_base64(&of(&[1, 1_000, 1_000_000]).values).into_bytes()),
            place in 0usize..40, with in any::<u8>()) {
            let place = place % bytes.len();
            bytes[place] = with;
            if let Ok(text) = String::from_utf8(bytes) {
                let _ = Histogram::from_v2_base64(&text);
            }
        }
    }
}
