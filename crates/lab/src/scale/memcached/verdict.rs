//! The conclusion: what stopped growth, from the report alone.

use super::document::{MemcachedScaleReport, Step};
use super::metrics::{HITS, RATE};
use crate::scale::limit::{self, BUSY_IDLE_SHARE, Limit, LimitCause, buckets, percent};
use crate::scale::steps::quota;
use crate::trial::mean_share;
use corelane_measure::quantity::{self, or_missing};

/// What the report says about the limit.
pub(super) fn limit(report: &MemcachedScaleReport) -> Limit {
    let Some(last) = report.last_step() else {
        return Limit::unknown();
    };
    let active = last.shape.buckets_active;
    let rate = or_missing(RATE.of(last), quantity::rate);
    let did = format!("{active} {} answered {rate}", buckets(active));
    let trials = report.trials_of(last);
    let mut limit = last.limit(&trials, (&did, "one bucket's"), cause(last, quota(&trials)));
    limit.evidence.extend(evidence(report));
    limit
}

/// The kind of limit, and the words that complete «the limit was».
fn cause(step: &Step, quota: Option<String>) -> limit::Found {
    if let Some(quota) = quota {
        return (LimitCause::Quota, quota);
    }
    let idle = mean_share(&step.cpu_shares, |share| share.idle_share);
    if idle.is_some_and(|idle| idle < BUSY_IDLE_SHARE) {
        return (
            LimitCause::SharedCpus,
            format!("CPU time of server and clients ({} idle)", percent(idle)),
        );
    }
    limit::asked_for(idle, LimitCause::OfferedRate, "the window")
}

fn evidence(report: &MemcachedScaleReport) -> Vec<String> {
    let wrong = report.steps.iter().filter(|step| step.found.wrong_answers > 0);
    let wrong = wrong.map(|step| {
        let count = quantity::count(step.found.wrong_answers);
        format!("{}: {count} wrong answers", step.shape.server)
    });
    let hits = report.last_step().into_iter().map(|step| {
        let hits = or_missing(HITS.of(step), quantity::percent);
        format!("{hits} of the keys asked for had a value")
    });
    let left_out = report.kind.left_out.iter();
    hits.chain(wrong)
        .chain(left_out.map(|reason| format!("left out: {reason}")))
        .collect()
}
