//! Two saved runs compared, with the spread in mind: a change within the spread of the rounds is said to be none.
//!
//! In: two reports of one protocol, the earlier first. Out: text in 100 columns: what differs in the conditions, every step's
//! rate, and whatever else changed beyond its spread. Spreads come from the raw trials, valid ones only.

use super::{Protocol, Step, StreamsReport, Trial};
use crate::change::{self, Change, Ground, Tally, Verdict, differing_conditions};
use crate::quantity;
use crate::statistics::Spread;
use crate::table::{Column, Table};
use crate::text::{WIDTH, paragraph};

/// Compares two runs; `before` is the reference.
#[must_use]
pub fn diff(before: &StreamsReport, after: &StreamsReport) -> String {
    let mut text = String::new();
    paragraph(&mut text, "before  ", &origin(before));
    paragraph(&mut text, "after   ", &origin(after));
    for line in differing_conditions(ground(before), ground(after)) {
        paragraph(&mut text, "differs ", &line);
    }
    text.push('\n');
    let mut table = Table::new(vec![
        Column::left("server"),
        Column::left("clients"),
        Column::left("traffic").may_shrink(),
        Column::right("N"),
        Column::left("what"),
        Column::right("before"),
        Column::right("after"),
        Column::right("change"),
        Column::left("verdict"),
    ]);
    let mut tally = Tally::default();
    for (index, step) in before.steps.iter().enumerate() {
        let Some(other) = after.steps.iter().position(|other| other.shape == step.shape) else {
            tally.only_before += 1;
            continue;
        };
        for metric in &METRICS {
            let change = Change::of(metric.spread(before, index), metric.spread(after, other));
            let verdict = change.verdict(metric.higher_is_better);
            tally.count(verdict);
            if metric.always_shown || matches!(verdict, Verdict::Better | Verdict::Worse) {
                table.row(row(step, metric, &change, verdict));
            }
        }
    }
    let new = |step: &&Step| !before.steps.iter().any(|other| other.shape == step.shape);
    tally.only_after = after.steps.iter().filter(new).count();
    if !table.is_empty() {
        text.push_str(&table.render(WIDTH));
        text.push('\n');
    }
    paragraph(&mut text, "", &tally.sentence());
    text
}

/// What is compared, which way is better, and how it reads.
struct Metric {
    name: &'static str,
    higher_is_better: bool,
    /// Whether it has a row even when nothing changed.
    always_shown: bool,
    of: fn(&Trial, Protocol) -> Option<f64>,
    show: fn(f64) -> String,
}

const METRICS: [Metric; 4] = [
    Metric {
        name: "rate",
        higher_is_better: true,
        always_shown: true,
        of: |trial, protocol| Some(trial.main_rate(protocol)),
        show: quantity::metric,
    },
    Metric {
        name: "server CPU",
        higher_is_better: false,
        always_shown: false,
        of: |trial, protocol| cost_ns(trial, trial.cpu.server_ns, protocol),
        show: quantity::duration,
    },
    Metric {
        name: "client CPU",
        higher_is_better: false,
        always_shown: false,
        of: |trial, protocol| cost_ns(trial, trial.cpu.client_ns, protocol),
        show: quantity::duration,
    },
    Metric {
        name: "latency p99",
        higher_is_better: false,
        always_shown: false,
        of: |trial, _| {
            let latency = trial.latency.as_ref()?;
            latency.percentile(99.0).map(|nanoseconds| nanoseconds as f64)
        },
        show: quantity::duration,
    },
];

/// CPU nanoseconds of one side for each request, or for each KiB.
fn cost_ns(trial: &Trial, cpu_ns: Option<u64>, protocol: Protocol) -> Option<f64> {
    match protocol {
        Protocol::Http => trial
            .cpu_us_per_request(cpu_ns)
            .map(|microseconds| microseconds * 1e3),
        Protocol::Tcp => trial.cpu_ns_per_kib(cpu_ns),
    }
}

impl Metric {
    fn spread(&self, report: &StreamsReport, step: usize) -> Option<Spread> {
        let valid = report
            .trials
            .iter()
            .filter(|trial| trial.step == step && trial.is_valid());
        let values: Vec<f64> = valid
            .filter_map(|trial| (self.of)(trial, report.protocol))
            .collect();
        Spread::of(&values)
    }
}

fn row(step: &Step, metric: &Metric, change: &Change, verdict: Verdict) -> [String; 9] {
    let show = |spread: Option<Spread>| quantity::or_missing(spread, |spread| (metric.show)(spread.median));
    [
        step.shape.server.to_string(),
        step.shape.placement.to_string(),
        step.shape.load_words(),
        step.shape.buckets_active.to_string(),
        metric.name.to_owned(),
        show(change.before),
        show(change.after),
        change.percent(),
        verdict.words().to_owned(),
    ]
}

fn origin(report: &StreamsReport) -> String {
    change::origin(
        report.started_unix_s,
        &report.tool,
        &report.conditions,
        report.command(),
    )
}

fn ground(report: &StreamsReport) -> Ground<'_> {
    Ground {
        conditions: &report.conditions,
        bed: &report.bed.kind,
    }
}
