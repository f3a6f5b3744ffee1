//! What only this generator counts: hits, each way in which a server can be wrong, and times by operation.

use super::mix::Operation;
use crate::document::is_default;
use crate::streams::OwnCounts;
use corelane_measure::counters;
use corelane_measure::counters::Counters;
use corelane_measure::histogram::{Histogram, Summary};
use corelane_measure::quantity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

counters! {
    /// Answers that no correct server gives, by kind.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct WrongAnswers {
        /// Values that nobody wrote for their key.
        pub wrong_value: u64,
        /// Values or keys of other keys than those asked for.
        pub other_key: u64,
        /// Values of another length than the one that was written.
        pub wrong_length: u64,
        /// Values that had been replaced or deleted before they were asked for.
        pub old_version: u64,
        /// Values that had expired three seconds before they were asked for.
        pub expired: u64,
        /// Values with other client flags than those they were stored with.
        pub wrong_flags: u64,
        /// Counters that stood still, went back, or went further than what was added or subtracted.
        pub wrong_number: u64,
        /// Values without a part that was appended or prepended before they were asked for.
        #[serde(default, skip_serializing_if = "is_default")]
        pub missing_part: u64,
        /// Stores by `cas` although the value had been replaced, and refusals although it had not.
        pub wrong_cas: u64,
        /// Answers of meta commands with the opaque of another request: late, or out of order.
        pub out_of_order: u64,
        /// Values without an end of the answer.
        pub no_end: u64,
        /// Answers that the request does not have.
        pub unexpected: u64,
        /// Lines or data blocks that are malformed.
        pub malformed: u64,
    }
}

counters! {
    /// What only a cache has.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    pub struct MemcachedCounts {
        /// Keys that were asked for and had a value.
        pub hits: u64,
        /// Keys that were asked for and had none.
        pub misses: u64,
        /// Of the requests, those that stored a value after a miss.
        pub fills: u64,
        /// Stores that a condition refused: `add`, `replace`, `append`, `prepend`, `cas`.
        pub not_stored: u64,
        /// Values of other runs, which their first write in this run replaces.
        #[serde(default, skip_serializing_if = "is_default")]
        pub other_runs: u64,
        /// `ERROR`: commands that the server does not know.
        #[serde(default, skip_serializing_if = "is_default")]
        pub errors: u64,
        /// `CLIENT_ERROR`: requests that the server refused.
        #[serde(default, skip_serializing_if = "is_default")]
        pub client_errors: u64,
        /// `SERVER_ERROR`: requests that the server could not perform.
        #[serde(default, skip_serializing_if = "is_default")]
        pub server_errors: u64,
        /// Answers that no correct server gives.
        pub wrong: WrongAnswers,
        /// Times by operation, from the intended start to the end of the answer; of those that succeeded.
        pub operations: Times,
    }
}

/// Times by operation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "BTreeMap<Operation, Timed>", into = "BTreeMap<Operation, Timed>")]
pub struct Times {
    /// Indexed by [`Operation`]; allocated when it first occurs.
    of: [Option<Box<Histogram>>; Operation::ALL.len()],
}

/// Times of one operation in documents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Timed {
    latency: Option<Summary>,
    latency_histogram: Histogram,
}

impl Times {
    pub(super) fn record(&mut self, operation: Operation, nanoseconds: u64) {
        let histogram = &mut self.of[operation as usize];
        histogram.get_or_insert_default().record(nanoseconds);
    }

    /// Each operation that occurred.
    pub fn each(&self) -> impl Iterator<Item = (Operation, &Histogram)> {
        let all = Operation::ALL.iter().zip(&self.of);
        all.filter_map(|(operation, times)| Some((*operation, &**times.as_ref()?)))
    }
}

impl From<BTreeMap<Operation, Timed>> for Times {
    fn from(read: BTreeMap<Operation, Timed>) -> Self {
        let mut times = Self::default();
        for (operation, timed) in read {
            times.of[operation as usize] = Some(Box::new(timed.latency_histogram));
        }
        times
    }
}

impl From<Times> for BTreeMap<Operation, Timed> {
    fn from(times: Times) -> Self {
        let timed = |(operation, histogram): (Operation, &Histogram)| {
            let timed = Timed {
                latency: histogram.summary(),
                latency_histogram: histogram.clone(),
            };
            (operation, timed)
        };
        times.each().map(timed).collect()
    }
}

impl Counters for Times {
    fn add(&mut self, other: &Self) {
        for (operation, histogram) in other.each() {
            self.of[operation as usize].get_or_insert_default().add(histogram);
        }
    }

    fn since(&self, earlier: &Self) -> Self {
        let none = Histogram::new();
        let mut times = Self::default();
        for (operation, histogram) in self.each() {
            let before = earlier.of[operation as usize].as_deref().unwrap_or(&none);
            times.of[operation as usize] = Some(Box::new(histogram.since(before)));
        }
        times
    }
}

impl OwnCounts for MemcachedCounts {
    fn in_words(&self) -> Vec<(String, u64)> {
        let lines = [
            ("keys found", self.hits),
            ("keys not found", self.misses),
            ("stored after a miss", self.fills),
            ("not stored, by their condition", self.not_stored),
            ("values of other runs", self.other_runs),
            ("ERROR", self.errors),
            ("CLIENT_ERROR", self.client_errors),
            ("SERVER_ERROR", self.server_errors),
        ];
        let lines = lines.map(|(name, count)| (name.to_owned(), count));
        let wrong = self.wrong.named();
        let wrong = wrong.map(|(name, count)| (format!("wrong: {}", name.replace('_', " ")), count));
        lines.into_iter().chain(wrong).collect()
    }

    fn hits(&self) -> Option<[u64; 2]> {
        Some([self.hits, self.hits + self.misses])
    }

    fn wrong(&self) -> Option<u64> {
        Some(Counters::sum(self.wrong.named().map(|(_, count)| count)))
    }

    fn errors(&self) -> BTreeMap<String, u64> {
        let lines = [
            ("errors", self.errors),
            ("client_errors", self.client_errors),
            ("server_errors", self.server_errors),
        ];
        let all = lines.into_iter().chain(self.wrong.named());
        all.filter(|(_, count)| *count > 0)
            .map(|(name, count)| (name.to_owned(), count))
            .collect()
    }

    fn lines(&self) -> Vec<String> {
        let asked = self.hits + self.misses;
        let share = quantity::percent(self.hits as f64 / asked as f64);
        let hits = (asked > 0).then(|| format!("{share} of {} keys found", quantity::count(asked)));
        let times = self.operations.each().filter_map(|(operation, histogram)| {
            let summary = histogram.summary()?;
            Some(format!(
                "{operation}, {}: {summary}",
                quantity::count(summary.count)
            ))
        });
        hits.into_iter().chain(times).collect()
    }
}
