//! What generators tell people in the same words: how long things took, how fast bytes went.

use corelane_measure::histogram::Summary;
use corelane_measure::quantity;

/// A line of percentiles; nothing where nothing was measured.
pub fn times(what: &str, summary: Option<&Summary>) -> String {
    summary.map_or_else(String::new, |summary| {
        format!("{what}: {}\n", percentiles(summary))
    })
}

/// How long it took, from the median to the longest.
pub fn percentiles(summary: &Summary) -> String {
    let show = |nanoseconds: u64| quantity::duration(nanoseconds as f64);
    format!(
        "median {}, p90 {}, p99 {}, p99.9 {}, longest {}",
        show(summary.p50_ns),
        show(summary.p90_ns),
        show(summary.p99_ns),
        show(summary.p999_ns),
        show(summary.max_ns),
    )
}

/// Bytes a second as bits: `1.5 Gbit/s`, `15 bit/s`.
pub fn bits(bytes_per_second: f64) -> String {
    let number = quantity::metric(bytes_per_second * 8.0);
    // A number has a space before its prefix, and none without one.
    let space = if number.contains(' ') { "" } else { " " };
    format!("{number}{space}bit/s")
}
