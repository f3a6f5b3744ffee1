//! What the documents of all generators have: how the run ended, and what several runs at the same time amount to.

use corelane_measure::time_series::TimeSeries;
use corelane_report::measurement::Measurement;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// How a run went and ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunOutcome {
    /// Events per second over time (answers, or what is sent if nothing is answered; bytes of transfers), and their
    /// durations.
    #[serde(skip_serializing_if = "TimeSeries::is_empty")]
    pub over_time: TimeSeries,
    /// What limited the generator, if anything did.
    pub limited_by: Option<String>,
    /// Why the run failed as a whole although there is a report: nothing was sent, opened, moved or answered, or a link
    /// failed.
    pub failed_because: Option<String>,
    /// Whether the run was stopped before its end.
    pub interrupted: bool,
    /// Notes required to interpret the figures.
    pub notes: Vec<String>,
}

impl RunOutcome {
    /// Why the run failed, or else what limited it.
    #[must_use]
    pub fn obstacle(&self) -> Option<String> {
        self.failed_because.clone().or_else(|| self.limited_by.clone())
    }
}

/// The report of a generator: the content of its document.
pub trait LoadReport: Measurement + Serialize + DeserializeOwned {
    /// Name and version of the document format, such as `corelane/loaded-udp/1`.
    const SCHEMA: &'static str;

    /// What several reports amount to.
    type Sum: Serialize;

    /// How the run ended.
    fn outcome(&self) -> &RunOutcome;

    /// The same, to add what only the caller knows.
    fn outcome_mut(&mut self) -> &mut RunOutcome;

    /// Sums reports of simultaneous runs: counts and rates are added, histograms merged.
    fn sum(reports: &[Self]) -> Self::Sum;
}

/// The sum of several generators of one kind that ran at the same time, on one machine or several.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MergedLoad<S> {
    /// `corelane/merged-NAME/1`, such as `corelane/merged-http/1`.
    pub schema: String,
    /// Number of merged documents.
    pub documents: usize,
    /// The sum of all.
    #[serde(flatten)]
    pub sum: S,
    /// Why each generator was limited or failed, if so.
    pub limited_by: Vec<String>,
}

impl<S> MergedLoad<S> {
    /// Merges reports.
    #[must_use]
    pub fn of<R: LoadReport<Sum = S>>(reports: &[R]) -> Self {
        let obstacles = reports.iter().filter_map(|report| report.outcome().obstacle());
        Self {
            schema: R::SCHEMA.replace("loaded", "merged"),
            documents: reports.len(),
            sum: R::sum(reports),
            limited_by: obstacles.collect(),
        }
    }
}
