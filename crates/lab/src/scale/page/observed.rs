//! The section «where the time went» of the text, and which steps it is about.
//!
//! In: a report whose steps may carry what was observed. Out: the posts' tables for the steps that a reader compares:
//! exact steering at all buckets, echo and sink, with the clients on their workers' CPUs and on others.

use super::super::document::{ScaleReport, Step};
use crate::documents::observed::{self, LockComparison, Observed};
use corelane_report::page::Section;
use corelane_serve::udp::Model;
use std::collections::{BTreeMap, BTreeSet};

/// As many functions as the post shows of its server (ten) and of its receive threads (thirteen), at most; the document has
/// more.
const FUNCTIONS_SHOWN: usize = 10;

/// Places of waiting that are shown: the post shows nine, of which one matters.
const LOCKS_SHOWN: usize = 6;

impl ScaleReport {
    /// The sections; none when nothing was asked for.
    pub(super) fn observed_sections(&self) -> Vec<Section> {
        let mut sections = Vec::new();
        for (step, observed) in self.observed_steps() {
            let title = format!(
                "where the time went: {}, {} active (round {})",
                step.title(),
                step.buckets_active,
                observed.round + 1
            );
            sections.extend(observed.sections(&title));
        }
        let mut words = Section::new("");
        for comparison in &self.lock_comparisons {
            words = words.labelled("locks    ", comparison.words());
        }
        for line in self.observation_notes() {
            words = words.labelled("observed ", line);
        }
        for line in self.not_observed() {
            words = words.labelled("not observed  ", line);
        }
        sections.push(words);
        sections
    }

    /// The steps whose observations are shown: exact steering, as many buckets active as there are.
    fn observed_steps(&self) -> impl Iterator<Item = (&Step, &Observed)> {
        self.steps
            .iter()
            .filter(|step| step.model == Model::Exact && step.buckets_active == step.buckets_configured)
            .filter_map(|step| Some((step, step.observed.as_ref()?)))
    }

    /// What was asked for and could not be observed, each reason once: `profile: not permitted …`.
    fn not_observed(&self) -> Vec<String> {
        let all = self.steps.iter().filter_map(|step| step.observed.as_ref());
        let lines: BTreeSet<String> = all
            .flat_map(|observed| &observed.unknown)
            .map(|(part, reason)| format!("{part}: {reason}"))
            .collect();
        lines.into_iter().collect()
    }

    /// What a reader of the shown tables should know, each line once: why columns are empty, and what was lost.
    fn observation_notes(&self) -> Vec<String> {
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

impl Observed {
    /// The tables of one step.
    fn sections(&self, title: &str) -> Vec<Section> {
        let mut sections = Vec::new();
        if let Some(profile) = &self.profile {
            for (whose, functions) in observed::function_tables(profile) {
                let headline = format!("{whose} {}", observed::functions_headline(profile, functions));
                let (section, table) = (
                    Section::new(headline),
                    observed::functions(functions, FUNCTIONS_SHOWN),
                );
                // The generator's own functions stand on the page alone: the posts look at the server.
                sections.push(match whose {
                    "clients" => section.page_table(table),
                    _ => section.table(table),
                });
            }
        }
        if let Some(locks) = &self.locks {
            let section = Section::new("").labelled("kernel locks: ", observed::locks_headline(locks));
            sections.push(section.table(observed::locks(locks, LOCKS_SHOWN)));
        }
        if let Some(softnet) = &self.softnet {
            sections.push(Section::new("receive path of each CPU").table(observed::receive_paths(softnet)));
        }
        if !sections.is_empty() {
            sections.insert(0, Section::heading(title));
        }
        sections
    }
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
