//! Metrics. Each is declared once: its name in documents, how to compute it from a trial, its format, and which
//! direction is better. Medians, spreads, reasons, tables, gates, diffs and expositions follow from the declaration.
//!
//! ```
//! use corelane_measure::metric::{Metric, Sample, Show, Values};
//!
//! struct Trial { frames: u64, seconds: f64 }
//!
//! static RATE: Metric<Trial> = Metric::more("rate_pps", "rate", Show::PerSecond)
//!     .about("Frames per second.")
//!     .read(|trial: &Trial| Some(Sample::Number(trial.frames as f64 / trial.seconds)));
//!
//! let trials = [Trial { frames: 10, seconds: 1.0 }, Trial { frames: 30, seconds: 1.0 }];
//! let mut values = Values::default();
//! values.fill(&[&RATE], &trials.iter().collect::<Vec<_>>());
//! assert_eq!(RATE.of(&values), Some(20.0));
//! ```

use crate::counters::Counters;
use crate::histogram::{Histogram, LARGEST_NANOSECONDS, Summary};
use crate::quantity;
use crate::share::Share;
use crate::statistics::{Spread, median};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The direction in which a metric improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
    /// Neither: the metric is explanatory.
    Neither,
}

/// The unit of a value in the document, and its display format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Show {
    /// Events per second: `123 k`.
    PerSecond,
    /// A number with this many decimals.
    Fixed(usize),
    /// A number with a metric prefix: `1.72 M`.
    Prefixed,
    /// Microseconds with this many decimals.
    Microseconds(usize),
    /// Nanoseconds, shown with the unit that fits: `20.5 µs`.
    Nanoseconds,
    /// A share of 1 in percent, with one decimal unless it is exact: `41.4`.
    Share,
    /// A share of 1 in whole percent.
    WholeShare,
    /// A quotient: `0.98x`.
    Ratio,
    /// A whole number: `17,450,880`.
    Count,
    /// Bytes: `64 KiB`.
    Bytes,
}

impl Show {
    /// Formats the value for a cell; the unit is in the column header.
    #[must_use]
    pub fn cell(self, value: f64) -> String {
        match self {
            Self::PerSecond | Self::Prefixed => quantity::metric(value),
            Self::Fixed(decimals) | Self::Microseconds(decimals) => quantity::fixed(value, decimals),
            Self::Nanoseconds => quantity::duration(value),
            Self::Share => quantity::percent_number(value),
            Self::WholeShare => quantity::whole_percent(value),
            Self::Ratio => quantity::ratio(value),
            Self::Count => quantity::count(value.round() as u64),
            Self::Bytes => quantity::bytes(value.round() as u64),
        }
    }

    /// Formats the value with its unit, for a sentence.
    #[must_use]
    pub fn words(self, value: f64) -> String {
        match self {
            Self::PerSecond => quantity::rate(value),
            Self::Microseconds(_) => quantity::duration(value * 1e3),
            Self::Share | Self::WholeShare => quantity::percent(value),
            _ => self.cell(value),
        }
    }

    /// Formats a value of a metric with its unit, which the header names if `unit` is empty: `88.9 k/s`, `23.33 Gb/s`.
    #[must_use]
    pub fn words_with_unit(self, value: f64, (header, unit): (&str, &str)) -> String {
        match (self, unit) {
            (Self::Prefixed | Self::Bytes, unit) => format!("{}{unit}", self.cell(value)),
            (Self::Fixed(_), "") => format!("{} {header}", self.cell(value)),
            (Self::Fixed(_), unit) => format!("{} {unit}", self.cell(value)),
            _ => self.words(value),
        }
    }

    /// The unit shown under the column header.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::PerSecond => "/s",
            Self::Microseconds(_) => "\u{b5}s",
            Self::Share | Self::WholeShare => "%",
            _ => "",
        }
    }

    /// Parses a bound for such a value: `5ms`, `10k`, `0.1%`, `64KiB`.
    #[must_use]
    pub fn parse(self, text: &str) -> Option<f64> {
        let nanoseconds = || {
            let time = quantity::parse_duration(text).ok()?;
            Some(time.as_nanos() as f64)
        };
        match self {
            Self::Nanoseconds => nanoseconds(),
            Self::Microseconds(_) => nanoseconds().map(|time| time / 1e3),
            Self::Share | Self::WholeShare => {
                let percent = text.strip_suffix('%');
                let number: f64 = percent.unwrap_or(text).trim().parse().ok()?;
                Some(number / if percent.is_some() { 100.0 } else { 1.0 })
            }
            Self::Bytes => quantity::parse_size(text).ok().map(|bytes| bytes as f64),
            _ => quantity::parse_rate(text).ok().or_else(|| text.parse().ok()),
        }
    }

    /// The largest value of metrics of this form: of shares 1, of times in nanoseconds that of a histogram. Infinite
    /// for others.
    #[must_use]
    const fn most(self) -> f64 {
        match self {
            Self::Share => 1.0,
            Self::Nanoseconds => LARGEST_NANOSECONDS as f64,
            _ => f64::INFINITY,
        }
    }

    /// An example of a bound.
    #[must_use]
    pub const fn example(self) -> &'static str {
        match self {
            Self::Nanoseconds | Self::Microseconds(_) => "a time such as 5ms",
            Self::Share | Self::WholeShare => "a share such as 0.1%",
            Self::Bytes => "a size such as 64KiB",
            _ => "a number such as 10k",
        }
    }
}

/// A metric's sample from one trial. Its kind decides how trials are combined.
#[derive(Debug, Clone, Copy)]
pub enum Sample<'a> {
    /// A number; a step gets the median.
    Number(f64),
    /// A share; a step gets the pooled counts.
    Share(Share),
    /// Durations; a step gets the merged histogram.
    Durations(&'a Histogram),
}

impl Sample<'_> {
    /// A count, which every trial has.
    #[must_use]
    #[allow(clippy::unnecessary_wraps, reason = "metrics read optional samples")]
    pub const fn count(count: u64) -> Option<Self> {
        Some(Self::Number(count as f64))
    }
}

/// Computes a metric from a trial.
pub type Read<T> = fn(&T) -> Option<Sample<'_>>;

/// One metric of a document whose trials are `T`.
#[derive(Debug)]
pub struct Metric<T: 'static> {
    /// Its field in the document, with the unit in its name.
    pub name: &'static str,
    /// Its name in sentences. Gates use `name`.
    pub label: &'static str,
    /// Its column header.
    pub header: &'static str,
    /// The unit under that header.
    pub unit: &'static str,
    /// Its display format.
    pub show: Show,
    /// Which way is better.
    pub better: Better,
    /// Its description, in one sentence.
    pub about: &'static str,
    /// Computes it from a trial; `None` if the conclusion computes it from several steps.
    pub read: Option<Read<T>>,
    /// The field of its range over the trials, if the document has one.
    pub spread: Option<&'static str>,
    /// Whether comparisons of two runs include it.
    pub compared: bool,
    /// The largest value that it can have, infinite if there is none. The smallest is 0.
    pub most: f64,
}

impl<T> Metric<T> {
    const fn declared(name: &'static str, header: &'static str, show: Show, better: Better) -> Self {
        Self {
            name,
            label: header,
            header,
            unit: show.unit(),
            show,
            better,
            about: "",
            read: None,
            spread: None,
            compared: false,
            most: show.most(),
        }
    }

    /// Declares a metric of which more is better; to be completed by [`Metric::about`], and by [`Metric::read`] unless
    /// the conclusion sets it.
    #[must_use]
    pub const fn more(name: &'static str, header: &'static str, show: Show) -> Self {
        Self::declared(name, header, show, Better::Higher)
    }

    /// Declares a metric of which less is better. Add `about` and `read`.
    #[must_use]
    pub const fn less(name: &'static str, header: &'static str, show: Show) -> Self {
        Self::declared(name, header, show, Better::Lower)
    }

    /// Declares an explanatory metric. Add `about` and `read`.
    #[must_use]
    pub const fn explaining(name: &'static str, header: &'static str, show: Show) -> Self {
        Self::declared(name, header, show, Better::Neither)
    }

    /// The same with a description.
    #[must_use]
    pub const fn about(mut self, about: &'static str) -> Self {
        self.about = about;
        self
    }

    /// The same, computed from trials.
    #[must_use]
    pub const fn read(mut self, read: Read<T>) -> Self {
        self.read = Some(read);
        self
    }

    /// The same with another unit under its header.
    #[must_use]
    pub const fn unit(mut self, unit: &'static str) -> Self {
        self.unit = unit;
        self
    }

    /// The same with another name in prose.
    #[must_use]
    pub const fn label(mut self, label: &'static str) -> Self {
        self.label = label;
        self
    }

    /// The same, with the range over the trials in a field of its own.
    #[must_use]
    pub const fn spread(mut self, field: &'static str) -> Self {
        self.spread = Some(field);
        self
    }

    /// The same, included in comparisons of two runs.
    #[must_use]
    pub const fn compared(mut self) -> Self {
        self.compared = true;
        self
    }

    /// The same; a share may exceed 1, and a time the range of histograms.
    #[must_use]
    pub const fn unbounded(mut self) -> Self {
        self.most = f64::INFINITY;
        self
    }

    /// The value of a step: the 99th percentile of durations, the median of a range.
    #[must_use]
    pub fn of(&self, of: &impl Measured) -> Option<f64> {
        match of.values().get(self.name)? {
            Value::Number(number) => Some(*number),
            Value::Durations(summary) => Some(summary.p99_ns as f64),
            Value::Spread(spread) => Some(spread.median),
            Value::Other(_) => None,
        }
    }

    /// The durations of a step.
    #[must_use]
    pub fn durations<'a>(&self, of: &'a impl Measured) -> Option<&'a Summary> {
        match of.values().get(self.name)? {
            Value::Durations(summary) => Some(summary),
            _ => None,
        }
    }

    /// The range of a step's value over the trials.
    #[must_use]
    pub fn range<'a>(&self, of: &'a impl Measured) -> Option<&'a Spread> {
        match of.values().get(self.spread?)? {
            Value::Spread(spread) => Some(spread),
            _ => None,
        }
    }

    /// A value with its unit, for a sentence: `88.9 k/s`, `23.33 Gb/s`.
    #[must_use]
    pub fn words_with_unit(&self, value: f64) -> String {
        self.show.words_with_unit(value, (self.header, self.unit))
    }

    /// The value of one trial: the quotient of a share, the 99th percentile of durations.
    #[must_use]
    pub fn of_trial(&self, trial: &T) -> Option<f64> {
        self.numbers([trial]).first().copied()
    }

    /// The value of one trial with its unit.
    pub fn words_of(&self, trial: &T) -> Option<String> {
        Some(self.words_with_unit(self.of_trial(trial)?))
    }

    /// Each trial's number, in order: the quotient of a share, the 99th percentile of durations.
    pub fn numbers<'a>(&self, trials: impl IntoIterator<Item = &'a T>) -> Vec<f64> {
        let Some(read) = self.read else { return Vec::new() };
        let number = |trial: &'a T| match read(trial)? {
            Sample::Number(number) => Some(number),
            Sample::Share(share) => share.value(),
            Sample::Durations(histogram) => histogram.percentile(99.0).map(|time| time as f64),
        };
        trials.into_iter().filter_map(number).collect()
    }

    /// Combines the trials: the median of numbers, the pooled share, the merged durations.
    #[must_use]
    pub fn combine(&self, trials: &[&T]) -> Option<Value> {
        let samples = || trials.iter().filter_map(|trial| (self.read?)(trial));
        match samples().next()? {
            Sample::Number(_) => median(&self.numbers(trials.iter().copied())).map(Value::Number),
            Sample::Share(_) => {
                let shares = samples().filter_map(|sample| match sample {
                    Sample::Share(share) => Some(share),
                    _ => None,
                });
                Share::sum(shares).value().map(Value::Number)
            }
            Sample::Durations(_) => self.merged(trials)?.summary().map(Value::Durations),
        }
    }

    /// The durations of all trials; `None` if none has any.
    #[must_use]
    pub fn merged(&self, trials: &[&T]) -> Option<Histogram> {
        let durations = trials.iter().filter_map(|trial| match (self.read?)(trial)? {
            Sample::Durations(durations) => Some(durations),
            _ => None,
        });
        Histogram::sum(durations).if_any()
    }
}

/// The value of one metric of a step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A number.
    Number(f64),
    /// Durations.
    Durations(Summary),
    /// The range of another metric.
    Spread(Spread),
    /// A field of another version.
    #[serde(skip_serializing)]
    Other(IgnoredAny),
}

/// The values of one step by the names of their metrics, flattened into the step's document. What was not measured is
/// `null`, never 0.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Values(BTreeMap<String, Option<Value>>);

impl<M: Measured + ?Sized> Measured for &M {
    fn values(&self) -> &Values {
        (*self).values()
    }
}

impl Measured for Values {
    fn values(&self) -> &Values {
        self
    }
}

impl Values {
    /// Fills in every metric that trials give, from valid ones.
    pub fn fill<T>(&mut self, metrics: &[&Metric<T>], valid: &[&T]) {
        for metric in metrics {
            // A metric set by the conclusion is null until then.
            self.set(metric.name, metric.combine(valid));
            if let Some(field) = metric.spread {
                let spread = Spread::of(&metric.numbers(valid.iter().copied()));
                self.set(field, spread.map(Value::Spread));
            }
        }
    }

    /// Sets one value.
    pub fn set(&mut self, name: &str, value: Option<Value>) {
        self.0.insert(name.to_owned(), value);
    }

    /// Sets a number.
    pub fn set_number(&mut self, name: &str, number: Option<f64>) {
        self.set(
            name,
            number.filter(|number| number.is_finite()).map(Value::Number),
        );
    }

    /// Sets a concluded metric to the median of a spread, and its range beside it.
    pub fn set_spread<T>(&mut self, metric: &Metric<T>, spread: Option<Spread>) {
        self.set_number(metric.name, spread.map(|spread| spread.median));
        if let Some(field) = metric.spread {
            self.set(field, spread.map(Value::Spread));
        }
    }

    /// Whether the step lacks the metric entirely, because an older version wrote the document.
    #[must_use]
    pub fn lacks(&self, name: &str) -> bool {
        !self.0.contains_key(name)
    }

    /// Whether a value is null.
    #[must_use]
    pub fn is_null(&self, name: &str) -> bool {
        matches!(self.0.get(name), Some(None))
    }

    fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)?.as_ref()
    }
}

/// A type with metric values: a step.
pub trait Measured {
    /// Its values.
    fn values(&self) -> &Values;
}

#[cfg(test)]
mod tests;
