//! What the documents of all generators have: how the run ended, and what several runs at the same time amount to.

use crate::lost::Lost;
use corelane_measure::metric::{Metric, Sample, Show};
use corelane_measure::time_series::TimeSeries;
use corelane_report::diff::Numbers;
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
    /// Why the run failed as a whole although there is a report: nothing was sent, opened, moved or answered, a server was
    /// lost and did not come back, or a link failed.
    pub failed_because: Option<String>,
    /// When a server was gone or silent; absent if none was.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<Lost>,
    /// Whether the run was stopped before its end.
    pub interrupted: bool,
    /// Notes required to interpret the figures.
    pub notes: Vec<String>,
}

/// Losses of servers that are notes of a report, at most.
const LOSSES_NOTED: usize = 3;

impl RunOutcome {
    /// The server that was lost and did not come back, if one was.
    #[must_use]
    pub fn never_back(&self) -> Option<&Lost> {
        self.lost.iter().find(|lost| lost.until_s.is_none())
    }

    /// Adds these losses: as the failure of the run one that lasted to the end, if `fails`; others as notes.
    pub(crate) fn with_lost(mut self, lost: Vec<Lost>, fails: bool) -> Self {
        let noted = || lost.iter().filter(|lost| !fails || lost.until_s.is_some());
        self.notes.extend(noted().take(LOSSES_NOTED).map(Lost::to_string));
        if let more @ 1.. = noted().skip(LOSSES_NOTED).count() {
            self.notes.push(format!("servers were lost {more} times more"));
        }
        self.lost = lost;
        let never_back = self.never_back().filter(|_| fails).map(Lost::to_string);
        self.failed_because = self.failed_because.or(never_back);
        self
    }

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

    /// What the rates of [`RunOutcome::over_time`] are in comparisons of two runs.
    const OVER_TIME: &'static Metric<f64> =
        &Metric::more("rate_over_time", "rate over time", Show::PerSecond).read(number);

    /// What several reports amount to.
    type Sum: Serialize;

    /// How the run ended.
    fn outcome(&self) -> &RunOutcome;

    /// The same, to add what only the caller knows.
    fn outcome_mut(&mut self) -> &mut RunOutcome;

    /// What cannot be: counts that are not the sum of their parts, or parts larger than the whole. A document may have been
    /// changed since it was written.
    ///
    /// # Errors
    /// The first such counts, in words.
    fn check(&self) -> Result<(), String>;

    /// What comparisons of two runs look at: rate and durations in parts of the run, whose range is that within one run, and
    /// metrics of the whole.
    fn numbers(&self) -> Vec<Numbers> {
        let over_time = &self.outcome().over_time;
        let parts = [
            (Self::OVER_TIME, over_time.rates_in_parts()),
            (&P50, over_time.times_in_parts(|times| times.p50_ns)),
            (&P99, over_time.times_in_parts(|times| times.p99_ns)),
        ];
        let parts = parts
            .iter()
            .map(|(metric, values)| Numbers::of(metric, values, !values.is_empty()));
        let whole = Self::METRICS.iter().filter(|metric| metric.compared);
        let whole = whole.map(|metric| Numbers::of(metric, [self], !metric.numbers([self]).is_empty()));
        parts.chain(whole).collect()
    }

    /// Sums reports of simultaneous runs: counts and rates are added, histograms merged.
    fn sum(reports: &[Self]) -> Self::Sum;
}

static P50: Metric<f64> = Metric::less("p50_over_time", "p50 over time", Show::Nanoseconds).read(number);
static P99: Metric<f64> = Metric::less("p99_over_time", "p99 over time", Show::Nanoseconds).read(number);

#[allow(
    clippy::unnecessary_wraps,
    clippy::trivially_copy_pass_by_ref,
    reason = "metrics read so"
)]
fn number(value: &f64) -> Option<Sample<'_>> {
    Some(Sample::Number(*value))
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

/// Members that earlier versions did not have are left out while they are 0, `false` or empty.
pub(crate) fn is_default<T: Default + PartialEq>(member: &T) -> bool {
    *member == T::default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lost::HowLost;

    #[test]
    fn a_server_that_did_not_come_back_fails_a_run_and_others_are_noted() {
        let lost = |since_s: f64, until_s: Option<f64>| Lost {
            server: "127.0.0.1:80".parse().unwrap(),
            how: HowLost::Silent,
            cause: None,
            since_s,
            until_s,
        };
        let ended: Vec<Lost> = (0..5).map(|at| lost(f64::from(at), Some(1.5))).collect();
        let outcome = RunOutcome::default().with_lost(ended.clone(), true);
        assert_eq!((outcome.notes.len(), &outcome.failed_because), (4, &None));
        assert_eq!(outcome.notes[3], "servers were lost 2 times more");
        assert_eq!(outcome.never_back(), None);
        let lasting = [&ended[..1], &[lost(7.0, None)]].concat();
        let outcome = RunOutcome::default().with_lost(lasting.clone(), true);
        let why = "127.0.0.1:80 has answered nothing since 7.00 s";
        assert_eq!(
            (outcome.notes.len(), outcome.failed_because.as_deref()),
            (1, Some(why))
        );
        let outcome = RunOutcome::default().with_lost(lasting, false);
        assert_eq!((outcome.notes.len(), &outcome.failed_because), (2, &None));
        assert_eq!(outcome.lost.len(), 2);
    }
}
