//! The documents of `corelane lab scale http` and `tcp`: do requests and bytes over TCP scale with buckets, and what stops
//! them?
//!
//! In: what the lab planned and measured. Out: `"schema": "corelane/scale-http/1"` or `"corelane/scale-tcp/1"` as JSON, both
//! ways, and the text that a person reads ([`render`]). The two differ in what a step is judged by: requests answered, or
//! bytes carried, a second. The rules are those of every document here: changes only add, units stand in field names, raw
//! trials are always kept, and what is unknown is `null` with its reason beside it.

mod diff;
mod limit;
mod memory;
mod shape;
mod step;
mod summarise;
mod text;
mod trial;

pub use diff::diff;
pub use limit::{Limit, LimitCause, Suspect, SuspectName};
pub use memory::{CacheGrowth, Memory, MemoryPerConnection, MemoryRow};
pub use shape::{Protocol, Server, Shape, Traffic, UnknownServer, UnknownTraffic};
pub use step::Step;
pub use summarise::{scaling, summarise};
pub use text::render;
pub use trial::{BucketBytes, Connections, CpuUse, Segments, Trial};

use crate::document::Bed;
use crate::document::Tool;
use crate::scale::Placement;
use crate::steps::Scaling;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

/// The whole document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamsReport {
    /// [`Protocol::schema`].
    pub schema: String,
    /// What wrote it.
    pub tool: Tool,
    /// When the run began, in seconds since 1970-01-01 00:00 UTC.
    pub started_unix_s: u64,
    /// The arguments that repeat the run, the program first.
    pub command_line: Vec<String>,
    /// Where the traffic ran.
    pub bed: Bed,
    /// The host's snapshot of what may spoil or explain the result, as that room writes it.
    pub conditions: Value,
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
    /// Whether the run was ended before its plan.
    #[serde(default)]
    pub interrupted: bool,
}

/// Why text is no report that can be read.
#[derive(Debug, Error)]
pub enum DocumentError {
    /// The text is not JSON, or a field is missing or of another type.
    #[error("not a readable report: {0}; give a file that `corelane lab scale http|tcp --json FILE` wrote")]
    Json(#[from] serde_json::Error),
    /// The document is of another kind or of a later, incompatible version.
    #[error(
        "the document's schema is `{found}` and `{}` or `{}` is needed: use the version of corelane that wrote it",
        Protocol::Http.schema(),
        Protocol::Tcp.schema()
    )]
    Schema {
        /// The schema as found.
        found: String,
    },
}

impl StreamsReport {
    /// Reads a document.
    ///
    /// # Errors
    /// When the text is not JSON, is of another schema, or lacks a field.
    pub fn from_json(text: &str) -> Result<Self, DocumentError> {
        let document: Value = serde_json::from_str(text)?;
        // The schema is judged before the fields, so that another kind of document is called what it is.
        let found = document.get("schema").and_then(Value::as_str).unwrap_or_default();
        if !Self::is_schema(found) {
            return Err(DocumentError::Schema {
                found: found.to_owned(),
            });
        }
        Ok(serde_json::from_value(document)?)
    }

    /// Whether a document of this schema can be read as one of these.
    #[must_use]
    pub fn is_schema(schema: &str) -> bool {
        [Protocol::Http, Protocol::Tcp]
            .iter()
            .any(|protocol| protocol.schema() == schema)
    }

    /// The document as indented JSON, ending in a newline.
    ///
    /// # Errors
    /// None that a report can cause: serde's own are passed on.
    pub fn to_json(&self) -> Result<String, DocumentError> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// The command line as one would type it into a shell.
    #[must_use]
    pub fn command(&self) -> String {
        corelane_report::text::command(&self.command_line)
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
        let (mut judged, others): (Vec<_>, Vec<_>) = self.series().into_iter().partition(Series::is_judged);
        if judged.is_empty() {
            judged.extend(others.into_iter().next());
        }
        judged
    }

    /// Where memory went in the step with the most connections, controls left out; `None` where there were too few.
    #[must_use]
    pub fn fullest_memory(&self) -> Option<&Memory> {
        let steps = self
            .steps
            .iter()
            .filter(|step| step.shape.server != Server::Reuseport);
        let most = steps
            .filter_map(|step| step.memory.as_ref())
            .max_by_key(|memory| memory.connections);
        most.filter(|memory| memory.connections >= memory::FEWEST_TO_SHARE)
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
        self.steps.iter().rev().copied().find(|step| step.trials > 0)
    }

    fn is_judged(&self) -> bool {
        let shape = self.shape();
        shape.server != Server::Reuseport && shape.placement == Placement::Aligned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_schema_is_refused_by_name() {
        let refused = StreamsReport::from_json(r#"{"schema": "corelane/scale/1"}"#).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the document's schema is `corelane/scale/1` and `corelane/scale-http/1` or `corelane/scale-tcp/1` is needed: \
             use the version of corelane that wrote it"
        );
        assert!(
            StreamsReport::from_json("{")
                .unwrap_err()
                .to_string()
                .starts_with("not a readable report")
        );
    }
}
