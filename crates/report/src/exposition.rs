//! Renders declared metrics as OpenMetrics 1.0, or in the older text format of Prometheus, version 0.0.4.
//!
//! The families follow from a declaration. A name that ends in `_total` is a counter, any other
//! a gauge. A share becomes two counters, of which the quotient of increases is the share over any time:
//! `NAME_checked_total` and `NAME_ok_total`; if its name ends in `_ratio`, because its counts are estimates that may fall, it is a
//! gauge. Durations become one histogram in seconds, `NAME_seconds`. The unit is the
//! end of the name. Every family is described, also while it has no sample.

use corelane_measure::histogram::Histogram;
use corelane_measure::metric::{Metric, Sample, Show};
use corelane_measure::share::Share;
use std::fmt::Write;

/// Labels of a sample: names and values.
pub type Labels = Vec<(&'static str, String)>;

/// What has metrics to expose.
pub trait Exposed {
    /// Adds its metrics.
    fn expose(&self, exposition: &mut Exposition);
}

/// A text format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    #[default]
    OpenMetrics,
    /// The text format of Prometheus, version 0.0.4.
    Text,
}

impl Format {
    /// Its media type.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// The format that a request prefers by its `Accept` field (RFC 9110 12.5.1): OpenMetrics, unless it names only the
    /// other or weighs it higher.
    #[must_use]
    pub fn preferred(accept: Option<&str>) -> Self {
        let Some(accept) = accept else {
            return Self::default();
        };
        let open = weight(accept, ["application/openmetrics-text", "application/*"]);
        let text = weight(accept, ["text/plain", "text/*"]);
        if text > open {
            Self::Text
        } else {
            Self::OpenMetrics
        }
    }
}

/// The weight of a media type, from 0 to 1: of the most specific range that covers it, named first.
fn weight(accept: &str, covering: [&str; 2]) -> f64 {
    let ranges = || accept.split(',').map(|range| range.trim());
    let of = |wanted: &str| {
        let weights = ranges().filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let same = parts.next()?.eq_ignore_ascii_case(wanted);
            let weight = parts.find_map(|part| part.strip_prefix("q=")).unwrap_or("1");
            same.then(|| weight.parse().unwrap_or(0.0))
        });
        weights.reduce(f64::max)
    };
    let covering = covering.into_iter().chain(["*/*"]);
    covering.into_iter().find_map(of).unwrap_or(0.0)
}

/// Upper bounds of the buckets of a histogram, in nanoseconds: three per decade, from 1 µs, below which nothing on a
/// network happens, to 10 s. They are as fine as a percentile over time needs, in 22 series.
const BOUNDS: [u64; 22] = bounds();

const fn bounds() -> [u64; 22] {
    let (mut bounds, mut place, mut decade) = ([0; 22], 0, 1_000);
    while place < bounds.len() {
        bounds[place] = decade * [1, 2, 5][place % 3];
        place += 1;
        if place % 3 == 0 {
            decade *= 10;
        }
    }
    bounds
}

/// The kind of a family, and the end of the names of its samples.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Info,
    Histogram,
}

impl Kind {
    /// The kind of a sample, and the family's name.
    fn of(name: &str) -> (Self, &str) {
        match name.strip_suffix("_total") {
            Some(family) => (Self::Counter, family),
            None => (Self::Gauge, name),
        }
    }

    const fn name(self, format: Format) -> &'static str {
        match (self, format) {
            (Self::Counter, _) => "counter",
            (Self::Info, Format::OpenMetrics) => "info",
            (Self::Gauge | Self::Info, _) => "gauge",
            (Self::Histogram, _) => "histogram",
        }
    }
}

/// Metrics as text, in the making.
#[derive(Debug)]
pub struct Exposition {
    text: String,
    format: Format,
}

impl Exposition {
    /// The metrics of `exposed`.
    #[must_use]
    pub fn of(exposed: &dyn Exposed, format: Format) -> String {
        let text = String::new();
        let mut exposition = Self { text, format };
        exposed.expose(&mut exposition);
        if format == Format::OpenMetrics {
            exposition.text.push_str("# EOF\n");
        }
        exposition.text
    }

    /// Adds one metric, with the samples of each labelled object. An object without a value gets none. `prefix` comes
    /// before the name, and a metric must be added only once.
    pub fn add<'a, T: 'a>(
        &mut self,
        prefix: &str,
        metric: &Metric<T>,
        of: impl IntoIterator<Item = (Labels, &'a T)>,
    ) {
        let (name, about) = (format!("{prefix}_{}", metric.name), metric.about);
        let samples = of.into_iter().filter_map(|(labels, thing)| {
            let sample = metric.read.and_then(|read| read(thing))?;
            Some((labels, sample))
        });
        match metric.show {
            Show::Share if !name.ends_with("_ratio") => self.share(&name, about, samples),
            Show::Nanoseconds => self.histograms(&format!("{name}_seconds"), about, samples),
            _ => {
                let (kind, family) = Kind::of(&name);
                self.describe(family, kind, about);
                for (labels, sample) in samples {
                    let value = match sample {
                        Sample::Number(value) => Some(value),
                        Sample::Share(share) => share.value(),
                        Sample::Durations(_) => None,
                    };
                    if let Some(value) = value {
                        self.sample(&name, &labels, None, value);
                    }
                }
            }
        }
    }

    /// Adds the info of what exposes its metrics: `PREFIX_info` with its kind, other labels, and the version.
    pub fn info(&mut self, prefix: &str, about: &str, kind: &str, others: Labels) {
        let mut labels: Labels = vec![("kind", kind.to_owned())];
        labels.extend(others);
        labels.push(("version", env!("CARGO_PKG_VERSION").to_owned()));
        self.describe(prefix, Kind::Info, about);
        self.sample(&format!("{prefix}_info"), &labels, None, 1.0);
    }

    fn share<'a>(&mut self, name: &str, about: &str, samples: impl Iterator<Item = (Labels, Sample<'a>)>) {
        let shares: Vec<(Labels, Share)> = samples
            .filter_map(|(labels, sample)| match sample {
                Sample::Share(share) => Some((labels, share)),
                _ => None,
            })
            .collect();
        let good = format!("{name}_ok");
        let samples = format!("Samples, of which {good}_total has the good ones.");
        self.counter(&format!("{name}_checked"), &samples, &shares, |share| {
            share.samples
        });
        self.counter(&good, about, &shares, |share| share.hits);
    }

    fn counter(&mut self, family: &str, about: &str, shares: &[(Labels, Share)], count: fn(&Share) -> u64) {
        self.describe(family, Kind::Counter, about);
        for (labels, share) in shares {
            self.sample(&format!("{family}_total"), labels, None, count(share) as f64);
        }
    }

    fn histograms<'a>(
        &mut self,
        name: &str,
        about: &str,
        samples: impl Iterator<Item = (Labels, Sample<'a>)>,
    ) {
        self.describe(name, Kind::Histogram, about);
        for (labels, sample) in samples {
            if let Sample::Durations(durations) = sample {
                self.histogram(name, &labels, durations);
            }
        }
    }

    /// The counts of a histogram up to each bound. A duration within its three digits of a bound may count above it.
    fn histogram(&mut self, name: &str, labels: &Labels, durations: &Histogram) {
        let (mut recorded, mut count) = (durations.recorded().peekable(), 0);
        let bucket = format!("{name}_bucket");
        for bound in BOUNDS {
            while let Some((_, times)) = recorded.next_if(|(duration, _)| *duration <= bound) {
                count += times;
            }
            self.sample(&bucket, labels, Some(&seconds(bound)), count as f64);
        }
        let all = durations.count() as f64;
        let sum = durations
            .summary()
            .map_or(0.0, |summary| summary.mean_ns * all / 1e9);
        self.sample(&bucket, labels, Some("+Inf"), all);
        self.sample(&format!("{name}_sum"), labels, None, sum);
        self.sample(&format!("{name}_count"), labels, None, all);
    }

    /// The metadata of a family. The older format knows no unit, and calls a family as its samples.
    fn describe(&mut self, family: &str, kind: Kind, about: &str) {
        let end = match (self.format, kind) {
            (Format::Text, Kind::Counter) => "_total",
            (Format::Text, Kind::Info) => "_info",
            _ => "",
        };
        let units = ["bytes", "seconds", "ratio"].into_iter();
        let unit = units.filter(|_| self.format == Format::OpenMetrics);
        let unit = unit.into_iter().find(|unit| {
            let rest = family.strip_suffix(unit);
            rest.is_some_and(|rest| rest.ends_with('_'))
        });
        // Writing into a string does not fail.
        let _ = writeln!(self.text, "# TYPE {family}{end} {}", kind.name(self.format));
        if let Some(unit) = unit {
            let _ = writeln!(self.text, "# UNIT {family} {unit}");
        }
        let _ = writeln!(self.text, "# HELP {family}{end} {about}");
    }

    fn sample(&mut self, name: &str, labels: &Labels, bound: Option<&str>, value: f64) {
        if !value.is_finite() {
            return;
        }
        let labels = labels.iter().map(|(label, value)| (*label, value.as_str()));
        let labels = labels.chain(bound.map(|bound| ("le", bound)));
        let labels: Vec<String> = labels
            .map(|(label, value)| format!("{label}=\"{}\"", escaped(value)))
            .collect();
        let _ = match labels.is_empty() {
            true => writeln!(self.text, "{name} {value}"),
            false => writeln!(self.text, "{name}{{{}}} {value}", labels.join(",")),
        };
    }
}

/// A bound in seconds, with a decimal point, as OpenMetrics asks of bounds.
fn seconds(nanoseconds: u64) -> String {
    let seconds = (nanoseconds as f64 / 1e9).to_string();
    match seconds.contains('.') {
        true => seconds,
        false => format!("{seconds}.0"),
    }
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    type Counted = (Labels, Option<u64>);

    struct Links(Vec<Counted>);

    static FRAMES: Metric<Option<u64>> = Metric::explaining("received_bytes_total", "bytes", Show::Bytes)
        .about("Bytes.")
        .read(|frames: &Option<u64>| frames.map(|frames| Sample::Number(frames as f64)));

    static HITS: Metric<Share> = Metric::more("steering", "steering", Show::Share)
        .about("Hits.")
        .read(|share| Some(Sample::Share(*share)));

    static TIMES: Metric<Histogram> = Metric::less("latency", "latency", Show::Nanoseconds)
        .about("Times.")
        .read(|times| Some(Sample::Durations(times)));

    impl Exposed for Links {
        fn expose(&self, exposition: &mut Exposition) {
            let links = self.0.iter().map(|(labels, bytes)| (labels.clone(), bytes));
            exposition.add("test", &FRAMES, links);
        }
    }

    impl Exposed for Share {
        fn expose(&self, exposition: &mut Exposition) {
            exposition.add("test", &HITS, [(Labels::new(), self)]);
        }
    }

    impl Exposed for Histogram {
        fn expose(&self, exposition: &mut Exposition) {
            exposition.add("test", &TIMES, [(vec![("worker", "0".to_owned())], self)]);
        }
    }

    #[test]
    fn a_counter_has_its_unit_its_help_and_a_sample_of_each_thing_that_gives_it() {
        let things = [Some(1_000_000_000_000), None, Some(0)];
        let named =
            ["a", "b", "c\"\\\n"].map(|name| vec![("link", name.to_owned()), ("kind", "x".to_owned())]);
        let links = Links(named.into_iter().zip(things).collect());
        let samples = "test_received_bytes_total{link=\"a\",kind=\"x\"} 1000000000000\n\
                       test_received_bytes_total{link=\"c\\\"\\\\\\n\",kind=\"x\"} 0\n";
        assert_eq!(
            Exposition::of(&links, Format::OpenMetrics),
            format!(
                "# TYPE test_received_bytes counter\n# UNIT test_received_bytes bytes\n\
                 # HELP test_received_bytes Bytes.\n{samples}# EOF\n"
            )
        );
        assert_eq!(
            Exposition::of(&links, Format::Text),
            format!(
                "# TYPE test_received_bytes_total counter\n# HELP test_received_bytes_total Bytes.\n{samples}"
            )
        );
    }

    #[test]
    fn a_share_is_two_counters() {
        let share = Share {
            hits: 99,
            samples: 100,
        };
        assert_eq!(
            Exposition::of(&share, Format::Text),
            "# TYPE test_steering_checked_total counter\n\
             # HELP test_steering_checked_total Samples, of which test_steering_ok_total has the good ones.\n\
             test_steering_checked_total 100\n\
             # TYPE test_steering_ok_total counter\n# HELP test_steering_ok_total Hits.\n\
             test_steering_ok_total 99\n"
        );
    }

    #[test]
    fn durations_are_a_histogram_in_seconds_that_counts_up_to_each_bound() {
        let mut times = Histogram::new();
        times.record(900);
        times.record_many(150_000, 2);
        times.record(30_000_000_000);
        let text = Exposition::of(&times, Format::OpenMetrics);
        let count = |bound: &str| {
            let start = format!("test_latency_seconds_bucket{{worker=\"0\",le=\"{bound}\"}} ");
            let line = text.lines().find_map(|line| line.strip_prefix(&start));
            line.unwrap_or_else(|| panic!("{bound}: {text}"))
        };
        let found = ["0.000001", "0.0001", "0.0002", "1.0", "10.0", "+Inf"].map(count);
        assert_eq!(found, ["1", "1", "3", "3", "3", "4"]);
        assert!(
            text.contains("# TYPE test_latency_seconds histogram\n# UNIT test_latency_seconds seconds\n")
        );
        assert!(
            text.contains("test_latency_seconds_count{worker=\"0\"} 4\n"),
            "{text}"
        );
        assert!(
            text.contains("test_latency_seconds_sum{worker=\"0\"} 30."),
            "{text}"
        );
        assert_eq!(text.matches("_bucket").count(), BOUNDS.len() + 1);
    }

    #[test]
    fn the_format_is_the_one_that_the_client_prefers() {
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                          text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for accept in [
            None,
            Some("*/*"),
            Some(prometheus),
            Some("application/*;q=0.8, text/plain; q=0.8"),
            Some("image/png"),
        ] {
            assert_eq!(Format::preferred(accept), Format::OpenMetrics, "{accept:?}");
        }
        for accept in [
            "text/plain",
            "TEXT/*",
            "text/plain;version=0.0.4, */*;q=0.1",
            "application/openmetrics-text;q=0, */*",
        ] {
            assert_eq!(Format::preferred(Some(accept)), Format::Text, "{accept}");
        }
    }
}
