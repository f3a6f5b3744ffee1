//! Report lines and metrics shared by all generators.

use corelane_measure::histogram::{Histogram, Summary};
use corelane_measure::metric::{Metric, Sample, Show};
use corelane_measure::quantity;
use corelane_measure::time_series::{TimeSeries, TimesUntil};
use corelane_report::html::curves::{self, Curve, Points};
use corelane_report::html::markup::Markup;
use corelane_report::page::{Caveat, Page, Section};
use corelane_report::table::{Cell, Column, Table};

/// Declares a time, to be completed: less is better.
pub(crate) const fn time<T>(name: &'static str, header: &'static str) -> Metric<T> {
    Metric::less(name, header, Show::Nanoseconds)
}

/// A percentile as a metric value.
pub(crate) fn percentile(times: Option<Summary>, of: fn(&Summary) -> u64) -> Option<Sample<'static>> {
    times.map(|summary| Sample::Number(of(&summary) as f64))
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

/// The columns of a table: text in the first, numbers in the others.
pub(crate) fn columns<const N: usize>(headers: [&str; N]) -> Table {
    let column = |(place, header)| match place {
        0 => Column::left(header),
        _ => Column::right(header),
    };
    Table::new(headers.into_iter().enumerate().map(column).collect())
}

/// A table of counts and their rates over a number of seconds; of `others`, those that are not 0.
pub(crate) fn rates(
    what: &str,
    seconds: f64,
    always: &[(&str, u64)],
    others: impl Iterator<Item = (String, u64)>,
) -> Table {
    let mut table = columns([what, "count", "a second"]);
    let always = always.iter().map(|(name, count)| ((*name).to_owned(), *count));
    for (name, count) in always.chain(others.filter(|(_, count)| *count > 0)) {
        let rate = count as f64 / seconds.max(f64::MIN_POSITIVE);
        table.row([
            Cell::from(name),
            Cell::count(count),
            Cell::shown(Some(rate), quantity::rate),
        ]);
    }
    table
}

/// What limited a run, as a sentence.
pub(crate) fn by_generator(why: &str) -> String {
    format!("limited by the generator: {why}")
}

/// Lines over time: median, 99th percentile and longest.
type Line = (&'static str, fn(&TimesUntil) -> u64);

const LINES: [Line; 3] = [
    ("median", |times| times.p50_ns),
    ("p99", |times| times.p99_ns),
    ("longest", |times| times.max_ns),
];

/// What the figures of a page show.
pub(crate) struct Charted<'a> {
    /// Rates and times over the run.
    pub(crate) over_time: &'a TimeSeries,
    /// What the rate counts, per second, and its factor.
    pub(crate) rate: (&'static str, f64),
    /// The name of the durations.
    pub(crate) name: &'static str,
    /// All of them.
    pub(crate) durations: Option<&'a Histogram>,
}

/// The figures of a page: rate and durations over time, and their distribution.
fn figures(charted: &Charted<'_>) -> [Markup; 4] {
    let name = charted.name;
    let curve = |class: &str, words: &str, data: Points| Curve {
        class: class.to_owned(),
        words: words.to_owned(),
        data,
    };
    let rates = charted.over_time.rates.iter();
    let rate = rates.map(|rate| (rate.until_s, rate.per_second * charted.rate.1));
    let times = |of: fn(&TimesUntil) -> u64| {
        let all = charted.over_time.times.iter();
        all.map(|times| (times.until_s, of(times) as f64)).collect()
    };
    let lines = LINES.into_iter().enumerate();
    let lines: Vec<_> = lines
        .map(|(place, (words, of))| curve(&format!("step{place}"), words, times(of)))
        .collect();
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

/// What has to be known about a run to interpret it, and how it ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ended<'a> {
    pub(crate) notes: &'a [String],
    pub(crate) interrupted: bool,
    pub(crate) failed_because: Option<&'a str>,
    /// What limited it, as a sentence.
    pub(crate) limited: Option<String>,
}

impl Ended<'_> {
    /// The sentences of the report.
    fn sentences(&self) -> Vec<String> {
        let interrupted = self
            .interrupted
            .then(|| "interrupted: the run was stopped before its end".to_owned());
        let failed = self.failed_because.map(|why| format!("failed: {why}"));
        interrupted
            .into_iter()
            .chain(failed)
            .chain(self.limited.clone())
            .collect()
    }
}

/// A page of figures and a section. How the run ended comes last in the text, and above the numbers on a page.
pub(crate) fn page(
    subject: &str,
    headline: String,
    (charted, text): (Option<Charted<'_>>, Section),
    ended: &Ended<'_>,
) -> Page {
    let noted = |text: Section, note: &String| text.text_note("", format!("note: {note}"));
    let text = ended.notes.iter().fold(text, noted);
    let sentences = ended.sentences();
    let text = sentences
        .iter()
        .fold(text, |text, sentence| text.text_note("", sentence));
    let mut page = Page {
        subject: subject.to_owned(),
        headline,
        caveats: (ended.notes.iter().cloned().chain(sentences))
            .map(Caveat::from)
            .collect(),
        ..Page::default()
    };
    page.section(Section::new("").figures(charted.iter().flat_map(figures)));
    page.section(text);
    page
}
