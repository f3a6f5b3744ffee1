//! From readings to a trial: where every frame went. Pure: readings of both ends before and after, the server's and the
//! generator's own counts come in; a [`Trial`] goes out, in which `places` then counts drops by cause.

use super::document::{Trial, TrialBucket};
use super::plan::ScalePlan;
use crate::experiment::joined;
use crate::scale::counts::Counts;
use crate::scale::quota::QuotaLimits;
use crate::scale::sides::Sides;
use crate::trial::{Trial as _, TrialHead, Turn, cpu_shares};
use corelane_host::HostError;
use corelane_host::conditions;
use corelane_host::counters::{CpuTimes, ProcessCpu, Switches};
use corelane_load::udp::{UdpLoadReport, WorkerCounts};
use corelane_loops::clock::ClockRate;
use corelane_measure::counters::Counters;
use corelane_measure::share::Share;
use corelane_serve::udp::{BucketServed, Mode, UdpServed};
use serde_json::json;
use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

/// Everything that was read around one trial.
pub(super) struct Evidence<'a> {
    /// What both sides counted in it.
    pub(super) sides: Sides,
    pub(super) spent: &'a Spent,
    pub(super) clock: &'a ClockRate,
    pub(super) served_before: &'a UdpServed,
    pub(super) served: &'a UdpServed,
    pub(super) loaded: &'a UdpLoadReport,
    pub(super) quotas: &'a QuotaLimits,
    /// Whether the two ends have a device and counters each; on loopback they share them.
    pub(super) apart: bool,
}

/// Adds up one trial.
pub(super) fn trial(plan: &ScalePlan, turn: Turn, evidence: &Evidence<'_>) -> Trial {
    let step = &plan.steps[turn.step];
    let loaded = evidence.loaded;
    let (before, after) = (evidence.served_before, evidence.served);
    let per_bucket = buckets(step.mode, before, after);
    let answers = step.mode == Mode::Echo;
    let (spent, switches) = (evidence.spent, &evidence.spent.server_switches);
    let cpus = plan.cpus(step);
    let pooled = |of: fn(&TrialBucket) -> Option<Share>| {
        let shares = per_bucket.iter().filter_map(of);
        shares.reduce(|sum, share| sum.plus(&share))
    };
    let mut trial = Trial {
        counts: Counts {
            generated: loaded.total.sent,
            received: None,
            seen: Some(per_bucket.iter().map(|bucket| bucket.seen).sum()),
            answered: answers.then(|| per_bucket.iter().filter_map(|bucket| bucket.answered).sum()),
            returned: answers.then_some(loaded.total.returned + loaded.total.duplicated),
        },
        seen_bytes: Some(grown(before, after, |bucket| bucket.seen_bytes)),
        server_cpu_us: Some(spent.server_process.total_ns as f64 / 1e3),
        locality: pooled(|bucket| bucket.locality),
        steering: pooled(|bucket| bucket.steering),
        tx_locality: departed(before, after, |bucket| bucket.tx_right),
        tx_on_cpu: departed(before, after, |bucket| bucket.tx_on_cpu),
        tx_on_queue: departed(before, after, |bucket| bucket.tx_on_queue),
        imbalance: imbalance(&loaded.workers),
        reordered: answers.then_some(loaded.total.reordered),
        cpu_shares: cpu_shares(&cpus, &spent.cpus),
        others_share: spent.cpus.others_share(&cpus, spent.own()),
        context_switches: Some(switches.voluntary + switches.involuntary),
        effective_mhz: evidence.clock.hertz.map(|hertz| hertz / 1e6),
        round_trip: loaded.round_trip_histogram.clone(),
        over_time: loaded.outcome.over_time.clone(),
        per_bucket,
        raw: json!({ "engine": evidence.served.engine, "engine_reason": evidence.served.engine_reason,
            "loaded": loaded.total, "workers": loaded.workers, "sources": loaded.sources,
            "served_causes": evidence.served.dropped() }),
        ..Trial::new(TrialHead::new(turn.step, turn.round, loaded.sending_s))
    };
    give_reasons(&mut trial, evidence);
    trial.raw["by_others"] = json!(conditions::during(&spent.cpus, spent.own()));
    let quotas = evidence.quotas;
    let is_late = loaded.outcome.limited_by.is_some() && !quotas.is_shared;
    let lost = loaded.outcome.never_back().filter(|_| !is_late);
    quotas.end(&mut trial.head, &loaded.outcome, lost.map(ToString::to_string));
    trial
}

/// Adds the reasons for numbers that the server or the clock did not report.
fn give_reasons(trial: &mut Trial, evidence: &Evidence<'_>) {
    let served = evidence.served;
    let (local, left) = (trial.locality.is_none(), trial.tx_locality.is_none());
    let reasons = [
        ("locality", &served.locality_unknown, local),
        ("tx_locality", &served.tx_locality_unknown, left),
        ("tx_on_cpu", &served.tx_locality_unknown, left),
        ("tx_on_queue", &served.tx_locality_unknown, left),
        ("effective_mhz", &evidence.clock.unknown_because, true),
    ];
    for (field, reason, missing) in reasons {
        if let Some(reason) = reason.clone().filter(|_| missing) {
            trial.head.explain(field, reason);
        }
    }
}

/// What each bucket did between the two looks at the server.
fn buckets(mode: Mode, before: &UdpServed, after: &UdpServed) -> Vec<TrialBucket> {
    let pairs = before.buckets.iter().zip(&after.buckets);
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
                answered: (mode == Mode::Echo).then_some(after.answered - before.answered),
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

/// What all buckets counted between the two looks.
fn grown(before: &UdpServed, after: &UdpServed, of: fn(&BucketServed) -> u64) -> u64 {
    let sum = |served: &UdpServed| served.buckets.iter().map(of).sum::<u64>();
    sum(after).saturating_sub(sum(before))
}

/// Of the answers that the tap saw leaving over the trial, those that `hits` counts.
fn departed(before: &UdpServed, after: &UdpServed, hits: fn(&BucketServed) -> u64) -> Option<Share> {
    let samples = grown(before, after, |bucket| bucket.tx_samples);
    let hits = grown(before, after, hits).min(samples);
    (samples > 0).then_some(Share { hits, samples })
}

/// What the fullest bucket was sent over the mean of those that were sent anything at all.
fn imbalance<C>(workers: &[WorkerCounts<C>]) -> Option<f64> {
    let mut by_bucket: BTreeMap<Option<u16>, u64> = BTreeMap::new();
    for worker in workers {
        *by_bucket.entry(worker.bucket).or_default() += worker.counts.sent;
    }
    let (most, all) = (by_bucket.values().max()?, by_bucket.values().sum::<u64>());
    (all > 0).then(|| *most as f64 * by_bucket.len() as f64 / all as f64)
}

/// How long the effective clock is measured: long enough for 1 % with a 4 kHz timer's interruptions, and outside the
/// trial.
const CLOCK_MEASUREMENT: Duration = Duration::from_millis(2);

corelane_measure::counters! {
    /// What the CPUs and the two processes did up to one moment, or between two.
    #[derive(Debug, Clone)]
    pub(super) struct Spent {
        pub(super) cpus: CpuTimes,
        server_process: ProcessCpu,
        generator_process: ProcessCpu,
        server_switches: Switches,
    }
}

impl Spent {
    /// CPU time of both processes.
    fn own(&self) -> Duration {
        Duration::from_nanos(self.server_process.total_ns + self.generator_process.total_ns)
    }

    /// Reads the CPUs and both processes.
    pub(super) fn take(server: u32, generator: u32) -> Result<Self, HostError> {
        Ok(Self {
            server_process: ProcessCpu::read(server)?,
            generator_process: ProcessCpu::read(generator)?,
            server_switches: Switches::read(server)?,
            cpus: CpuTimes::read()?,
        })
    }
}

/// The clock at which `cpu` runs now, which is to say right after load: measured on a thread that is pinned there.
pub(super) fn clock(cpu: u32) -> ClockRate {
    let measure = move || {
        // Measured elsewhere, it still says on which CPU.
        let _ = corelane_host::pin::current_thread(cpu);
        ClockRate::measure(CLOCK_MEASUREMENT)
    };
    joined(thread::scope(|scope| scope.spawn(measure).join()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(bucket: u16, sent: u64) -> serde_json::Value {
        let counts = json!({ "sent": sent, "sent_bytes": 0, "returned": sent, "lost": 0, "duplicated": 0, "reordered": 0,
            "corrupted": 0, "too_late": 0, "unsent": 0, "refused": {} });
        json!({ "cpu": bucket, "bucket": bucket, "counts": counts })
    }

    fn sums(sent: &[u64]) -> Option<f64> {
        let workers = sent.iter().zip(0..).map(|(sent, bucket)| worker(bucket, *sent));
        let workers: Vec<WorkerCounts<()>> = workers
            .map(|worker| serde_json::from_value(worker).unwrap())
            .collect();
        imbalance(&workers)
    }

    #[test]
    fn the_fullest_bucket_is_told_against_the_mean() {
        assert_eq!(sums(&[100, 100]), Some(1.0));
        assert_eq!(sums(&[300, 100, 200]), Some(1.5));
        assert_eq!(sums(&[0, 0]), None);
        assert_eq!(sums(&[]), None);
        let again = [worker(0, 10), worker(1, 10), worker(0, 20)];
        let again = again.map(|worker| serde_json::from_value::<WorkerCounts<()>>(worker).unwrap());
        assert_eq!(imbalance(&again), Some(1.5), "two workers may send to one bucket");
    }

    fn served(counts: [u64; 6]) -> UdpServed {
        let [seen, answered, dropped, right, samples, tx_right] = counts;
        let bucket = json!({ "bucket": 0, "cpu": 4, "seen": seen, "seen_bytes": 10 * seen, "answered": answered,
            "dropped": { "full_buffers": dropped }, "steering_samples": samples, "steering_right": right,
            "locality_samples": samples, "locality_right": right, "tx_samples": samples, "tx_right": tx_right });
        let steering = json!({ "schema": "corelane/steering/1", "key": corelane_rss::Key::VERIFICATION,
            "hash_fields": "2tuple", "table": [0], "cpus": [4], "generation": 0 });
        let document = json!({ "schema": "corelane/served-udp/1", "address": "127.0.0.1:1", "engine": "epoll",
            "engine_reason": null, "model": "exact", "steering": steering, "buckets": [bucket],
            "locality_unknown": null });
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn a_bucket_counts_what_grew_between_two_readings() {
        let before = served([100, 90, 5, 1, 2, 0]);
        // Counts that have grown; and a tap that learns the bucket of a flow after its samples, so that it may run
        // backwards.
        let table = [
            (
                [300, 280, 7, 9, 10, 8],
                (200, Some(190), 2, Some((8, 8)), Some((8, 8))),
            ),
            ([100, 90, 5, 1, 2, 0], (0, Some(0), 0, None, None)),
            ([101, 91, 5, 1, 4, 1], (1, Some(1), 0, Some((0, 2)), Some((1, 2)))),
        ];
        for (after, expected) in table {
            let after = served(after);
            let counts = &buckets(Mode::Echo, &before, &after)[0];
            let share = |share: Option<Share>| share.map(|share| (share.hits, share.samples));
            let departed = departed(&before, &after, |bucket| bucket.tx_right);
            let found = (
                counts.seen,
                counts.answered,
                counts.dropped,
                share(counts.locality),
                share(departed),
            );
            assert_eq!(found, expected);
            assert_eq!(counts.steering, counts.locality);
            assert_eq!(buckets(Mode::Sink, &before, &after)[0].answered, None);
            assert_eq!(
                grown(&before, &after, |bucket| bucket.seen_bytes),
                10 * counts.seen
            );
        }
    }
}
