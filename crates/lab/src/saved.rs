//! The report of a generator with its origin, as it is saved, and its timeline with the conditions of the run.

use crate::document::{DocumentError, Head, Tool, as_json};
use corelane_host::conditions::Snapshot;
use corelane_load::LoadReport;
use corelane_load::timeline::Timeline;
use corelane_measure::metric::Show;
use corelane_measure::quantity::or_missing;
use corelane_report::diff::{self, Fields, Run, Samples, Step};
use corelane_report::gate::Figure;
use corelane_report::measurement::Measurement;
use corelane_report::page::{Page, Rendered, Section};
use corelane_report::table::{Cell, Column, Table};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeSet;

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
    #[serde(flatten)]
    planned: Planned,
}

/// The plan that ran.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Planned {
    /// `None` if the report has it, and in documents of earlier versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<Value>,
}

impl Planned {
    fn of(report: &impl Serialize, plan: Option<Value>) -> Self {
        let is_there = as_json(report).get("plan").is_some();
        Self {
            plan: plan.filter(|_| !is_there),
        }
    }
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
pub(crate) struct Origin {
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

impl<M: Serialize> Recorded<M> {
    /// A report of the run of this plan that `head` describes.
    #[must_use]
    pub fn new(report: M, head: Head, plan: Value) -> Self {
        let origin = Origin {
            tool: head.tool,
            started_unix_s: head.started_unix_s,
            command_line: head.command_line,
            conditions: head.conditions,
        };
        Self {
            planned: Planned::of(&report, Some(plan)),
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

impl<M: Serialize + DeserializeOwned> Recorded<M> {
    /// Reads a saved report.
    pub(crate) fn read(text: &str) -> Result<Self, DocumentError> {
        let report: M = serde_json::from_str(text)?;
        let Planned { plan } = serde_json::from_str(text)?;
        Ok(Self {
            planned: Planned::of(&report, plan),
            report,
            origin: serde_json::from_str(text)?,
            requested: serde_json::from_str(text)?,
        })
    }
}

/// Adds the machine, if it is known.
fn add_machine(head: &Head, page: &mut Page) {
    let known = head.conditions.is_some();
    page.origin.extend(known.then(|| ("machine", head.machine())));
}

/// A timeline that is shown with the conditions of its generators.
#[derive(Debug)]
pub struct RecordedTimeline(pub Timeline);

impl Rendered for RecordedTimeline {
    fn page(&self) -> Page {
        let mut page = self.0.page();
        let heads = self.0.header.generators.iter().map(|generator| Head {
            conditions: generator.conditions.clone(),
            ..Head::default()
        });
        let heads: Vec<Head> = heads.collect();
        heads.iter().for_each(|head| add_machine(head, &mut page));
        // Each puts its conditions first.
        heads.iter().rev().for_each(|head| head.add_conditions(&mut page));
        page
    }

    fn table(&self) -> Table {
        self.0.table()
    }
}

/// What was requested of a run: its plan, of whose workers the CPUs, the sockets and their addresses.
fn asked(plan: &Value) -> Fields {
    const RESOLVED: [&str; 4] = [
        "notes",
        "steering.forward.generation",
        "steering.reply.steering.generation",
        "workers",
    ];
    let mut fields = diff::fields_without(plan, &RESOLVED);
    let workers = list(&plan["workers"]);
    if !workers.is_empty() {
        let leases: Vec<&Value> = workers.iter().flat_map(leases).collect();
        let cpus: Vec<&Value> = workers.iter().map(|worker| &worker["cpu"]).collect();
        let sources: BTreeSet<&str> = leases
            .iter()
            .filter_map(|lease| lease["address"].as_str())
            .collect();
        fields.extend(diff::fields(&json!({ "cpus": cpus, "sources": sources })));
        // Pools have the number of their connections.
        if plan.get("pools").is_none() {
            let sockets = leases.iter().filter_map(|lease| lease["connections"].as_u64());
            let sockets = sockets.fold(0, u64::saturating_add);
            fields.insert("connections".to_owned(), sockets.to_string());
        }
    }
    fields
}

/// The sources of a worker: of each pool, or to each address of the server.
fn leases(worker: &Value) -> impl Iterator<Item = &Value> {
    let shares = list(&worker["shares"]).iter().map(|share| &share["leases"]);
    let others = list(&worker["others"]).iter();
    shares.chain(others).chain([&worker["leases"]]).flat_map(list)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// What of a report is no figure, and may explain a difference.
const FACTS: [&str; 4] = ["engine", "limited_by", "failed_because", "interrupted"];

impl<M: LoadReport> Rendered for Recorded<M> {
    fn page(&self) -> Page {
        let (mut page, head) = (self.report.page(), self.origin.head());
        add_machine(&head, &mut page);
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

    fn compared(&self) -> Option<Run> {
        let (document, head) = (as_json(self), self.origin.head());
        let mut run = head.compared();
        run.asked = match document.get("plan") {
            Some(plan) => asked(plan),
            None => Fields::from([("command".to_owned(), head.command())]),
        };
        let facts = FACTS
            .iter()
            .filter_map(|name| Some((*name, document.get(*name)?.clone())));
        run.facts.extend(diff::fields(&facts.collect::<Value>()));
        run.steps = vec![Step {
            numbers: self.report.numbers(),
            ..Step::default()
        }];
        run.samples = Samples::Parts;
        Some(run)
    }

    fn figures(&self) -> Vec<(Figure, Option<f64>)> {
        Rendered::figures(&self.report)
    }

    fn figure(&self, name: &str) -> Option<f64> {
        self.report.figure(name)
    }
}
