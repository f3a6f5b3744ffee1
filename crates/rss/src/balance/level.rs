//! The lowest fullest bucket that can be found: descent by moves and exchanges, from scratch and from the present.

use super::assignment::Assignment;
use super::{fill, search};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A fullest bucket this close to the bound, one part in so many, is as good as at it: loads are not known more exactly.
const PARTS_OF_BOUND: u64 = 1000;

/// Given an assignment, looks for one with a lower fullest bucket, down to a load that is low enough.
type Way<'a> = fn(&Assignment<'a>, u64) -> Option<Assignment<'a>>;

/// The assignment with the lowest fullest bucket found. Its moves are not counted here.
///
/// Descent alone is enough where buckets have many entries. Where it stops short, the others are tried: a complete search
/// when there are few entries in all, and exact filling, which is best when there are few a bucket.
pub(super) fn lowest<'a>(present: &Assignment<'a>, bound: u64) -> Assignment<'a> {
    let enough = bound.saturating_add(bound / PARTS_OF_BOUND);
    let mut best = present.clone();
    descend(&mut best, enough);
    for below in [
        from_scratch as Way<'a>,
        search::below as Way<'a>,
        fill::below as Way<'a>,
    ] {
        if best.fullest() <= enough {
            break;
        }
        let found = below(&best, enough).filter(|found| found.fullest() < best.fullest());
        best = found.unwrap_or(best);
    }
    best
}

fn from_scratch<'a>(best: &Assignment<'a>, enough: u64) -> Option<Assignment<'a>> {
    let mut scratch = largest_first(best);
    descend(&mut scratch, enough);
    Some(scratch)
}

/// Every entry, largest first, to the bucket that is emptiest then: at most a third above the lowest (R. L. Graham,
/// "Bounds on multiprocessing timing anomalies", 1969), and mostly much closer.
fn largest_first<'a>(present: &Assignment<'a>) -> Assignment<'a> {
    let loads = present.entry_loads();
    let mut order: Vec<usize> = (0..loads.len()).collect();
    order.sort_unstable_by_key(|&entry| (Reverse(loads[entry]), entry));
    let mut emptiest: BinaryHeap<Reverse<(u64, usize)>> = (0..present.buckets())
        .map(|bucket| Reverse((0, bucket)))
        .collect();
    let mut bucket_of: Vec<usize> = present.all_buckets().to_vec();
    for entry in order {
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
/// A step moves one entry to another bucket or exchanges two; the one with the most gain a move is taken.
pub(super) fn descend(assignment: &mut Assignment<'_>, level: u64) {
    for _ in 0..STEPS_PER_ENTRY * assignment.entry_loads().len() {
        if assignment.fullest() <= level {
            return;
        }
        match best_step(assignment) {
            Some(Step::Move { entry, to }) => assignment.move_entry(entry, to),
            Some(Step::Exchange { entry, with }) => {
                let (from, to) = (assignment.bucket_of(entry), assignment.bucket_of(with));
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

/// The step from the fullest bucket after which the fuller of the two buckets is lowest, counted a move; none if every
/// step would leave one of them as full.
fn best_step(assignment: &Assignment<'_>) -> Option<Step> {
    let from = assignment.fullest_bucket();
    let emptiest = assignment.emptiest_bucket();
    let mut best: Option<(u64, Step)> = None;
    let mut consider = |worth: u64, step: Step| {
        if worth > best.map_or(0, |(worth, _)| worth) {
            best = Some((worth, step));
        }
    };
    for &entry in assignment.loaded(from) {
        let gain = gain(assignment, from, emptiest, assignment.load(entry));
        consider(gain.saturating_mul(2), Step::Move { entry, to: emptiest });
        for to in (0..assignment.buckets()).filter(|to| *to != from) {
            for with in partners(assignment, entry, from, to).into_iter().flatten() {
                let shift = assignment.load(entry) - assignment.load(with);
                let gain = self::gain(assignment, from, to, shift);
                consider(gain, Step::Exchange { entry, with });
            }
        }
    }
    best.map(|(_, step)| step)
}

/// By how much the fuller of the two buckets falls when `shift` goes from the one to the other.
fn gain(assignment: &Assignment<'_>, from: usize, to: usize, shift: u64) -> u64 {
    let loads = assignment.bucket_loads();
    let fuller = (loads[from] - shift).max(loads[to] + shift);
    loads[from].saturating_sub(fuller)
}

/// The entries of bucket `to` whose exchange with `entry` would level the two buckets best: the last that shifts at least
/// half the difference, and the first that shifts less.
fn partners(assignment: &Assignment<'_>, entry: usize, from: usize, to: usize) -> [Option<usize>; 2] {
    let difference = assignment.bucket_loads()[from] - assignment.bucket_loads()[to];
    let load = assignment.load(entry);
    let candidates = assignment.loaded(to);
    let Some(wanted) = load.checked_sub(difference / 2) else {
        // Alone it shifts less than half the difference: to move it levels more than to exchange it.
        return [None; 2];
    };
    let above = candidates.partition_point(|&with| assignment.load(with) <= wanted);
    let last_below = above.checked_sub(1).map(|at| candidates[at]);
    let first_above = candidates
        .get(above)
        .copied()
        .filter(|&with| assignment.load(with) < load);
    [last_below, first_above]
}
