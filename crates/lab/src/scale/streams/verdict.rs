//! Determines the limit: a pure function of the report.

use super::document::{Protocol, Server, Step, StreamsReport};
use super::ends::NOT_OPENED;
use super::metrics::{CLIENT_SHARE, REQUESTS, SERVER_SHARE, STEERING};
use super::plan::{Sides, StreamsPlan, idle_share};
use crate::scale::limit::{self, BUSY_IDLE_SHARE, Limit, LimitCause, Suspect, SuspectName, buckets, percent};
use crate::scale::steps::quota;
use crate::trial::TrialStatus;
use corelane_load::Failure;
use corelane_measure::quantity::{self, or_missing};

/// Share of requests failed for one reason above which that reason is the limit, even with CPU time left.
const MATERIAL_ERRORS: f64 = 0.001;

/// The limit of the main series; of another series while the main series has no valid trial.
pub(super) fn of_report(report: &StreamsReport) -> Limit {
    let main = report.main_series().map_or_else(Vec::new, |series| series.0);
    let mut steps = main.into_iter().rev().chain(report.steps.iter().rev());
    let limit = steps.find_map(|step| step.found.limit.clone());
    limit.unwrap_or_else(Limit::unknown)
}

/// Inputs of a step's verdict besides its numbers.
#[derive(Debug)]
struct Setting {
    protocol: Protocol,
    /// Requests or bytes followed a schedule.
    scheduled: bool,
    /// The CPUs of both sides, if they are disjoint.
    apart: Option<Sides>,
    /// The CPU quota that limited the server, if one did.
    quota: Option<String>,
}

/// The limit of one step; `None` without a valid trial.
pub(super) fn of_step(report: &StreamsReport, index: usize, plan: &StreamsPlan) -> Option<Limit> {
    let step = &report.steps[index];
    if step.summed.trials == 0 {
        return of_generator(report, index);
    }
    let trials = report.valid_trials(index);
    let setting = Setting {
        protocol: report.kind.protocol,
        scheduled: plan.request.rate.is_some(),
        apart: plan.sides_apart(&step.shape),
        quota: quota(&trials),
    };
    let did = (setting.protocol.facts().did)(report.rate().of(step));
    let did = format!("{} {did}", who(step));
    let mut limit = step.limit(&trials, (&did, "one's"), cause(step, &setting));
    // Why the generator of the last valid trial missed its schedule.
    let lags = trials.last().and_then(|trial| trial.limited_by.as_deref());
    limit.suspects = suspects(step, limit.cause, [lags, setting.quota.as_deref()]);
    Some(limit)
}

/// The limit of a step whose trials the generator limited, all that no other machine spoilt; `None` if that is not so.
fn of_generator(report: &StreamsReport, index: usize) -> Option<Limit> {
    let all = report.trials.iter().map(|trial| &trial.head);
    let mut own = all.filter(|head| head.step == index && head.status != TrialStatus::Spoilt);
    if own
        .clone()
        .any(|head| head.status != TrialStatus::GeneratorLimited)
    {
        return None;
    }
    let why = own.next_back()?.why.clone().unwrap_or_default();
    let who = who(&report.steps[index]);
    Some(Limit {
        cause: LimitCause::Generator,
        sentence: format!("{who} cannot be judged; the limit was the generator in every trial: {why}."),
        suspects: vec![Suspect {
            name: SuspectName::Client,
            is_limit: true,
            evidence: why,
        }],
        ..Limit::default()
    })
}

/// The subject of the sentence.
fn who(step: &Step) -> String {
    match (step.shape.server, step.shape.buckets_active) {
        (Server::Subject, 1) => "The subject on 1 CPU".to_owned(),
        (Server::Subject, active) => format!("The subject on {active} CPUs"),
        (_, active) => format!("{active} {}", buckets(active)),
    }
}

/// The cause, and the words that complete "the limit was".
fn cause(step: &Step, setting: &Setting) -> limit::Found {
    let wrong = limit::steering(STEERING.of(step), "connections");
    let server = || setting.apart.as_ref().and_then(|sides| server_busy(step, sides));
    let quota = || Some((LimitCause::Quota, setting.quota.clone()?));
    if let Some(found) = wrong.or_else(|| exhausted(step)).or_else(quota).or_else(server) {
        return found;
    }
    let idle = step.idle_share();
    if let Some(idle) = idle.filter(|idle| *idle < BUSY_IDLE_SHARE) {
        return busy(step, idle);
    }
    // In a valid trial, requests missing from the schedule waited for a connection.
    let unsent = step.found.errors.get("unsent").copied().unwrap_or(0);
    if setting.scheduled && !is_material(step, unsent) {
        return limit::asked_for(idle, LimitCause::OfferedRate, "the rate asked for");
    }
    let awaited = setting.protocol.facts().awaited;
    let connections = format!("the number of connections, each waiting for {awaited}");
    limit::asked_for(idle, LimitCause::Connections, &connections)
}

/// The server limit, if the server has its own CPUs and they were busy.
fn server_busy(step: &Step, sides: &Sides) -> Option<limit::Found> {
    let idle = idle_share(&sides.server, &step.cpu_shares).filter(|idle| *idle < BUSY_IDLE_SHARE)?;
    let clients = percent(idle_share(&sides.clients, &step.cpu_shares));
    let server = quantity::percent(idle);
    let because = format!("the server's CPUs: idle for {server}, the clients' for {clients}");
    Some((LimitCause::ServerCpu, because))
}

/// Whether the count is material.
fn is_material(step: &Step, count: u64) -> bool {
    let served = (REQUESTS.of(step).unwrap_or(0.0)).max(step.shape.connections as f64);
    count as f64 > served * MATERIAL_ERRORS
}

/// What ran out or overflowed where a request or a connection failed so; `None` if nothing did.
const fn resource(failure: Failure) -> Option<LimitCause> {
    use Failure as F;
    match failure {
        F::NoDescriptors | F::NoPorts => Some(LimitCause::Resources),
        F::NoMemory => Some(LimitCause::Memory),
        F::Refused | F::ConnectTimeout => Some(LimitCause::ListenerBacklog),
        F::Reset | F::ClosedEarly | F::Malformed | F::WrongStatus | F::WrongBody => None,
        F::CertificateRefused | F::Tls | F::HandshakeTimeout => None,
        F::FirstByteTimeout | F::RequestTimeout | F::Unreachable | F::Forbidden | F::Other => None,
    }
}

/// The resource that ran out or overflowed, if material.
fn exhausted(step: &Step) -> Option<limit::Found> {
    // Failed requests, and connections that never opened.
    let failures = |cause: LimitCause| {
        let of = |name: &str| step.found.errors.get(name).copied().unwrap_or(0);
        let all = Failure::all().filter(|failure| resource(*failure) == Some(cause));
        let both = all.map(|failure| of(failure.name()) + of(&format!("{NOT_OPENED}{}", failure.name())));
        both.sum::<u64>()
    };
    let overflows = match is_material(step, failures(LimitCause::ListenerBacklog)) {
        true => backlog(step),
        false => 0,
    };
    let aborted = kernel(step, &["aborted_for_memory"]);
    let causes = [
        (LimitCause::Resources, failures(LimitCause::Resources)),
        (LimitCause::Memory, failures(LimitCause::Memory) + aborted),
        (LimitCause::ListenerBacklog, overflows),
    ];
    let found = causes.into_iter().find(|(_, count)| is_material(step, *count));
    let (cause, times) = found.map(|(cause, count)| (cause, quantity::count(count)))?;
    let words = match cause {
        LimitCause::Resources => format!("the client's descriptors and ports: {times} times there was none"),
        LimitCause::Memory => format!("memory: the kernel had none {times} times"),
        _ => format!("the listener's backlog: it overflowed {times} times"),
    };
    Some((cause, words))
}

/// The main user of CPU time if none was left.
fn busy(step: &Step, idle: f64) -> limit::Found {
    let [server, client] = [SERVER_SHARE, CLIENT_SHARE].map(|share| share.of(step).unwrap_or(0.0));
    let softirq = step.softirq_share().unwrap_or(0.0);
    let others = (1.0 - server - client - idle).max(0.0);
    let (cause, whose) = if softirq > 0.5 {
        (LimitCause::KernelReceive, "the kernel's receive path")
    } else {
        (LimitCause::SharedCpus, "CPU time")
    };
    let [server, client, others, idle, softirq] =
        [server, client, others, idle, softirq].map(quantity::percent);
    let shares = format!("server {server}, client {client}, everything else {others}, idle {idle}");
    (cause, format!("{whose} ({shares}; {softirq} in softirq)"))
}

/// All suspects with their measurements.
fn suspects(step: &Step, cause: LimitCause, [lags, quota]: [Option<&str>; 2]) -> Vec<Suspect> {
    use LimitCause as C;
    let count = |names: &[&str]| quantity::count(kernel(step, names));
    let (client, server, softirq) = (
        percent(CLIENT_SHARE.of(step)),
        percent(SERVER_SHARE.of(step)),
        percent(step.softirq_share()),
    );
    let requests = REQUESTS.of(step).map_or("", |_| "requests or ");
    let failed = quantity::count(failed(step));
    let [lags, quota] = [lags, quota].map(|also| also.map(|also| format!("; {also}")).unwrap_or_default());
    let dropped = count(&["backlog_drops", "receive_queue_drops", "input_queue_drops"]);
    let (again, handshakes) = (count(&["segments_sent_again"]), count(&["handshakes_sent_again"]));
    let refused = quantity::count(backlog(step));
    let all: [(SuspectName, &[C], String); 5] = [
        (
            SuspectName::Client,
            &[C::ClientCpu, C::SharedCpus, C::Resources],
            format!("{client} of the CPUs' time; {failed} {requests}connections failed{lags}"),
        ),
        (
            SuspectName::Server,
            &[C::ServerCpu, C::SharedCpus, C::Quota],
            format!("{server} of the CPUs' time{quota}"),
        ),
        (
            SuspectName::KernelReceive,
            &[C::KernelReceive],
            format!("{softirq} of the CPUs' time in softirq; {dropped} segments dropped, {again} sent again"),
        ),
        (
            SuspectName::ListenerBacklog,
            &[C::ListenerBacklog],
            format!("{refused} connections dropped at listeners, {handshakes} handshakes sent again"),
        ),
        (SuspectName::Memory, &[C::Memory], memory_evidence(step)),
    ];
    let suspect = |(name, causes, evidence): (SuspectName, &[C], String)| Suspect {
        name,
        is_limit: causes.contains(&cause),
        evidence,
    };
    all.map(suspect).into()
}

/// Evidence about memory.
fn memory_evidence(step: &Step) -> String {
    let given_up = quantity::count(kernel(step, &["aborted_for_memory"]));
    let mut evidence = format!("{given_up} connections given up for want of it");
    let each = &step.found.memory_per_connection;
    if each.client_user_bytes.or(each.kernel_bytes).is_some() {
        let sides = [each.client_user_bytes, each.server_user_bytes, each.kernel_bytes];
        let bytes = |value| or_missing(value, |value: f64| quantity::bytes(value.round() as u64));
        let [client, server, kernel] = sides.map(bytes);
        evidence += &format!(
            "; a connection took {client} of the client, {server} of the server, {kernel} of the kernel"
        );
    }
    evidence
}

/// Failed requests and connections; requests never sent and bytes do not count.
fn failed(step: &Step) -> u64 {
    let counts = |name: &str| !["unsent", "unfinished"].contains(&name) && !name.starts_with("bytes_");
    let failed = step.found.errors.iter().filter(|(name, _)| counts(name));
    failed.map(|(_, count)| count).sum()
}

/// Connections that listeners did not accept.
fn backlog(step: &Step) -> u64 {
    let counters = &step.found.kernel;
    let of = |name: &str| counters.get(&format!("server.{name}")).copied().unwrap_or(0);
    // An overflow counts as a drop, too.
    of("listener_drops").max(of("accept_queue_overflows")) + of("handshake_queue_full")
}

/// Some of the kernel's counters over both sides and the machine.
fn kernel(step: &Step, names: &[&str]) -> u64 {
    let is_named = |key: &str| key.split_once('.').is_some_and(|(_, name)| names.contains(&name));
    let named = step.found.kernel.iter().filter(|(key, _)| is_named(key));
    named.map(|(_, count)| count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placing::Placement;
    use crate::scale::streams::document::{Shape, Traffic};
    use crate::trial::CpuShare;

    fn closed() -> Setting {
        Setting {
            protocol: Protocol::Http,
            scheduled: false,
            apart: None,
            quota: None,
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
        waiting.found.errors.insert("unsent".to_owned(), 5_000);
        assert_eq!(cause(&waiting, &scheduled()).0, LimitCause::Connections);
    }

    #[test]
    fn a_quota_is_the_limit_before_busy_cpus_and_idle_ones() {
        let quota = "the CPU quota of the server's control group /x (0.20 CPUs)";
        let setting = Setting {
            quota: Some(quota.to_owned()),
            ..closed()
        };
        for idle in [0.01, 0.8] {
            let found = cause(&step(idle, 0.2), &setting);
            assert_eq!(found, (LimitCause::Quota, quota.to_owned()));
        }
        let suspects = suspects(&step(0.8, 0.2), LimitCause::Quota, [None, Some(quota)]);
        let server = &suspects[1];
        assert!(server.is_limit && server.evidence.ends_with(quota), "{server:?}");
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
            step.found.errors.insert(name.to_owned(), count);
            cause(&step, &closed()).0
        };
        assert_eq!(lacking("connect_no_descriptors", 100), LimitCause::Resources);
        assert_eq!(lacking("no_memory", 100), LimitCause::Memory);
        assert_eq!(lacking("connect_no_ports", 1), LimitCause::SharedCpus);
    }

    #[test]
    fn a_full_backlog_is_the_limit_only_where_connections_were_refused_for_it() {
        let mut full = step(0.5, 0.1);
        full.found
            .kernel
            .insert("server.accept_queue_overflows".to_owned(), 500);
        assert_eq!(cause(&full, &closed()).0, LimitCause::Connections);
        full.found
            .errors
            .insert("connect_connect_timeout".to_owned(), 500);
        assert_eq!(cause(&full, &closed()).0, LimitCause::ListenerBacklog);
        let suspects = suspects(&full, LimitCause::ListenerBacklog, [Some("late"), None]);
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
