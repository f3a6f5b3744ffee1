//! From readings to a trial: where every frame went. Pure: readings of both ends before and after, the server's and the
//! generator's own counts come in; a [`Trial`] in which every missing frame has a cause or shows as unexplained goes out.

use super::collect::{Sides, Spent};
use super::places;
use super::plan::{PlannedStep, ScalePlan};
use corelane_host::counters::ClockRate;
use corelane_load::udp::UdpLoaded;
use corelane_report::scale::{CpuShare, Mode, Share, Trial, TrialBucket, TrialStatus, Unexplained};
use corelane_serve::udp::{BucketServed, UdpServed};
use serde_json::json;

/// Everything that was read around one trial.
pub(super) struct Evidence<'a> {
    pub(super) sides_before: Sides,
    pub(super) sides: Sides,
    pub(super) spent_before: &'a Spent,
    pub(super) spent: &'a Spent,
    pub(super) clock: &'a ClockRate,
    pub(super) served_before: &'a UdpServed,
    pub(super) served: &'a UdpServed,
    pub(super) loaded: &'a UdpLoaded,
    /// Whether the two ends have a device and counters each; on loopback they share them.
    pub(super) apart: bool,
}

/// Adds up one trial.
pub(super) fn trial(plan: &ScalePlan, index: usize, round: usize, evidence: &Evidence<'_>) -> Trial {
    let step = plan.steps[index];
    let loaded = evidence.loaded;
    let per_bucket = buckets(step, evidence);
    let sum = |of: fn(&TrialBucket) -> u64| per_bucket.iter().map(of).sum::<u64>();
    let (seen, answered) = (
        sum(|bucket| bucket.seen),
        sum(|bucket| bucket.answered.unwrap_or(0)),
    );
    let answers = step.mode == Mode::Echo;
    let (spent, earlier) = (evidence.spent, evidence.spent_before);
    let switches = spent.server_switches.since(&earlier.server_switches);
    let mut trial = Trial {
        generated: loaded.total.sent,
        seen,
        answered: answers.then_some(answered),
        returned: answers.then_some(loaded.total.returned + loaded.total.duplicated),
        seen_bytes: Some(seen_bytes(evidence)),
        server_cpu_us: Some(spent.server_process.since(&earlier.server_process).total_ns as f64 / 1e3),
        locality: pooled(per_bucket.iter().filter_map(|bucket| bucket.locality)),
        steering: pooled(per_bucket.iter().filter_map(|bucket| bucket.steering)),
        cpu_shares: cpu_shares(plan, step, evidence),
        context_switches: Some(switches.voluntary + switches.involuntary),
        effective_mhz: evidence.clock.hertz.map(|hertz| hertz / 1e6),
        round_trip: loaded.round_trip_histogram.clone(),
        per_bucket,
        raw: json!({ "engine": evidence.served.engine, "engine_reason": evidence.served.engine_reason,
            "loaded": loaded.total, "workers": loaded.workers, "sources": loaded.sources,
            "served_causes": evidence.served.dropped() }),
        ..Trial::new(index, round, loaded.sending_s)
    };
    if let Some(reason) = evidence
        .served
        .locality_unknown
        .clone()
        .filter(|_| trial.locality.is_none())
    {
        trial.unknown.insert("locality".to_owned(), reason);
    }
    if let Some(reason) = &evidence.clock.unknown_because {
        trial.unknown.insert("effective_mhz".to_owned(), reason.clone());
    }
    if let Some(limit) = &loaded.limited_by {
        (trial.status, trial.why) = (TrialStatus::GeneratorLimited, Some(limit.clone()));
    }
    places::count(&mut trial, plan, evidence);
    trial.unexplained = Unexplained::of(&trial);
    trial
}

/// What each bucket did between the two looks at the server.
fn buckets(step: PlannedStep, evidence: &Evidence<'_>) -> Vec<TrialBucket> {
    let pairs = evidence
        .served_before
        .buckets
        .iter()
        .zip(&evidence.served.buckets);
    pairs
        .map(|(before, after): (&BucketServed, &BucketServed)| {
            let share = |hits: u64, samples: u64| {
                let hits = hits.min(samples);
                (samples > 0).then_some(Share { hits, samples })
            };
            let dropped = |bucket: &BucketServed| bucket.dropped.values().sum::<u64>();
            TrialBucket {
                bucket: after.bucket,
                cpu: after.cpu,
                seen: after.seen - before.seen,
                answered: (step.mode == Mode::Echo).then_some(after.answered - before.answered),
                dropped: dropped(after) - dropped(before),
                // Which worker has a flow may be learnt after the flow was tapped, so these two may run backwards.
                locality: share(
                    after.locality_right.saturating_sub(before.locality_right),
                    after.locality_samples.saturating_sub(before.locality_samples),
                ),
                steering: share(
                    after.steering_right - before.steering_right,
                    after.steering_samples - before.steering_samples,
                ),
                memory: after.memory.clone(),
            }
        })
        .collect()
}

fn seen_bytes(evidence: &Evidence<'_>) -> u64 {
    let bytes = |served: &UdpServed| served.buckets.iter().map(|bucket| bucket.seen_bytes).sum::<u64>();
    bytes(evidence.served) - bytes(evidence.served_before)
}

fn pooled(shares: impl Iterator<Item = Share>) -> Option<Share> {
    shares.reduce(Share::plus)
}

/// How the CPUs of the step spent the trial.
fn cpu_shares(plan: &ScalePlan, step: PlannedStep, evidence: &Evidence<'_>) -> Vec<CpuShare> {
    let spent = evidence.spent.cpus.since(&evidence.spent_before.cpus);
    let share = |cpu: &u32| {
        let time = spent.cpu(*cpu);
        CpuShare {
            cpu: *cpu,
            idle_share: time.and_then(|time| time.idle_share()),
            softirq_share: time.and_then(|time| time.softirq_share()),
        }
    };
    plan.cpus(step).iter().map(share).collect()
}
