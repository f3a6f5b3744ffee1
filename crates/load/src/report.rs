//! Report lines shared by all generators.

use corelane_measure::histogram::Summary;
use corelane_measure::metric::Sample;
use corelane_report::page::{Caveat, Page, Section};

/// A count as a metric value.
#[allow(clippy::unnecessary_wraps, reason = "metrics read optional samples")]
pub(crate) fn number(count: u64) -> Option<Sample<'static>> {
    Some(Sample::Number(count as f64))
}

/// A percentile as a metric value.
pub(crate) fn percentile(times: Option<&Summary>, of: fn(&Summary) -> u64) -> Option<Sample<'static>> {
    times.map(|summary| Sample::Number(of(summary) as f64))
}

/// A line of percentiles, if anything was measured.
pub(crate) fn times(what: &str, summary: Option<&Summary>) -> Option<String> {
    summary.map(|summary| format!("{what}: {summary}"))
}

/// Appends the text to the page. What limited the run comes last in the text, and above the numbers on a page.
pub(crate) fn finish(mut page: Page, text: Section, limited_by: Option<String>) -> Page {
    let text = match &limited_by {
        Some(sentence) => text.text_note("", sentence),
        None => text,
    };
    page.caveats.extend(limited_by.map(Caveat::from));
    page.section(text);
    page
}
