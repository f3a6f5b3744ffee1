//! What the runners of experiments that are not on the one runner have in common.

use crate::document::Bed as ReportedBed;
use crate::document::Tool;
use corelane_host::bed::Bed;
use std::time::{SystemTime, UNIX_EPOCH};

/// What a run tells while it goes on.
pub struct Moment<'a, Report> {
    /// Trials done.
    pub done: usize,
    /// Trials in all.
    pub of: usize,
    /// What was just measured.
    pub what: &'a str,
    /// Everything so far.
    pub report: &'a Report,
}

/// This program, as reports name it.
pub(crate) fn tool(version: &str) -> Tool {
    Tool {
        name: "corelane".to_owned(),
        version: version.to_owned(),
    }
}

/// Seconds since 1970.
pub(crate) fn now_unix_s() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// A bed as reports tell it.
#[must_use]
pub fn reported_bed(bed: &Bed) -> ReportedBed {
    bed.into()
}
