//! Compares two runs. A difference within the spread of the rounds is not a change.
//!
//! In: two runs of one experiment, the earlier first, as facts and numbers. Out: a comparison, rendered in every form;
//! none if different things were measured.

use crate::table::{Cell, Column, cut};
use corelane_measure::metric::{Better, Metric, Show};
use corelane_measure::quantity::MISSING;
use corelane_measure::statistics::Spread;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

mod shown;

pub use shown::FIGURES;

/// One run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Run {
    /// Date, program, machine and command line.
    pub origin: String,
    /// Conditions that affect the numbers, by name.
    pub facts: Fields,
    /// What the steps have in common of what was requested, by field of the plan.
    pub asked: Fields,
    /// The columns that name a step.
    pub shape: Vec<Column>,
    /// The steps.
    pub steps: Vec<Step>,
    /// What the numbers of a step are of.
    pub samples: Samples,
}

/// What the numbers of a step are of, whose range is its spread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Samples {
    /// Rounds, measured independently.
    #[default]
    Rounds,
    /// Parts of one run, which have everything in common that differs from run to run.
    Parts,
}

/// Values by name.
pub type Fields = BTreeMap<String, String>;

/// The values of a JSON object; that of a nested object, or of the only one in a list, as `outer.inner`.
#[must_use]
pub fn fields(object: &Value) -> Fields {
    let mut fields = Fields::new();
    flatten("", object, &mut fields);
    fields
}

fn flatten(outer: &str, value: &Value, fields: &mut Fields) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                let dot = if outer.is_empty() { "" } else { "." };
                flatten(&format!("{outer}{dot}{name}"), value, fields);
            }
        }
        Value::Array(values) if matches!(&values[..], [Value::Object(_)]) => {
            flatten(outer, &values[0], fields);
        }
        Value::String(text) => drop(fields.insert(outer.to_owned(), text.clone())),
        other => drop(fields.insert(outer.to_owned(), other.to_string())),
    }
}

/// [`fields`] without those of these names, and those nested in them.
#[must_use]
pub fn fields_without(object: &Value, names: &[&str]) -> Fields {
    let mut fields = fields(object);
    fields.retain(|field, _| !names.iter().any(|name| is_in(field, name)));
    fields
}

/// Whether a field is this one, or nested in it.
fn is_in(field: &str, outer: &str) -> bool {
    let inner = field.strip_prefix(outer);
    inner.is_some_and(|inner| inner.is_empty() || inner.starts_with('.'))
}

/// One step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Step {
    /// The fields of its shape: steps of two runs with equal fields are compared.
    pub key: Fields,
    /// The key for people.
    pub shape: Vec<Cell>,
    /// Its numbers, in the same order in all steps and runs.
    pub numbers: Vec<Numbers>,
}

/// A metric's numbers in each valid trial of a step, or in each part of the only one.
#[derive(Debug, Clone, PartialEq)]
pub struct Numbers {
    name: &'static str,
    label: &'static str,
    show: Show,
    /// The header and the unit under it.
    unit: (&'static str, &'static str),
    better: Better,
    always: bool,
    values: Vec<f64>,
}

impl Numbers {
    /// Collects a metric's numbers from these trials. `always` keeps its row if nothing changed.
    #[must_use]
    pub fn of<'a, T>(
        metric: &'static Metric<T>,
        trials: impl IntoIterator<Item = &'a T>,
        always: bool,
    ) -> Self {
        Self {
            name: metric.name,
            label: metric.label,
            show: metric.show,
            unit: (metric.header, metric.unit),
            better: metric.better,
            always,
            values: metric.numbers(trials),
        }
    }
}

/// Which runs may be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis<'a> {
    /// Runs of the same request.
    Alike,
    /// Runs whose requests, or whose steps, differ in this field only, or in fields nested in it.
    By(&'a str),
    /// Any two runs.
    Any,
}

/// Why two runs are not compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DiffError {
    /// What was requested differs.
    #[error("what was measured differs, so neither run can be called better: {0}")]
    Differ(String),
    /// Their steps have no such field, or the same values of it.
    #[error("the runs do not differ in `{field}`; they differ in {others}")]
    Same {
        /// The field.
        field: String,
        /// In which fields they differ.
        others: String,
    },
    /// A run has several values of the field, so its steps have no single counterpart.
    #[error("one run measured `{field}` with several values: {values}")]
    Several {
        /// The field.
        field: String,
        /// Its values.
        values: String,
    },
}

/// A field whose values differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Differing {
    name: String,
    before: Option<String>,
    after: Option<String>,
}

/// The comparison of two runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diff {
    schema: &'static str,
    before: String,
    after: String,
    samples: Samples,
    /// What was requested and differs.
    asked: Vec<Differing>,
    /// Conditions that differ.
    facts: Vec<Differing>,
    rows: Vec<Row>,
    only_before: usize,
    only_after: usize,
    #[serde(skip)]
    columns: Vec<Column>,
}

/// One metric of a step in both runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Row {
    step: Fields,
    metric: &'static str,
    before: Option<Spread>,
    after: Option<Spread>,
    /// Change of the median as a share of the earlier one.
    change: Option<f64>,
    verdict: Verdict,
    #[serde(skip)]
    cells: Vec<Cell>,
    #[serde(skip)]
    numbers: Numbers,
}

/// The name of the document.
const SCHEMA: &str = "corelane/report-diff/1";

/// Columns of a value in an error or a line of the head.
const LONGEST_VALUE: usize = 60;

/// Compares two runs: different facts, every step's main number, and all other changes beyond the spread.
/// `before` is the reference.
///
/// # Errors
/// If `basis` does not permit to compare them.
pub fn diff(before: &Run, after: &Run, basis: Basis<'_>) -> Result<Diff, DiffError> {
    let mut asked = differing(&before.asked, &after.asked);
    match basis {
        Basis::Any => {}
        Basis::Alike if asked.is_empty() => {}
        Basis::Alike => return Err(DiffError::Differ(list(&asked))),
        Basis::By(field) => {
            asked.extend(by_step(field, before, after)?);
            let (own, others): (Vec<_>, Vec<_>) =
                asked.iter().cloned().partition(|one| is_in(&one.name, field));
            if own.is_empty() {
                let (field, others) = (field.to_owned(), list(&others));
                return Err(DiffError::Same { field, others });
            }
            if !others.is_empty() {
                return Err(DiffError::Differ(list(&asked)));
            }
        }
    }
    let key = |step: &Step| {
        let mut key = step.key.clone();
        if let Basis::By(field) = basis {
            key.remove(field);
        }
        key
    };
    let counterpart = |step: &Step, run: &'_ Run| {
        let key_of_step = key(step);
        run.steps.iter().position(|other| key(other) == key_of_step)
    };
    let alone = |run: &Run, other: &Run| {
        let alone = run.steps.iter().filter(|step| counterpart(step, other).is_none());
        alone.count()
    };
    let pairs =
        (before.steps.iter()).filter_map(|step| Some((step, &after.steps[counterpart(step, after)?])));
    Ok(Diff {
        schema: SCHEMA,
        before: before.origin.clone(),
        after: after.origin.clone(),
        samples: before.samples,
        asked,
        facts: differing(&before.facts, &after.facts),
        rows: pairs.flat_map(|(old, new)| rows(old, new, key(old))).collect(),
        only_before: alone(before, after),
        only_after: alone(after, before),
        columns: before.shape.clone(),
    })
}

/// The difference of a field of the steps, which has one value in each run.
fn by_step(field: &str, before: &Run, after: &Run) -> Result<Option<Differing>, DiffError> {
    let values = |run: &Run| -> BTreeSet<String> {
        let values = run.steps.iter().filter_map(|step| step.key.get(field));
        values.cloned().collect()
    };
    let both = [values(before), values(after)];
    if both[0] == both[1] {
        return Ok(None);
    }
    if let Some(values) = both.iter().find(|values| values.len() > 1) {
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        return Err(DiffError::Several {
            field: field.to_owned(),
            values: values.join(", "),
        });
    }
    let [before, after] = both.map(|values| values.into_iter().next());
    let name = field.to_owned();
    Ok(Some(Differing { name, before, after }))
}

/// All metrics of a step in both runs.
fn rows(old: &Step, new: &Step, key: Fields) -> impl Iterator<Item = Row> {
    // A cell that differs names the field that the runs are compared by.
    let both = |(old, new): (&Cell, &Cell)| match old == new {
        true => old.clone(),
        false => Cell::from(format!("{} -> {}", old.words(), new.words())),
    };
    let cells: Vec<Cell> = old.shape.iter().zip(&new.shape).map(both).collect();
    let row = move |(old, new): (&Numbers, &Numbers)| {
        let [before, after] = [old, new].map(|numbers| Spread::of(&numbers.values));
        let change = match (before, after) {
            (Some(before), Some(after)) if before.median != 0.0 => Some(after.median / before.median - 1.0),
            _ => None,
        };
        Row {
            step: key.clone(),
            metric: old.name,
            before,
            after,
            change,
            verdict: verdict([before, after], old.better),
            cells: cells.clone(),
            numbers: Numbers {
                always: old.always || new.always,
                ..old.clone()
            },
        }
    };
    let rows: Vec<Row> = old.numbers.iter().zip(&new.numbers).map(row).collect();
    rows.into_iter()
}

/// The fields that differ. A field that an earlier version did not write is the same as one that is not set.
fn differing(old: &Fields, new: &Fields) -> Vec<Differing> {
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let set = |value: &&String| !["null", "false", "[]"].contains(&value.as_str());
    let names = names
        .into_iter()
        .filter(|name| old.get(*name).filter(set) != new.get(*name).filter(set));
    let line = |name: &String| Differing {
        name: name.clone(),
        before: old.get(name).cloned(),
        after: new.get(name).cloned(),
    };
    names.map(line).collect()
}

impl Differing {
    fn line(&self, longest: usize) -> String {
        let [before, after] =
            [&self.before, &self.after].map(|value| cut(value.as_deref().unwrap_or(MISSING), longest));
        format!("{}: {before} -> {after}", self.name)
    }
}

fn list(differing: &[Differing]) -> String {
    match differing {
        [] => "nothing".to_owned(),
        _ => differing
            .iter()
            .map(|one| one.line(LONGEST_VALUE))
            .collect::<Vec<_>>()
            .join("; "),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    /// The ranges overlap.
    None,
    Better,
    Worse,
    /// Too few trials in one run for a range.
    NoSpread,
    /// Not measured in one run.
    NotMeasured,
}

impl Verdict {
    const fn words(self) -> &'static str {
        match self {
            Self::None => "none, within the spread",
            Self::Better => "better",
            Self::Worse => "worse",
            Self::NoSpread => "unknown, one trial has no spread",
            Self::NotMeasured => "not measured in both",
        }
    }
}

fn verdict(spreads: [Option<Spread>; 2], better: Better) -> Verdict {
    let [Some(before), Some(after)] = spreads else {
        return Verdict::NotMeasured;
    };
    if before.overlaps(&after) {
        Verdict::None
    } else if before.count.min(after.count) < 2 {
        Verdict::NoSpread
    } else if (after.median > before.median) == (better == Better::Higher) {
        Verdict::Better
    } else {
        Verdict::Worse
    }
}
