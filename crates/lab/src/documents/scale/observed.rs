//! The section «where the time went» of the text, and which steps it is about.
//!
//! In: a report whose steps may carry what was observed. Out: the posts' tables for the steps that a reader compares:
//! exact steering at all buckets, echo and sink, with the clients on their workers' CPUs and on others.

use super::{ScaleReport, Step};
use crate::documents::observed::{LockComparison, Observed};
use corelane_report::text::{WIDTH, paragraph};
use corelane_serve::udp::Model;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// As many functions as the post shows of its server (ten) and of its receive threads (thirteen), at most; the document has
/// more.
const FUNCTIONS_SHOWN: usize = 10;

/// Places of waiting that are shown: the post shows nine, of which one matters.
const LOCKS_SHOWN: usize = 6;

impl ScaleReport {
    /// The steps whose observations are shown: exact steering, as many buckets active as there are.
    pub fn observed_steps(&self) -> impl Iterator<Item = (&Step, &Observed)> {
        self.steps
            .iter()
            .filter(|step| step.model == Model::Exact && step.buckets_active == step.buckets_configured)
            .filter_map(|step| Some((step, step.observed.as_ref()?)))
    }

    /// What was asked for and could not be observed, each reason once: `profile: not permitted …`.
    #[must_use]
    pub fn not_observed(&self) -> Vec<String> {
        let all = self.steps.iter().filter_map(|step| step.observed.as_ref());
        let lines: BTreeSet<String> = all
            .flat_map(|observed| &observed.unknown)
            .map(|(part, reason)| format!("{part}: {reason}"))
            .collect();
        lines.into_iter().collect()
    }

    /// What a reader of the shown tables should know, each line once: why columns are empty, and what was lost.
    #[must_use]
    pub fn observation_notes(&self) -> Vec<String> {
        let mut lines = BTreeSet::new();
        for (_, observed) in self.observed_steps() {
            if let Some(profile) = &observed.profile {
                lines.extend(profile.notes.iter().cloned());
            }
            if let Some(locks) = &observed.locks {
                lines.extend(locks.notes.iter().cloned());
                lines.extend(reasons(&locks.unknown));
            }
            if let Some(softnet) = &observed.softnet {
                lines.extend(reasons(&softnet.unknown));
            }
        }
        lines.into_iter().collect()
    }
}

/// `avg_ns, max_ns: why they are null`, a line a reason.
fn reasons(unknown: &BTreeMap<String, String>) -> Vec<String> {
    let mut fields_by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (field, reason) in unknown {
        fields_by_reason.entry(reason).or_default().push(field);
    }
    fields_by_reason
        .into_iter()
        .map(|(reason, fields)| format!("{}: {reason}", fields.join(", ")))
        .collect()
}

/// The section; empty when nothing was asked for.
pub(super) fn section(report: &ScaleReport) -> String {
    let mut text = String::new();
    for (step, observed) in report.observed_steps() {
        let (title, active) = (step.title(), step.buckets_active);
        let tables = tables(observed);
        if !tables.is_empty() {
            let _ = writeln!(
                text,
                "where the time went: {title}, {active} active (round {})\n{tables}",
                observed.round + 1
            );
        }
    }
    for comparison in &report.lock_comparisons {
        paragraph(&mut text, "locks    ", &comparison.words());
    }
    for line in report.observation_notes() {
        paragraph(&mut text, "observed ", &line);
    }
    for line in report.not_observed() {
        paragraph(&mut text, "not observed  ", &line);
    }
    text
}

/// The tables of one step, a blank line before each.
fn tables(observed: &Observed) -> String {
    let mut text = String::new();
    if let Some(profile) = &observed.profile {
        // The generator's own functions are in the document: the posts look at the server alone.
        for (whose, table) in profile
            .tables()
            .into_iter()
            .filter(|(whose, _)| *whose != "clients")
        {
            let headline = profile.headline(table);
            let shown = table.table(FUNCTIONS_SHOWN).render(WIDTH);
            let _ = write!(text, "\n{whose} {headline}\n{shown}");
        }
    }
    if let Some(locks) = &observed.locks {
        text.push('\n');
        paragraph(&mut text, "kernel locks: ", &locks.headline());
        if !locks.rows.is_empty() {
            text.push_str(&locks.table(LOCKS_SHOWN).render(WIDTH));
        }
    }
    if let Some(softnet) = &observed.softnet {
        let _ = write!(
            text,
            "\nreceive path of each CPU\n{}",
            softnet.table().render(WIDTH)
        );
    }
    text
}

impl LockComparison {
    /// `aligned, 2 buckets: …`.
    #[must_use]
    pub fn words(&self) -> String {
        let buckets = if self.buckets_active == 1 {
            "bucket"
        } else {
            "buckets"
        };
        format!(
            "{}, {} {buckets}: {}",
            self.placement, self.buckets_active, self.sentence
        )
    }
}
