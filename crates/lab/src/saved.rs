//! The report of a generator with its origin, as it is saved.

use crate::document::{DocumentError, Head, Tool};
use corelane_host::conditions::Snapshot;
use corelane_measure::metric::Show;
use corelane_measure::quantity::or_missing;
use corelane_report::gate::Figure;
use corelane_report::measurement::Measurement;
use corelane_report::page::{Page, Rendered, Section};
use corelane_report::table::{Cell, Column, Table};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The report of a generator with its origin, so that its saved document gives the same page.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Recorded<M> {
    /// The report.
    #[serde(flatten)]
    pub report: M,
    #[serde(flatten)]
    origin: Origin,
    #[serde(flatten)]
    requested: Requested,
}

/// What the report shows on request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Requested {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    percentiles: Vec<Percentile>,
}

/// A percentile of the durations that the metric `p99` is of.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Percentile {
    percent: f64,
    /// `None` if no duration was measured.
    time_ns: Option<f64>,
}

impl Percentile {
    /// Its name, as gates write it.
    fn name(self) -> String {
        format!("p{}", self.percent)
    }

    fn words(self) -> String {
        format!(
            "{} {}",
            self.name(),
            or_missing(self.time_ns, |time| Show::Nanoseconds.words(time))
        )
    }
}

/// Where a document comes from, and the conditions of its run; empty in documents of earlier versions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Origin {
    tool: Tool,
    started_unix_s: Option<u64>,
    command_line: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    conditions: Option<Snapshot>,
}

impl Origin {
    /// What documents of experiments begin with.
    fn head(&self) -> Head {
        Head {
            tool: self.tool.clone(),
            started_unix_s: self.started_unix_s,
            command_line: self.command_line.clone(),
            conditions: self.conditions.clone(),
            ..Head::default()
        }
    }
}

impl<M> Recorded<M> {
    /// A report of the run that `head` describes.
    #[must_use]
    pub fn new(report: M, head: Head) -> Self {
        let origin = Origin {
            tool: head.tool,
            started_unix_s: head.started_unix_s,
            command_line: head.command_line,
            conditions: head.conditions,
        };
        Self {
            report,
            origin,
            requested: Requested::default(),
        }
    }
}

impl<M: Measurement> Recorded<M> {
    /// The same, which shows these percentiles, too.
    #[must_use]
    pub fn with_percentiles(mut self, percents: &[f64]) -> Self {
        let percentile = |percent: &f64| Percentile {
            percent: *percent,
            time_ns: self.report.percentile(*percent),
        };
        self.requested.percentiles = percents.iter().map(percentile).collect();
        self
    }
}

impl<M: DeserializeOwned> Recorded<M> {
    /// Reads a saved report.
    pub(crate) fn read(text: &str) -> Result<Self, DocumentError> {
        Ok(Self {
            report: serde_json::from_str(text)?,
            origin: serde_json::from_str(text)?,
            requested: serde_json::from_str(text)?,
        })
    }
}

impl<M: Measurement> Rendered for Recorded<M> {
    fn page(&self) -> Page {
        let (mut page, head) = (self.report.page(), self.origin.head());
        if head.conditions.is_some() {
            page.origin.push(("machine", head.machine()));
        }
        head.describe(&mut page);
        let percentiles = self.requested.percentiles.iter();
        let words: Vec<String> = percentiles.map(|percentile| percentile.words()).collect();
        if !words.is_empty() {
            page.section(Section::new("").note(format!("percentiles: {}", words.join(", "))));
        }
        page
    }

    fn table(&self) -> Table {
        let declared = |name: &str| M::METRICS.iter().any(|metric| metric.name == name);
        let percentiles = self.requested.percentiles.iter();
        let further = percentiles.filter(|percentile| !declared(&percentile.name()));
        further.fold(Rendered::table(&self.report), |table, percentile| {
            let cell = Cell::number(percentile.time_ns, Show::Nanoseconds);
            table.column(Column::right(&percentile.name()), &cell)
        })
    }

    fn figures(&self) -> Vec<(Figure, Option<f64>)> {
        Rendered::figures(&self.report)
    }

    fn figure(&self, name: &str) -> Option<f64> {
        self.report.figure(name)
    }
}
