//! Who was the limit: a pure function of the report, so that it can be read and tested.

use super::account::{BUSY_IDLE_SHARE, idle_share};
use super::document::{Limit, LimitCause, Protocol, Server, Step, StreamsReport, Suspect, SuspectName};
use super::metrics::{CLIENT_SHARE, LINEARITY, PAYLOAD, REQUESTS, SERVER_SHARE, STEERING};
use super::plan::{Sides, StreamsPlan};
use crate::document::TrialStatus;
use crate::steps::Stepped;
use corelane_measure::quantity::{self, or_missing};

/// The share of requests whose failure for one reason makes that reason the limit though CPU time was left.
const MATERIAL_ERRORS: f64 = 0.001;

/// What the report says about the limit of its main series; of any other, as long as that has no valid trial.
pub(super) fn of_report(report: &StreamsReport) -> Limit {
    let main = report.main_series();
    let limit = main.and_then(|series| series.steps.iter().rev().find_map(|step| step.limit.clone()));
    let other = || report.steps.iter().rev().find_map(|step| step.limit.clone());
    limit.or_else(other).unwrap_or_else(Limit::unknown)
}

/// What the verdict on a step rests on beside its numbers.
#[derive(Debug)]
struct Setting {
    protocol: Protocol,
    /// Requests or bytes followed a schedule.
    scheduled: bool,
    /// The CPUs of both sides, where no CPU has both.
    apart: Option<Sides>,
}

/// Who was the limit in one step; `None` as long as no trial told.
pub(super) fn of_step(report: &StreamsReport, index: usize, plan: &StreamsPlan) -> Option<Limit> {
    let step = &report.steps[index];
    if step.summed.trials == 0 {
        return of_generator(report, index);
    }
    let setting = Setting {
        protocol: report.protocol,
        scheduled: plan.request.rate.is_some(),
        apart: plan.sides_apart(&step.shape),
    };
    let (cause, because) = cause(step, &setting);
    Some(Limit {
        cause,
        sentence: format!("{}; the limit was {because}.", growth(step, report.protocol)),
        suspects: suspects(step, cause, lags(report, index)),
    })
}

/// The limit of a step whose trials the generator limited, all that no other machine spoilt; `None` where that is not so.
fn of_generator(report: &StreamsReport, index: usize) -> Option<Limit> {
    let step = &report.steps[index];
    let own = report
        .trials
        .iter()
        .map(|trial| &trial.tried)
        .filter(|tried| tried.step == index);
    let counted = || own.clone().filter(|tried| tried.status != TrialStatus::Spoilt);
    if counted().any(|tried| tried.status != TrialStatus::GeneratorLimited) {
        return None;
    }
    let why = counted().next_back()?.why.clone().unwrap_or_default();
    Some(Limit {
        cause: LimitCause::Generator,
        sentence: format!(
            "{} cannot be judged; the limit was the generator in every trial: {why}.",
            who(step)
        ),
        suspects: vec![Suspect {
            name: SuspectName::Client,
            is_limit: true,
            evidence: why,
        }],
    })
}

/// What the generator of the step's last valid trial says kept it from doing what it was told.
fn lags(report: &StreamsReport, index: usize) -> Option<&str> {
    report.valid_trials(index).last()?.limited_by.as_deref()
}

/// What the step is about.
fn who(step: &Step) -> String {
    match (step.shape.server, step.shape.buckets_active) {
        (Server::Subject, 1) => "The subject on 1 CPU".to_owned(),
        (Server::Subject, active) => format!("The subject on {active} CPUs"),
        (_, 1) => "1 bucket".to_owned(),
        (_, active) => format!("{active} buckets"),
    }
}

/// How far the rate grew, in words.
fn growth(step: &Step, protocol: Protocol) -> String {
    let (who, active) = (who(step), step.shape.buckets_active);
    let did = match protocol {
        Protocol::Http => format!("answered {}", or_missing(REQUESTS.of(step), quantity::rate)),
        Protocol::Tcp => {
            let rate = or_missing(PAYLOAD.of(step), |rate| quantity::fixed(rate, 2));
            format!("carried {rate} Gb/s")
        }
    };
    match LINEARITY.of(step) {
        Some(linearity) if active > 1 => {
            format!("{who} {did}, {:.2} times one's", linearity * active as f64)
        }
        _ => format!("{who} {did}"),
    }
}

/// The kind of limit, and the words that complete «the limit was».
fn cause(step: &Step, setting: &Setting) -> (LimitCause, String) {
    if STEERING.of(step).is_some_and(|right| right < 1.0) {
        let because = "steering: connections reached the wrong bucket, so the rates mean little";
        return (LimitCause::Steering, because.to_owned());
    }
    if let Some(found) = exhausted(step) {
        return found;
    }
    if let Some(found) = setting.apart.as_ref().and_then(|sides| server_busy(step, sides)) {
        return found;
    }
    let idle = step.idle_share();
    if idle.is_some_and(|idle| idle < BUSY_IDLE_SHARE) {
        return busy(step, idle.unwrap_or(0.0));
    }
    let left = or_missing(idle, quantity::percent);
    if idle.is_none() {
        let because = "not to be told without the CPUs' times";
        return (LimitCause::Unknown, because.to_owned());
    }
    // A schedule of which requests are missing, in a trial that counts, waited for answers.
    let unsent = step.errors.get("unsent").copied().unwrap_or(0);
    if setting.scheduled && !is_material(step, unsent) {
        let because = format!("the rate asked for: {left} of CPU time was left");
        return (LimitCause::OfferedRate, because);
    }
    let waits = match setting.protocol {
        Protocol::Http => "each waiting for its answer",
        Protocol::Tcp => "each waiting for its peer to take more",
    };
    let because = format!("the number of connections, {waits}: {left} of CPU time was left");
    (LimitCause::Connections, because)
}

/// The server, where it has CPUs of its own and those had nothing left.
fn server_busy(step: &Step, sides: &Sides) -> Option<(LimitCause, String)> {
    let idle = idle_share(&sides.server, &step.cpu_shares).filter(|idle| *idle < BUSY_IDLE_SHARE)?;
    let clients = or_missing(idle_share(&sides.clients, &step.cpu_shares), quantity::percent);
    let because = format!(
        "the server's CPUs: idle for {}, the clients' for {clients}",
        quantity::percent(idle)
    );
    Some((LimitCause::ServerCpu, because))
}

/// Whether it happened for more than a few.
fn is_material(step: &Step, count: u64) -> bool {
    let served = (REQUESTS.of(step).unwrap_or(0.0)).max(step.shape.connections as f64);
    count as f64 > served * MATERIAL_ERRORS
}

/// What ran out, or overflowed, for more than a few.
fn exhausted(step: &Step) -> Option<(LimitCause, String)> {
    let material = |count: u64| is_material(step, count);
    let error = |names: &[&str]| {
        names
            .iter()
            .filter_map(|name| step.errors.get(*name))
            .sum::<u64>()
    };
    let descriptors = error(&[
        "no_descriptors",
        "connect_no_descriptors",
        "no_ports",
        "connect_no_ports",
    ]);
    if material(descriptors) {
        let because = format!(
            "the client's descriptors and ports: {} times there was none",
            quantity::count(descriptors)
        );
        return Some((LimitCause::Resources, because));
    }
    let memory = error(&["no_memory", "connect_no_memory"]) + kernel(step, "aborted_for_memory");
    if material(memory) {
        let because = format!("memory: the kernel had none {} times", quantity::count(memory));
        return Some((LimitCause::Memory, because));
    }
    let refused = error(&[
        "refused",
        "connect_refused",
        "connect_timeout",
        "connect_connect_timeout",
    ]);
    let overflows = backlog(step);
    (material(overflows) && material(refused)).then(|| {
        let because = format!(
            "the listener's backlog: it overflowed {} times",
            quantity::count(overflows)
        );
        (LimitCause::ListenerBacklog, because)
    })
}

/// Whose the CPU time was when none was left.
fn busy(step: &Step, idle: f64) -> (LimitCause, String) {
    let (server, client) = (
        SERVER_SHARE.of(step).unwrap_or(0.0),
        CLIENT_SHARE.of(step).unwrap_or(0.0),
    );
    let softirq = step.softirq_share().unwrap_or(0.0);
    let others = (1.0 - server - client - idle).max(0.0);
    let shares = format!(
        "server {}, client {}, everything else {}, idle {}; {} in softirq",
        quantity::percent(server),
        quantity::percent(client),
        quantity::percent(others),
        quantity::percent(idle),
        quantity::percent(softirq)
    );
    if softirq > 0.5 {
        return (
            LimitCause::KernelReceive,
            format!("the kernel's receive path ({shares})"),
        );
    }
    (LimitCause::SharedCpus, format!("CPU time ({shares})"))
}

/// Everyone who could have been it, with what was measured.
fn suspects(step: &Step, cause: LimitCause, lags: Option<&str>) -> Vec<Suspect> {
    let percent = |share: Option<f64>| or_missing(share, quantity::percent);
    let suspect = |name, causes: &[LimitCause], evidence| Suspect {
        name,
        is_limit: causes.contains(&cause),
        evidence,
    };
    let failed = failed(step);
    vec![
        suspect(
            SuspectName::Client,
            &[
                LimitCause::ClientCpu,
                LimitCause::SharedCpus,
                LimitCause::Resources,
            ],
            format!(
                "{} of the CPUs' time; {} {}connections failed{}",
                percent(CLIENT_SHARE.of(step)),
                quantity::count(failed),
                if REQUESTS.of(step).is_some() {
                    "requests or "
                } else {
                    ""
                },
                lags.map(|lags| format!("; {lags}")).unwrap_or_default()
            ),
        ),
        suspect(
            SuspectName::Server,
            &[LimitCause::ServerCpu, LimitCause::SharedCpus],
            format!("{} of the CPUs' time", percent(SERVER_SHARE.of(step))),
        ),
        suspect(
            SuspectName::KernelReceive,
            &[LimitCause::KernelReceive],
            format!(
                "{} of the CPUs' time in softirq; {} segments dropped, {} sent again",
                percent(step.softirq_share()),
                quantity::count(
                    kernel(step, "backlog_drops")
                        + kernel(step, "receive_queue_drops")
                        + kernel(step, "input_queue_drops")
                ),
                quantity::count(kernel(step, "segments_sent_again"))
            ),
        ),
        suspect(
            SuspectName::ListenerBacklog,
            &[LimitCause::ListenerBacklog],
            format!(
                "{} connections dropped at listeners, {} handshakes sent again",
                quantity::count(backlog(step)),
                quantity::count(kernel(step, "handshakes_sent_again"))
            ),
        ),
        suspect(SuspectName::Memory, &[LimitCause::Memory], memory_evidence(step)),
    ]
}

/// What is known of memory.
fn memory_evidence(step: &Step) -> String {
    let given_up = quantity::count(kernel(step, "aborted_for_memory"));
    let mut evidence = format!("{given_up} connections given up for want of it");
    let each = &step.memory_per_connection;
    let bytes = |value: Option<f64>| or_missing(value, |value| quantity::bytes(value.round() as u64));
    if each.client_user_bytes.or(each.kernel_bytes).is_some() {
        evidence += &format!(
            "; a connection took {} of the client, {} of the server, {} of the kernel",
            bytes(each.client_user_bytes),
            bytes(each.server_user_bytes),
            bytes(each.kernel_bytes)
        );
    }
    evidence
}

/// Requests and connections that failed; those that were never made are none, nor are bytes.
fn failed(step: &Step) -> u64 {
    let not_made = ["unsent", "unfinished"];
    let failed = step
        .errors
        .iter()
        .filter(|(name, _)| !not_made.contains(&name.as_str()) && !name.starts_with("bytes_"));
    failed.map(|(_, count)| count).sum()
}

/// Connections that listeners could not take.
fn backlog(step: &Step) -> u64 {
    let of = |name: &str| step.kernel.get(&format!("server.{name}")).copied().unwrap_or(0);
    // An overflow counts as a drop, too.
    of("listener_drops").max(of("accept_queue_overflows")) + of("handshake_queue_full")
}

/// One of the kernel's counters over both sides and the machine.
fn kernel(step: &Step, name: &str) -> u64 {
    let sides = ["server", "client", "machine"];
    sides
        .iter()
        .filter_map(|side| step.kernel.get(&format!("{side}.{name}")))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::CpuShare;
    use crate::scale::Placement;
    use crate::streams::document::{Shape, Traffic};

    fn closed() -> Setting {
        Setting {
            protocol: Protocol::Http,
            scheduled: false,
            apart: None,
        }
    }

    fn scheduled() -> Setting {
        Setting {
            scheduled: true,
            ..closed()
        }
    }

    fn step(idle: f64, softirq: f64) -> Step {
        let shape = Shape {
            server: Server::Exact,
            placement: Placement::Aligned,
            traffic: Traffic::Requests,
            object_bytes: Some(1),
            write_bytes: None,
            connections: 64,
            buckets_active: 1,
        };
        let mut step = Step::new(shape, 1, vec![0]);
        step.cpu_shares = vec![CpuShare {
            cpu: 0,
            idle_share: Some(idle),
            softirq_share: Some(softirq),
        }];
        step.summed.trials = 1;
        for (metric, value) in [(REQUESTS, 1_000.0), (SERVER_SHARE, 0.5), (CLIENT_SHARE, 0.4)] {
            step.summed.values.set_number(metric.name, Some(value));
        }
        step
    }

    #[test]
    fn busy_cpus_are_the_limit_and_the_kernel_where_it_has_most_of_them() {
        assert_eq!(cause(&step(0.01, 0.2), &closed()).0, LimitCause::SharedCpus);
        assert_eq!(cause(&step(0.01, 0.6), &closed()).0, LimitCause::KernelReceive);
    }

    #[test]
    fn with_cpu_time_left_it_is_what_was_asked_for() {
        assert_eq!(cause(&step(0.4, 0.2), &scheduled()).0, LimitCause::OfferedRate);
        let (cause, words) = cause(&step(0.4, 0.2), &closed());
        assert_eq!(cause, LimitCause::Connections);
        assert!(words.contains("40.0 %"), "{words}");
    }

    #[test]
    fn a_schedule_that_waited_for_answers_was_limited_by_its_connections() {
        let mut waiting = step(0.4, 0.2);
        waiting.errors.insert("unsent".to_owned(), 5_000);
        assert_eq!(cause(&waiting, &scheduled()).0, LimitCause::Connections);
    }

    #[test]
    fn a_server_with_cpus_of_its_own_is_the_limit_when_those_are_busy() {
        let mut apart = step(0.01, 0.2);
        apart.cpu_shares.push(CpuShare {
            cpu: 1,
            idle_share: Some(0.5),
            softirq_share: Some(0.1),
        });
        let setting = Setting {
            apart: Some(Sides {
                server: vec![0],
                clients: vec![1],
            }),
            ..closed()
        };
        let (found, words) = cause(&apart, &setting);
        assert_eq!(found, LimitCause::ServerCpu);
        assert!(words.contains("1.0 %") && words.contains("50.0 %"), "{words}");
        assert_eq!(cause(&apart, &closed()).0, LimitCause::Connections);
    }

    #[test]
    fn what_ran_out_comes_before_busy_cpus_and_a_few_times_are_none() {
        let lacking = |name: &str, count: u64| {
            let mut step = step(0.01, 0.2);
            step.errors.insert(name.to_owned(), count);
            cause(&step, &closed()).0
        };
        assert_eq!(lacking("connect_no_descriptors", 100), LimitCause::Resources);
        assert_eq!(lacking("no_memory", 100), LimitCause::Memory);
        assert_eq!(lacking("connect_no_ports", 1), LimitCause::SharedCpus);
    }

    #[test]
    fn a_full_backlog_is_the_limit_only_where_connections_were_refused_for_it() {
        let mut full = step(0.5, 0.1);
        full.kernel
            .insert("server.accept_queue_overflows".to_owned(), 500);
        assert_eq!(cause(&full, &closed()).0, LimitCause::Connections);
        full.errors.insert("connect_connect_timeout".to_owned(), 500);
        assert_eq!(cause(&full, &closed()).0, LimitCause::ListenerBacklog);
        let suspects = suspects(&full, LimitCause::ListenerBacklog, Some("late"));
        let named: Vec<_> = suspects
            .iter()
            .filter(|suspect| suspect.is_limit)
            .map(|suspect| suspect.name)
            .collect();
        assert_eq!(named, [SuspectName::ListenerBacklog]);
        assert!(suspects[0].evidence.ends_with("; late"));
    }

    #[test]
    fn wrong_buckets_come_before_everything() {
        let mut wrong = step(0.01, 0.6);
        wrong.summed.values.set_number(STEERING.name, Some(0.999));
        assert_eq!(cause(&wrong, &closed()).0, LimitCause::Steering);
    }
}
