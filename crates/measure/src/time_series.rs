//! What a run did over time: its rate in short intervals, and its durations in longer ones.
//!
//! In: running totals, as an observer reads them from time to time. Out: a [`TimeSeries`] of bounded size for documents:
//! when it is full, neighbours are merged and intervals become twice as long.

use crate::counters::Counters;
use crate::histogram::Histogram;
use crate::statistics::median;
use serde::{Deserialize, Serialize};

/// The shortest interval of a rate in seconds.
const SHORTEST_RATE_S: f64 = 0.025;

/// The shortest interval of durations: a snapshot of a histogram costs a worker some ten microseconds.
const SHORTEST_TIMES_S: f64 = 0.25;

/// Intervals kept.
const MOST: usize = 128;

/// What a run did over time; empty lists where nothing was recorded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TimeSeries {
    /// Rates, from the start on, without gaps.
    pub rates: Vec<RateUntil>,
    /// Percentiles of the durations that ended in an interval; intervals without any are left out.
    pub times: Vec<TimesUntil>,
}

/// The rate of one interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RateUntil {
    /// The end of the interval, in seconds from the start; it begins where the one before ends.
    pub until_s: f64,
    /// Events per second.
    pub per_second: f64,
}

/// The durations of one interval, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TimesUntil {
    /// The end of the interval, in seconds from the start.
    pub until_s: f64,
    /// Durations recorded.
    pub count: u64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Maximum.
    pub max_ns: u64,
}

impl TimeSeries {
    /// Whether nothing was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rates.is_empty() && self.times.is_empty()
    }

    /// The rate in each of up to ten parts of the run, one after the other, of as many intervals each.
    #[must_use]
    pub fn rates_in_parts(&self) -> Vec<f64> {
        let mut from_s = 0.0;
        let rate = |part: &[RateUntil]| {
            let (began_s, mut events) = (from_s, 0.0);
            for rate in part {
                events += rate.per_second * (rate.until_s - from_s);
                from_s = rate.until_s;
            }
            events / (from_s - began_s)
        };
        parts(&self.rates).map(rate).collect()
    }

    /// The same of a percentile: the median over the intervals of each part.
    #[must_use]
    pub fn times_in_parts(&self, percentile: fn(&TimesUntil) -> u64) -> Vec<f64> {
        let usual = |part: &[TimesUntil]| {
            let times: Vec<f64> = part.iter().map(|times| percentile(times) as f64).collect();
            median(&times)
        };
        parts(&self.times).filter_map(usual).collect()
    }
}

/// Up to ten parts, one after the other, of as many elements each.
fn parts<T>(all: &[T]) -> impl Iterator<Item = &[T]> {
    let parts = all.len().min(10);
    (0..parts).map(move |part| &all[all.len() * part / parts..all.len() * (part + 1) / parts])
}

impl TimesUntil {
    /// The durations of an interval, with how often each occurred.
    fn of((until_s, durations): &(f64, Vec<(u64, u64)>)) -> Option<Self> {
        let mut all = Histogram::new();
        for (nanoseconds, times) in durations {
            all.record_many(*nanoseconds, *times);
        }
        let summary = all.summary()?;
        Some(Self {
            until_s: *until_s,
            count: summary.count,
            p50_ns: summary.p50_ns,
            p99_ns: summary.p99_ns,
            max_ns: summary.max_ns,
        })
    }
}

/// Records a [`TimeSeries`].
#[derive(Debug, Default)]
pub struct Recorder {
    counts: Intervals<u64>,
    times: Intervals<Vec<(u64, u64)>>,
    total: u64,
    recorded: Histogram,
}

impl Recorder {
    /// Records the events up to this second of the run, if their total is due.
    pub fn count(&mut self, at_s: f64, total: impl FnOnce() -> u64) {
        if self.counts.is_due(at_s, SHORTEST_RATE_S) {
            let total = total();
            let events = total.saturating_sub(std::mem::replace(&mut self.total, total));
            self.counts.push(at_s, events, |one, other| *one += other);
        }
    }

    /// Records all durations so far. Totals before they are due are ignored.
    pub fn times(&mut self, at_s: f64, total: &Histogram) {
        if self.times.is_due(at_s, SHORTEST_TIMES_S) {
            let before = std::mem::replace(&mut self.recorded, total.clone());
            let since = total.since(&before).recorded().collect();
            self.times.push(at_s, since, |one, other| one.extend(other));
        }
    }

    /// The series of a run that ended at this second with these durations in all.
    #[must_use]
    pub fn ended(&self, at_s: f64, total: &Histogram) -> TimeSeries {
        let mut series = self.series();
        // Without any snapshot, nobody asked for durations over time.
        if !self.times.all.is_empty() {
            let last = [(at_s, total.since(&self.recorded).recorded().collect())];
            series.times.extend(last.iter().filter_map(TimesUntil::of));
        }
        series
    }

    fn series(&self) -> TimeSeries {
        let begun = std::iter::once(0.0).chain(self.counts.all.iter().map(|(until_s, _)| *until_s));
        let rate = |((until_s, count), from_s): (&(f64, u64), f64)| RateUntil {
            until_s: *until_s,
            per_second: *count as f64 / (until_s - from_s),
        };
        TimeSeries {
            rates: self.counts.all.iter().zip(begun).map(rate).collect(),
            times: self.times.all.iter().filter_map(TimesUntil::of).collect(),
        }
    }
}

/// Intervals that follow each other: the end of each, and what it held.
#[derive(Debug)]
struct Intervals<T> {
    all: Vec<(f64, T)>,
    /// How many shortest intervals each is long.
    length: f64,
}

impl<T> Default for Intervals<T> {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            length: 1.0,
        }
    }
}

impl<T> Intervals<T> {
    fn is_due(&self, at_s: f64, shortest_s: f64) -> bool {
        let last = self.all.last().map_or(0.0, |(until_s, _)| *until_s);
        // Half an observer's step early is nearer than half a step late.
        at_s - last >= self.length * shortest_s * 0.95
    }

    fn push(&mut self, until_s: f64, held: T, merge: impl Fn(&mut T, T)) {
        self.all.push((until_s, held));
        if self.all.len() < MOST {
            return;
        }
        self.length *= 2.0;
        let mut merged: Vec<(f64, T)> = Vec::with_capacity(MOST);
        for (index, (until_s, held)) in self.all.drain(..).enumerate() {
            match merged.last_mut().filter(|_| index % 2 == 1) {
                Some(before) => {
                    before.0 = until_s;
                    merge(&mut before.1, held);
                }
                None => merged.push((until_s, held)),
            }
        }
        self.all = merged;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_follow_the_totals_and_stay_bounded() {
        let mut recorder = Recorder::default();
        for step in 1..=4_000u32 {
            recorder.count(f64::from(step) * 0.025, || u64::from(step) * 50);
        }
        let rates = recorder.series().rates;
        assert!((MOST / 2..MOST).contains(&rates.len()), "{}", rates.len());
        for rate in &rates {
            assert!((rate.per_second - 2_000.0).abs() < 1e-6, "{rate:?}");
        }
        assert!(rates.windows(2).all(|pair| pair[0].until_s < pair[1].until_s));
    }

    #[test]
    fn parts_of_a_run_have_its_mean_rate_and_its_usual_times() {
        let rate = |(until_s, per_second)| RateUntil { until_s, per_second };
        let times = |p99_ns| TimesUntil {
            until_s: 0.0,
            count: 1,
            p50_ns: 1,
            p99_ns,
            max_ns: 9,
        };
        let few = TimeSeries {
            rates: [(1.0, 10.0), (4.0, 20.0)].map(rate).into(),
            times: [7, 5].map(times).into(),
        };
        assert_eq!(few.rates_in_parts(), [10.0, 20.0]);
        assert_eq!(few.times_in_parts(|times| times.p99_ns), [7.0, 5.0]);
        // A second in which nothing happened, after half a second at twice the rate.
        let many: Vec<(f64, f64)> = (0..20)
            .flat_map(|at| [(1.5 * f64::from(at) + 0.5, 600.0), (1.5 * f64::from(at + 1), 0.0)])
            .collect();
        let many = TimeSeries {
            rates: many.into_iter().map(rate).collect(),
            times: (0..30)
                .map(|at| times(if at % 3 == 0 { 1_000 } else { at }))
                .collect(),
        };
        assert_eq!(many.rates_in_parts(), [200.0; 10]);
        let p99 = many.times_in_parts(|times| times.p99_ns);
        assert_eq!((p99.len(), p99[0], p99[9]), (10, 2.0, 29.0));
        assert!(TimeSeries::default().rates_in_parts().is_empty());
    }

    #[test]
    fn each_interval_has_the_durations_that_ended_in_it() {
        let (mut recorder, mut all) = (Recorder::default(), Histogram::new());
        all.record_many(1_000, 100);
        recorder.times(0.3, &all);
        recorder.times(0.4, &all);
        recorder.times(0.6, &all);
        all.record_many(9_000, 100);
        recorder.times(1.0, &all);
        all.record(90_000);
        let times = recorder.ended(1.1, &all).times;
        let found: Vec<_> = times
            .iter()
            .map(|times| (times.until_s, times.count, times.p50_ns))
            .collect();
        assert_eq!(found[0], (0.3, 100, 1_000));
        assert_eq!((found[1].0, found[1].1), (1.0, 100));
        assert_eq!((found[2].0, found[2].1, found.len()), (1.1, 1, 3));
        assert!(Recorder::default().ended(1.0, &all).is_empty());
        assert!(found[1].2.abs_diff(9_000) < 10, "{found:?}");
    }
}
