//! Report lines and metrics shared by all generators.

use corelane_measure::histogram::Summary;
use corelane_measure::metric::{Metric, Sample, Show};
use corelane_measure::quantity;
use corelane_report::page::{Caveat, Page, Section};
use corelane_report::table::{Cell, Column, Table};

/// Declares a time, to be completed: less is better.
pub(crate) const fn time<T>(name: &'static str, header: &'static str) -> Metric<T> {
    Metric::less(name, header, Show::Nanoseconds)
}

/// A count as a metric value.
#[allow(clippy::unnecessary_wraps, reason = "metrics read optional samples")]
pub(crate) fn number(count: u64) -> Option<Sample<'static>> {
    Some(Sample::Number(count as f64))
}

/// A percentile as a metric value.
pub(crate) fn percentile(times: Option<Summary>, of: fn(&Summary) -> u64) -> Option<Sample<'static>> {
    times.map(|summary| Sample::Number(of(&summary) as f64))
}

/// A line of percentiles, if anything was measured.
pub(crate) fn times(what: &str, summary: Option<Summary>) -> Option<String> {
    summary.map(|summary| format!("{what}: {summary}"))
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

/// A page of one section. How the run ended comes last in the text, and above the numbers on a page.
pub(crate) fn page(subject: &str, headline: String, text: Section, ended: &Ended<'_>) -> Page {
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
    page.section(text);
    page
}
