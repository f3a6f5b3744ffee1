//! Report lines and metrics shared by all generators.

use crate::document::RunOutcome;
use corelane_measure::histogram::{Histogram, Summary};
use corelane_measure::metric::Sample;
use corelane_measure::quantity;
use corelane_measure::time_series::{TimeSeries, TimesUntil};
use corelane_report::html::curves::{self, Curve, Points};
use corelane_report::html::markup::Markup;
use corelane_report::page::{Caveat, Page, Section};
use corelane_report::table::{Cell, Rows, Table};

/// Declares the metrics of a report, one per line: which way is better, form, name, header, unit if it is not that of the
/// form, description, and value. A value is a number or an `Option` of one. `#[compared]` includes it in comparisons of two
/// runs.
macro_rules! metrics {
    ($run:ident => $(
        $(#[$compared:ident])? $better:ident $show:ident$(($decimals:literal))? $name:literal, $header:literal $([$unit:literal])?: $about:literal
            = $value:expr;
    )+) => {
        &[$(
            corelane_measure::metric::Metric::$better(
                $name,
                $header,
                corelane_measure::metric::Show::$show$(($decimals))?,
            )
            $(.unit($unit))?
            .about($about)
            $(.$compared())?
            .read(|$run| crate::report::Figure::sample($value))
        ),+]
    };
}
pub(crate) use metrics;

/// The value of a metric.
pub(crate) trait Figure {
    /// The value as a sample.
    fn sample(self) -> Option<Sample<'static>>;
}

impl Figure for f64 {
    fn sample(self) -> Option<Sample<'static>> {
        Some(Sample::Number(self))
    }
}

impl Figure for u64 {
    fn sample(self) -> Option<Sample<'static>> {
        Sample::count(self)
    }
}

impl<F: Figure> Figure for Option<F> {
    fn sample(self) -> Option<Sample<'static>> {
        self.and_then(F::sample)
    }
}

/// The share of a count in all; `None` of nothing.
pub(crate) fn share(count: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| count as f64 / all as f64)
}

/// A line of percentiles, if anything was measured.
pub(crate) fn times(what: &str, summary: Option<Summary>) -> Option<String> {
    summary.map(|summary| format!("{what}: {summary}"))
}

/// The subject of a page: the name in `corelane/loaded-NAME/1`.
pub(crate) fn subject(schema: &str) -> String {
    let name = schema.split(['-', '/']).nth(2).unwrap_or_default();
    format!("{} load", name.to_uppercase())
}

/// A table of counts and their rates over a number of seconds; of `others`, those that are not 0.
pub(crate) fn rates(
    what: &str,
    seconds: f64,
    always: &[(&str, u64)],
    others: impl Iterator<Item = (String, u64)>,
) -> Table {
    let always = always.iter().map(|(name, count)| ((*name).to_owned(), *count));
    let counts: Vec<_> = always.chain(others.filter(|(_, count)| *count > 0)).collect();
    let rate = |count: u64| count as f64 / seconds.max(f64::MIN_POSITIVE);
    Rows::of(&counts)
        .left(what, |(name, _)| name)
        .count("count", |(_, count)| *count)
        .right("a second", |(_, count)| {
            Cell::shown(Some(rate(*count)), quantity::rate)
        })
        .table()
}

/// What the figures of a page show.
pub(crate) struct Charted<'a> {
    /// What the rate counts, per second, and its factor.
    pub(crate) rate: (&'static str, f64),
    /// The name of the durations.
    pub(crate) name: &'static str,
    /// All of them.
    pub(crate) durations: Option<&'a Histogram>,
}

/// The figures of a page: rate and durations over time, and their distribution.
fn figures(over_time: &TimeSeries, charted: &Charted<'_>) -> [Markup; 4] {
    let name = charted.name;
    let curve = |class: &str, words: &str, data: Points| Curve {
        class: class.to_owned(),
        words: words.to_owned(),
        data,
    };
    let rates = over_time.rates.iter();
    let rate = rates.map(|rate| (rate.until_s, rate.per_second * charted.rate.1));
    let times = |of: fn(&TimesUntil) -> u64| {
        let all = over_time.times.iter();
        all.map(|times| (times.until_s, of(times) as f64)).collect()
    };
    let lines = [
        curve("step0", "median", times(|times| times.p50_ns)),
        curve("step1", "p99", times(|times| times.p99_ns)),
        curve("step2", "longest", times(|times| times.max_ns)),
    ];
    let none = Histogram::new();
    let durations = charted.durations.unwrap_or(&none);
    let whole = [Curve {
        class: "exact".to_owned(),
        words: name.to_owned(),
        data: durations.clone(),
    }];
    let title = |what: &str| format!("{name}, {what}");
    [
        curves::rates(
            "Rate over time",
            "Each point is the mean of its interval.",
            charted.rate.0,
            &[curve("exact", "rate", rate.collect())],
        ),
        curves::times(&title("over time"), "What ended in each interval.", "", &lines),
        curves::histogram(
            &title("histogram"),
            "The axis of durations is logarithmic.",
            "",
            durations,
        ),
        curves::percentiles(
            &title("percentiles"),
            "Each label is ten times rarer than the one before.",
            "",
            &whole,
        ),
    ]
}

/// The sentences on how a run ended; `limited` introduces what limited it.
fn sentences(outcome: &RunOutcome, limited: &str) -> impl Iterator<Item = String> {
    let interrupted = "interrupted: the run was stopped before its end".to_owned();
    let failed = outcome.failed_because.iter().map(|why| format!("failed: {why}"));
    let limited = (outcome.limited_by.iter()).map(move |why| format!("{limited}{why}"));
    (outcome.interrupted.then_some(interrupted).into_iter())
        .chain(failed)
        .chain(limited)
}

/// What limited the generators that can only limit themselves.
pub(crate) const BY_GENERATOR: &str = "limited by the generator: ";

/// A page of figures and a section. How the run ended comes last in the text, and above the numbers on a page.
pub(crate) fn page(
    (subject, headline): (&str, String),
    charted: Option<Charted<'_>>,
    text: Section,
    (outcome, limited): (&RunOutcome, &str),
) -> Page {
    let sentences: Vec<String> = sentences(outcome, limited).collect();
    let notes = outcome.notes.iter().map(|note| format!("note: {note}"));
    let text =
        (notes.chain(sentences.iter().cloned())).fold(text, |text, sentence| text.text_note("", sentence));
    let mut page = Page {
        subject: subject.to_owned(),
        headline,
        caveats: (sentences.into_iter().map(Caveat::from).map(Caveat::spoiling))
            .chain(outcome.notes.iter().cloned().map(Caveat::from))
            .collect(),
        ..Page::default()
    };
    let figures = charted
        .iter()
        .flat_map(|charted| figures(&outcome.over_time, charted));
    page.section(Section::new("").figures(figures));
    page.section(text);
    page
}
