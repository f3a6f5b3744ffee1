//! Accounting shared by all generators: merges the histograms of the workers, and reports schedule lag, which shows
//! whether the generator was the limit.

use corelane_measure::counters::Counters;
use corelane_measure::histogram::{Histogram, Summary};
use std::time::Duration;

/// Largest 99th-percentile lag expected of a worker with its own CPU: kernel timer slack plus one time slice of another
/// thread.
pub(crate) const NORMAL_LAG: Duration = Duration::from_millis(5);

/// Merges the histograms and summarises the result; `None` for both if nothing was recorded.
pub(crate) fn merge<'a>(
    histograms: impl Iterator<Item = &'a Histogram>,
) -> (Option<Histogram>, Option<Summary>) {
    let merged = Histogram::sum(histograms);
    let summary = merged.summary();
    (merged.if_any(), summary)
}

/// Reports how late `what` left ("requests left ... behind their schedule") if the lag exceeds one time slice per
/// worker on the fullest CPU. `cpus` are the CPUs of the workers.
pub(crate) fn late(what: &str, lag: Option<Summary>, cpus: impl Iterator<Item = u32>) -> Option<String> {
    let mut cpus: Vec<u32> = cpus.collect();
    cpus.sort_unstable();
    let fullest = cpus.chunk_by(|one, other| one == other).map(<[u32]>::len).max();
    let most = NORMAL_LAG.as_nanos() as u64 * fullest.unwrap_or(1) as u64;
    let lag = lag.filter(|lag| lag.p99_ns > most)?;
    Some(format!(
        "{what} left up to {:.1} ms behind their schedule (99th percentile)",
        lag.p99_ns as f64 / 1e6
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_that_share_a_cpu_may_wait_for_each_other() {
        let mut lag = Histogram::new();
        lag.record(14_000_000);
        let late = |cpus: &[u32]| late("requests", lag.summary(), cpus.iter().copied());
        assert_eq!(late(&[0, 1, 0, 1, 0]), None);
        assert_eq!(
            late(&[0, 1, 0, 1]).as_deref(),
            Some("requests left up to 14.0 ms behind their schedule (99th percentile)")
        );
    }
}
