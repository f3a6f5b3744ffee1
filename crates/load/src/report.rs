//! What the reports of all generators say in the same way.

use corelane_measure::histogram::Summary;
use corelane_measure::metric::Sample;
use corelane_report::page::{Caveat, Page, Section};

/// A count as a metric has it.
#[allow(clippy::unnecessary_wraps, reason = "metrics read optional samples")]
pub(crate) fn number(count: u64) -> Option<Sample<'static>> {
    Some(Sample::Number(count as f64))
}

/// One percentile as a metric has it.
pub(crate) fn percentile(times: Option<&Summary>, of: fn(&Summary) -> u64) -> Option<Sample<'static>> {
    times.map(|summary| Sample::Number(of(summary) as f64))
}

/// A line of percentiles, where something was measured.
pub(crate) fn times(what: &str, summary: Option<&Summary>) -> Option<String> {
    summary.map(|summary| format!("{what}: {summary}"))
}

/// Adds the text to the page. It ends with what limited the run, which a page shows above its numbers.
pub(crate) fn finish(mut page: Page, text: Section, limited_by: Option<String>) -> Page {
    let text = match &limited_by {
        Some(sentence) => text.text_note("", sentence),
        None => text,
    };
    page.caveats.extend(limited_by.map(Caveat::from));
    page.section(text);
    page
}
