//! The tables of a bridge and their files: read at the start, and again when a file changes or somebody asks, while workers
//! go on with what they have.

use super::classify::Rule;
use super::document::Known;
use super::plan::{BridgePlan, TablePlan};
use corelane_table::{AddressMap, BadLines, ListOptions, LoadError, Loaded, Placement, Seed, SnapshotMemory};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Why a table's file was not taken.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", .file.display())]
pub struct ListFileError {
    /// The file.
    pub file: PathBuf,
    /// What is wrong, with the line where it is a list.
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
    /// The file that the map was made of, or that was refused.
    used: Option<Stamp>,
    /// The file when it was last looked at.
    seen: Option<Stamp>,
}

/// What distinguishes one content of a file from another, without reading it: device, inode, length and time of the last change.
type Stamp = (u64, u64, u64, i64, i64);

fn stamp(path: &Path) -> Option<Stamp> {
    let found = fs::metadata(path).ok()?;
    let (seconds, nanoseconds) = (found.mtime(), found.mtime_nsec());
    Some((found.dev(), found.ino(), found.len(), seconds, nanoseconds))
}

impl Lists {
    /// Reads all files; the first one that is wrong is refused.
    pub(super) fn load(plan: &BridgePlan, known: Known) -> Result<Lists, ListFileError> {
        let mut lists = Lists {
            lists: Vec::new(),
            known,
            skip_bad: plan.skip_bad,
        };
        for (number, table) in plan.tables.iter().enumerate() {
            let used = stamp(&table.file);
            let map = lists.read(number, &table.file)?;
            lists.lists.push(List {
                plan: table.clone(),
                map,
                used,
                seen: used,
            });
        }
        Ok(lists)
    }

    /// The tables as one worker asks them.
    pub(super) fn rules(&self) -> Vec<Rule> {
        let rule = |list: &List| Rule {
            reader: list.map.reader(),
            sides: list.plan.sides,
            on_match: list.plan.on_match,
        };
        self.lists.iter().map(rule).collect()
    }

    /// Refreshes them every so often and when `reload` asks for it, until `stop`.
    pub(super) fn keep_fresh(mut self, stop: &AtomicBool, reload: &AtomicBool, every: Option<Duration>) {
        /// How often the thread looks whether it is wanted.
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

    /// Reads the files that changed since, or all of them. A file that is being written is left until it rests: until two
    /// looks at it find the same. Files that are refused are counted, and the tables before stay.
    fn refresh(&mut self, all: bool) {
        for number in 0..self.lists.len() {
            let list = &mut self.lists[number];
            // Replaced tables live until no worker holds them.
            list.map.reclaim();
            let now = stamp(&list.plan.file);
            let rests = now == list.seen;
            list.seen = now;
            if !all && (!rests || now == list.used) {
                continue;
            }
            list.used = now;
            let file = list.plan.file.clone();
            match self.read(number, &file) {
                Ok(map) => self.lists[number].map.replace(map),
                Err(error) => {
                    let table = &mut self.known.lock().tables[number];
                    table.refused += 1;
                    table.last_refusal = Some(error.to_string());
                }
            }
        }
    }

    /// Reads a snapshot, or else a list, for a table.
    fn read(&self, number: usize, path: &Path) -> Result<AddressMap, ListFileError> {
        let started = Instant::now();
        let refused = |source| ListFileError {
            file: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(|error| refused(error.into()))?;
        let options = ListOptions {
            bad_lines: if self.skip_bad {
                BadLines::Skip
            } else {
                BadLines::Refuse
            },
            ..ListOptions::default()
        };
        // Copied, because whoever replaces the file may cut it short under a mapping.
        let memory = SnapshotMemory::Copied(Placement::default());
        let (map, of) = AddressMap::load(&file, &options, Seed::default(), memory).map_err(refused)?;
        let table = &mut self.known.lock().tables[number];
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
