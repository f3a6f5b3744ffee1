//! What two runs of one protocol are compared by.

use super::{Protocol, Step, StreamsReport, Trial};
use crate::document::TrialStatus;
use crate::documents::change::{self, Metric, Run};
use crate::documents::text::Heading;
use corelane_measure::quantity;
use corelane_report::table::Column;

/// Compares two runs, with the spread in mind; `before` is the reference. Text in 100 columns.
#[must_use]
pub fn diff(before: &StreamsReport, after: &StreamsReport) -> String {
    change::diff(before, after)
}

impl Run for StreamsReport {
    type Step = Step;
    type Trial = Trial;

    const METRICS: &'static [Metric<Self>] = &[
        Metric {
            name: "rate",
            higher_is_better: true,
            always_shown: true,
            of: |report, trial| Some(trial.main_rate(report.protocol)),
            show: quantity::metric,
        },
        Metric {
            name: "server CPU",
            higher_is_better: false,
            always_shown: false,
            of: |report, trial| cost_ns(trial, trial.cpu.server_ns, report.protocol),
            show: quantity::duration,
        },
        Metric {
            name: "client CPU",
            higher_is_better: false,
            always_shown: false,
            of: |report, trial| cost_ns(trial, trial.cpu.client_ns, report.protocol),
            show: quantity::duration,
        },
        Metric {
            name: "latency p99",
            higher_is_better: false,
            always_shown: false,
            of: |_, trial| {
                let latency = trial.latency.as_ref()?;
                latency.percentile(99.0).map(|nanoseconds| nanoseconds as f64)
            },
            show: quantity::duration,
        },
    ];

    fn started_unix_s(&self) -> u64 {
        self.started_unix_s
    }

    fn heading(&self) -> Heading<'_> {
        Heading {
            tool: &self.tool,
            conditions: &self.conditions,
            bed: Some(&self.bed),
            command: self.command(),
        }
    }

    fn steps(&self) -> &[Step] {
        &self.steps
    }

    fn valid_trials(&self, step: usize) -> impl Iterator<Item = &Trial> {
        let trials = self.trials.iter();
        trials.filter(move |trial| trial.step == step && trial.is_valid())
    }

    fn statuses(&self) -> impl Iterator<Item = TrialStatus> {
        self.trials.iter().map(|trial| trial.status)
    }

    fn same_shape(one: &Step, other: &Step) -> bool {
        one.shape == other.shape
    }

    fn shape_columns() -> [Column; 4] {
        [
            Column::left("server"),
            Column::left("clients"),
            Column::left("traffic").may_shrink(),
            Column::right("N"),
        ]
    }

    fn shape_cells(step: &Step) -> [String; 4] {
        [
            step.shape.server.to_string(),
            step.shape.placement.to_string(),
            step.shape.load_words(),
            step.shape.buckets_active.to_string(),
        ]
    }
}

/// CPU nanoseconds of one side for each request, or for each KiB.
fn cost_ns(trial: &Trial, cpu_ns: Option<u64>, protocol: Protocol) -> Option<f64> {
    match protocol {
        Protocol::Http => trial
            .cpu_us_per_request(cpu_ns)
            .map(|microseconds| microseconds * 1e3),
        Protocol::Tcp => trial.cpu_ns_per_kib(cpu_ns),
    }
}
