//! Compares two runs. A difference within the spread of the rounds is not a change.
//!
//! In: two runs of one experiment, the earlier first, as facts and numbers. Out: text in 100 columns.

use crate::table::{Cell, Column, Table};
use crate::text::{WIDTH, paragraph};
use corelane_measure::metric::{Better, Metric, Show};
use corelane_measure::quantity::{MISSING, or_missing};
use corelane_measure::statistics::Spread;
use std::collections::BTreeMap;

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
    let mut tally = Tally::default();
    for step in &before.steps {
        let Some(other) = after.steps.iter().find(|other| other.key == step.key) else {
            tally.only_before += 1;
            continue;
        };
        for (old, new) in step.numbers.iter().zip(&other.numbers) {
            let change = Change {
                before: Spread::of(&old.values),
                after: Spread::of(&new.values),
            };
            let verdict = change.verdict(old.better);
            tally.count(verdict);
            if old.always || matches!(verdict, Verdict::Better | Verdict::Worse) {
                let cells = change.cells(old, verdict).map(Cell::from);
                table.row(step.shape.iter().cloned().chain(cells));
            }
        }
    }
    let new = |step: &&Step| !before.steps.iter().any(|other| other.key == step.key);
    tally.only_after = after.steps.iter().filter(new).count();
    if !table.is_empty() {
        text.push_str(&table.render(WIDTH));
        text.push('\n');
    }
    paragraph(&mut text, "", &tally.sentence());
    text
}

/// The facts that differ, as `name: before -> after`.
fn differing(old: &BTreeMap<String, String>, new: &BTreeMap<String, String>) -> Vec<String> {
    let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
    names.sort();
    names.dedup();
    let value = |facts: &BTreeMap<String, String>, name: &String| {
        facts.get(name).cloned().unwrap_or_else(|| MISSING.to_owned())
    };
    names
        .into_iter()
        .filter(|name| old.get(*name) != new.get(*name))
        .map(|name| format!("{name}: {} -> {}", value(old, name), value(new, name)))
        .collect()
}

/// The same quantity in two runs.
struct Change {
    before: Option<Spread>,
    after: Option<Spread>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
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

impl Change {
    fn verdict(&self, better: Better) -> Verdict {
        match (self.before, self.after) {
            (Some(before), Some(after)) if before.overlaps(&after) => Verdict::None,
            (Some(before), Some(after)) if before.count.min(after.count) < 2 => Verdict::NoSpread,
            (Some(before), Some(after)) if (after.median > before.median) == (better == Better::Higher) => {
                Verdict::Better
            }
            (Some(_), Some(_)) => Verdict::Worse,
            _ => Verdict::NotMeasured,
        }
    }

    fn cells(&self, numbers: &Numbers, verdict: Verdict) -> [String; 5] {
        let show = |spread: Option<Spread>| or_missing(spread, |spread| numbers.show.words(spread.median));
        [
            numbers.label.to_owned(),
            show(self.before),
            show(self.after),
            self.percent(),
            verdict.words().to_owned(),
        ]
    }

    /// The change of the median in percent, signed.
    fn percent(&self) -> String {
        match (self.before, self.after) {
            (Some(before), Some(after)) if before.median != 0.0 => {
                format!("{:+.1} %", (after.median / before.median - 1.0) * 100.0)
            }
            _ => MISSING.to_owned(),
        }
    }
}

/// Counts of the verdicts.
#[derive(Default)]
struct Tally {
    by_verdict: BTreeMap<&'static str, usize>,
    only_before: usize,
    only_after: usize,
}

impl Tally {
    fn count(&mut self, verdict: Verdict) {
        *self.by_verdict.entry(verdict.words()).or_default() += 1;
    }

    fn sentence(&self) -> String {
        let of = |verdict: Verdict| self.by_verdict.get(verdict.words()).copied().unwrap_or(0);
        let (better, worse) = (of(Verdict::Better), of(Verdict::Worse));
        let mut parts = vec![match (better, worse) {
            _ if self.by_verdict.is_empty() => "No step is in both runs, so nothing was compared.".to_owned(),
            (0, 0) => "Nothing changed beyond the spread of the rounds.".to_owned(),
            _ => format!(
                "Beyond the spread of the rounds: {better} better, {worse} worse; all else is no change."
            ),
        }];
        if of(Verdict::NoSpread) > 0 {
            parts.push(
                "With one trial per run, changes cannot be distinguished from noise: run more rounds."
                    .to_owned(),
            );
        }
        for (count, which) in [(self.only_before, "before"), (self.only_after, "after")] {
            if count > 0 {
                let steps = if count == 1 { "step is" } else { "steps are" };
                parts.push(format!("{count} {steps} only in the run {which}."));
            }
        }
        parts.join(" ")
    }
}
