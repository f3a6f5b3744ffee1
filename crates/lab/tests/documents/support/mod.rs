//! A report in the lab's format, with made-up counts of a small machine.

use corelane_host::conditions::Snapshot;
use corelane_lab::document::{Bed, Head, Tool};
use corelane_lab::scale::counts::Counts;
use corelane_lab::scale::datagrams::Placement;
use corelane_lab::scale::datagrams::document::{
    Datagrams, SCHEMA, ScaleReport, Shape, Step, Trial, TrialBucket, unexplained,
};
use corelane_lab::scale::datagrams::gap::{self, Side};
use corelane_lab::scale::limit::Scaling;
use corelane_lab::scale::limit::{Limit, LimitCause};
use corelane_lab::trial::{CpuShare, Trial as _, TrialHead};
use corelane_measure::drops::Cause;
use corelane_measure::histogram::Histogram;
use corelane_measure::share::Share;
use corelane_serve::udp::{Mode, Model};
use serde_json::json;
use std::collections::BTreeMap;

const ROUNDS: usize = 3;
const SECONDS: f64 = 2.0;
const PAYLOAD_BYTES: u64 = 510;

/// A run over 1 to `buckets` active buckets, `per_bucket` frames per second each.
pub fn report(buckets: usize, per_bucket: f64) -> ScaleReport {
    let shapes = [
        (Mode::Echo, Model::Exact, Placement::Aligned),
        (Mode::Echo, Model::Exact, Placement::Crossed),
        (Mode::Echo, Model::Reuseport, Placement::Aligned),
        (Mode::Sink, Model::Exact, Placement::Aligned),
    ];
    let mut steps = Vec::new();
    let mut trials = Vec::new();
    for shape in shapes {
        let controls = shape.1 == Model::Reuseport || shape.2 == Placement::Crossed;
        let first = if controls { buckets } else { 1 };
        for active in first..=buckets {
            for round in 0..ROUNDS {
                trials.push(trial(steps.len(), round, shape, active, per_bucket));
            }
            let cpus = (0..active as u32).collect();
            steps.push(Step::new(Shape::plain(shape, active), buckets, cpus));
        }
    }
    let mut report = ScaleReport {
        head: Head {
            schema: SCHEMA.to_owned(),
            tool: Tool {
                name: "corelane".to_owned(),
                version: "0.1.0".to_owned(),
            },
            started_unix_s: Some(1_760_000_000),
            command_line: ["corelane", "lab", "scale", "udp", "--buckets"]
                .into_iter()
                .map(str::to_owned)
                .chain([buckets.to_string()])
                .collect(),
            bed: Some(Bed {
                kind: "namespaces".to_owned(),
                describe: "two network namespaces joined by veth".to_owned(),
                reason: None,
            }),
            conditions: conditions(buckets),
            ..Head::default()
        },
        plan: json!({ "payload_bytes": PAYLOAD_BYTES, "rounds": ROUNDS }),
        steering: json!({ "schema": "corelane/steering/1", "hash_fields": "2tuple" }),
        scaling: Scaling::default(),
        steps,
        trials,
        limit: Limit {
            cause: LimitCause::SharedCpus,
            sentence: "Limit: client and server share each CPU, and no CPU time is left.".to_owned(),
            evidence: vec!["CPUs of the active buckets were idle for 1 % of the time.".to_owned()],
            suspects: Vec::new(),
            ..Limit::default()
        },
        kind: Datagrams::default(),
    };
    report.summarise();
    report
}

fn trial(
    step: usize,
    round: usize,
    (mode, model, placement): (Mode, Model, Placement),
    active: usize,
    per_bucket: f64,
) -> Trial {
    // Rounds differ by one percent, one percent of the work is serial; crossing and the kernel's hash add some cost.
    let drift = 1.0 + 0.01 * (round as f64 - 1.0);
    let contention = 1.0 + 0.01 * (active as f64 - 1.0);
    let cost = match (model, placement) {
        (_, Placement::Crossed) => 0.86,
        (Model::Reuseport, _) => 0.71,
        _ => 1.0,
    };
    let each = (per_bucket * SECONDS * drift * cost / contention) as u64;
    let full = each / 50;
    let echo = mode == Mode::Echo;
    let mut trial = Trial::new(TrialHead::new(step, round, SECONDS));
    let seen = each * active as u64;
    trial.counts = counts(seen, full * active as u64, echo);
    trial.seen_bytes = Some(seen * PAYLOAD_BYTES);
    trial.server_cpu_us = Some(seen as f64 * (1.2 + 0.02 * active as f64) / cost);
    trial.context_switches = Some(400 * active as u64);
    trial.effective_mhz = Some(2_893.4);
    trial.drops = BTreeMap::from([(gap::key(Cause::FullBuffers, Side::Server), full * active as u64)]);
    trial.unexplained = unexplained(&trial);
    let hit = |hits: bool| Share {
        hits: if hits { 1_000 } else { 0 },
        samples: 1_000,
    };
    for index in 0..active {
        trial.cpu_shares.push(CpuShare {
            cpu: index as u32,
            idle_share: Some(0.01),
            softirq_share: Some(0.62),
        });
        trial.per_bucket.push(TrialBucket {
            bucket: index as u16,
            cpu: index as u32,
            seen: each,
            answered: echo.then_some(each),
            dropped: full,
            locality: Some(hit(placement == Placement::Aligned)),
            steering: (model == Model::Exact).then(|| hit(true)),
            memory: None,
        });
    }
    trial.locality = Some(hit(placement == Placement::Aligned));
    trial.steering = (model == Model::Exact).then(|| hit(true));
    if echo {
        let mut round_trips = Histogram::new();
        for frame in 0..1_000u64 {
            round_trips.record(20_000 + frame * frame * 3);
        }
        trial.round_trip = Some(round_trips);
    } else {
        let reason = "the clock was not read".to_owned();
        trial.head.unknown = BTreeMap::from([("effective_mhz".to_owned(), reason)]);
        trial.effective_mhz = None;
    }
    trial
}

/// Counts of so many frames that were seen, and so many that found their buffer full.
fn counts(seen: u64, full: u64, echo: bool) -> Counts {
    Counts {
        generated: seen + full,
        received: Some(seen + full),
        seen: Some(seen),
        answered: echo.then_some(seen),
        returned: echo.then_some(seen),
    }
}

fn conditions(cpus: usize) -> Option<Snapshot> {
    let entry = |severity: &str, name: &str, value: Option<&str>, why: &str, mend: Option<&str>| json!({ "severity": severity, "name": name, "value": value, "why": why, "mend": mend, "source": "sysfs" });
    let cpus: Vec<usize> = (0..cpus).collect();
    let snapshot = json!({
        "kernel": "6.18.44",
        "cpu_model": "Example CPU @ 2.90GHz",
        "cpus_online": cpus,
        "cpus_allowed": cpus,
        "virtualisation": "kvm",
        "conditions": [
            entry("spoils", "load from others", Some("1.7 runnable"),
                "other programs take CPU time that the measurement counts on", Some("stop them")),
            entry("spoils", "turbo", Some("on"),
                "the clock falls as more CPUs are busy, which looks like poor scaling and is not; the first round of the \
                 post was spoilt by it", Some("echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo")),
            entry("explains", "governor", None, "no cpufreq on this machine", None),
            entry("explains", "virtualisation", Some("kvm"), "no hardware counters", None),
            entry("fine", "kernel debug options", Some("none"), "", None),
        ],
    });
    Some(serde_json::from_value(snapshot).unwrap())
}
