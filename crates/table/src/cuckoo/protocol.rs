//! The operations of readers and the writer on the lines of a table, and their order.
//!
//! The rules, which [`super::tests`] checks in every interleaving of small cases:
//!
//! - An entry is in its home line, or in its partner line while home has no *vacant* slot. A reader that sees a vacant
//!   slot at home can therefore stop. If an entry of a full home line is removed while others of that home are in their
//!   partner lines, its slot is *buried*: free for the writer, not vacant for readers.
//! - To move an entry between its lines, the writer stores it in the new place, increments the move count, and then
//!   overwrites the old place. A reader that misses it in both places sees the changed count.
//! - A slot of several words cannot be stored atomically; the count is incremented after it is emptied and before it is
//!   filled.
//! - So a reader loads the count, searches, loads the count again, and retries if it changed. This is lock-free: the
//!   count changes only when the writer makes progress.

use super::bounds::{Bounds, Place};
use super::layout::{Entry, Layout, Side};
use crate::memory::{Baseline, Lanes, Line, MemoryError, Word};
use crate::mix::Seed;
use std::hint;
use std::marker::PhantomData;
use std::sync::atomic::AtomicU64;

/// The lines of a table with all that a lookup needs.
pub(crate) struct Cuckoo<'a, L, W> {
    lines: &'a [Line<W>],
    moves: &'a W,
    bounds: Bounds,
    layout: PhantomData<L>,
}

impl<L, W> Clone for Cuckoo<'_, L, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L, W> Copy for Cuckoo<'_, L, W> {}

/// The move count, on its own pair of lines: the writer's stores to it do not invalidate other fields.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Moves(pub(crate) AtomicU64);

/// Where an entry was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Location {
    line: u32,
    slot: usize,
    pub(crate) entry: Entry,
}

/// Neither line of a key has a free slot, nor an entry that could go to its other line.
#[derive(Debug)]
pub(crate) struct NoRoom;

/// How many entries of each home line are in their partner lines; 255 means that many or more and is final. Used only
/// by the writer, one per line.
pub(crate) type Overflowed = [u8];

/// Result of the first lookup of a key, without waiting for a second line.
#[derive(Clone, Copy)]
pub(crate) struct Glance {
    /// What it maps to plus one, 0 if it was not found.
    pub(crate) successor: u32,
    /// Whether that is certain; if not, call [`Cuckoo::find`].
    pub(crate) certain: bool,
}

impl<'a, L: Layout, W: Word> Cuckoo<'a, L, W> {
    /// The table of these lines (as many as the bounds say) whose moves are counted in `moves`.
    #[inline(always)]
    pub(crate) fn new(lines: &'a [Line<W>], moves: &'a W, bounds: Bounds) -> Cuckoo<'a, L, W> {
        Cuckoo {
            lines,
            moves,
            bounds,
            layout: PhantomData,
        }
    }

    /// Line number `line`.
    #[inline(always)]
    pub(crate) fn line(&self, line: u32) -> &'a Line<W> {
        &self.lines[line as usize]
    }

    /// The number of the key's other line.
    #[inline(always)]
    pub(crate) fn partner(&self, place: &Place) -> u32 {
        self.bounds.partner(place.home, place.remainder)
    }

    /// The count of moves, for [`Cuckoo::glance`].
    #[inline(always)]
    pub(crate) fn moves(&self) -> u64 {
        self.moves.get()
    }

    /// Reads the home line of a key that is stored entirely in its slot. `moves` is the earlier count; if it changed,
    /// it is updated and the result is not certain. There are no branches on the result: half of the keys of a real
    /// list are present, and the CPU cannot predict which.
    #[inline(always)]
    pub(crate) fn glance<V: Lanes>(&self, place: &Place, moves: &mut u64) -> Glance {
        let lanes: V = W::read(self.line(place.home));
        let scan = L::scan(lanes, place, Side::Home);
        let payload = L::payload(L::matched(lanes, scan.matching));
        let found = scan.matching != 0;
        let now = self.moves.get();
        let certain = (found | scan.vacant) & (now == *moves);
        *moves = now;
        Glance {
            successor: payload.wrapping_add(1) & u32::from(found).wrapping_neg(),
            certain,
        }
    }

    /// Looks up a key. `accept` receives the payload of each matching entry and returns the value, or `None` if the
    /// entry belongs to another key. Its reads are covered by the move count.
    pub(crate) fn find<T>(&self, place: &Place, accept: impl Fn(u32) -> Option<T>) -> Option<T> {
        loop {
            let before = self.moves.get();
            let found = self.look(place, &accept);
            if self.moves.get() == before {
                return found.map(|(_, found)| found);
            }
            hint::spin_loop();
        }
    }

    /// Searches the key's lines once for the entry that `accept` recognises by its payload.
    fn look<T>(&self, place: &Place, accept: impl Fn(u32) -> Option<T>) -> Option<(Location, T)> {
        let look_in = |line: u32, side| {
            let lanes: Baseline = W::read(self.line(line));
            let scan = L::scan(lanes, place, side);
            let words = lanes.words();
            let mut slots = (0..L::SLOTS).filter(|slot| scan.matching >> slot & 1 != 0);
            let found = slots.find_map(|slot| {
                let payload = L::payload(L::control(&words, slot));
                let entry = place.entry(side, payload);
                Some((Location { line, slot, entry }, accept(payload)?))
            });
            (found, scan.vacant)
        };
        match look_in(place.home, Side::Home) {
            (None, false) => look_in(self.partner(place), Side::Partner).0,
            (found, _) => found,
        }
    }
}

/// Operations of the writer only. There is one writer, and no other thread calls these methods at the same time.
impl<'a, L: Layout + 'a, W: Word> Cuckoo<'a, L, W> {
    /// The location of the entry whose payload `accept` accepts.
    pub(crate) fn locate(&self, place: &Place, accept: impl Fn(u32) -> bool) -> Option<Location> {
        let (location, ()) = self.look(place, |payload| accept(payload).then_some(()))?;
        Some(location)
    }

    /// Changes the value of an entry.
    pub(crate) fn set_payload(&self, location: &Location, payload: u32) {
        L::store_payload(self.line(location.line), location.slot, &location.entry, payload);
    }

    /// Adds an entry for an absent key.
    pub(crate) fn insert(
        &self,
        overflowed: &mut Overflowed,
        place: &Place,
        payload: u32,
    ) -> Result<(), NoRoom> {
        let lines = [(place.home, Side::Home), (self.partner(place), Side::Partner)];
        let free = lines
            .into_iter()
            .find_map(|(line, side)| Some((line, side, self.free_slot(line)?)));
        let mut made = lines
            .into_iter()
            .filter_map(|(line, side)| Some((line, side, self.make_room(overflowed, line, None)?)));
        let (line, side, slot) = free.or_else(|| made.next()).ok_or(NoRoom)?;
        self.store(line, slot, &place.entry(side, payload));
        if side == Side::Partner {
            one_more(overflowed, place.home);
        }
        Ok(())
    }

    /// Removes an entry.
    pub(crate) fn remove(&self, overflowed: &mut Overflowed, location: &Location) {
        let line = location.line;
        L::free(self.line(line), location.slot, overflowed[line as usize] > 0);
        if location.entry.side == Side::Partner {
            self.one_less(overflowed, self.bounds.partner(line, location.entry.remainder));
        }
    }

    /// Every entry with its home line.
    pub(crate) fn entries(self) -> impl Iterator<Item = (u32, Entry)> {
        (0..self.bounds.lines()).flat_map(move |line| {
            let words = self.line(line).words();
            (0..L::SLOTS).filter_map(move |slot| {
                let entry = L::entry(&words, slot)?;
                let home = match entry.side {
                    Side::Home => line,
                    Side::Partner => self.bounds.partner(line, entry.remainder),
                };
                Some((home, entry))
            })
        })
    }

    fn free_slot(&self, line: u32) -> Option<usize> {
        let words = self.line(line).words();
        (0..L::SLOTS).find(|slot| L::is_free(&words, *slot).is_some())
    }

    fn store(&self, line: u32, slot: usize, entry: &Entry) {
        L::store(self.line(line), slot, entry, || self.count_move());
    }

    /// Increments the move count, which separates the stores before it from those after it.
    pub(crate) fn count_move(&self) {
        self.moves.set(self.moves.get().wrapping_add(1));
    }

    /// Moves an entry of a full line to its other line, and returns its old slot, which still holds the entry and is to
    /// be overwritten. If every other line is full too, makes room in one of them first; `from` is the requesting line,
    /// which is not changed.
    fn make_room(&self, overflowed: &mut Overflowed, line: u32, from: Option<u32>) -> Option<usize> {
        let words = self.line(line).words();
        let movable = |slot| {
            let entry = L::entry(&words, slot)?;
            let other = self.bounds.partner(line, entry.remainder);
            (other != line && Some(other) != from).then_some((slot, entry, other))
        };
        let mut slots = (0..L::SLOTS).filter_map(movable);
        let direct =
            slots.find_map(|(slot, entry, other)| Some((slot, entry, other, self.free_slot(other)?)));
        let (slot, entry, other, free) = match (direct, from) {
            (Some(direct), _) => direct,
            (None, None) => (0..L::SLOTS)
                .filter_map(movable)
                .find_map(|(slot, entry, other)| {
                    Some((slot, entry, other, self.make_room(overflowed, other, Some(line))?))
                })?,
            (None, Some(_)) => return None,
        };
        let side = match entry.side {
            Side::Home => Side::Partner,
            Side::Partner => Side::Home,
        };
        self.store(other, free, &Entry { side, ..entry });
        self.count_move();
        match side {
            Side::Partner => one_more(overflowed, line),
            Side::Home => self.one_less(overflowed, other),
        }
        Some(slot)
    }

    /// One entry fewer of this home is in its partner line; after the last one, buried slots become vacant.
    fn one_less(&self, overflowed: &mut Overflowed, home: u32) {
        let count = &mut overflowed[home as usize];
        if *count == 0 || *count == u8::MAX {
            return;
        }
        *count -= 1;
        if *count > 0 {
            return;
        }
        let line = self.line(home);
        let words = line.words();
        for slot in (0..L::SLOTS).filter(|slot| L::is_free(&words, *slot) == Some(true)) {
            L::free(line, slot, false);
        }
    }
}

/// One entry more of this home is in its partner line.
fn one_more(overflowed: &mut Overflowed, home: u32) {
    let count = &mut overflowed[home as usize];
    *count = count.saturating_add(1);
}

/// A table of at least 1.5 times as many lines for these entries; `copied` makes it, or returns `None` if it has no room.
/// If the old table is not `full`, the seed may be known to an attacker or was unlucky: then the seed changes too.
pub(crate) fn grown<T>(
    (mut lines, mut seed): (u32, Seed),
    entries: usize,
    full: bool,
    copied: impl Fn(u32, Seed) -> Result<Option<T>, MemoryError>,
) -> Result<T, MemoryError> {
    loop {
        let more = lines.checked_add(lines / 2);
        lines = more.ok_or(MemoryError::TooLarge { entries })?;
        if !full {
            seed = seed.next();
        }
        if let Some(table) = copied(lines, seed)? {
            return Ok(table);
        }
    }
}
