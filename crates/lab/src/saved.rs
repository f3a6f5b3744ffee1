//! The report of a generator with its origin, as it is saved.

use crate::document::{DocumentError, Head, Tool};
use corelane_host::conditions::Snapshot;
use corelane_report::gate::Figure;
use corelane_report::measurement::Measurement;
use corelane_report::page::{Page, Rendered};
use corelane_report::table::Table;
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
        Self { report, origin }
    }
}

impl<M: DeserializeOwned> Recorded<M> {
    /// Reads a saved report.
    pub(crate) fn read(text: &str) -> Result<Self, DocumentError> {
        Ok(Self {
            report: serde_json::from_str(text)?,
            origin: serde_json::from_str(text)?,
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
        page
    }

    fn table(&self) -> Table {
        Rendered::table(&self.report)
    }

    fn figures(&self) -> Vec<(Figure, Option<f64>)> {
        Rendered::figures(&self.report)
    }
}
