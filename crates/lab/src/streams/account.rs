//! From readings to a trial: what was counted between two of them.

use super::client::ClientCounts;
use super::plan::StreamsPlan;
use super::server::{ServerCounts, ServerProcesses};
use corelane_host::HostError;
use corelane_host::bed::Bed;
use corelane_host::counters::{CpuTimes, Softnet, TcpStatistics};
use corelane_report::scale::{CpuShare, Share, TrialStatus};
use corelane_report::streams::{CpuUse, Memory, Protocol, Server, Shape, Trial};
use serde_json::json;
use std::collections::BTreeMap;

/// What the kernel and the server's processes counted up to one moment.
#[derive(Debug, Clone)]
pub(super) struct Readings {
    server_tcp: TcpStatistics,
    client_tcp: TcpStatistics,
    softnet: Option<Softnet>,
    cpus: CpuTimes,
    server_cpu_ns: u64,
}

impl Readings {
    /// Reads them, CPU times first: the rest takes a moment.
    pub(super) fn take(bed: &Bed, server: ServerProcesses) -> Result<Self, HostError> {
        Ok(Self {
            cpus: CpuTimes::read()?,
            server_cpu_ns: server.family()?.cpu_ns(),
            server_tcp: bed.server.run(TcpStatistics::read)?,
            client_tcp: bed.client.run(TcpStatistics::read)?,
            softnet: Softnet::read().ok(),
        })
    }
}

/// Everything that was read in a trial.
pub(super) struct Evidence {
    /// Before the first connection.
    pub(super) begun: Readings,
    /// With every connection open.
    pub(super) opened: Readings,
    /// After the last request.
    pub(super) sent: Readings,
    /// What the server counted in all.
    pub(super) served: ServerCounts,
    /// What the clients counted.
    pub(super) loaded: ClientCounts,
    /// Where memory was meanwhile.
    pub(super) memory: Option<Memory>,
}

/// The trial that the evidence tells of.
pub(super) fn trial(plan: &StreamsPlan, index: usize, round: usize, evidence: Evidence) -> Trial {
    let shape = &plan.steps[index];
    let mut trial = Trial {
        errors: errors(&evidence),
        cpu: CpuUse {
            server_ns: Some(
                evidence
                    .sent
                    .server_cpu_ns
                    .saturating_sub(evidence.opened.server_cpu_ns),
            ),
            client_ns: Some((evidence.loaded.cpu_s * 1e9) as u64),
        },
        cpu_shares: cpu_shares(plan, shape, &evidence),
        steering: steering(shape, &evidence.served),
        kernel: kernel(&evidence),
        ..Trial::new(index, round)
    };
    let (loaded, served) = (evidence.loaded, evidence.served);
    trial.duration_s = loaded.running_s;
    trial.requests_ok = loaded.requests_ok;
    trial.served_requests = served.requests;
    (trial.received_bytes, trial.sent_bytes) = (loaded.received_bytes, loaded.sent_bytes);
    (trial.latency, trial.schedule_lag) = (loaded.latency, loaded.schedule_lag);
    trial.connections = loaded.connections;
    trial.memory = evidence.memory;
    trial.limited_by = loaded.limited_by;
    trial.raw = json!({ "client": loaded.raw, "server": served.raw });
    judge(&mut trial, plan.request.protocol);
    give_reasons(&mut trial, plan, shape);
    trial
}

/// A trial that answered or carried nothing is no result.
fn judge(trial: &mut Trial, protocol: Protocol) {
    let nothing = match protocol {
        Protocol::Http if trial.requests_ok == 0 => "no request was answered",
        Protocol::Tcp if trial.received_bytes + trial.sent_bytes == 0 => "no byte was carried",
        _ => return,
    };
    let why = match (&trial.limited_by, trial.errors.iter().next()) {
        (Some(reason), _) => reason.clone(),
        (None, Some((cause, count))) => format!("{nothing}: {} {count} times", cause.replace('_', " ")),
        (None, None) => nothing.to_owned(),
    };
    (trial.status, trial.why) = (TrialStatus::Failed, Some(why));
}

fn give_reasons(trial: &mut Trial, plan: &StreamsPlan, shape: &Shape) {
    let mut give = |field: &str, reason: &str| {
        trial.unknown.insert(field.to_owned(), reason.to_owned());
    };
    if trial.memory.is_none() {
        give(
            "memory",
            "it is read only where 1,000 connections or more are held",
        );
    }
    if trial.steering.is_none() {
        let reason = match shape.server {
            Server::Subject => "the subject does not tell which worker a connection came to",
            _ => "the kernel's hash promises no bucket",
        };
        give("steering_ok", reason);
    }
    if trial.schedule_lag.is_none() && plan.request.rate.is_none() {
        give(
            "schedule_lag",
            "there was no schedule: each request followed an answer",
        );
    }
}

/// What went wrong by cause, and what one side counted that the other did not.
fn errors(evidence: &Evidence) -> BTreeMap<String, u64> {
    let mut errors = evidence.loaded.errors.clone();
    if let Some((served, sent)) = evidence.served.requests.zip(evidence.loaded.requests_sent) {
        for (name, count) in [
            ("served_and_not_sent", served.saturating_sub(sent)),
            ("sent_and_not_served", sent.saturating_sub(served)),
        ] {
            if count > 0 {
                errors.insert(name.to_owned(), count);
            }
        }
    }
    errors
}

/// Connections that came to an active bucket, of all: exact steering promises the buckets that the sources were planned for.
fn steering(shape: &Shape, served: &ServerCounts) -> Option<Share> {
    if shape.server != Server::Exact || served.accepted.is_empty() {
        return None;
    }
    let active = shape.buckets_active.min(served.accepted.len());
    Some(Share {
        hits: served.accepted[..active].iter().sum(),
        samples: served.accepted.iter().sum(),
    })
}

fn cpu_shares(plan: &StreamsPlan, shape: &Shape, evidence: &Evidence) -> Vec<CpuShare> {
    let spent = evidence.sent.cpus.since(&evidence.opened.cpus);
    let share = |cpu: &u32| {
        let time = spent.cpu(*cpu);
        CpuShare {
            cpu: *cpu,
            idle_share: time.and_then(|time| time.idle_share()),
            softirq_share: time.and_then(|time| time.softirq_share()),
        }
    };
    plan.cpus(shape).iter().map(share).collect()
}

/// The kernel's counters that tell of a limit and moved, from the first connection to the last request.
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
    if let Some((later, earlier)) = evidence
        .sent
        .softnet
        .as_ref()
        .zip(evidence.begun.softnet.as_ref())
    {
        let dropped: u64 = later
            .since(earlier)
            .cpus
            .iter()
            .map(|cpu| cpu.counters.dropped)
            .sum();
        if dropped > 0 {
            moved.insert("machine.input_queue_drops".to_owned(), dropped);
        }
    }
    moved
}
