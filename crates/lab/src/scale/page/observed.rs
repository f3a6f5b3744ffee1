//! The section «where the time went» of the text, and which steps it is about.
//!
//! In: a report whose steps may carry what was observed. Out: the posts' tables for the steps that a reader compares:
//! exact steering at all buckets, echo and sink, with the clients on their workers' CPUs and on others.

use crate::documents::observed::{self, LockComparison, Observed};
use crate::growth::buckets;
use crate::scale::document::{ScaleReport, Step};
use crate::steps::Shape as _;
use corelane_report::page::{Page, Section};
use corelane_serve::udp::Model;
use std::collections::{BTreeMap, BTreeSet};

/// As many functions as the post shows of its server (ten) and of its receive threads (thirteen), at most; the document
/// has more.
const FUNCTIONS_SHOWN: usize = 10;

/// Places of waiting that are shown: the post shows nine, of which one matters.
const LOCKS_SHOWN: usize = 6;

/// Adds the sections; none when nothing was asked for.
pub(super) fn sections(report: &ScaleReport, page: &mut Page) {
    // Steps that a reader compares: exact steering, as many buckets active as there are.
    let is_shown = |step: &&Step| {
        step.shape.model == Model::Exact && step.shape.buckets_active == step.buckets_configured
    };
    let mut notes = BTreeSet::new();
    for step in report.steps.iter().filter(is_shown) {
        let Some(observed) = &step.found.observed else {
            continue;
        };
        let (shape, round) = (&step.shape, observed.round + 1);
        let active = shape.buckets_active;
        let title = format!(
            "where the time went: {}, {active} active (round {round})",
            shape.title()
        );
        observed.sections(&title, page);
        notes.extend(observed.notes());
    }
    let mut words = Section::new("");
    for comparison in &report.kind.lock_comparisons {
        words = words.labelled("locks    ", comparison.words());
    }
    for line in notes {
        words = words.labelled("observed ", line);
    }
    // What was asked for and could not be observed, each reason once: `profile: not permitted …`.
    let all = report
        .steps
        .iter()
        .filter_map(|step| step.found.observed.as_ref());
    let unknown = all.flat_map(|observed| &observed.unknown);
    let lines: BTreeSet<String> = unknown
        .map(|(part, reason)| format!("{part}: {reason}"))
        .collect();
    for line in lines {
        words = words.labelled("not observed  ", line);
    }
    page.section(words);
}

/// `avg_ns, max_ns: why they are null`, a line a reason.
fn reasons(unknown: &BTreeMap<String, String>) -> Vec<String> {
    let mut fields_by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (field, reason) in unknown {
        fields_by_reason.entry(reason).or_default().push(field);
    }
    let line = |(reason, fields): (&str, Vec<&str>)| format!("{}: {reason}", fields.join(", "));
    fields_by_reason.into_iter().map(line).collect()
}

impl Observed {
    /// What a reader of the tables should know: why columns are empty, and what was lost.
    fn notes(&self) -> Vec<String> {
        let mut lines = Vec::new();
        lines.extend(self.profile.iter().flat_map(|profile| profile.notes.clone()));
        if let Some(locks) = &self.locks {
            lines.extend(locks.notes.clone());
            lines.extend(reasons(&locks.unknown));
        }
        lines.extend(self.softnet.iter().flat_map(|softnet| reasons(&softnet.unknown)));
        lines
    }

    /// The tables of one step.
    fn sections(&self, title: &str, page: &mut Page) {
        if self.profile.is_some() || self.locks.is_some() || self.softnet.is_some() {
            page.section(Section::heading(title));
        }
        if let Some(profile) = &self.profile {
            for (whose, functions) in observed::function_tables(profile) {
                let headline = observed::functions_headline(profile, functions);
                let section = Section::new(format!("{whose} {headline}"));
                let table = observed::functions(functions, FUNCTIONS_SHOWN);
                // The generator's own functions stand on the page alone: the posts look at the server.
                page.section(match whose {
                    "clients" => section.page_table(table),
                    _ => section.table(table),
                });
            }
        }
        if let Some(locks) = &self.locks {
            let section = Section::new("").labelled("kernel locks: ", observed::locks_headline(locks));
            page.section(section.table(observed::locks(locks, LOCKS_SHOWN)));
        }
        if let Some(softnet) = &self.softnet {
            let table = observed::receive_paths(softnet);
            page.section(Section::new("receive path of each CPU").table(table));
        }
    }
}

impl LockComparison {
    /// `aligned, 2 buckets: …`.
    #[must_use]
    pub fn words(&self) -> String {
        let (active, buckets) = (self.buckets_active, buckets(self.buckets_active));
        format!("{}, {active} {buckets}: {}", self.placement, self.sentence)
    }
}
