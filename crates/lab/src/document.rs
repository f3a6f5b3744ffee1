//! What the documents of all experiments have in common: the head, how trials end, and the parts of a report that follow
//! from them.
//!
//! The rules of every document: changes only add, units stand in field names, raw trials are always kept, and what is
//! unknown is `null` with its reason beside it.

use crate::documents::conditions::{self, Severity};
use corelane_host::bed::{Bed as TestBed, BedKind};
use corelane_report::date;
use corelane_report::page::{Caveat, Page, Rendered, Section};
use corelane_report::table::{Column, Table};
use corelane_report::{diff, text};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};
use thiserror::Error;

/// The document of an experiment.
pub trait Document: Rendered + Serialize + DeserializeOwned {
    /// Whether documents of this schema are of this type.
    fn reads(schema: &str) -> bool;

    /// What all documents begin with.
    fn head(&self) -> &Head;

    /// The same, to be changed.
    fn head_mut(&mut self) -> &mut Head;

    /// The document as indented JSON, ending in a newline.
    ///
    /// # Errors
    /// None that a document can cause: serde's own are passed on.
    fn to_json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Reads a document.
    ///
    /// # Errors
    /// When the text is not JSON, is of another schema, or lacks a field.
    fn from_json(text: &str) -> Result<Self, DocumentError> {
        let document: Value = serde_json::from_str(text)?;
        // The schema is judged before the fields, so that another kind of document is called what it is.
        let found = document.get("schema").and_then(Value::as_str).unwrap_or_default();
        if !Self::reads(found) {
            return Err(DocumentError::Schema(found.to_owned()));
        }
        let mut document: Self = serde_json::from_value(document)?;
        document.upgrade();
        Ok(document)
    }

    /// Fills in what an earlier version did not write, as far as the raw trials have it.
    fn upgrade(&mut self) {}
}

/// Why text is no document that can be read.
#[derive(Debug, Error)]
pub enum DocumentError {
    /// The text is not JSON, or a field is missing or of another type.
    #[error("not a readable report: {0}; give a file that `corelane lab … --json FILE` wrote")]
    Json(#[from] serde_json::Error),
    /// The document is of another kind or of a later, incompatible version.
    #[error("a document of schema `{0}` cannot be read here: use the version of corelane that wrote it")]
    Schema(String),
}

/// What every document begins with. Fields that an older version did not write are empty.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// Name and version of the kind of document.
    pub schema: String,
    /// What wrote it.
    #[serde(default)]
    pub tool: Tool,
    /// When the run began, in seconds since 1970-01-01 00:00 UTC.
    #[serde(default)]
    pub started_unix_s: Option<u64>,
    /// The arguments that repeat the run, the program first.
    #[serde(default)]
    pub command_line: Vec<String>,
    /// Where traffic ran; `None` where none did.
    #[serde(default)]
    pub bed: Option<Bed>,
    /// The host's snapshot of what may spoil or explain the result, as that room writes it.
    #[serde(default)]
    pub conditions: Value,
    /// Whether the run was ended before its plan.
    #[serde(default)]
    pub interrupted: bool,
}

/// The program that wrote a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Its version; empty where an older version did not write it.
    pub version: String,
}

impl Default for Tool {
    fn default() -> Self {
        Self {
            name: "corelane".to_owned(),
            version: String::new(),
        }
    }
}

/// The test bed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bed {
    /// `namespaces`, `user_namespace` or `loopback`.
    pub kind: String,
    /// The bed in one line.
    pub describe: String,
    /// Why no better kind could be had; `None` when there is no better one.
    pub reason: Option<String>,
}

impl From<&TestBed> for Bed {
    fn from(bed: &TestBed) -> Self {
        let kind = match bed.kind() {
            BedKind::Namespaces => "namespaces",
            BedKind::UserNamespace => "user_namespace",
            BedKind::Loopback => "loopback",
        };
        Self {
            kind: kind.to_owned(),
            describe: bed.describe(),
            reason: bed.reason().map(str::to_owned),
        }
    }
}

/// How a trial ended, and so whether its numbers may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialStatus {
    /// They are a result.
    Valid,
    /// The generator was the limit: kept, and never averaged.
    GeneratorLimited,
    /// Another machine on the same hardware took the CPUs for too long: kept, and never averaged.
    Spoilt,
    /// The run was ended during the trial.
    Interrupted,
    /// Something failed.
    Failed,
}

/// How one CPU spent its time, in shares of 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CpuShare {
    /// The CPU.
    pub cpu: u32,
    /// Doing nothing.
    pub idle_share: Option<f64>,
    /// In the kernel's receive and transmit path.
    pub softirq_share: Option<f64>,
}

/// Conditions that merely explain and are named before the rest is counted.
const MOST_EXPLAINING: usize = 8;

impl Head {
    /// The head of a run that begins now.
    #[must_use]
    pub fn new(schema: &str, run: &RunFacts, bed: Option<&TestBed>) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            schema: schema.to_owned(),
            tool: Tool {
                version: run.version.clone(),
                ..Tool::default()
            },
            started_unix_s: Some(since.map_or(0, |since| since.as_secs())),
            command_line: run.command_line.clone(),
            bed: bed.map(Bed::from),
            conditions: run.conditions.clone(),
            interrupted: false,
        }
    }

    /// The command line as one would type it into a shell.
    #[must_use]
    pub fn command(&self) -> String {
        text::command(&self.command_line)
    }

    /// A page with what every report begins and ends with: who measured what on what, the conditions, and how to repeat it.
    #[must_use]
    pub fn page(&self, subject: &str) -> Page {
        let tool = format!("{} {}", self.tool.name, self.tool.version)
            .trim()
            .to_owned();
        let mut page = Page {
            subject: subject.to_owned(),
            written_by: (tool.clone(), self.started_unix_s),
            command: self.command(),
            caveats: self.caveats(),
            ..Page::default()
        };
        let bed = self.bed.as_ref().map(|bed| {
            let reason = bed
                .reason
                .as_ref()
                .map(|reason| format!("; no better bed: {reason}"));
            format!("{} ({}){}", bed.describe, bed.kind, reason.unwrap_or_default())
        });
        let origin = [
            ("tool", tool),
            ("machine", conditions::machine(&self.conditions)),
            ("bed", bed.unwrap_or_default()),
            ("command", self.command()),
        ];
        page.origin
            .extend(origin.into_iter().filter(|(_, value)| !value.is_empty()));
        page.section(self.conditions_section());
        page
    }

    /// The conditions that spoil the result.
    fn caveats(&self) -> Vec<Caveat> {
        let spoiling = conditions::worst_first(&self.conditions)
            .into_iter()
            .filter(|condition| condition.severity == Severity::Spoils);
        let caveat = |condition: conditions::Condition| {
            let mend = condition.mend.map(|mend| format!(" Fix: {mend}"));
            Caveat {
                about: format!("{} = {}", condition.name, condition.value.unwrap_or_default()),
                sentence: format!(
                    "{}.{}",
                    condition.why.trim_end_matches('.'),
                    mend.unwrap_or_default()
                ),
            }
        };
        spoiling.map(caveat).collect()
    }

    /// The conditions of the run, worst first: those that spoil it with what would fix them, the rest by name.
    fn conditions_section(&self) -> Section {
        let all = conditions::worst_first(&self.conditions);
        let of = |severity: Severity| all.iter().filter(move |condition| condition.severity == severity);
        let mut section = Section::new("conditions, worst first");
        for condition in of(Severity::Spoils) {
            let value = condition.value.as_deref().unwrap_or("-");
            let mend = condition.mend.as_ref().map(|mend| format!(". Fix: {mend}"));
            let line = format!(
                "{} = {value}: {}{}",
                condition.name,
                condition.why,
                mend.unwrap_or_default()
            );
            section = section.text_note("  spoils    ", line);
        }
        let unknown: Vec<&str> = of(Severity::Unknown)
            .map(|condition| condition.name.as_str())
            .collect();
        if !unknown.is_empty() {
            section = section.text_note("  unknown   ", unknown.join(", "));
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
            section = section.text_note("  explains  ", line);
        }
        let fine = of(Severity::Fine).count();
        if fine > 0 {
            section = section.text_note("  fine      ", fine.to_string());
        }
        section.page_table(conditions_table(&all))
    }

    /// The part of a comparison that all experiments share: where the run came from, and what its numbers depend on.
    #[must_use]
    pub fn compared(&self) -> diff::Run {
        let facts = conditions::worst_first(&self.conditions).into_iter();
        let value = |value: Option<String>| value.unwrap_or_else(|| "unknown".to_owned());
        let mut facts: BTreeMap<String, String> = facts
            .map(|condition| (condition.name, value(condition.value)))
            .collect();
        facts.insert("machine".to_owned(), conditions::machine(&self.conditions));
        facts.extend(self.bed.as_ref().map(|bed| ("bed".to_owned(), bed.kind.clone())));
        let origin = [
            self.started_unix_s.map(date::utc).unwrap_or_default(),
            format!("{} {}", self.tool.name, self.tool.version),
            conditions::machine(&self.conditions),
            self.command(),
        ];
        let origin: Vec<String> = origin.into_iter().filter(|part| !part.is_empty()).collect();
        diff::Run {
            origin: origin.join("; "),
            facts,
            ..diff::Run::default()
        }
    }
}

fn conditions_table(all: &[conditions::Condition]) -> Table {
    let mut table = Table::new(
        ["", "condition", "value", "why it matters", "source"]
            .into_iter()
            .map(Column::left)
            .collect(),
    );
    for condition in all {
        let mend = condition.mend.as_ref().map(|mend| format!(" Fix: {mend}"));
        let why = match condition.why.trim_end_matches('.') {
            "" => mend.unwrap_or_default(),
            why => format!("{why}.{}", mend.unwrap_or_default()),
        };
        table.row([
            condition.severity.word().to_owned(),
            condition.name.clone(),
            condition.value.clone().unwrap_or_default(),
            why,
            condition.source.clone(),
        ]);
    }
    table
}

/// What is known of a run before it begins, for its document.
#[derive(Debug, Clone, Default)]
pub struct RunFacts {
    /// This program's version.
    pub version: String,
    /// The command line that repeats the run.
    pub command_line: Vec<String>,
    /// What may spoil or explain the result.
    pub conditions: Value,
}

/// A plan or a report of a child as part of a document.
pub(crate) fn as_json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_else(|error| json!({ "unknown_because": error.to_string() }))
}
