//! What changed between two saved runs, with the spread in mind: a change within the spread of the rounds is said to be none.
//!
//! In: two runs of one experiment, whichever it is, the earlier first. Out: text.

use crate::document::TrialStatus;
use crate::documents::conditions;
use crate::documents::text::Heading;
use corelane_measure::quantity::{MISSING, or_missing};
use corelane_measure::statistics::Spread;
use corelane_report::date;
use corelane_report::table::{Column, Table};
use corelane_report::text::{WIDTH, paragraph};
use std::collections::BTreeMap;

/// A saved run of an experiment in steps, as texts and comparisons need to know it.
pub(crate) trait Run: Sized + 'static {
    type Step;
    type Trial;

    /// What is compared of every step.
    const METRICS: &'static [Metric<Self>];

    fn started_unix_s(&self) -> u64;
    fn heading(&self) -> Heading<'_>;
    fn steps(&self) -> &[Self::Step];
    fn valid_trials(&self, step: usize) -> impl Iterator<Item = &Self::Trial>;
    /// How every trial ended.
    fn statuses(&self) -> impl Iterator<Item = TrialStatus>;
    fn same_shape(one: &Self::Step, other: &Self::Step) -> bool;

    /// The columns in which a table says which step it speaks of.
    fn shape_columns() -> [Column; 4];
    fn shape_cells(step: &Self::Step) -> [String; 4];

    /// How many trials ended so.
    fn ended(&self, status: TrialStatus) -> usize {
        self.statuses().filter(|ended| *ended == status).count()
    }

    /// A table whose rows speak of one step each.
    fn step_table(columns: impl IntoIterator<Item = Column>) -> Table {
        Table::new(Self::shape_columns().into_iter().chain(columns).collect())
    }
}

/// What is compared, which way is better, and how it reads.
pub(crate) struct Metric<R: Run> {
    pub(crate) name: &'static str,
    pub(crate) higher_is_better: bool,
    /// Whether it has a row even when nothing changed.
    pub(crate) always_shown: bool,
    pub(crate) of: fn(&R, &R::Trial) -> Option<f64>,
    pub(crate) show: fn(f64) -> String,
}

/// Compares two runs: what differs in the conditions, every step's rate, and whatever else changed beyond its spread. `before`
/// is the reference. Spreads come from the raw trials, valid ones only. Text in 100 columns.
pub(crate) fn diff<R: Run>(before: &R, after: &R) -> String {
    let mut text = String::new();
    paragraph(&mut text, "before  ", &origin(before));
    paragraph(&mut text, "after   ", &origin(after));
    for line in differing_conditions(&before.heading(), &after.heading()) {
        paragraph(&mut text, "differs ", &line);
    }
    text.push('\n');
    let mut table = R::step_table([
        Column::left("what"),
        Column::right("before"),
        Column::right("after"),
        Column::right("change"),
        Column::left("verdict"),
    ]);
    let mut tally = Tally::default();
    for (index, step) in before.steps().iter().enumerate() {
        let Some(other) = after.steps().iter().position(|other| R::same_shape(step, other)) else {
            tally.only_before += 1;
            continue;
        };
        for metric in R::METRICS {
            let change = Change {
                before: metric.spread(before, index),
                after: metric.spread(after, other),
            };
            let verdict = change.verdict(metric.higher_is_better);
            tally.count(verdict);
            if metric.always_shown || matches!(verdict, Verdict::Better | Verdict::Worse) {
                table.row(R::shape_cells(step).into_iter().chain(metric.cells(&change)));
            }
        }
    }
    let new = |step: &&R::Step| !before.steps().iter().any(|other| R::same_shape(step, other));
    tally.only_after = after.steps().iter().filter(new).count();
    if !table.is_empty() {
        text.push_str(&table.render(WIDTH));
        text.push('\n');
    }
    paragraph(&mut text, "", &tally.sentence());
    text
}

impl<R: Run> Metric<R> {
    fn spread(&self, run: &R, step: usize) -> Option<Spread> {
        let values: Vec<f64> = run
            .valid_trials(step)
            .filter_map(|trial| (self.of)(run, trial))
            .collect();
        Spread::of(&values)
    }

    fn cells(&self, change: &Change) -> [String; 5] {
        let show = |spread: Option<Spread>| or_missing(spread, |spread| (self.show)(spread.median));
        [
            self.name.to_owned(),
            show(change.before),
            show(change.after),
            change.percent(),
            change.verdict(self.higher_is_better).words().to_owned(),
        ]
    }
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
    /// Too few trials on a side to have a range.
    NoSpread,
    /// Not measured on a side.
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
    fn verdict(&self, higher_is_better: bool) -> Verdict {
        match (self.before, self.after) {
            (Some(before), Some(after)) if before.overlaps(&after) => Verdict::None,
            (Some(before), Some(after)) if before.count.min(after.count) < 2 => Verdict::NoSpread,
            (Some(before), Some(after)) if (after.median > before.median) == higher_is_better => {
                Verdict::Better
            }
            (Some(_), Some(_)) => Verdict::Worse,
            _ => Verdict::NotMeasured,
        }
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

/// How the comparisons came out.
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
                "Where a run has one trial, no change can be told from noise: run more rounds.".to_owned(),
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

/// Which run a report is of: when, by what, on which machine, and how to repeat it.
fn origin(run: &impl Run) -> String {
    let heading = run.heading();
    let parts = [
        date::utc(run.started_unix_s()),
        format!("{} {}", heading.tool.name, heading.tool.version),
        conditions::machine(heading.conditions),
        heading.command,
    ];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("; ")
}

/// The machine, the bed and the conditions that are not the same, as `name: before -> after`.
fn differing_conditions(before: &Heading<'_>, after: &Heading<'_>) -> Vec<String> {
    let facts = |run: &Heading<'_>| -> BTreeMap<String, String> {
        let found = conditions::worst_first(run.conditions);
        let mut facts: BTreeMap<String, String> = found
            .into_iter()
            .map(|condition| {
                (
                    condition.name,
                    condition.value.unwrap_or_else(|| "unknown".to_owned()),
                )
            })
            .collect();
        facts.insert("machine".to_owned(), conditions::machine(run.conditions));
        facts.extend(run.bed.map(|bed| ("bed".to_owned(), bed.kind.clone())));
        facts
    };
    let (old, new) = (facts(before), facts(after));
    let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
    names.sort();
    names.dedup();
    let value = |facts: &BTreeMap<String, String>, name: &String| {
        facts.get(name).cloned().unwrap_or_else(|| MISSING.to_owned())
    };
    names
        .into_iter()
        .filter(|name| old.get(*name) != new.get(*name))
        .map(|name| format!("{name}: {} -> {}", value(&old, name), value(&new, name)))
        .collect()
}
