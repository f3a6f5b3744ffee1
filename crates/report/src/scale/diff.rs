//! Two saved runs compared, with the spread in mind: a change within the spread of the rounds is said to be none.
//!
//! In: two reports, the earlier first. Out: text in 100 columns: what differs in the conditions, every step's rate, and
//! whatever else changed beyond its spread. Spreads come from the raw trials, valid ones only.

use super::{ScaleReport, Step, Trial};
use crate::conditions;
use crate::date;
use crate::quantity::{self, MISSING};
use crate::statistics::Spread;
use crate::table::{Column, Table};
use crate::text::{WIDTH, paragraph};
use std::collections::BTreeMap;

/// Compares two runs; `before` is the reference.
#[must_use]
pub fn diff(before: &ScaleReport, after: &ScaleReport) -> String {
    let mut text = String::new();
    paragraph(&mut text, "before  ", &origin(before));
    paragraph(&mut text, "after   ", &origin(after));
    for line in differing_conditions(before, after) {
        paragraph(&mut text, "differs ", &line);
    }
    text.push('\n');
    let mut table = Table::new(vec![
        Column::left("mode"),
        Column::left("model"),
        Column::left("clients"),
        Column::right("N"),
        Column::left("what"),
        Column::right("before"),
        Column::right("after"),
        Column::right("change"),
        Column::left("verdict"),
    ]);
    let mut tally = Tally::default();
    for (index, step) in before.steps.iter().enumerate() {
        let Some(other) = after.steps.iter().position(|other| same_shape(step, other)) else {
            tally.only_before += 1;
            continue;
        };
        for metric in &METRICS {
            let change = Change::of(metric.spread(before, index), metric.spread(after, other));
            let verdict = change.verdict(metric.higher_is_better);
            tally.count(verdict);
            if metric.always_shown || matches!(verdict, Verdict::Better | Verdict::Worse) {
                table.row(row(step, metric, &change, verdict));
            }
        }
    }
    tally.only_after = after
        .steps
        .iter()
        .filter(|step| !before.steps.iter().any(|other| same_shape(step, other)))
        .count();
    if !table.is_empty() {
        text.push_str(&table.render(WIDTH));
        text.push('\n');
    }
    paragraph(&mut text, "", &tally.sentence());
    text
}

/// What is compared, which way is better, and how it reads.
struct Metric {
    name: &'static str,
    higher_is_better: bool,
    /// Whether it has a row even when nothing changed.
    always_shown: bool,
    of: fn(&Trial) -> Option<f64>,
    show: fn(f64) -> String,
}

const METRICS: [Metric; 4] = [
    Metric {
        name: "rate",
        higher_is_better: true,
        always_shown: true,
        of: |trial| Some(trial.main_rate()),
        show: quantity::rate,
    },
    Metric {
        name: "CPU a frame",
        higher_is_better: false,
        always_shown: false,
        of: Trial::cpu_us_per_frame,
        show: |microseconds| quantity::duration(microseconds * 1e3),
    },
    Metric {
        name: "locality",
        higher_is_better: true,
        always_shown: false,
        of: |trial| trial.locality?.value(),
        show: quantity::percent,
    },
    Metric {
        name: "round trip p99",
        higher_is_better: false,
        always_shown: false,
        of: |trial| {
            trial
                .round_trip
                .as_ref()?
                .percentile(99.0)
                .map(|nanoseconds| nanoseconds as f64)
        },
        show: quantity::duration,
    },
];

impl Metric {
    fn spread(&self, report: &ScaleReport, step: usize) -> Option<Spread> {
        let valid = report
            .trials
            .iter()
            .filter(|trial| trial.step == step && trial.is_valid());
        let values: Vec<f64> = valid.filter_map(self.of).collect();
        Spread::of(&values)
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
    const fn of(before: Option<Spread>, after: Option<Spread>) -> Self {
        Self { before, after }
    }

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

fn row(step: &Step, metric: &Metric, change: &Change, verdict: Verdict) -> [String; 9] {
    let show = |spread: Option<Spread>| quantity::or_missing(spread, |spread| (metric.show)(spread.median));
    [
        step.mode.to_string(),
        step.model.to_string(),
        step.placement.to_string(),
        step.buckets_active.to_string(),
        metric.name.to_owned(),
        show(change.before),
        show(change.after),
        change.percent(),
        verdict.words().to_owned(),
    ]
}

fn same_shape(one: &Step, other: &Step) -> bool {
    let shape = |step: &Step| {
        (
            step.mode,
            step.model,
            step.placement,
            step.buckets_configured,
            step.buckets_active,
        )
    };
    shape(one) == shape(other)
}

fn origin(report: &ScaleReport) -> String {
    let machine = conditions::machine(&report.conditions);
    let tool = format!("{} {}", report.tool.name, report.tool.version);
    let parts = [date::utc(report.started_unix_s), tool, machine, report.command()];
    parts
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("; ")
}

/// The machine, the bed and the conditions that are not the same, as `name: before -> after`.
fn differing_conditions(before: &ScaleReport, after: &ScaleReport) -> Vec<String> {
    let facts = |report: &ScaleReport| -> BTreeMap<String, String> {
        let found = conditions::worst_first(&report.conditions);
        let mut facts: BTreeMap<String, String> = found
            .into_iter()
            .map(|condition| {
                (
                    condition.name,
                    condition.value.unwrap_or_else(|| "unknown".to_owned()),
                )
            })
            .collect();
        facts.insert("machine".to_owned(), conditions::machine(&report.conditions));
        facts.insert("bed".to_owned(), report.bed.kind.clone());
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
