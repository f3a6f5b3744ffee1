//! The tables of a bridge and their files: read at the start, and again when a file changes or somebody asks, while workers
//! go on with what they have.

use super::classify::Rule;
use super::document::Known;
use super::plan::{BridgePlan, TablePlan};
use corelane_table::{
    self as table, AddressMap, BadLines, ListOptions, LoadError, Placement, Seed, SnapshotMemory,
};
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

/// What tells one content of a file from another, without reading it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl Stamp {
    fn of(path: &Path) -> Option<Stamp> {
        let found = fs::metadata(path).ok()?;
        Some(Stamp {
            device: found.dev(),
            inode: found.ino(),
            bytes: found.len(),
            modified: (found.mtime(), found.mtime_nsec()),
        })
    }
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
            let used = Stamp::of(&table.file);
            let loaded = load(&table.file, plan.skip_bad)?;
            lists.note(number, &loaded);
            lists.lists.push(List {
                plan: table.clone(),
                map: loaded.map,
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
            let now = Stamp::of(&list.plan.file);
            let rests = now == list.seen;
            list.seen = now;
            if !all && (!rests || now == list.used) {
                continue;
            }
            list.used = now;
            match load(&list.plan.file, self.skip_bad) {
                Ok(loaded) => {
                    self.note(number, &loaded);
                    self.lists[number].map.replace(loaded.map);
                }
                Err(error) => {
                    let table = &mut self.known.lock().tables[number];
                    table.refused += 1;
                    table.last_refusal = Some(error.to_string());
                }
            }
        }
    }

    fn note(&self, number: usize, loaded: &Loaded) {
        let table = &mut self.known.lock().tables[number];
        table.entries = loaded.map.len() as u64;
        table.memory_bytes = loaded.map.memory_bytes() as u64;
        table.loads += 1;
        table.skipped_lines = loaded.skipped;
        table.load_s = loaded.took.as_secs_f64();
    }
}

/// A file that was read.
struct Loaded {
    map: AddressMap,
    skipped: u64,
    took: Duration,
}

/// Reads a snapshot, or else a list.
fn load(path: &Path, skip_bad: bool) -> Result<Loaded, ListFileError> {
    let started = Instant::now();
    let refused = |source| ListFileError {
        file: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(|error| refused(error.into()))?;
    let options = ListOptions {
        bad_lines: if skip_bad {
            BadLines::Skip
        } else {
            BadLines::Refuse
        },
        ..ListOptions::default()
    };
    // Copied, because whoever replaces the file may cut it short under a mapping.
    let memory = SnapshotMemory::Copied(Placement::default());
    let (map, of) = AddressMap::load(&file, &options, Seed::default(), memory).map_err(refused)?;
    Ok(Loaded {
        map,
        skipped: match of {
            table::Loaded::Snapshot => 0,
            table::Loaded::List(summary) => summary.skipped,
        },
        took: started.elapsed(),
    })
}
