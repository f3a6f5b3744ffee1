//! Saved documents of any kind, to be shown again or compared.

use crate::classify::ClassifyReport;
use crate::document::{Document, DocumentError, Head, Tool};
use crate::engines::EnginesReport;
use crate::nic::NicReport;
use crate::rebalance::Rebalancing;
use crate::scale::datagrams::ScaleReport;
use crate::scale::streams::StreamsReport;
use crate::simulate::SimulateReport;
use corelane_load::http::HttpLoadReport;
use corelane_load::tcp::TcpLoadReport;
use corelane_load::udp::UdpLoadReport;
use corelane_report::gate::Figure;
use corelane_report::measurement::Measurement;
use corelane_report::page::{Page, Rendered};
use corelane_report::table::Table;
use corelane_report::text;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Reads a document of whichever kind.
///
/// # Errors
/// When it is none that can be read here.
pub fn read(text: &str) -> Result<Box<dyn Rendered>, DocumentError> {
    let document: Value = serde_json::from_str(text)?;
    let schema = document.get("schema").and_then(Value::as_str).unwrap_or_default();
    let kinds = [
        kind::<ScaleReport>,
        kind::<StreamsReport>,
        kind::<ClassifyReport>,
        kind::<SimulateReport>,
        kind::<EnginesReport>,
        kind::<Rebalancing>,
        kind::<NicReport>,
    ];
    let known = kinds.iter().find_map(|kind| kind(schema, text));
    let load = || match schema {
        HttpLoadReport::SCHEMA => Some(load_report::<HttpLoadReport>(text)),
        TcpLoadReport::SCHEMA => Some(load_report::<TcpLoadReport>(text)),
        UdpLoadReport::SCHEMA => Some(load_report::<UdpLoadReport>(text)),
        _ => None,
    };
    known
        .or_else(load)
        .unwrap_or_else(|| Err(DocumentError::Schema(schema.to_owned())))
}

type Read = Result<Box<dyn Rendered>, DocumentError>;

fn kind<D: Document + 'static>(schema: &str, text: &str) -> Option<Read> {
    D::SCHEMAS
        .contains(&schema)
        .then(|| Ok(Box::new(D::from_json(text)?) as Box<dyn Rendered>))
}

/// The report of a generator with its origin, so that its saved document gives the same page.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Recorded<M> {
    /// The report.
    #[serde(flatten)]
    pub report: M,
    #[serde(flatten)]
    origin: Origin,
}

/// Where a document comes from; empty in documents of earlier versions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Origin {
    tool: Tool,
    started_unix_s: Option<u64>,
    command_line: Vec<String>,
}

/// Reads the report of a generator.
fn load_report<M: Measurement + DeserializeOwned>(text: &str) -> Read {
    Ok(Box::new(Recorded {
        report: serde_json::from_str::<M>(text)?,
        origin: serde_json::from_str(text)?,
    }))
}

impl<M> Recorded<M> {
    /// A report of the run that `head` describes.
    #[must_use]
    pub fn new(report: M, head: Head) -> Self {
        let origin = Origin {
            tool: head.tool,
            started_unix_s: head.started_unix_s,
            command_line: head.command_line,
        };
        Self { report, origin }
    }
}

impl<M: Measurement> Rendered for Recorded<M> {
    fn page(&self) -> Page {
        let Tool { name, version } = &self.origin.tool;
        Page {
            written_by: (
                format!("{name} {version}").trim().to_owned(),
                self.origin.started_unix_s,
            ),
            command: text::command(&self.origin.command_line),
            ..self.report.page()
        }
    }

    fn table(&self) -> Table {
        Rendered::table(&self.report)
    }

    fn figures(&self) -> Vec<(Figure, Option<f64>)> {
        Rendered::figures(&self.report)
    }
}
