//! What the documents of all experiments share: the head, and the report sections derived from it and from the
//! status of trials.
//!
//! The rules of every document: changes only add, units stand in field names, raw trials are always kept, and what is
//! unknown is `null` with its reason beside it.

use crate::trial::{SPOILT, TrialHead, TrialStatus, limited};
use corelane_host::bed::Bed as TestBed;
use corelane_host::conditions::{Condition, Severity, Snapshot};
use corelane_report::date;
use corelane_report::page::{Caveat, Page, Rendered, Section};
use corelane_report::table::{Column, Table};
use corelane_report::{diff, json, text};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};
use thiserror::Error;

/// The document of an experiment; implemented by `document!`.
pub trait Document: Rendered + Serialize + DeserializeOwned {
    /// The schemas of such documents.
    const SCHEMAS: &'static [&'static str];

    /// What all documents begin with.
    fn head(&self) -> &Head;

    /// The same, to be changed.
    fn head_mut(&mut self) -> &mut Head;

    /// The document as indented JSON, ending in a newline.
    ///
    /// # Errors
    /// Any error of serde; a valid document causes none.
    fn to_json(&self) -> serde_json::Result<String> {
        json::pretty(self)
    }

    /// Reads a document.
    ///
    /// # Errors
    /// When the text is not JSON, is of another schema, or lacks a field.
    fn from_json(text: &str) -> Result<Self, DocumentError> {
        let document: Value = serde_json::from_str(text)?;
        // Check the schema before the fields: a document of another kind then gets a schema error.
        let found = document.get("schema").and_then(Value::as_str).unwrap_or_default();
        if !Self::SCHEMAS.contains(&found) {
            return Err(DocumentError::Schema(found.to_owned()));
        }
        let mut document: Self = serde_json::from_value(document)?;
        document.upgrade();
        Ok(document)
    }

    /// Fills in fields that an earlier version did not write, if the raw trials contain them.
    fn upgrade(&mut self) {}
}

/// Makes a type with a field `head` the document of these schemas; `upgrade` names the method that fills in what an
/// earlier version did not write.
macro_rules! document {
    ($report:ty, $schemas:expr $(, upgrade: $upgrade:ident)?) => {
        impl $crate::document::Document for $report {
            const SCHEMAS: &'static [&'static str] = &$schemas;

            fn head(&self) -> &$crate::document::Head {
                &self.head
            }

            fn head_mut(&mut self) -> &mut $crate::document::Head {
                &mut self.head
            }

            $(fn upgrade(&mut self) {
                self.$upgrade();
            })?
        }
    };
}
pub(crate) use document;

/// Why a document cannot be read.
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
#[serde(default)]
pub struct Head {
    /// Name and version of the kind of document.
    pub schema: String,
    /// What wrote it.
    pub tool: Tool,
    /// When the run began, in seconds since 1970-01-01 00:00 UTC.
    pub started_unix_s: Option<u64>,
    /// The command line that repeats the run, including the program name.
    pub command_line: Vec<String>,
    /// The test bed; `None` if no traffic was sent.
    pub bed: Option<Bed>,
    /// Host conditions that may spoil or explain the result; `None` if the result does not depend on the machine.
    pub conditions: Option<Snapshot>,
    /// Whether the run was interrupted.
    pub interrupted: bool,
    /// Trials that failed, without those that an interrupt cut.
    pub failed_trials: usize,
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

impl Tool {
    /// Its name and version.
    #[must_use]
    pub fn words(&self) -> String {
        format!("{} {}", self.name, self.version).trim().to_owned()
    }
}

/// The test bed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bed {
    /// `namespaces`, `user_namespace` or `loopback`.
    pub kind: String,
    /// The bed in one line.
    pub describe: String,
    /// Why no better kind is available; `None` if this is the best.
    pub reason: Option<String>,
}

impl From<&TestBed> for Bed {
    fn from(bed: &TestBed) -> Self {
        Self {
            kind: bed.kind().to_string(),
            describe: bed.describe(),
            reason: bed.reason().map(str::to_owned),
        }
    }
}

/// Trials that are not results, and why.
const SET_ASIDE: [(TrialStatus, &str); 2] = [
    (TrialStatus::GeneratorLimited, "the generator was the limit"),
    (TrialStatus::Spoilt, SPOILT),
];

/// The trials that are not results, as paragraphs of the text and caveats of the page.
pub(crate) fn set_aside<'a>(
    head: &Head,
    trials: impl IntoIterator<Item = &'a TrialHead>,
    page: &mut Page,
) -> Section {
    let trials: Vec<&TrialHead> = trials.into_iter().collect();
    let all = trials.len();
    let mut section = Section::new("");
    let mut caveat = |sentence: String| page.caveats.push(Caveat::from(sentence).spoiling());
    let ended = |status| trials.iter().filter(move |head| head.status == status);
    for (status, why) in SET_ASIDE {
        let marked = ended(status).count();
        if marked > 0 {
            let most = format!("In {marked} of {all} trials {why}");
            caveat(format!("{most}; none of them enters a number."));
            let kept = "they are kept among the raw trials, marked, and enter no median.";
            section = section.text_note("", format!("{most}: {kept}"));
        }
    }
    let mut failed: BTreeMap<&str, usize> = BTreeMap::new();
    for head in ended(TrialStatus::Failed) {
        let reason = head.why.as_deref().unwrap_or("for no reason that is known");
        *failed.entry(reason).or_default() += 1;
    }
    if !failed.is_empty() {
        let times: usize = failed.values().sum();
        caveat(format!(
            "In {times} of {all} trials something failed; none of them enters a number."
        ));
    }
    for (reason, times) in failed {
        section = section.text_note("", format!("{times} of {all} trials failed: {reason}"));
    }
    let lossy: Vec<_> = ended(TrialStatus::Valid)
        .filter_map(|head| head.lost.first())
        .collect();
    if let Some(first) = lossy.first() {
        let times = lossy.len();
        let line = format!("In {times} of {all} trials, which count, a server was lost for a time: {first}.");
        section = section.text_note("", &line);
        caveat(line);
    }
    if head.interrupted {
        let line = "The run was ended early: what follows rests on the trials that were complete.";
        section = section.text_note("", line);
        caveat("The run was ended early; the numbers rest on the trials that were complete.".to_owned());
    }
    section
}

/// Explanatory conditions that are listed by name; the others are only counted.
const MOST_EXPLAINING: usize = 8;

impl Head {
    /// The head of a run that starts now; this one has what was known of it before: tool, command line and conditions.
    #[must_use]
    pub fn begun(&self, schema: &str, bed: Option<Bed>) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            schema: schema.to_owned(),
            started_unix_s: Some(since.map_or(0, |since| since.as_secs())),
            bed,
            ..self.clone()
        }
    }

    /// The command line as one would type it into a shell.
    #[must_use]
    pub fn command(&self) -> String {
        text::command(&self.command_line)
    }

    /// Creates a page with the parts common to all reports: the tool, the machine, the conditions and the command line.
    #[must_use]
    pub fn page(&self, subject: &str) -> Page {
        let mut page = Page {
            subject: subject.to_owned(),
            ..Page::default()
        };
        let bed = self.bed.as_ref().map(|bed| {
            let reason = bed.reason.as_ref();
            let reason = reason.map(|reason| format!("; no better bed: {reason}"));
            format!("{} ({}){}", bed.describe, bed.kind, reason.unwrap_or_default())
        });
        let origin = [
            ("tool", self.tool.words()),
            ("machine", self.machine()),
            ("bed", bed.unwrap_or_default()),
            ("command", self.command()),
        ];
        let known = origin.into_iter().filter(|(_, value)| !value.is_empty());
        page.origin.extend(known);
        self.describe(&mut page);
        page
    }

    /// Adds what wrote a document, the command line, and the conditions.
    pub(crate) fn describe(&self, page: &mut Page) {
        page.written_by = (self.tool.words(), self.started_unix_s);
        page.command = self.command();
        self.add_conditions(page);
    }

    /// Adds the conditions: those that spoil the result come first.
    pub(crate) fn add_conditions(&self, page: &mut Page) {
        page.caveats.splice(0..0, self.caveats());
        page.sections.insert(0, self.conditions_section());
    }

    /// [`Self::page`] with the trials that are not results, and with the plan.
    pub(crate) fn page_of<'a>(
        &self,
        subject: &str,
        plan: &impl Serialize,
        trials: impl IntoIterator<Item = &'a TrialHead>,
    ) -> Page {
        let mut page = self.page(subject);
        let trials: Vec<&TrialHead> = trials.into_iter().collect();
        let set_aside = set_aside(self, trials.iter().copied(), &mut page);
        let limited = limited(&trials);
        let caveat = limited.iter().cloned().map(Caveat::from);
        page.caveats.extend(caveat.map(Caveat::spoiling));
        page.section(
            limited
                .iter()
                .fold(set_aside, |section, line| section.text_note("", line)),
        );
        // A value that came from JSON always goes back to it.
        let plan = json::pretty(plan).unwrap_or_default();
        page.documents = vec![("Plan", plan)];
        page
    }

    /// The machine in one line: CPU model, CPUs, kernel, virtualisation; unknown parts are omitted.
    pub(crate) fn machine(&self) -> String {
        let Some(machine) = &self.conditions else {
            return String::new();
        };
        let count = |cpus: &Option<Vec<u32>>| cpus.as_ref().map(Vec::len);
        let cpus = count(&machine.cpus_online).map(|online| match count(&machine.cpus_allowed) {
            Some(allowed) if allowed != online => format!("{allowed} of {online} CPUs allowed"),
            _ if online == 1 => "1 CPU".to_owned(),
            _ => format!("{online} CPUs"),
        });
        let kernel = machine.kernel.as_ref();
        let kernel = kernel.map(|kernel| format!("kernel {}", kernel.trim_start_matches("Linux ")));
        let virtualisation = machine.virtualisation.as_ref().filter(|kind| *kind != "none");
        let virtualisation = virtualisation.map(|kind| format!("virtualisation: {kind}"));
        let parts = [machine.cpu_model.clone(), cpus, kernel, virtualisation];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// The conditions of one standing.
    fn standing_as(&self, wanted: &'static str) -> impl Iterator<Item = &Condition> {
        let all = self.conditions.iter().flat_map(|snapshot| &snapshot.conditions);
        all.filter(move |condition| standing(condition) == wanted)
    }

    /// The conditions that spoil the result.
    fn caveats(&self) -> Vec<Caveat> {
        let caveat = |condition| Caveat {
            about: reading(condition),
            sentence: reason(condition),
            spoils: true,
        };
        self.standing_as("spoils").map(caveat).collect()
    }

    /// The conditions of the run, worst first: spoiling conditions with their fixes, the rest by name.
    fn conditions_section(&self) -> Section {
        let mut section = Section::new("conditions, worst first").last_on_page();
        for condition in self.standing_as("spoils") {
            let reason = reason(condition);
            let line = format!("{}: {}", reading(condition), reason.trim_end_matches('.'));
            section = section.text_note("  spoils    ", line);
        }
        let name = |condition: &'_ Condition| condition.name.clone();
        let unknown: Vec<String> = self.standing_as("unknown").map(name).collect();
        let mut explaining: Vec<String> = self.standing_as("explains").map(reading).collect();
        let more = explaining.len().saturating_sub(MOST_EXPLAINING);
        if more > 0 {
            explaining.truncate(MOST_EXPLAINING);
            explaining.push(format!("and {more} more"));
        }
        let fine = match self.standing_as("fine").count() {
            0 => String::new(),
            fine => fine.to_string(),
        };
        for (label, line) in [
            ("  unknown   ", unknown.join(", ")),
            ("  explains  ", explaining.join("; ")),
            ("  fine      ", fine),
        ] {
            section = section.text_note(label, line);
        }
        let section = section.page_table(self.conditions_table(&STANDINGS[..1]));
        STANDINGS[1..].iter().fold(section, |section, standing| {
            let count = self.standing_as(standing).count();
            let summary = format!("{}: {count}", text::sentence_case(standing));
            section.page_folded(summary, self.conditions_table(&[standing]))
        })
    }

    fn conditions_table(&self, standings: &[&'static str]) -> Table {
        let columns = ["", "condition", "value", "why it matters", "source"].map(Column::left);
        let mut table = Table::new(columns.into());
        for standing in standings {
            for condition in self.standing_as(standing) {
                table.row([
                    (*standing).to_owned(),
                    condition.name.clone(),
                    condition.value.clone().unwrap_or_default(),
                    reason(condition),
                    condition.source.clone(),
                ]);
            }
        }
        table
    }

    /// The part of a comparison that all experiments share: the origin of the run and its conditions.
    #[must_use]
    pub fn compared(&self) -> diff::Run {
        let conditions = self.conditions.iter().flat_map(|snapshot| &snapshot.conditions);
        let fact = |condition: &Condition| {
            let value = condition.value.as_deref().unwrap_or("unknown");
            (condition.name.clone(), value.to_owned())
        };
        let mut facts: BTreeMap<String, String> = conditions.map(fact).collect();
        facts.insert("machine".to_owned(), self.machine());
        facts.extend(self.bed.as_ref().map(|bed| ("bed".to_owned(), bed.kind.clone())));
        let origin = [
            self.started_unix_s.map(date::utc).unwrap_or_default(),
            self.tool.words(),
            self.machine(),
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

/// Severities of conditions, worst first; the severity of an unreadable condition is unknown, and says least.
const STANDINGS: [&str; 4] = ["spoils", "explains", "fine", "unknown"];

fn standing(condition: &Condition) -> &'static str {
    match condition.severity {
        _ if condition.value.is_none() => "unknown",
        Severity::Spoils => "spoils",
        Severity::Explains => "explains",
        Severity::Fine => "fine",
    }
}

fn reading(condition: &Condition) -> String {
    let value = condition.value.as_deref().unwrap_or_default();
    format!("{} = {value}", condition.name)
}

/// Why a condition matters or is unknown, and how to fix it.
fn reason(condition: &Condition) -> String {
    let unknown_because = condition.unknown_because.as_ref();
    let why = unknown_because.filter(|_| condition.value.is_none());
    let why = why.unwrap_or(&condition.why).trim_end_matches('.');
    let fix = condition.fix.as_ref().map(|fix| format!("Fix: {fix}"));
    let why = Some(why)
        .filter(|why| !why.is_empty())
        .map(|why| format!("{why}."));
    why.into_iter().chain(fix).collect::<Vec<_>>().join(" ")
}

/// A plan or a report of a child as part of a document.
pub(crate) fn as_json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_else(|error| json!({ "unknown_because": error.to_string() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(snapshot: Value) -> Head {
        Head {
            conditions: serde_json::from_value(snapshot).unwrap(),
            ..Head::default()
        }
    }

    #[test]
    fn the_worst_condition_comes_first() {
        let head = head(json!({ "conditions": [
            { "name": "governor", "value": "performance", "severity": "fine", "why": "w", "source": "s" },
            { "name": "pause", "value": null, "severity": "explains", "why": "w", "source": "s",
              "unknown_because": "veth has none" },
            { "name": "smt", "value": "on", "severity": "explains", "why": "w" },
            { "name": "turbo", "value": "on", "severity": "spoils", "why": "clock moves", "mend": "off", "source": "s" },
        ]}));
        let table = head.conditions_table(&STANDINGS).to_csv();
        let lines: Vec<&str> = table.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "spoils,turbo,on,clock moves. Fix: off,s",
                "explains,smt,on,w.,",
                "fine,governor,performance,w.,s",
                "unknown,pause,,veth has none.,s"
            ]
        );
    }

    #[test]
    fn the_machine_is_one_line() {
        let head = head(json!({
            "kernel": "Linux 6.18.44", "cpu_model": "Some CPU", "cpus_online": [0, 1, 2, 3], "cpus_allowed": [0, 1],
            "virtualisation": null,
        }));
        assert_eq!(head.machine(), "Some CPU, 2 of 4 CPUs allowed, kernel 6.18.44");
        assert_eq!(Head::default().machine(), "");
    }
}
