//! Compares two runs. A difference within the spread of the rounds is not a change.
//!
//! In: two runs of one experiment, the earlier first, as facts and numbers. Out: text in 100 columns.

use crate::table::{Cell, Column, Table};
use crate::text::{WIDTH, paragraph};
use corelane_measure::metric::{Better, Metric, Show};
use corelane_measure::quantity::{MISSING, or_missing};
use corelane_measure::statistics::Spread;
use std::collections::{BTreeMap, BTreeSet};

/// One run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Run {
    /// Date, program, machine and command line.
    pub origin: String,
    /// Conditions that affect the numbers, by name.
    pub facts: BTreeMap<String, String>,
    /// The columns that name a step.
    pub shape: Vec<Column>,
    /// The steps.
    pub steps: Vec<Step>,
}

/// One step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Step {
    /// The key: steps of two runs with equal keys are compared.
    pub key: String,
    /// The key for people.
    pub shape: Vec<Cell>,
    /// Its numbers, in the same order in all steps and runs.
    pub numbers: Vec<Numbers>,
}

/// A metric's numbers in each valid trial of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Numbers {
    label: &'static str,
    show: Show,
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
            label: metric.label,
            show: metric.show,
            better: metric.better,
            always,
            values: metric.numbers(trials),
        }
    }
}

/// Compares two runs: different facts, every step's main number, and all other changes beyond the spread.
/// `before` is the reference.
#[must_use]
pub fn diff(before: &Run, after: &Run) -> String {
    let mut text = String::new();
    paragraph(&mut text, "before  ", &before.origin);
    paragraph(&mut text, "after   ", &after.origin);
    for line in differing(&before.facts, &after.facts) {
        paragraph(&mut text, "differs ", &line);
    }
    text.push('\n');
    let compared = [
        Column::left("what"),
        Column::right("before"),
        Column::right("after"),
        Column::right("change"),
        Column::left("verdict"),
    ];
    let mut table = Table::new(before.shape.iter().cloned().chain(compared).collect());
    let mut verdicts: BTreeMap<Verdict, usize> = BTreeMap::new();
    let in_run = |run: &Run, step: &Step| run.steps.iter().any(|other| other.key == step.key);
    for step in &before.steps {
        let Some(other) = after.steps.iter().find(|other| other.key == step.key) else {
            continue;
        };
        for (old, new) in step.numbers.iter().zip(&other.numbers) {
            let spreads = [old, new].map(|numbers| Spread::of(&numbers.values));
            let verdict = verdict(spreads, old.better);
            *verdicts.entry(verdict).or_default() += 1;
            if old.always || matches!(verdict, Verdict::Better | Verdict::Worse) {
                let cells = cells(old, spreads, verdict).map(Cell::from);
                table.row(step.shape.iter().cloned().chain(cells));
            }
        }
    }
    if !table.is_empty() {
        text.push_str(&table.render(WIDTH));
        text.push('\n');
    }
    let mut sentences = vec![summary(&verdicts)];
    for (run, other, which) in [(before, after, "before"), (after, before, "after")] {
        let count = run.steps.iter().filter(|step| !in_run(other, step)).count();
        if count > 0 {
            let steps = if count == 1 { "step is" } else { "steps are" };
            sentences.push(format!("{count} {steps} only in the run {which}."));
        }
    }
    paragraph(&mut text, "", &sentences.join(" "));
    text
}

/// The facts that differ, as `name: before -> after`.
fn differing(old: &BTreeMap<String, String>, new: &BTreeMap<String, String>) -> Vec<String> {
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let line = |name: &String| {
        let [before, after] = [old, new].map(|facts| facts.get(name).map_or(MISSING, String::as_str));
        format!("{name}: {before} -> {after}")
    };
    let names = names.into_iter().filter(|name| old.get(*name) != new.get(*name));
    names.map(line).collect()
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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

/// Label, both medians, the signed change of the median in percent, and the verdict.
fn cells(numbers: &Numbers, spreads: [Option<Spread>; 2], verdict: Verdict) -> [String; 5] {
    let medians = spreads.map(|spread| spread.map(|spread| spread.median));
    let [before, after] = medians.map(|median| or_missing(median, |median| numbers.show.words(median)));
    let change = match medians {
        [Some(before), Some(after)] if before != 0.0 => format!("{:+.1} %", (after / before - 1.0) * 100.0),
        _ => MISSING.to_owned(),
    };
    [
        numbers.label.to_owned(),
        before,
        after,
        change,
        verdict.words().to_owned(),
    ]
}

fn summary(verdicts: &BTreeMap<Verdict, usize>) -> String {
    let of = |verdict: Verdict| verdicts.get(&verdict).copied().unwrap_or(0);
    let changes = match (of(Verdict::Better), of(Verdict::Worse)) {
        _ if verdicts.is_empty() => "No step is in both runs, so nothing was compared.".to_owned(),
        (0, 0) => "Nothing changed beyond the spread of the rounds.".to_owned(),
        (better, worse) => {
            format!("Beyond the spread of the rounds: {better} better, {worse} worse; all else is no change.")
        }
    };
    match of(Verdict::NoSpread) {
        0 => changes,
        _ => {
            changes + " With one trial per run, changes cannot be distinguished from noise: run more rounds."
        }
    }
}
