//! The tables of a bridge and their files: loaded at the start, and reloaded when a file changes or on request, while
//! workers continue with the previous tables.

use super::document::Known;
use super::plan::{BridgePlan, TablePlan};
use crate::shared::lock;
use corelane_stage::Rule;
use corelane_table::{
    AddressMap, BadLines, ListOptions, LoadError, Loaded, Placement, Seed, SnapshotMemory, open_file,
};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

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

struct List {
    plan: TablePlan,
    map: AddressMap,
    /// The file last loaded or rejected.
    used: Option<Stamp>,
    /// The file at the last check.
    seen: Option<Stamp>,
}

/// Identifies a version of a file without reading it: device, inode, length and time of the last change.
type Stamp = (u64, u64, u64, i64, i64);

fn stamp(path: &Path) -> Option<Stamp> {
    let found = fs::metadata(path).ok()?;
    let (seconds, nanoseconds) = (found.mtime(), found.mtime_nsec());
    Some((found.dev(), found.ino(), found.len(), seconds, nanoseconds))
}

impl Lists {
    /// Loads all files; fails at the first invalid one.
    pub(super) fn load(plan: &BridgePlan, known: Known) -> Result<Lists, ListFileError> {
        let mut lists = Lists {
            lists: Vec::new(),
            known,
            skip_bad: plan.skip_bad,
        };
        for (number, table) in plan.tables.iter().enumerate() {
            let used = stamp(&table.file);
            let map = lists.read(number, table)?;
            lists.lists.push(List {
                plan: table.clone(),
                map,
                used,
                seen: used,
            });
        }
        Ok(lists)
    }

    /// Read access to the tables for one worker.
    pub(super) fn rules(&self) -> Vec<Rule> {
        let rule = |list: &List| Rule {
            reader: list.map.reader(),
            sides: list.plan.sides,
            on_match: list.plan.on_match,
        };
        self.lists.iter().map(rule).collect()
    }

    /// Refreshes the tables periodically and when `reload` is set, until `stop`.
    pub(super) fn keep_fresh(mut self, stop: &AtomicBool, reload: &AtomicBool, every: Option<Duration>) {
        /// Interval at which the thread checks its flags.
        const LOOK: Duration = Duration::from_millis(20);
        let mut looked = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            thread::sleep(LOOK);
            let asked = reload.swap(false, Ordering::Relaxed);
            if asked || every.is_some_and(|every| looked.elapsed() >= every) {
                self.refresh(asked);
                looked = Instant::now();
            }
        }
    }

    /// Reloads the files that changed, or all of them. A file that is being written is skipped until two consecutive
    /// checks find it unchanged. Rejected files are counted, and the previous tables kept.
    fn refresh(&mut self, all: bool) {
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
            let plan = list.plan.clone();
            match self.read(number, &plan) {
                Ok(map) => self.lists[number].map.replace(map),
                Err(error) => {
                    let table = &mut lock(&self.known).tables[number];
                    table.refused += 1;
                    table.last_refusal = Some(error.to_string());
                }
            }
        }
    }

    /// Reads a snapshot, or otherwise a list, for a table.
    fn read(&self, number: usize, plan: &TablePlan) -> Result<AddressMap, ListFileError> {
        let started = Instant::now();
        let refused = |source| ListFileError {
            file: plan.file.clone(),
            source,
        };
        let file = open_file(&plan.file).map_err(|error| refused(error.into()))?;
        let options = ListOptions {
            set: plan.set.clone(),
            bad_lines: if self.skip_bad {
                BadLines::Skip
            } else {
                BadLines::Refuse
            },
            ..ListOptions::default()
        };
        // Copied, because a writer may truncate the file under a mapping.
        let memory = SnapshotMemory::Copied(Placement::default());
        let (map, of) = AddressMap::load(&file, &options, Seed::default(), memory).map_err(refused)?;
        let table = &mut lock(&self.known).tables[number];
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
}
