//! Saved documents of any kind, to be shown again or compared.

use crate::classify::ClassifyReport;
use crate::document::{Document, DocumentError};
use crate::engines::EnginesReport;
use crate::nic::NicReport;
use crate::rebalance::Rebalancing;
use crate::scale::ScaleReport;
use crate::simulate::SimulateReport;
use crate::streams::StreamsReport;
use corelane_report::page::Rendered;
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
    known.unwrap_or_else(|| Err(DocumentError::Schema(schema.to_owned())))
}

type Read = Result<Box<dyn Rendered>, DocumentError>;

fn kind<D: Document + 'static>(schema: &str, text: &str) -> Option<Read> {
    D::SCHEMAS
        .contains(&schema)
        .then(|| Ok(Box::new(D::from_json(text)?) as Box<dyn Rendered>))
}
