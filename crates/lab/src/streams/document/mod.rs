//! The documents of `corelane lab scale http` and `tcp`: do requests and bytes over TCP scale with buckets, and what stops
//! them?
//!
//! In: what the lab planned and measured. Out: `"schema": "corelane/scale-http/1"` or `"corelane/scale-tcp/1"` as JSON, both
//! ways. The two differ in what a step is judged by: requests answered, or
//! bytes carried, a second. The rules are those of every document here: changes only add, units stand in field names, raw
//! trials are always kept, and what is unknown is `null` with its reason beside it.

mod conclude;
mod limit;
mod memory;
mod shape;
mod step;
mod trial;

pub use limit::{Limit, LimitCause, Suspect, SuspectName};
pub(crate) use memory::FEWEST_TO_SHARE;
pub use memory::{CacheGrowth, Memory, MemoryPerConnection};
pub use shape::{Protocol, Server, Shape, Traffic, UnknownServer, UnknownTraffic};
pub use step::Step;
pub use trial::{BucketBytes, Connections, CpuUse, Segments, Trial};

use super::metrics;
use crate::document::{Head, document};
use crate::scale::Placement;
use crate::steps::{Scaling, Stepped};
use corelane_measure::metric::Metric;
use corelane_report::reading::Reading;
use corelane_report::table::{Cell, Column};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The whole document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamsReport {
    /// What all documents begin with; the schema is [`Protocol::schema`].
    #[serde(flatten)]
    pub head: Head,
    /// The resolved plan of the run.
    pub plan: Value,
    /// The steering document that both ends shared.
    pub steering: Value,
    /// What was measured.
    pub protocol: Protocol,
    /// The command of the server under test; `None` where it was our own.
    pub subject: Option<String>,
    /// One entry for each shape of server and traffic; medians over the valid trials.
    pub steps: Vec<Step>,
    /// Every trial as it was counted, the invalid ones marked.
    pub trials: Vec<Trial>,
    /// The law of growth of the main series, or why none was fitted.
    pub scaling: Scaling,
    /// What stopped growth in the main series.
    pub limit: Limit,
    /// What was planned and cannot run here, and why.
    #[serde(default)]
    pub left_out: Vec<String>,
}

document!(StreamsReport, [Protocol::Http.schema(), Protocol::Tcp.schema()], upgrade: fill_lacking);

impl Stepped for StreamsReport {
    type Step = Step;
    type Trial = Trial;

    fn metrics(&self) -> &'static [&'static Metric<Trial>] {
        metrics::of(self.protocol)
    }

    fn shape() -> Vec<Reading<'static, Step>> {
        vec![
            Reading::new(Column::left("server"), |step: &Step| {
                step.shape.server.to_string()
            }),
            Reading::new(Column::left("clients"), |step: &Step| {
                step.shape.placement.to_string()
            }),
            Reading::new(Column::left("traffic").may_shrink(), |step: &Step| {
                step.shape.load_words()
            }),
            active(),
        ]
    }

    fn key(step: &Step) -> String {
        format!("{:?}", step.shape)
    }

    fn steps(&self) -> &[Step] {
        &self.steps
    }

    fn trials(&self) -> &[Trial] {
        &self.trials
    }

    fn parts(&mut self) -> (&mut [Step], &[Trial]) {
        (&mut self.steps, &self.trials)
    }
}

/// The column of the number of active buckets.
pub(crate) fn active() -> Reading<'static, Step> {
    Reading::new(Column::right("N").key("buckets_active"), |step: &Step| {
        Cell::count(step.shape.buckets_active as u64)
    })
}

impl StreamsReport {
    /// What steps are judged by: requests a second, or Gb/s.
    #[must_use]
    pub fn rate(&self) -> &'static Metric<Trial> {
        self.metrics()[0]
    }

    /// The steps in series that differ in the number of active buckets alone, each by growing number, in the document's
    /// order.
    #[must_use]
    pub fn series(&self) -> Vec<Series<'_>> {
        let mut all: Vec<Series<'_>> = Vec::new();
        for step in &self.steps {
            match all.iter_mut().find(|series| series.shape().grows_to(&step.shape)) {
                Some(series) => series.steps.push(step),
                None => all.push(Series { steps: vec![step] }),
            }
        }
        for series in &mut all {
            series.steps.sort_by_key(|step| step.shape.buckets_active);
        }
        all
    }

    /// The series that are not controls: our server steered exactly or the subject, with aligned clients; where there are
    /// none, the first series.
    #[must_use]
    pub fn judged_series(&self) -> Vec<Series<'_>> {
        let [judged, _] = self.parted_series();
        judged
    }

    /// The series that the run is judged by, and the controls.
    pub(crate) fn parted_series(&self) -> [Vec<Series<'_>>; 2] {
        let (mut judged, mut controls): (Vec<_>, Vec<_>) =
            self.series().into_iter().partition(Series::is_judged);
        if judged.is_empty() && !controls.is_empty() {
            judged.push(controls.remove(0));
        }
        [judged, controls]
    }

    /// Where memory went in the step with the most connections, controls left out; `None` where there were too few.
    #[must_use]
    pub fn fullest_memory(&self) -> Option<&Memory> {
        let own = |step: &&Step| step.shape.server != Server::Reuseport;
        let steps = self.steps.iter().filter(own);
        let most = steps
            .filter_map(|step| step.memory.as_ref())
            .max_by_key(|memory| memory.connections);
        most.filter(|memory| memory.connections >= FEWEST_TO_SHARE)
    }

    /// The series that the verdict is about: of those judged with the first traffic and size, the one with the most
    /// connections.
    #[must_use]
    pub fn main_series(&self) -> Option<Series<'_>> {
        let judged = self.judged_series();
        let first = judged.first()?.shape().clone();
        let kin = judged.into_iter().filter(|series| {
            let shape = series.shape();
            (shape.traffic, shape.size()) == (first.traffic, first.size())
        });
        kin.max_by_key(|series| series.shape().connections)
    }
}

/// Steps that differ in the number of active buckets alone: at least one.
#[derive(Debug, Clone, PartialEq)]
pub struct Series<'a> {
    /// The steps, by growing number of active buckets.
    pub steps: Vec<&'a Step>,
}

impl<'a> Series<'a> {
    /// The shape of its first step.
    #[must_use]
    pub fn shape(&self) -> &'a Shape {
        &self.steps[0].shape
    }

    /// The last step that has a valid trial.
    #[must_use]
    pub fn last_measured(&self) -> Option<&'a Step> {
        self.steps
            .iter()
            .rev()
            .copied()
            .find(|step| step.summed.trials > 0)
    }

    fn is_judged(&self) -> bool {
        let shape = self.shape();
        shape.server != Server::Reuseport && shape.placement == Placement::Aligned
    }
}
