//! Rebalancing as a pure function: from an indirection table and the load of each entry, it computes a table that
//! levels the buckets with few moves.
//!
//! Both halves of the problem are hard: the lowest possible fullest bucket is multiprocessor scheduling, and the fewest
//! moves that reach a level is bin packing (Aggarwal, Motwani and Zhu, "The load rebalancing problem", SPAA 2003, name
//! both NP-hard). Documented heuristics therefore make the decision, and the result includes two proven bounds:
//!
//! 1. `bound`: no assignment of whole entries has a lower fullest bucket (`bound.rs`).
//! 2. The `level`: the bound plus a tolerance, because the last percent of evenness costs most of the moves. If the
//!    bound cannot be reached, the lowest fullest bucket found, plus the tolerance (`level.rs`, `fill.rs`).
//! 3. Several methods produce tables that meet the level, and unneeded moves are undone; the table with the fewest
//!    moves wins (`fewest.rs`). Every remaining move is needed: without it a bucket would exceed the level.
//!
//! The same input gives the same result on every machine.

mod assignment;
mod bound;
mod fewest;
mod fill;
mod leaving;
mod level;
mod live;

pub use live::{EntryLoads, Policy, Rebalancer};

use crate::error::InputError;
use crate::table::{Bucket, IndirectionTable};
use assignment::Assignment;
use serde::{Deserialize, Serialize};

/// Options of rebalancing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Buckets to level over, those that the table names among them. One that has no entry yet gets some.
    pub buckets: usize,
    /// How far above the lowest level found the fullest bucket may stay, as a share of that level.
    pub tolerance: f64,
}

impl Options {
    /// The default tolerance: a difference below one or two percent is smaller than the variation of loads between
    /// seconds, and would cost most of the moves.
    pub const TOLERANCE: f64 = 0.02;

    /// Levels over this many buckets with the default tolerance.
    #[must_use]
    pub const fn new(buckets: usize) -> Options {
        Options {
            buckets,
            tolerance: Options::TOLERANCE,
        }
    }
}

/// A table that levels the buckets, and its differences from the old one. Loads are in the unit of the input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rebalanced {
    /// The new table, of the same size.
    pub table: IndirectionTable,
    /// The entries that change their bucket, ascending; empty if the table is already level.
    pub moves: Vec<Move>,
    /// Load of the fullest bucket under the old table.
    pub fullest_before: u64,
    /// Load of the fullest bucket under the new table; never more than before.
    pub fullest_after: u64,
    /// Maximum load allowed for a bucket: the bound, or the lowest level found if the bound is out of reach, plus the
    /// tolerance.
    pub level: u64,
    /// Lower bound of the fullest bucket, for any assignment of whole entries to the same number of buckets.
    pub bound: u64,
    /// Lower bound of the moves that bring every bucket to `level`.
    pub moves_bound: usize,
}

/// One entry that changes its bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// The entry of the indirection table.
    pub entry: usize,
    /// Its old bucket.
    pub from: Bucket,
    /// Its new bucket.
    pub to: Bucket,
    /// Its load.
    pub load: u64,
}

/// Decides which entries of `table` to move so that every bucket is at most at the level.
///
/// `entry_loads` has the load of every entry over some time, in datagrams, bytes or anything that adds up. An entry
/// moves as a whole: its flows share the hash bits that index the table, so they cannot be moved separately.
///
/// # Errors
/// If the numbers of loads and entries differ, the loads add up to more than 64 bits hold, the table names buckets
/// beyond `options.buckets`, or the tolerance is not between 0 and 1.
pub fn rebalance(
    table: &IndirectionTable,
    entry_loads: &[u64],
    options: Options,
) -> Result<Rebalanced, InputError> {
    check(table, entry_loads, options)?;
    let origin = table.entries().iter().map(|bucket| bucket.index()).collect();
    let present = Assignment::new(entry_loads, origin, options.buckets);
    let bound = bound::fullest(entry_loads, options.buckets);
    let (level, levelled) = level::reach(&present, bound, options.tolerance);
    let after = fewest::moves(&present, levelled, level);
    let entries: Vec<Bucket> = after
        .bucket_of
        .iter()
        .map(|&bucket| Bucket::new(bucket as u16))
        .collect();
    let pairs = table.entries().iter().zip(&entries).enumerate();
    let moved = pairs.filter(|(_, (from, to))| from != to);
    Ok(Rebalanced {
        moves: moved
            .map(|(entry, (&from, &to))| Move {
                entry,
                from,
                to,
                load: entry_loads[entry],
            })
            .collect(),
        table: IndirectionTable::from_entries(entries).expect("the new table has the size of the old one"),
        fullest_before: present.fullest(),
        fullest_after: after.fullest(),
        level,
        bound,
        moves_bound: bound::moves(&present, level),
    })
}

/// The table after these moves.
#[must_use]
pub fn moved(table: &IndirectionTable, moves: &[Move]) -> IndirectionTable {
    let mut entries = table.entries().to_vec();
    for entry in moves {
        entries[entry.entry] = entry.to;
    }
    IndirectionTable::from_entries(entries).expect("the new table has the size of the old one")
}

/// The load of each bucket under `table`: `buckets` of them, or as many as the table names if those are more.
///
/// Loads beyond the table's entries are ignored, and missing ones are zero.
#[must_use]
pub fn bucket_loads(table: &IndirectionTable, entry_loads: &[u64], buckets: usize) -> Vec<u64> {
    let mut loads = vec![0_u64; buckets.max(table.buckets())];
    for (bucket, load) in table.entries().iter().zip(entry_loads) {
        loads[bucket.index()] = loads[bucket.index()].saturating_add(*load);
    }
    loads
}

fn check(table: &IndirectionTable, entry_loads: &[u64], options: Options) -> Result<(), InputError> {
    let (entries, loads, named) = (table.size(), entry_loads.len(), table.buckets());
    let Options { buckets, tolerance } = options;
    let mut loads_left = entry_loads.iter();
    let total = loads_left.try_fold(0_u64, |total, load| total.checked_add(*load));
    Err(InputError(if loads != entries {
        format!(
            "{loads} loads for an indirection table of {entries} entries: give the load of every entry, zeros too"
        )
    } else if total.is_none() {
        "the loads add up to more than 2^64: count over a shorter time, or in a larger unit".to_owned()
    } else if buckets < named || buckets > MOST_BUCKETS {
        format!("{buckets} buckets for a table that names {named}: give {named} to {MOST_BUCKETS}")
    } else if !(0.0..=1.0).contains(&tolerance) {
        format!("a tolerance of {tolerance}: give a share from 0 to 1, such as 0.02")
    } else {
        return Ok(());
    }))
}

/// With more buckets than the largest table has entries, some could never be reached.
const MOST_BUCKETS: usize = IndirectionTable::LARGEST;
