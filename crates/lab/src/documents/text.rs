//! What reports in text share: the heading, the conditions worst first. 100 columns.

use crate::document::Bed;
use crate::document::Tool;
use crate::documents::conditions::{self, Severity};
use corelane_measure::quantity;
use corelane_report::text::paragraph;
use serde_json::Value;
use std::fmt::Write as _;

/// How many conditions that merely explain are named before the rest is counted.
const MOST_EXPLAINING: usize = 8;

/// Who measured, on what, where, and how to repeat it.
pub(crate) struct Heading<'a> {
    pub(crate) tool: &'a Tool,
    /// The host's snapshot.
    pub(crate) conditions: &'a Value,
    /// None where nothing was sent.
    pub(crate) bed: Option<&'a Bed>,
    pub(crate) command: String,
}

/// One line an entry.
pub(crate) fn heading(of: &Heading<'_>) -> String {
    let mut text = String::new();
    let mut entry = |name: &str, value: &str| {
        if !value.is_empty() {
            paragraph(&mut text, &format!("{name:<9}"), value);
        }
    };
    entry("tool", &format!("{} {}", of.tool.name, of.tool.version));
    entry("machine", &conditions::machine(of.conditions));
    if let Some(bed) = of.bed {
        let reason = bed
            .reason
            .as_ref()
            .map(|reason| format!("; no better bed: {reason}"));
        let reason = reason.unwrap_or_default();
        entry("bed", &format!("{} ({}){reason}", bed.describe, bed.kind));
    }
    entry("command", &of.command);
    text
}

/// The conditions of the run, worst first: those that spoil it with what would mend them, the rest by name.
pub(crate) fn conditions_section(snapshot: &Value) -> String {
    let all = conditions::worst_first(snapshot);
    if all.is_empty() {
        return String::new();
    }
    let mut text = String::from("conditions, worst first\n");
    let of = |severity: Severity| all.iter().filter(move |condition| condition.severity == severity);
    for condition in of(Severity::Spoils) {
        let value = condition.value.as_deref().unwrap_or(quantity::MISSING);
        let mend = condition.mend.as_ref().map(|mend| format!(". Mend: {mend}"));
        let line = format!(
            "{} = {value}: {}{}",
            condition.name,
            condition.why,
            mend.unwrap_or_default()
        );
        paragraph(&mut text, "  spoils    ", &line);
    }
    let unknown: Vec<&str> = of(Severity::Unknown)
        .map(|condition| condition.name.as_str())
        .collect();
    if !unknown.is_empty() {
        paragraph(&mut text, "  unknown   ", &unknown.join(", "));
    }
    let explaining: Vec<String> = of(Severity::Explains)
        .map(|condition| {
            format!(
                "{} = {}",
                condition.name,
                condition.value.as_deref().unwrap_or_default()
            )
        })
        .collect();
    if !explaining.is_empty() {
        let more = explaining.len().saturating_sub(MOST_EXPLAINING);
        let mut line = explaining[..explaining.len() - more].join("; ");
        if more > 0 {
            let _ = write!(line, "; and {more} more");
        }
        paragraph(&mut text, "  explains  ", &line);
    }
    let fine = of(Severity::Fine).count();
    if fine > 0 {
        let _ = writeln!(text, "  fine      {fine}");
    }
    text
}
