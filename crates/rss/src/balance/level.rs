//! The lowest fullest bucket that can be found: descent by moves and exchanges, from scratch and from the present.

use super::assignment::{self, Assignment};
use super::{fill, search};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A fullest bucket this close to the bound, one part in so many, is as good as at it: loads are not known more exactly.
const PARTS_OF_BOUND: u64 = 1000;

/// Given an assignment, looks for one with a lower fullest bucket, down to a load that is low enough.
type Way<'a> = fn(&Assignment<'a>, u64) -> Option<Assignment<'a>>;

/// A level that can be reached, no further above the lowest that was found than `tolerance`, and an assignment that
/// reaches it, whose moves are not counted yet.
///
/// Descent alone is enough where buckets have many entries. Where it stops short, the other ways are tried: a complete
/// search when there are few entries in all, and exact filling, which is best when there are few a bucket.
pub(super) fn reach<'a>(present: &Assignment<'a>, bound: u64, tolerance: f64) -> (u64, Assignment<'a>) {
    let tolerated = |load: u64| load.saturating_add((load as f64 * tolerance) as u64);
    let mut best = present.clone();
    descend(&mut best, tolerated(bound));
    if best.fullest() <= tolerated(bound) {
        return (tolerated(bound), best);
    }
    let enough = bound.saturating_add(bound / PARTS_OF_BOUND);
    for below in [
        from_scratch as Way<'a>,
        search::below as Way<'a>,
        fill::below as Way<'a>,
    ] {
        let found = below(&best, enough).filter(|found| found.fullest() < best.fullest());
        best = found.unwrap_or(best);
        if best.fullest() <= enough {
            break;
        }
    }
    (tolerated(best.fullest()), best)
}

fn from_scratch<'a>(best: &Assignment<'a>, enough: u64) -> Option<Assignment<'a>> {
    let mut scratch = largest_first(best);
    descend(&mut scratch, enough);
    Some(scratch)
}

/// Every entry, largest first, to the bucket that is emptiest then: at most a third above the lowest (R. L. Graham,
/// "Bounds on multiprocessing timing anomalies", 1969), and mostly much closer.
fn largest_first<'a>(present: &Assignment<'a>) -> Assignment<'a> {
    let loads = present.entry_loads;
    let mut emptiest: BinaryHeap<Reverse<(u64, usize)>> = (0..present.buckets())
        .map(|bucket| Reverse((0, bucket)))
        .collect();
    let mut bucket_of: Vec<usize> = present.bucket_of.to_vec();
    for entry in assignment::largest_first(0..loads.len(), loads) {
        if let Some(Reverse((held, bucket))) = emptiest.pop() {
            bucket_of[entry] = bucket;
            emptiest.push(Reverse((held + loads[entry], bucket)));
        }
    }
    Assignment::new(loads, bucket_of, present.buckets())
}

/// Steps of a descent for each entry. Descents end by themselves, since every step makes the loads more even, but nobody
/// has shown that they end soon.
const STEPS_PER_ENTRY: usize = 8;

/// Relieves the fullest bucket, again and again, until it is at most `level` or no step helps.
///
/// A step moves one entry to another bucket or exchanges two. One that brings both buckets to the level is taken first,
/// because it ends the work on them; then the one with the most gain a move.
pub(super) fn descend(assignment: &mut Assignment<'_>, level: u64) {
    for _ in 0..STEPS_PER_ENTRY * assignment.entry_loads.len() {
        if assignment.fullest() <= level {
            return;
        }
        match best_step(assignment, level) {
            Some(Step::Move { entry, to }) => assignment.move_entry(entry, to),
            Some(Step::Exchange { entry, with }) => {
                let (from, to) = (assignment.bucket_of[entry], assignment.bucket_of[with]);
                assignment.move_entry(entry, to);
                assignment.move_entry(with, from);
            }
            None => return,
        }
    }
}

/// What relieves the fullest bucket.
#[derive(Clone, Copy)]
enum Step {
    /// One of its entries goes to the emptiest bucket.
    Move { entry: usize, to: usize },
    /// One of its entries changes places with a smaller one elsewhere.
    Exchange { entry: usize, with: usize },
}

/// The worth of a step: whether it brings both buckets to the level, and its gain by two moves.
type Worth = (bool, u64);

/// The step of most worth from the fullest bucket; none if every step would leave it or the other bucket as full.
fn best_step(assignment: &Assignment<'_>, level: u64) -> Option<Step> {
    let from = assignment.bucket_of_load(assignment.fullest());
    let least = assignment.bucket_loads.iter().min().copied();
    let emptiest = assignment.bucket_of_load(least.unwrap_or(0));
    let mut best: Option<Step> = None;
    let mut most_worth: Worth = (false, 0);
    for &entry in &assignment.loaded[from] {
        let (meets, gain) = outcome(assignment, (from, emptiest), assignment.entry_loads[entry], level);
        let worth = (meets, gain.saturating_mul(2));
        if worth > most_worth {
            (best, most_worth) = (Some(Step::Move { entry, to: emptiest }), worth);
        }
    }
    for to in 0..assignment.buckets() {
        // At best an exchange makes both alike.
        if outcome(
            assignment,
            (from, to),
            difference(assignment, from, to).div_ceil(2),
            level,
        ) <= most_worth
        {
            continue;
        }
        for &entry in &assignment.loaded[from] {
            for with in partners(assignment, entry, from, to).into_iter().flatten() {
                let shift = assignment.entry_loads[entry] - assignment.entry_loads[with];
                let worth = outcome(assignment, (from, to), shift, level);
                if worth > most_worth {
                    (best, most_worth) = (Some(Step::Exchange { entry, with }), worth);
                }
            }
        }
    }
    best
}

/// How much more one bucket holds than another, which holds no more.
fn difference(assignment: &Assignment<'_>, from: usize, to: usize) -> u64 {
    assignment.bucket_loads[from] - assignment.bucket_loads[to]
}

/// What comes of shifting so much load from one bucket to another: whether both then meet the level, and by how much the
/// fuller of them falls.
fn outcome(assignment: &Assignment<'_>, (from, to): (usize, usize), shift: u64, level: u64) -> Worth {
    let loads = &assignment.bucket_loads;
    let fuller = (loads[from] - shift).max(loads[to] + shift);
    (fuller <= level, loads[from].saturating_sub(fuller))
}

/// The entries of bucket `to` whose exchange with `entry` would level the two buckets best: the last that shifts at least
/// half the difference, and the first that shifts less.
fn partners(assignment: &Assignment<'_>, entry: usize, from: usize, to: usize) -> [Option<usize>; 2] {
    let load = assignment.entry_loads[entry];
    let candidates = &assignment.loaded[to];
    let Some(wanted) = load.checked_sub(difference(assignment, from, to) / 2) else {
        // Alone it shifts less than half the difference: to move it levels more than to exchange it.
        return [None; 2];
    };
    let above = candidates.partition_point(|&with| assignment.entry_loads[with] <= wanted);
    let last_below = above.checked_sub(1).map(|at| candidates[at]);
    let first_above = candidates
        .get(above)
        .copied()
        .filter(|&with| assignment.entry_loads[with] < load);
    [last_below, first_above]
}
