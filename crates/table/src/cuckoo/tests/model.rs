//! Checks the protocol in every interleaving of one reader and the writer, over a table of two lines. The code is the
//! production code; the words are those of the model checker.
//!
//! Words 0 and 4 of a line are live: four slots of the IPv4 layout, one of the IPv6 layout (control and rest), two of the
//! flow layout. The other words hold entries that no test asks for, so that a full line needs few steps.

use super::super::layout::{FlowSlots, Layout, V4Slots, V6Slots};
use super::super::{Bounds, Cuckoo, Place};
use crate::memory::{Baseline, Lanes, Line, WORDS_PER_LINE, Word};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use std::array;

pub(crate) struct ModelWord(AtomicU64);

impl ModelWord {
    pub(crate) fn new(value: u64) -> ModelWord {
        ModelWord(AtomicU64::new(value))
    }
}

/// Entries at home, of two 32-bit slots or of one of 64 bits, with remainders that no test uses.
const OTHERS: u64 = 0xffff_fffd_ffff_fffd;
const LIVE: [usize; 2] = [0, 4];

impl Word for ModelWord {
    fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    fn set(&self, value: u64) {
        self.0.store(value, Ordering::Release);
    }

    fn read<V: Lanes>(line: &Line<ModelWord>) -> V {
        V::of_words(array::from_fn(|word| {
            if LIVE.contains(&word) {
                line.0[word].get()
            } else {
                OTHERS
            }
        }))
    }
}

pub(crate) struct Table {
    lines: [Line<ModelWord>; 2],
    moves: ModelWord,
}

impl Table {
    pub(crate) fn new() -> Table {
        let word = || ModelWord::new(0);
        Table {
            lines: array::from_fn(|_| Line(array::from_fn(|_| word()))),
            moves: word(),
        }
    }

    pub(crate) fn cuckoo<L: Layout>(&self) -> Cuckoo<'_, L, ModelWord> {
        Cuckoo::new(&self.lines, &self.moves, bounds())
    }
}

fn bounds() -> Bounds {
    Bounds::new(2, 64, 18)
}

/// A key of this home line whose partner is this line; keys of different `number`s differ in remainder and rest.
pub(crate) fn key(home: u32, partner: u32, number: usize) -> Place {
    let mut remainders = (0..).filter(|remainder| bounds().partner(home, *remainder) == partner);
    let remainder = remainders.nth(number).unwrap();
    Place {
        home,
        remainder,
        rest: number as u64 + 1,
    }
}

/// The table before reader and writer start: entries that were added, and those of them that were removed again.
struct Setup {
    present: Vec<(Place, u32)>,
    removed: Vec<Place>,
}

impl From<Vec<(Place, u32)>> for Setup {
    fn from(present: Vec<(Place, u32)>) -> Setup {
        Setup {
            present,
            removed: Vec::new(),
        }
    }
}

/// Runs `write` while another thread looks `asked` up, in every interleaving: first by a glance, then again if that is not
/// certain. `right` says whether the answer may be.
fn check<L: Layout + 'static>(
    setup: impl Into<Setup>,
    asked: Place,
    right: fn(Option<u32>) -> bool,
    write: fn(Cuckoo<'_, L, ModelWord>, &mut [u8]),
) {
    let setup = setup.into();
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let table = Arc::new(Table::new());
        let mut overflowed = [0_u8; 2];
        for (place, payload) in &setup.present {
            table
                .cuckoo::<L>()
                .insert(&mut overflowed, place, *payload)
                .unwrap();
        }
        for place in &setup.removed {
            remove(table.cuckoo::<L>(), &mut overflowed, place);
        }
        let reader = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                let cuckoo = table.cuckoo::<L>();
                let mut moves = cuckoo.moves();
                let glance = cuckoo.glance::<Baseline>(&asked, &mut moves);
                let answer = match (glance.certain, glance.successor) {
                    (false, _) => cuckoo.find(&asked, Some),
                    (true, successor) => successor.checked_sub(1),
                };
                assert!(right(answer), "{answer:?}");
            })
        };
        write(table.cuckoo(), &mut overflowed);
        reader.join().unwrap();
    });
}

/// Checks with each layout.
macro_rules! in_every_layout {
    ($present:expr, $asked:expr, $right:expr, $write:expr $(,)?) => {
        check::<V4Slots>($present, $asked, $right, $write);
        check::<V6Slots>($present, $asked, $right, $write);
        check::<FlowSlots>($present, $asked, $right, $write);
    };
}

fn remove<L: Layout>(cuckoo: Cuckoo<'_, L, ModelWord>, overflowed: &mut [u8], place: &Place) {
    let location = cuckoo.locate(place, |_| true).unwrap();
    cuckoo.remove(overflowed, &location);
}

/// Entries that fill the home line 0 with `kept` in its last free slot: they have no other line to go to.
fn full_home<L: Layout>(kept: Place) -> Vec<(Place, u32)> {
    let mut present: Vec<_> = (1..live_slots::<L>())
        .map(|number| (key(0, 0, number), 9))
        .collect();
    present.push((kept, 1));
    present
}

fn live_slots<L: Layout>() -> usize {
    L::SLOTS * LIVE.len() / WORDS_PER_LINE
}

#[test]
fn an_update_shows_the_old_or_the_new_value() {
    in_every_layout!(
        vec![(key(0, 1, 0), 1)],
        key(0, 1, 0),
        |answer| matches!(answer, Some(1 | 2)),
        |cuckoo, _| {
            let location = cuckoo.locate(&key(0, 1, 0), |_| true).unwrap();
            cuckoo.set_payload(&location, 2);
        }
    );
}

#[test]
fn a_slot_that_changes_hands_shows_neither_key_the_value_of_the_other() {
    for (asked, right) in [
        (
            key(0, 1, 0),
            (|answer| matches!(answer, Some(1) | None)) as fn(Option<u32>) -> bool,
        ),
        (key(0, 1, 1), |answer| matches!(answer, Some(2) | None)),
    ] {
        in_every_layout!(vec![(key(0, 1, 0), 1)], asked, right, |cuckoo, overflowed| {
            remove(cuckoo, overflowed, &key(0, 1, 0));
            cuckoo.insert(overflowed, &key(0, 1, 1), 2).unwrap();
        });
    }
}

#[test]
fn a_key_made_of_halves_of_two_others_is_never_present() {
    let (old, new) = (key(0, 1, 0), key(0, 1, 1));
    for asked in [
        Place {
            rest: new.rest,
            ..old
        },
        Place {
            rest: old.rest,
            ..new
        },
    ] {
        check::<V6Slots>(
            vec![(old, 1)],
            asked,
            |answer| answer.is_none(),
            |cuckoo, overflowed| {
                for (out, into) in [(0, 1), (1, 0)] {
                    remove(cuckoo, overflowed, &key(0, 1, out));
                    cuckoo.insert(overflowed, &key(0, 1, into), 2).unwrap();
                }
            },
        );
    }
}

#[test]
fn a_key_made_of_halves_of_one_that_is_moved_and_one_that_takes_its_place_is_never_present() {
    let (moved, new) = (key(0, 1, 0), key(0, 0, 9));
    for asked in [
        Place {
            rest: new.rest,
            ..moved
        },
        Place {
            rest: moved.rest,
            ..new
        },
    ] {
        check::<V6Slots>(
            vec![(moved, 1)],
            asked,
            |answer| answer.is_none(),
            |cuckoo, overflowed| {
                cuckoo.insert(overflowed, &key(0, 0, 9), 2).unwrap();
            },
        );
    }
}

/// Kicks the key out of its full home line while it is looked up.
fn kick<L: Layout + 'static>() {
    let asked = key(0, 1, 0);
    check::<L>(
        full_home::<L>(asked),
        asked,
        |answer| answer == Some(1),
        |cuckoo, overflowed| {
            cuckoo.insert(overflowed, &key(0, 0, 9), 9).unwrap();
        },
    );
}

#[test]
fn an_entry_that_is_moved_to_its_partner_is_found_throughout() {
    kick::<V4Slots>();
    kick::<V6Slots>();
    kick::<FlowSlots>();
}

/// Fills the first slot of the line, then kicks the key out of the last: a reader that saw the first vacant must not
/// conclude.
fn fill_and_kick<L: Layout + 'static>() {
    let asked = key(0, 1, 0);
    let setup = Setup {
        present: full_home::<L>(asked),
        removed: vec![key(0, 0, 1)],
    };
    check::<L>(
        setup,
        asked,
        |answer| answer == Some(1),
        |cuckoo, overflowed| {
            for number in [8, 9] {
                cuckoo.insert(overflowed, &key(0, 0, number), 9).unwrap();
            }
        },
    );
}

#[test]
fn a_slot_seen_vacant_before_the_line_was_full_misleads_nobody() {
    fill_and_kick::<V4Slots>();
    fill_and_kick::<FlowSlots>();
}

/// Brings a key back home while it is looked up: its home has a free slot, and its partner line needs one.
fn bring_back<L: Layout + 'static>() {
    let asked = key(0, 1, 0);
    let mut present: Vec<_> = (1..=live_slots::<L>())
        .map(|number| (key(0, 0, number), 9))
        .collect();
    present.push((asked, 1));
    present.extend((1..live_slots::<L>()).map(|number| (key(1, 1, number), 9)));
    check::<L>(
        present,
        asked,
        |answer| answer == Some(1),
        |cuckoo, overflowed| {
            remove(cuckoo, overflowed, &key(0, 0, 1));
            cuckoo.insert(overflowed, &key(1, 1, 8), 9).unwrap();
            assert_eq!(overflowed, [0, 0]);
        },
    );
}

#[test]
fn an_entry_that_is_moved_home_is_found_throughout() {
    bring_back::<V4Slots>();
    bring_back::<V6Slots>();
    bring_back::<FlowSlots>();
}

/// Removes an entry of the full home line, then the key that is with its partner.
fn remove_both<L: Layout + 'static>(
    right: fn(Option<u32>) -> bool,
    last: fn(Cuckoo<'_, L, ModelWord>, &mut [u8]),
) {
    let asked = key(0, 1, 0);
    let mut present: Vec<_> = (1..=live_slots::<L>())
        .map(|number| (key(0, 0, number), 9))
        .collect();
    present.push((asked, 1));
    check::<L>(present, asked, right, last);
}

#[test]
fn a_key_with_its_partner_is_found_while_its_home_loses_entries() {
    fn one<L: Layout>(cuckoo: Cuckoo<'_, L, ModelWord>, overflowed: &mut [u8]) {
        remove(cuckoo, overflowed, &key(0, 0, 1));
    }
    let right = |answer| answer == Some(1);
    remove_both::<V4Slots>(right, one);
    remove_both::<V6Slots>(right, one);
    remove_both::<FlowSlots>(right, one);
}

#[test]
fn a_key_that_leaves_its_partner_line_is_there_or_not() {
    fn both<L: Layout>(cuckoo: Cuckoo<'_, L, ModelWord>, overflowed: &mut [u8]) {
        remove(cuckoo, overflowed, &key(0, 0, 1));
        remove(cuckoo, overflowed, &key(0, 1, 0));
        assert_eq!(overflowed, [0, 0]);
    }
    let right = |answer| matches!(answer, Some(1) | None);
    remove_both::<V4Slots>(right, both);
    remove_both::<V6Slots>(right, both);
    remove_both::<FlowSlots>(right, both);
}
