//! Rebalancing as a pure decision: an indirection table and the load of each entry enter; the table that levels the
//! buckets, and the few moves that lead there, leave.
//!
//! Both halves of the problem are hard: the lowest possible fullest bucket is multiprocessor scheduling, and the fewest
//! moves that reach a level is bin packing (Aggarwal, Motwani and Zhu, "The load rebalancing problem", SPAA 2003, name
//! both NP-hard). So the decision is made by documented heuristics, and is told with two proven bounds beside it:
//!
//! 1. `bound`: no assignment of whole entries has a lower fullest bucket (`bound.rs`).
//! 2. The `level`: the bound and a tolerance, because the last percent of evenness costs most of the moves. Where that
//!    cannot be reached, the lowest fullest bucket that can be found, and the tolerance (`level.rs`, `search.rs`,
//!    `fill.rs`).
//! 3. Tables that meet the level by different ways, each relieved of moves it does not need; the one with the fewest
//!    moves wins (`fewest.rs`). Every move left is needed: without any one of them a bucket would exceed the level.
//!
//! The same input gives the same answer on every machine.

mod assignment;
mod bound;
mod fewest;
mod fill;
mod leaving;
mod level;
mod search;

use crate::table::{Bucket, IndirectionTable};
use assignment::Assignment;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What levelled means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Buckets to level over, those that the table names among them. One that has no entry yet gets some.
    pub buckets: usize,
    /// How far above the lowest level found the fullest bucket may stay, as a share of that level.
    pub tolerance: f64,
}

impl Options {
    /// The tolerance unless told otherwise: less than one percent or two is lost in how loads change from second to
    /// second, and costs most of the moves.
    pub const TOLERANCE: f64 = 0.02;

    /// Levels over so many buckets with the usual tolerance.
    #[must_use]
    pub const fn new(buckets: usize) -> Options {
        Options {
            buckets,
            tolerance: Options::TOLERANCE,
        }
    }
}

/// A table that levels the buckets, and how it differs from the one before. Loads are in the unit they were given in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rebalanced {
    /// The new table, of the same size.
    pub table: IndirectionTable,
    /// The entries that change their bucket, ascending; none when the table is level already.
    pub moves: Vec<Move>,
    /// Load of the fullest bucket under the old table.
    pub fullest_before: u64,
    /// Load of the fullest bucket under the new table; never more than before.
    pub fullest_after: u64,
    /// What the fullest bucket was allowed: the bound, or where that is out of reach the lowest level found, and the
    /// tolerance.
    pub level: u64,
    /// No assignment of whole entries to as many buckets has a fullest bucket below this.
    pub bound: u64,
    /// No fewer moves bring every bucket to `level`.
    pub moves_bound: usize,
}

/// One entry that changes its bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// The entry of the indirection table.
    pub entry: usize,
    /// The bucket that it named.
    pub from: Bucket,
    /// The bucket that it names from now on.
    pub to: Bucket,
    /// Its load.
    pub load: u64,
}

/// Decides which entries of `table` to move so that the fullest bucket is level.
///
/// `entry_loads` has the load of every entry over some time, in datagrams, bytes or anything that adds up. An entry
/// moves whole: its flows share the hash bits that the table sees, so nothing finer can be moved.
///
/// # Errors
/// When loads and entries differ in number, loads add up to more than 64 bits hold, the table names buckets beyond
/// `options.buckets`, or the tolerance is no share.
pub fn rebalance(
    table: &IndirectionTable,
    entry_loads: &[u64],
    options: Options,
) -> Result<Rebalanced, BalanceError> {
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

fn check(table: &IndirectionTable, entry_loads: &[u64], options: Options) -> Result<(), BalanceError> {
    if entry_loads.len() != table.size() {
        return Err(BalanceError::Entries {
            entries: table.size(),
            loads: entry_loads.len(),
        });
    }
    let total = entry_loads
        .iter()
        .try_fold(0_u64, |total, load| total.checked_add(*load));
    if total.is_none() {
        return Err(BalanceError::Total);
    }
    let named = table.buckets();
    if options.buckets < named || options.buckets > MOST_BUCKETS {
        return Err(BalanceError::Buckets {
            named,
            buckets: options.buckets,
        });
    }
    if !(0.0..=1.0).contains(&options.tolerance) {
        return Err(BalanceError::Tolerance {
            tolerance: options.tolerance,
        });
    }
    Ok(())
}

/// More buckets than the largest table has entries would be buckets that nothing can reach.
const MOST_BUCKETS: usize = IndirectionTable::LARGEST;

/// Why there is nothing to decide.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum BalanceError {
    /// Not one load an entry.
    #[error(
        "{loads} loads for an indirection table of {entries} entries: give the load of every entry, zeros too"
    )]
    Entries {
        /// Entries of the table.
        entries: usize,
        /// Loads given.
        loads: usize,
    },
    /// The loads add up to more than 64 bits hold.
    #[error("the loads add up to more than 2^64: count over a shorter time, or in a larger unit")]
    Total,
    /// Fewer buckets than the table names, or more than entries could reach.
    #[error("{buckets} buckets for a table that names {named}: give {named} to {MOST_BUCKETS}")]
    Buckets {
        /// Buckets that the table's numbering spans.
        named: usize,
        /// Buckets given.
        buckets: usize,
    },
    /// A tolerance that is no share.
    #[error("a tolerance of {tolerance}: give a share from 0 to 1, such as 0.02")]
    Tolerance {
        /// The tolerance given.
        tolerance: f64,
    },
}
