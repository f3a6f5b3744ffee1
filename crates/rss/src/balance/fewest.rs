//! Finds an assignment that meets a level with few moves.

use super::assignment::{Assignment, largest_first, tightest_bucket};
use super::{leaving, level};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// How many entries more than necessary may be moved out of a full bucket: several light ones may fit where one heavy
/// one does not.
const MOST_MORE: usize = 2;

/// An assignment whose buckets all meet `level`, with few entries in other buckets than in `present`.
///
/// `best` meets the level. Three methods are tried. First, as few entries as possible or a few more are moved out of
/// full buckets and packed into free room. Second, the present assignment descends to the level. Third, the buckets of
/// `best` are renamed to match the present ones. Unneeded moves are then undone. The result with the fewest moves wins;
/// among equals, the most level one.
pub(super) fn moves<'a>(present: &Assignment<'a>, best: Assignment<'a>, level: u64) -> Assignment<'a> {
    if present.fullest() <= level {
        return present.clone();
    }
    let mut descended = present.clone();
    level::descend(&mut descended, level);
    let ways = (0..=MOST_MORE).map(|more| repacked(present, level, more));
    let ways = ways.chain([Some(descended), Some(renamed(present, &best))]);
    let within = ways.flatten().filter(|way| way.fullest() <= level);
    let relieved = within.map(|mut way| {
        take_back(present, &mut way, level);
        way
    });
    relieved
        .min_by_key(|way| (moved(present, way).len(), way.fullest()))
        .unwrap_or(best)
}

/// The entries that are in another bucket than in `present`, ascending.
fn moved(present: &Assignment<'_>, after: &Assignment<'_>) -> Vec<usize> {
    let entries = 0..present.entry_loads.len();
    entries
        .filter(|&entry| present.bucket_of[entry] != after.bucket_of[entry])
        .collect()
}

/// Moves as few entries as possible, plus `more`, out of every bucket above the level. Then packs them, largest first,
/// each into the bucket that it fills best; `None` if one fits nowhere.
fn repacked<'a>(present: &Assignment<'a>, level: u64, more: usize) -> Option<Assignment<'a>> {
    let buckets = 0..present.buckets();
    let leaving = buckets.flat_map(|bucket| leaving::lightest(present, bucket, level, more));
    let leaving = largest_first(leaving, present.entry_loads);
    let mut bucket_of = present.bucket_of.to_vec();
    let mut loads = present.bucket_loads.to_vec();
    for &entry in &leaving {
        loads[bucket_of[entry]] -= present.entry_loads[entry];
    }
    for entry in leaving {
        let bucket = tightest_bucket(&loads, present.entry_loads[entry], level)?;
        loads[bucket] += present.entry_loads[entry];
        bucket_of[entry] = bucket;
    }
    Some(Assignment::new(present.entry_loads, bucket_of, present.buckets()))
}

/// `best` with its buckets renamed: the bucket that shares most entries with a present one gets its name, and so on.
fn renamed<'a>(present: &Assignment<'a>, best: &Assignment<'a>) -> Assignment<'a> {
    let mut shared: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for bucket in 0..best.buckets() {
        for &entry in &best.loaded[bucket] {
            *shared.entry((bucket, present.bucket_of[entry])).or_default() += 1;
        }
    }
    let mut pairs: Vec<((usize, usize), usize)> = shared.into_iter().collect();
    pairs.sort_by_key(|&(_, entries)| Reverse(entries));
    let mut names: Vec<Option<usize>> = vec![None; best.buckets()];
    let mut free = vec![true; best.buckets()];
    for ((bucket, name), _) in pairs {
        if names[bucket].is_none() && free[name] {
            names[bucket] = Some(name);
            free[name] = false;
        }
    }
    let mut unused = (0..best.buckets()).filter(|&name| free[name]);
    let names: Vec<usize> = names
        .into_iter()
        .map(|name| name.or_else(|| unused.next()).expect("as many names as buckets"))
        .collect();
    let bucket_of = best.bucket_of.iter().map(|&bucket| names[bucket]).collect();
    Assignment::new(present.entry_loads, bucket_of, present.buckets())
}

/// Undoes moves while possible: an entry returns to its old bucket if there is room, or if another entry that was moved
/// there can move elsewhere. Every success reduces the number of moved entries, so this terminates.
fn take_back(present: &Assignment<'_>, after: &mut Assignment<'_>, level: u64) {
    loop {
        let away = largest_first(moved(present, after), present.entry_loads);
        let before = away.len();
        for entry in away {
            let home = present.bucket_of[entry];
            if after.bucket_loads[home] + after.entry_loads[entry] <= level {
                after.move_entry(entry, home);
            } else if after.bucket_of[entry] != home {
                exchange(present, after, entry, level);
            }
        }
        if moved(present, after).len() == before {
            return;
        }
    }
}

/// Moves `entry` back in exchange for an entry that was moved to its bucket; that one returns to its old bucket or goes
/// where it fills best.
fn exchange(present: &Assignment<'_>, after: &mut Assignment<'_>, entry: usize, level: u64) {
    let (home, away) = (present.bucket_of[entry], after.bucket_of[entry]);
    after.move_entry(entry, home);
    for other in after.loaded[home].iter().copied() {
        let (load, own) = (after.entry_loads[other], present.bucket_of[other]);
        let crowded = after.bucket_loads[home] - load > level;
        if own == home || crowded {
            continue;
        }
        let to = if after.bucket_loads[own] + load <= level {
            Some(own)
        } else {
            // Never `home`, which holds more than the level until the other has left.
            tightest_bucket(&after.bucket_loads, load, level)
        };
        if let Some(to) = to {
            after.move_entry(other, to);
            return;
        }
    }
    after.move_entry(entry, away);
}
