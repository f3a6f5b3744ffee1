//! From readings to a trial: where every frame went. Pure: readings of both ends before and after, the server's and the
//! generator's own counts come in; a [`Trial`] in which every missing frame has a cause or shows as unexplained goes out.

use super::collect::{SideReading, Sides, Spent};
use super::plan::{PlannedStep, ScalePlan};
use corelane_host::counters::{ClockRate, UdpCounters};
use corelane_load::udp::UdpLoaded;
use corelane_report::drops::{Cause, LinuxUdpCounters, Side, UdpAccount};
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
    /// Whether datagrams travel merged (`UDP_SEGMENT`, `UDP_GRO`).
    pub(super) merged: bool,
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
    count_places(&mut trial, evidence);
    trial.unexplained = Unexplained::of(&trial);
    trial
}

/// What the devices and both kernels counted: frames received, and drops by cause.
fn count_places(trial: &mut Trial, evidence: &Evidence<'_>) {
    server_drops(trial, evidence);
    let uncounted = match (evidence.apart, evidence.merged) {
        (false, _) => Some("client and server share the loopback device and its counters"),
        (true, true) => {
            Some("with GSO or GRO the kernel's counters count frames of up to 64 datagrams as one")
        }
        (true, false) => None,
    };
    if let Some(reason) = uncounted {
        trial.unknown.insert("received_pps".to_owned(), reason.to_owned());
        return;
    }
    let server = evidence.sides.server.since(&evidence.sides_before.server);
    let client = evidence.sides.client.since(&evidence.sides_before.client);
    trial.received = Some(server.received());
    add(
        trial,
        Cause::TransmitQueue,
        Side::Server,
        client.device.tx_dropped.saturating_sub(server.device.rx_dropped),
    );
    add(trial, Cause::Device, Side::Server, server.device.rx_dropped);
    kernel_drops(trial, Side::Server, &server);
    if trial.answered.is_some() {
        add(
            trial,
            Cause::TransmitQueue,
            Side::Client,
            server.device.tx_dropped.saturating_sub(client.device.rx_dropped),
        );
        add(trial, Cause::Device, Side::Client, client.device.rx_dropped);
        kernel_drops(trial, Side::Client, &client);
        add(
            trial,
            Cause::Corrupted,
            Side::Client,
            evidence.loaded.total.corrupted,
        );
        add(
            trial,
            Cause::OtherErrors,
            Side::Client,
            evidence.loaded.total.too_late,
        );
    }
}

/// What one side's IP and UDP dropped, and what its sockets still held.
fn kernel_drops(trial: &mut Trial, side: Side, reading: &SideReading) {
    let account = UdpAccount::from_linux(&linux(&reading.udp.total()));
    for (cause, frames) in account.drops.by_cause() {
        add(trial, cause, side, frames);
    }
    let ip = reading.udp.ip_total();
    add(trial, Cause::Ip, side, ip.in_header_errors + ip.in_discards);
    add(trial, Cause::StillQueued, side, reading.queued());
}

fn linux(udp: &UdpCounters) -> LinuxUdpCounters {
    LinuxUdpCounters {
        in_datagrams: udp.in_datagrams,
        no_ports: udp.no_ports,
        in_errors: udp.in_errors,
        rcvbuf_errors: udp.rcvbuf_errors,
        in_csum_errors: udp.in_csum_errors,
        mem_errors: udp.mem_errors,
        ignored_multi: udp.ignored_multi,
        out_datagrams: udp.out_datagrams,
    }
}

/// Frames that the server's sockets dropped, and those that its workers read and did not answer.
fn server_drops(trial: &mut Trial, evidence: &Evidence<'_>) {
    let before = evidence.served_before.dropped();
    for (name, frames) in evidence.served.dropped() {
        let frames = frames - before.get(&name).copied().unwrap_or(0);
        let cause = match name.as_str() {
            // The kernel's own count of these is used where there is one: it covers every socket.
            "full_buffers" if evidence.apart => continue,
            "full_buffers" => Cause::FullBuffers,
            "mailbox_full" => Cause::MailboxFull,
            "queue_full" => Cause::AnswerBuffersFull,
            "refused_port" | "refused_peer" => Cause::Refused,
            "truncated" => Cause::Corrupted,
            _ => Cause::SendFailed,
        };
        add(trial, cause, Side::Server, frames);
    }
}

fn add(trial: &mut Trial, cause: Cause, side: Side, frames: u64) {
    if frames > 0 {
        *trial.drops.entry(cause.key(side)).or_default() += frames;
    }
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
