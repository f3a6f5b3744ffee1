//! Searches for the lowest fullest bucket: descent from the present assignment by moves and exchanges.

use super::assignment::Assignment;
use super::fill;

/// A fullest bucket within one part in this many of the bound counts as optimal: loads are not known more exactly.
const PARTS_OF_BOUND: u64 = 1000;

/// A reachable level, at most `tolerance` above the lowest one found, and an assignment that reaches it, regardless of
/// the number of moves.
///
/// Descent alone suffices if buckets have many entries. If it stops short, exact filling is tried, which is best with few
/// entries per bucket.
pub(super) fn reach<'a>(present: &Assignment<'a>, bound: u64, tolerance: f64) -> (u64, Assignment<'a>) {
    let tolerated = |load: u64| load.saturating_add((load as f64 * tolerance) as u64);
    let mut best = present.clone();
    descend(&mut best, tolerated(bound));
    if best.fullest() <= tolerated(bound) {
        return (tolerated(bound), best);
    }
    let enough = bound.saturating_add(bound / PARTS_OF_BOUND);
    best = fill::below(&best, enough).unwrap_or(best);
    (tolerated(best.fullest()), best)
}

/// Maximum steps of a descent per entry. A descent terminates because every step makes the loads more even, but there
/// is no known bound on its length.
const STEPS_PER_ENTRY: usize = 8;

/// Repeatedly reduces the fullest bucket until it is at most `level` or no step helps.
///
/// A step moves one entry to another bucket or exchanges two. A step that brings both buckets to the level is
/// preferred, because it ends the work on them; then the one with the largest gain per move.
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

/// A step that reduces the fullest bucket.
#[derive(Clone, Copy)]
enum Step {
    /// One of its entries goes to the emptiest bucket.
    Move { entry: usize, to: usize },
    /// One of its entries is exchanged with a smaller one elsewhere.
    Exchange { entry: usize, with: usize },
}

/// The worth of a step: whether it brings both buckets to the level, and its gain by two moves.
type Worth = (bool, u64);

/// The best step from the fullest bucket; none if every step would leave it or the other bucket as full.
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
        // At best an exchange makes both equal.
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

/// Effect of shifting this much load from one bucket to another: whether both then meet the level, and the decrease of
/// the fuller one.
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
        // Alone it shifts less than half of the difference, so moving it levels more than exchanging it.
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
