//! What changed between two saved runs, with the spread in mind: a change within the spread of the rounds is said to be none.
//!
//! In: the same quantity as it spread over the rounds of either run; what either ran on. Out: a verdict, a tally of verdicts
//! as a sentence, and the conditions that differ.

use crate::conditions;
use crate::date;
use crate::quantity::MISSING;
use crate::scale::Tool;
use crate::statistics::Spread;
use serde_json::Value;
use std::collections::BTreeMap;

/// The same quantity in two runs.
pub(crate) struct Change {
    pub(crate) before: Option<Spread>,
    pub(crate) after: Option<Spread>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
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
    pub(crate) const fn words(self) -> &'static str {
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
    pub(crate) const fn of(before: Option<Spread>, after: Option<Spread>) -> Self {
        Self { before, after }
    }

    pub(crate) fn verdict(&self, higher_is_better: bool) -> Verdict {
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
    pub(crate) fn percent(&self) -> String {
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
pub(crate) struct Tally {
    by_verdict: BTreeMap<&'static str, usize>,
    pub(crate) only_before: usize,
    pub(crate) only_after: usize,
}

impl Tally {
    pub(crate) fn count(&mut self, verdict: Verdict) {
        *self.by_verdict.entry(verdict.words()).or_default() += 1;
    }

    pub(crate) fn sentence(&self) -> String {
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
pub(crate) fn origin(started_unix_s: u64, tool: &Tool, conditions: &Value, command: String) -> String {
    let tool = format!("{} {}", tool.name, tool.version);
    let parts = [
        date::utc(started_unix_s),
        tool,
        conditions::machine(conditions),
        command,
    ];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("; ")
}

/// What a run stood on.
#[derive(Clone, Copy)]
pub(crate) struct Ground<'a> {
    /// The host's snapshot.
    pub(crate) conditions: &'a Value,
    /// The kind of bed.
    pub(crate) bed: &'a str,
}

/// The machine, the bed and the conditions that are not the same, as `name: before -> after`.
pub(crate) fn differing_conditions(before: Ground<'_>, after: Ground<'_>) -> Vec<String> {
    let facts = |ground: Ground<'_>| -> BTreeMap<String, String> {
        let found = conditions::worst_first(ground.conditions);
        let mut facts: BTreeMap<String, String> = found
            .into_iter()
            .map(|condition| {
                (
                    condition.name,
                    condition.value.unwrap_or_else(|| "unknown".to_owned()),
                )
            })
            .collect();
        facts.insert("machine".to_owned(), conditions::machine(ground.conditions));
        facts.insert("bed".to_owned(), ground.bed.to_owned());
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
