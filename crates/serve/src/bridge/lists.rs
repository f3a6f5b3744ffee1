//! The tables of a bridge and their files: loaded at the start, and reloaded when a file changes or on request, while
//! workers continue with the previous tables.

use super::document::{Known, TableBridged};
use super::plan::{BridgePlan, TablePlan};
use crate::shared::lock;
use corelane_stage::{Rule, RuleCounts};
use corelane_table::{
    AddressMap, BadLines, ListOptions, LoadError, Loaded, Placement, Seed, SnapshotMemory, open_file,
};
use std::fs;
use std::mem;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Why a table file was rejected.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", .file.display())]
pub struct ListFileError {
    /// The file.
    pub file: PathBuf,
    /// The error, with the line number for a list.
    pub source: LoadError,
}

/// The tables of a bridge, in order.
pub(super) struct Lists {
    lists: Vec<List>,
    known: Known,
    skip_bad: bool,
}

/// One table.
pub(super) struct List {
    plan: TablePlan,
    map: AddressMap,
    /// The file last loaded or rejected.
    used: Option<Stamp>,
    /// The file at the last check.
    seen: Option<Stamp>,
    /// By worker.
    counts: Vec<Arc<RuleCounts>>,
}

/// Identifies a version of a file without reading it: device, inode, length and time of the last change.
type Stamp = (u64, u64, u64, i64, i64);

fn stamp(path: &Path) -> Option<Stamp> {
    let found = fs::metadata(path).ok()?;
    let (seconds, nanoseconds) = (found.mtime(), found.mtime_nsec());
    Some((found.dev(), found.ino(), found.len(), seconds, nanoseconds))
}

/// A table as it is read, and as the document shows it.
pub(super) type Read = (List, TableBridged);

impl Lists {
    /// Loads all files; fails at the first invalid one.
    pub(super) fn load(plan: &BridgePlan, known: Known) -> Result<Lists, ListFileError> {
        let mut lists = Lists {
            lists: Vec::new(),
            known: Arc::clone(&known),
            skip_bad: plan.skip_bad,
        };
        let read = lists.read_new(plan)?;
        lists.take(plan, read, &mut lock(&known).tables);
        Ok(lists)
    }

    /// Reads the tables of a plan that are not there yet; fails at the first invalid one.
    pub(super) fn read_new(&self, plan: &BridgePlan) -> Result<Vec<Read>, ListFileError> {
        let mut there: Vec<&TablePlan> = self.lists.iter().map(|list| &list.plan).collect();
        let mut read = Vec::new();
        for table in &plan.tables {
            if let Some(at) = there.iter().position(|one| one.has_entries_of(table)) {
                there.remove(at);
                continue;
            }
            let (used, mut shown) = (stamp(&table.file), TableBridged::planned(table));
            let list = List {
                map: load(table, plan.skip_bad, &mut shown)?,
                plan: table.clone(),
                used,
                seen: used,
                counts: Vec::new(),
            };
            read.push((list, shown));
        }
        Ok(read)
    }

    /// Has the tables of this plan: those that are there, with their counts, and these new ones. `shown` is the document's.
    pub(super) fn take(&mut self, plan: &BridgePlan, read: Vec<Read>, shown: &mut Vec<TableBridged>) {
        let mut there: Vec<Read> = mem::take(&mut self.lists)
            .into_iter()
            .zip(mem::take(shown))
            .collect();
        let mut read = read.into_iter();
        for table in &plan.tables {
            let at = there.iter().position(|(one, _)| one.plan.has_entries_of(table));
            let found = at.map(|at| there.remove(at)).or_else(|| read.next());
            if let Some((mut list, before)) = found {
                list.plan = table.clone();
                self.lists.push(list);
                shown.push(TableBridged {
                    sides: table.sides,
                    on_match: table.on_match,
                    ..before
                });
            }
        }
        self.skip_bad = plan.skip_bad;
    }

    /// Read access to the tables for one worker, and its counts.
    pub(super) fn rules(&mut self, worker: usize) -> Vec<Rule> {
        let rule = |list: &mut List| {
            if list.counts.len() <= worker {
                list.counts.resize_with(worker + 1, Arc::default);
            }
            Rule {
                reader: list.map.reader(),
                sides: list.plan.sides,
                on_match: list.plan.on_match,
                counts: Arc::clone(&list.counts[worker]),
            }
        };
        self.lists.iter_mut().map(rule).collect()
    }

    /// Reloads the files that changed, or all of them. A file that is being written is skipped until two consecutive
    /// checks find it unchanged. Rejected files are counted, and the previous tables kept.
    pub(super) fn refresh(&mut self, all: bool) {
        for number in 0..self.lists.len() {
            let list = &mut self.lists[number];
            // Replaced tables are freed once no worker uses them.
            list.map.reclaim();
            let now = stamp(&list.plan.file);
            let rests = now == list.seen;
            list.seen = now;
            if !all && (!rests || now == list.used) {
                continue;
            }
            list.used = now;
            let mut shown = lock(&self.known).tables[number].clone();
            match load(&list.plan, self.skip_bad, &mut shown) {
                Ok(map) => list.map.replace(map),
                Err(error) => {
                    shown.refused += 1;
                    shown.last_refusal = Some(error.to_string());
                }
            }
            lock(&self.known).tables[number] = shown;
        }
    }
}

/// Reads a snapshot, or otherwise a list, for a table that is shown so.
fn load(plan: &TablePlan, skip_bad: bool, table: &mut TableBridged) -> Result<AddressMap, ListFileError> {
    let started = Instant::now();
    let refused = |source| ListFileError {
        file: plan.file.clone(),
        source,
    };
    let file = open_file(&plan.file).map_err(|error| refused(error.into()))?;
    let options = ListOptions {
        set: plan.set.clone(),
        bad_lines: if skip_bad {
            BadLines::Skip
        } else {
            BadLines::Refuse
        },
        ..ListOptions::default()
    };
    // Copied, because a writer may truncate the file under a mapping.
    let memory = SnapshotMemory::Copied(Placement::default());
    let (map, of) = AddressMap::load(&file, &options, Seed::default(), memory).map_err(refused)?;
    table.entries = map.len() as u64;
    table.memory_bytes = map.memory_bytes() as u64;
    table.loads += 1;
    table.skipped_lines = match of {
        Loaded::Snapshot => 0,
        Loaded::List(summary) => summary.skipped,
    };
    table.load_s = started.elapsed().as_secs_f64();
    Ok(map)
}
