//! Computes a trial from readings before and after.

use super::document::{BucketBytes, CpuUse, Memory, Protocol, Server, Shape, Trial};
use super::ends::{ClientCounts, ServerCounts};
use super::memory::ServerProcesses;
use super::plan::{Sides, StreamsPlan, idle_share};
use crate::child::quoted;
use crate::experiment::RunningTrial;
use crate::scale::limit::BUSY_IDLE_SHARE;
use crate::scale::quota::Quotas;
use crate::trial::{CpuShare, TrialStatus, Turn, cpu_shares};
use corelane_host::HostError;
use corelane_host::bed::Bed;
use corelane_host::counters::{CpuTimes, ProcessCpu, Softnet, TcpStatistics};
use corelane_measure::counters::Counters;
use corelane_measure::quantity;
use corelane_measure::share::Share;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Above this idle share a CPU counts as idle: well above the busy threshold, so single ticks do not matter.
const SPARE_IDLE_SHARE: f64 = 0.1;

/// Counters of the kernel and the server's processes at one moment.
#[derive(Debug, Clone)]
pub(super) struct Readings {
    server_tcp: TcpStatistics,
    client_tcp: TcpStatistics,
    softnet: Option<Softnet>,
    pub(super) cpus: CpuTimes,
    server_cpu_ns: u64,
    /// `None` before the generator runs.
    client_cpu_ns: Option<u64>,
    quotas: Option<Quotas>,
    at: Instant,
}

impl Readings {
    /// Reads the counters, CPU times first: the rest is slower.
    pub(super) fn take(bed: &Bed, server: ServerProcesses, client: Option<u32>) -> Result<Self, HostError> {
        let client_cpu = client.map(ProcessCpu::read).transpose()?;
        Ok(Self {
            at: Instant::now(),
            client_cpu_ns: client_cpu.map(|time| time.total_ns),
            cpus: CpuTimes::read()?,
            server_cpu_ns: server.family()?.cpu_ns(),
            quotas: client.map(|client| Quotas::read(server.first, client)),
            server_tcp: bed.server.run(TcpStatistics::read)?,
            client_tcp: bed.client.run(TcpStatistics::read)?,
            softnet: Softnet::read().ok(),
        })
    }
}

/// All readings of a trial.
pub(super) struct Evidence {
    /// Before the first connection.
    pub(super) begun: Readings,
    /// With every connection open.
    pub(super) opened: Readings,
    /// After the last request.
    pub(super) sent: Readings,
    /// The server's total counts.
    pub(super) served: ServerCounts,
    /// The clients' counts.
    pub(super) loaded: ClientCounts,
    /// Memory while all connections were open.
    pub(super) memory: Option<Memory>,
    /// When the generator reported.
    pub(super) ended: Instant,
    /// Whether every process of the server is stopped.
    pub(super) stopped: bool,
}

/// Computes the trial from the readings.
pub(super) fn trial(plan: &StreamsPlan, turn: Turn, mut evidence: Evidence) -> Trial {
    let shape = &plan.steps[turn.step];
    let mut trial = std::mem::take(&mut evidence.loaded.trial);
    let Evidence {
        opened,
        sent,
        loaded,
        served,
        ..
    } = &evidence;
    (trial.head.step, trial.head.round) = (turn.step, turn.round);
    trial.served_requests = served.requests;
    // Both sides together; none if requests are counted.
    trial.segments = trial
        .segments
        .into_iter()
        .chain(served.segments)
        .reduce(|sum, segments| sum.plus(&segments));
    (trial.cpu, trial.cpu_shares) = cpu_use(&plan.cpus(shape), opened, sent);
    let drain = evidence.ended - sent.at;
    trial.drain_s = loaded.requests_sent.map(|_| drain.as_secs_f64());
    trial.per_bucket = per_bucket(&evidence);
    trial.steering = steering(shape, served, &trial.per_bucket);
    trial.kernel = kernel(&evidence);
    trial.raw = json!({ "client": trial.raw, "server": served.raw });
    compare(&mut trial, &evidence);
    let quotas = sent.quotas.as_ref().zip(opened.quotas.as_ref());
    let quotas = quotas.map(|(later, earlier)| later.limits_since(earlier));
    let quotas = quotas.unwrap_or_default();
    trial.head.quota = quotas.of_server;
    let busy = || clients_busy(&plan.sides_apart(shape)?, &trial.cpu_shares);
    let clients = || quotas.of_generator.or_else(busy);
    let behind = loaded.behind_schedule.as_ref().filter(|_| !quotas.is_shared);
    let reasons = (loaded.failed_because.as_ref(), behind);
    if let Some((status, why)) = no_result(&trial, plan.request.protocol, reasons, clients) {
        let said = match status {
            TrialStatus::Failed if evidence.stopped => {
                "; the server's processes are stopped (SIGSTOP)".to_owned()
            }
            // A server that answered has nothing to add.
            TrialStatus::Failed if !trial.errors.contains_key("wrong_status") => quoted(&served.said),
            _ => String::new(),
        };
        trial.head.end(status, why + &said);
    }
    trial.memory = evidence.memory;
    trial.worker_memory = evidence.served.memory;
    give_reasons(&mut trial, plan, shape);
    trial
}

/// The CPU time between two readings, of both sides, of others, and of each CPU.
fn cpu_use(cpus: &[u32], opened: &Readings, sent: &Readings) -> (CpuUse, Vec<CpuShare>) {
    let server_ns = sent.server_cpu_ns.saturating_sub(opened.server_cpu_ns);
    let client_ns = sent.client_cpu_ns.zip(opened.client_cpu_ns);
    let client_ns = client_ns.map(|(later, earlier)| later.saturating_sub(earlier));
    let own_ns = server_ns + client_ns.unwrap_or_default();
    let spent = sent.cpus.since(&opened.cpus);
    let time = CpuUse {
        server_ns: Some(server_ns),
        client_ns,
        clocked_s: Some((sent.at - opened.at).as_secs_f64()),
        others_share: spent.others_share(cpus, Duration::from_nanos(own_ns)),
    };
    (time, cpu_shares(cpus, &spent))
}

/// A trial whose server did not report at the end: what the clients counted on the connections that they opened.
///
/// # Errors
/// The error of the server, if they opened none.
pub(super) fn unserved(
    running: &RunningTrial<'_>,
    counted: Trial,
    error: anyhow::Error,
) -> anyhow::Result<Trial> {
    if counted.connections.opened == 0 {
        return Err(error);
    }
    let mut head = running.head(counted.head.duration_s);
    head.end(running.status_of_error(), error.to_string());
    Ok(Trial { head, ..counted })
}

/// Why the generator had no connections to measure.
pub(super) fn unopened(loaded: &ClientCounts, served: &ServerCounts) -> String {
    let causes = loaded.trial.connections.failed.iter();
    let causes: Vec<String> = causes
        .map(|(cause, count)| format!("{} {count} times", cause.replace('_', " ")))
        .collect();
    let why = match causes.is_empty() {
        true => "the run ended as soon as it began".to_owned(),
        false => format!("no connection was opened: {}", causes.join(", ")),
    };
    why + &quoted(&served.said)
}

/// Why the trial is no result for the server: nothing was answered or carried, or the server was lost before the end; or
/// the generator was the limit, because it missed its schedule by itself, or its own CPUs were busy while the server's were
/// not. Answers that all came too late, or no longer, are the generator's fault if it was behind its schedule.
fn no_result(
    trial: &Trial,
    protocol: Protocol,
    (failed_because, behind_schedule): (Option<&String>, Option<&String>),
    clients_busy: impl FnOnce() -> Option<String>,
) -> Option<(TrialStatus, String)> {
    let is_excused = behind_schedule.is_some() && trial.requests_ok > 0;
    let lost = failed_because.filter(|_| behind_schedule.is_none()).cloned();
    if let Some(why) = lost.or_else(|| failure(trial, protocol).filter(|_| !is_excused)) {
        return Some((TrialStatus::Failed, why));
    }
    let limited = behind_schedule.cloned().or_else(clients_busy);
    limited.map(|why| (TrialStatus::GeneratorLimited, why))
}

/// A trial that answered or carried nothing is no result.
fn failure(trial: &Trial, protocol: Protocol) -> Option<String> {
    let nothing = (protocol.facts().nothing)(trial)?;
    Some(match (&trial.limited_by, trial.errors.iter().next()) {
        (Some(reason), _) => reason.clone(),
        (None, Some((cause, count))) => format!("{nothing}: {} {count} times", cause.replace('_', " ")),
        (None, None) => nothing.to_owned(),
    })
}

/// Returns the reason if the clients were the limit: their CPUs were busy, the server's were not.
fn clients_busy(sides: &Sides, shares: &[CpuShare]) -> Option<String> {
    let server = idle_share(&sides.server, shares)?;
    let clients = idle_share(&sides.clients, shares)?;
    (clients < BUSY_IDLE_SHARE && server >= SPARE_IDLE_SHARE).then(|| {
        format!(
            "the clients\u{2019} CPUs were idle for {} of the time, the server\u{2019}s for {}",
            quantity::percent(clients),
            quantity::percent(server)
        )
    })
}

fn give_reasons(trial: &mut Trial, plan: &StreamsPlan, shape: &Shape) {
    let unsteered = match shape.server {
        Server::Subject => "the subject does not report which worker accepted a connection",
        _ => "the kernel's hash promises no bucket",
    };
    let on_demand = "there was no schedule: each request followed an answer";
    let few = "it is read only where 1,000 connections or more are held";
    let unscheduled = trial.schedule_lag.is_none() && plan.request.rate.is_none();
    let reasons = [
        ("memory", few, trial.memory.is_none()),
        ("steering_ok", unsteered, trial.steering.is_none()),
        ("schedule_lag", on_demand, unscheduled),
    ];
    for (field, reason, _) in reasons.into_iter().filter(|(_, _, missing)| *missing) {
        trial.head.explain(field, reason);
    }
}

/// Adds an error for counts that differ between the sides.
fn compare(trial: &mut Trial, evidence: &Evidence) {
    let (loaded, served) = (&evidence.loaded, &evidence.served);
    let (client_sent, client_received) = (trial.sent_bytes, trial.received_bytes);
    let mut differ = |missing: &str, sent: u64, beyond: &str, received: u64| {
        for (name, count) in [
            (missing, sent.saturating_sub(received)),
            (beyond, received.saturating_sub(sent)),
        ] {
            if count > 0 {
                *trial.errors.entry(name.to_owned()).or_default() += count;
            }
        }
    };
    if let Some((served, sent)) = served.requests.zip(loaded.requests_sent) {
        differ("sent_and_not_served", sent, "served_and_not_sent", served);
    }
    let (lost, added) = ("bytes_sent_and_not_received", "bytes_received_and_not_sent");
    let mut bytes = |sent: u64, received: u64| differ(lost, sent, added, received);
    if !served.bytes.is_empty() && loaded.by_bucket() {
        // Errors of two buckets must not cancel out.
        for (bucket, (received, sent)) in served.bytes.iter().enumerate() {
            let own = loaded.per_bucket.get(&(bucket as u16));
            let (client_sent, client_received) = own.and_then(|own| own.bytes).unwrap_or_default();
            bytes(client_sent, *received);
            bytes(*sent, client_received);
        }
    } else if !served.bytes.is_empty() {
        let sum = |of: fn(&(u64, u64)) -> u64| served.bytes.iter().map(of).sum();
        bytes(client_sent, sum(|bytes| bytes.0));
        bytes(sum(|bytes| bytes.1), client_received);
    }
}

/// Counts of both sides of each bucket that has or should have connections.
fn per_bucket(evidence: &Evidence) -> Vec<BucketBytes> {
    let (loaded, served) = (&evidence.loaded, &evidence.served);
    let buckets = served.bytes.iter().zip(&served.accepted).zip(0u16..);
    let each = buckets.map(|(((received, sent), accepted), bucket)| {
        let own = loaded.per_bucket.get(&bucket);
        let client = own.and_then(|own| own.bytes);
        BucketBytes {
            bucket,
            connections_planned: (!loaded.per_bucket.is_empty())
                .then(|| own.map_or(0, |own| own.connections)),
            connections: *accepted,
            client_sent: client.map(|(sent, _)| sent),
            server_received: *received,
            server_sent: *sent,
            client_received: client.map(|(_, received)| received),
        }
    });
    each.filter(|one| one.connections > 0 || one.connections_planned.is_some_and(|planned| planned > 0))
        .collect()
}

/// Share of connections that arrived at their planned bucket. If the plan is unknown, any active bucket is correct.
fn steering(shape: &Shape, served: &ServerCounts, per_bucket: &[BucketBytes]) -> Option<Share> {
    if shape.server != Server::Exact || served.accepted.is_empty() {
        return None;
    }
    let samples = served.accepted.iter().sum();
    if !per_bucket.is_empty() {
        let right = |bucket: &BucketBytes| bucket.connections.min(bucket.connections_planned.unwrap_or(0));
        let hits = per_bucket.iter().map(right).sum();
        return Some(Share { hits, samples });
    }
    let active = shape.buckets_active.min(served.accepted.len());
    Some(Share {
        hits: served.accepted[..active].iter().sum(),
        samples,
    })
}

/// Kernel counters that indicate a limit and increased between the first connection and the last request.
fn kernel(evidence: &Evidence) -> BTreeMap<String, u64> {
    let mut moved = BTreeMap::new();
    for (side, later, earlier) in [
        ("server", &evidence.sent.server_tcp, &evidence.begun.server_tcp),
        ("client", &evidence.sent.client_tcp, &evidence.begun.client_tcp),
    ] {
        let since = later.since(earlier);
        let counters = [
            ("segments_sent_again", since.tcp.retransmitted),
            ("handshakes_failed", since.tcp.attempt_fails),
            ("established_resets", since.tcp.established_resets),
            ("handshakes_sent_again", since.listener.handshakes_retransmitted),
            ("accept_queue_overflows", since.listener.overflows),
            ("listener_drops", since.listener.drops),
            ("handshake_queue_full", since.listener.handshakes_full),
            ("handshakes_by_cookie", since.listener.handshakes_with_cookies),
            ("backlog_drops", since.listener.backlog_drops),
            ("receive_queue_drops", since.listener.receive_queue_drops),
            ("aborted_for_memory", since.listener.aborted_for_memory),
            ("memory_pressures", since.listener.memory_pressures),
        ];
        for (name, count) in counters.into_iter().filter(|(_, count)| *count > 0) {
            moved.insert(format!("{side}.{name}"), count);
        }
    }
    let (sent, begun) = (&evidence.sent.softnet, &evidence.begun.softnet);
    let softnets = sent.as_ref().zip(begun.as_ref());
    let dropped = softnets.map_or(0, |(later, earlier)| {
        later.total().since(&earlier.total()).dropped
    });
    if dropped > 0 {
        moved.insert("machine.input_queue_drops".to_owned(), dropped);
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial as _, TrialHead};

    #[test]
    fn answers_that_are_all_late_fail_a_trial_unless_the_generator_stood_still() {
        let still = "stood still".to_owned();
        let status = |ok: u64, late: u64, behind: Option<&String>| {
            let trial = Trial {
                requests_ok: ok,
                requests_late: late,
                ..Trial::new(TrialHead::new(0, 0, 0.4))
            };
            no_result(&trial, Protocol::Http, (None, behind), || None).map(|(status, _)| status)
        };
        assert_eq!(status(8, 8, None), Some(TrialStatus::Failed));
        assert_eq!(status(8, 8, Some(&still)), Some(TrialStatus::GeneratorLimited));
        assert_eq!(
            status(0, 0, Some(&still)),
            Some(TrialStatus::Failed),
            "no answer at all"
        );
        assert_eq!(status(9, 8, Some(&still)), Some(TrialStatus::GeneratorLimited));
        assert_eq!(status(9, 8, None), None);
    }

    #[test]
    fn a_server_that_was_lost_fails_a_trial_with_answers_unless_the_generator_stood_still() {
        let (lost, still) = ("no answer since 2.50 s".to_owned(), "stood still".to_owned());
        let trial = Trial {
            requests_ok: 1_000,
            ..Trial::new(TrialHead::new(0, 0, 5.0))
        };
        let ended = |behind| no_result(&trial, Protocol::Http, (Some(&lost), behind), || None);
        assert_eq!(ended(None), Some((TrialStatus::Failed, lost.clone())));
        assert_eq!(
            ended(Some(&still)),
            Some((TrialStatus::GeneratorLimited, still.clone()))
        );
    }

    fn share(cpu: u32, idle: f64) -> CpuShare {
        CpuShare {
            cpu,
            idle_share: Some(idle),
            softirq_share: Some(0.2),
        }
    }

    #[test]
    fn busy_clients_are_the_limit_only_while_the_server_has_time_left() {
        let sides = Sides {
            server: vec![0],
            clients: vec![1, 2],
        };
        let reason =
            |server, one, other| clients_busy(&sides, &[share(0, server), share(1, one), share(2, other)]);
        let why = reason(0.3, 0.0, 0.02).unwrap();
        assert!(
            why.contains("idle for 1.0 % of the time") && why.contains("30.0 %"),
            "{why}"
        );
        assert_eq!(reason(0.02, 0.0, 0.0), None, "both are busy");
        assert_eq!(reason(0.3, 0.0, 0.3), None, "a client has time left");
    }
}
