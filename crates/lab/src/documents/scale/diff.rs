//! What two runs are compared by.

use super::{ScaleReport, Step, Trial, TrialStatus};
use crate::documents::change::{self, Metric, Run};
use crate::documents::text::Heading;
use corelane_measure::quantity;
use corelane_report::table::Column;

/// Compares two runs, with the spread in mind; `before` is the reference. Text in 100 columns.
#[must_use]
pub fn diff(before: &ScaleReport, after: &ScaleReport) -> String {
    change::diff(before, after)
}

impl Run for ScaleReport {
    type Step = Step;
    type Trial = Trial;

    const METRICS: &'static [Metric<Self>] = &[
        Metric {
            name: "rate",
            higher_is_better: true,
            always_shown: true,
            of: |_, trial| Some(trial.main_rate()),
            show: quantity::rate,
        },
        Metric {
            name: "CPU a frame",
            higher_is_better: false,
            always_shown: false,
            of: |_, trial| trial.cpu_us_per_frame(),
            show: |microseconds| quantity::duration(microseconds * 1e3),
        },
        Metric {
            name: "locality",
            higher_is_better: true,
            always_shown: false,
            of: |_, trial| trial.locality?.value(),
            show: quantity::percent,
        },
        Metric {
            name: "round trip p99",
            higher_is_better: false,
            always_shown: false,
            of: |_, trial| {
                trial
                    .round_trip
                    .as_ref()?
                    .percentile(99.0)
                    .map(|nanoseconds| nanoseconds as f64)
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
        one.varies(other) && one.variation == other.variation
    }

    fn shape_columns() -> [Column; 4] {
        [
            Column::left("mode"),
            Column::left("model"),
            Column::left("clients"),
            Column::right("N"),
        ]
    }

    fn shape_cells(step: &Step) -> [String; 4] {
        [
            step.mode.to_string(),
            step.model.to_string(),
            step.clients(),
            step.buckets_active.to_string(),
        ]
    }
}
