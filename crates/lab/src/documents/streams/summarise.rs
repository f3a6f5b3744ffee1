//! From raw trials to steps: medians of what was valid.

use super::{MemoryPerConnection, Protocol, Segments, Step, StreamsReport, Trial};
use crate::document::TrialStatus;
use crate::documents::change::Run;
use crate::documents::trials::{self, NOT_COUNTED, why_missing};
use crate::steps::Scaling;
use corelane_measure::statistics::{self, Spread};
use std::collections::BTreeSet;

/// Fills in every step from its valid trials, then linearity from the rounds that steps share. Limits are left as they are.
pub fn summarise(report: &mut StreamsReport) {
    let protocol = report.protocol;
    for (index, step) in report.steps.iter_mut().enumerate() {
        let own: Vec<&Trial> = report.trials.iter().filter(|trial| trial.step == index).collect();
        fill(step, &own, protocol);
    }
    for index in 0..report.steps.len() {
        let spread = linearity(index, report);
        report.steps[index].linearity = spread.map(|spread| spread.median);
        report.steps[index].linearity_spread = spread;
    }
    for (index, step) in report.steps.iter_mut().enumerate() {
        let own: Vec<&Trial> = report.trials.iter().filter(|trial| trial.step == index).collect();
        give_reasons(step, &own, protocol);
    }
}

/// The scaling law of the main series, from the medians, of requests or bits a second. Workers are CPUs: buckets that
/// share one add none.
#[must_use]
pub fn scaling(report: &StreamsReport) -> Scaling {
    let points: Vec<(usize, f64)> = report.main_series().map_or_else(Vec::new, |series| {
        let rate = |step: &Step| match report.protocol {
            Protocol::Http => step.requests_per_s,
            Protocol::Tcp => step.gbit_s.map(|rate| rate * 1e9),
        };
        let point = |step: &&Step| Some((cpu_count(step), rate(step)?));
        series.steps.iter().filter_map(point).collect()
    });
    trials::scaling(&points)
}

fn cpu_count(step: &Step) -> usize {
    step.cpus.iter().collect::<BTreeSet<_>>().len()
}

/// Pairs the step's trials with those of the same round at one bucket.
fn linearity(index: usize, report: &StreamsReport) -> Option<Spread> {
    let step = &report.steps[index];
    let base = report
        .steps
        .iter()
        .position(|other| other.shape.buckets_active == 1 && other.shape.grows_to(&step.shape))?;
    let rates = |step: usize| -> Vec<(usize, f64)> {
        let rate = |trial: &Trial| (trial.round, trial.main_rate(report.protocol));
        report.valid_trials(step).map(rate).collect()
    };
    trials::linearity(step.shape.buckets_active, &rates(index), &rates(base))
}

fn fill(step: &mut Step, trials: &[&Trial], protocol: Protocol) {
    let valid: Vec<&Trial> = trials.iter().copied().filter(|trial| trial.is_valid()).collect();
    step.trials = valid.len();
    let limited = |trial: &&&Trial| trial.status == TrialStatus::GeneratorLimited;
    step.generator_limited_trials = trials.iter().filter(limited).count();
    let of = |of: &dyn Fn(&Trial) -> Option<f64>| {
        let values: Vec<f64> = valid.iter().filter_map(|trial| of(trial)).collect();
        statistics::median(&values)
    };
    step.requests_per_s = of(&|trial| (protocol == Protocol::Http).then(|| trial.requests_per_s()));
    step.gbit_s = of(&|trial| Some(trial.gbit_s()));
    let rates: Vec<f64> = valid.iter().map(|trial| trial.main_rate(protocol)).collect();
    step.rate_spread = Spread::of(&rates);
    step.server_cpu_us_per_request = of(&|trial| trial.cpu_us_per_request(trial.cpu.server_ns));
    step.client_cpu_us_per_request = of(&|trial| trial.cpu_us_per_request(trial.cpu.client_ns));
    step.server_cpu_ns_per_kib = of(&|trial| trial.cpu_ns_per_kib(trial.cpu.server_ns));
    step.client_cpu_ns_per_kib = of(&|trial| trial.cpu_ns_per_kib(trial.cpu.client_ns));
    step.server_bytes_per_cpu_s = of(&|trial| trial.bytes_per_cpu_s(trial.cpu.server_ns));
    step.client_bytes_per_cpu_s = of(&|trial| trial.bytes_per_cpu_s(trial.cpu.client_ns));
    let share = |trial: &Trial, cpu_ns: Option<u64>| {
        let available = trial.duration_s * 1e9 * trial.cpu_shares.len() as f64;
        statistics::ratio(cpu_ns? as f64, available)
    };
    step.server_cpu_share = of(&|trial| share(trial, trial.cpu.server_ns));
    step.client_cpu_share = of(&|trial| share(trial, trial.cpu.client_ns));
    step.connections_opened = of(&|trial| Some(trial.connections.opened as f64));
    step.connections_held = of(&|trial| Some(trial.connections.held as f64));
    step.opening_s = of(&|trial| trial.connections.opening_s);
    step.cpu_shares = trials::cpu_shares(valid.iter().flat_map(|trial| &trial.cpu_shares));
    step.latency = trials::merged(valid.iter().filter_map(|trial| trial.latency.as_ref()));
    step.schedule_lag = trials::merged(valid.iter().filter_map(|trial| trial.schedule_lag.as_ref()));
    step.steering_ok = trials::pooled(valid.iter().filter_map(|trial| trial.steering));
    step.errors = trials::summed(
        valid
            .iter()
            .flat_map(|trial| trial.errors.iter().chain(&trial.connections.failed)),
    );
    let segments = valid.iter().filter_map(|trial| trial.segments);
    step.segments = segments.reduce(Segments::plus);
    step.kernel = trials::summed(valid.iter().flat_map(|trial| &trial.kernel));
    let memory = |part: fn(&MemoryPerConnection) -> Option<f64>| {
        of(&|trial| part(&trial.memory.as_ref()?.per_connection()))
    };
    step.memory_per_connection = MemoryPerConnection {
        client_user_bytes: memory(|each| each.client_user_bytes),
        server_user_bytes: memory(|each| each.server_user_bytes),
        kernel_bytes: memory(|each| each.kernel_bytes),
    };
    step.memory = valid.iter().rev().find_map(|trial| trial.memory.clone());
}

/// Names the reason of the numbers that a reader would look for: the trials' own, or what is known of them all.
fn give_reasons(step: &mut Step, trials: &[&Trial], protocol: Protocol) {
    // A report is summarised again after every trial: reasons of an earlier time may no longer hold.
    step.unknown.clear();
    let fields = [
        ("requests_per_s", step.requests_per_s.is_none()),
        ("gbit_s", step.gbit_s.is_none()),
        ("linearity", step.linearity.is_none()),
        ("latency", step.latency.is_none()),
        (
            "server_cpu_us_per_request",
            step.server_cpu_us_per_request.is_none(),
        ),
        (
            "client_cpu_us_per_request",
            step.client_cpu_us_per_request.is_none(),
        ),
        ("steering_ok", step.steering_ok.is_none()),
        ("memory", step.memory.is_none()),
    ];
    for (field, _) in fields.into_iter().filter(|(_, missing)| *missing) {
        let own = trials.iter().find_map(|trial| trial.unknown.get(field).cloned());
        let of_all = || why_missing(field, trials.iter().map(|trial| trial.status));
        let of_requests = field.ends_with("_request") || ["requests_per_s", "latency"].contains(&field);
        let reason = own.or_else(of_all).unwrap_or_else(|| match protocol {
            Protocol::Tcp if of_requests => "bytes are measured, not requests".to_owned(),
            _ => NOT_COUNTED.to_owned(),
        });
        step.unknown.insert(field.to_owned(), reason);
    }
}
