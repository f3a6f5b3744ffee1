//! What readers of an exact map see: addresses enter, values leave, in batches.

use crate::address::Address;
use crate::batch::{Lookup, Prefetch, Row};
use crate::cuckoo::{Bounds, Cuckoo, Layout, Place};
use crate::memory::{GrantedPages, Line, MemoryError, Placement, Region, prefetch};
use crate::mix::Seed;
use crate::value::Value;
use std::sync::atomic::AtomicU64;

/// The lines of an exact map, shared by its readers. See [`ExactMap`](super::ExactMap).
pub struct ExactTable<A: Address> {
    lines: Region<Line>,
    bounds: Bounds,
    mix: A::Mix,
    seed: Seed,
    moves: Moves,
}

/// The count of moves, on a line pair of its own: the writer's stores to it disturb no other field.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Moves(pub(crate) AtomicU64);

/// Keys of one call whose first look was not certain wait here, while their second lines are fetched.
const UNCERTAIN: usize = 32;

impl<A: Address> ExactTable<A> {
    /// An empty table.
    pub(crate) fn new(lines: u32, seed: Seed, placement: Placement) -> Result<ExactTable<A>, MemoryError> {
        let memory = Region::zeroed(lines as usize, placement)?;
        Ok(ExactTable::of_lines(memory, seed))
    }

    /// The table in these lines, of which there are fewer than 2^32, written under this seed.
    pub(crate) fn of_lines(lines: Region<Line>, seed: Seed) -> ExactTable<A> {
        let bounds = Bounds::new(lines.len() as u32, A::UPPER_BITS, A::Slots::REMAINDER_BITS);
        ExactTable {
            lines,
            bounds,
            mix: A::mixer(seed),
            seed,
            moves: Moves::default(),
        }
    }

    /// What an address maps to. For more than one, [`Lookup::lookup`] is many times as fast.
    #[must_use]
    pub fn get(&self, address: A) -> Option<Value> {
        let payload = self.cuckoo().find(&self.place(address), Some)?;
        Some(Value::from_low_bits(payload))
    }

    /// Bytes of its lines.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.lines.bytes()
    }

    /// The pages that hold them.
    #[must_use]
    pub fn pages(&self) -> GrantedPages {
        self.lines.pages()
    }

    /// Every address and its value, in no order that means anything. What a writer changes meanwhile may be seen or not.
    pub fn iter(&self) -> impl Iterator<Item = (A, Value)> {
        self.mixed_entries()
            .map(|(upper, rest, value)| (A::unmix(self.mix, upper, rest), value))
    }

    /// Every mixed address and its value, by rising home line.
    pub(crate) fn mixed_entries(&self) -> impl Iterator<Item = (u64, u64, Value)> {
        self.cuckoo().entries().map(|(home, entry)| {
            let upper = self.bounds.upper(home, entry.remainder);
            (upper, entry.rest, Value::from_low_bits(entry.payload))
        })
    }

    pub(crate) fn cuckoo(&self) -> Cuckoo<'_, A::Slots, AtomicU64> {
        Cuckoo::new(&self.lines, &self.moves.0, self.bounds)
    }

    pub(crate) fn lines(&self) -> &Region<Line> {
        &self.lines
    }

    pub(crate) fn seed(&self) -> Seed {
        self.seed
    }

    pub(crate) fn bounds(&self) -> Bounds {
        self.bounds
    }

    #[inline(always)]
    pub(crate) fn place(&self, address: A) -> Place {
        let (upper, rest) = address.mix(self.mix);
        self.bounds.place(upper, rest)
    }

    /// Looks again, with the second lines, for the keys that a glance left open.
    #[cold]
    #[inline(never)]
    fn settle(&self, uncertain: &[usize], keys: &[A], answers: &mut [Option<Value>]) {
        for &index in uncertain {
            answers[index] = self.get(keys[index]);
        }
    }
}

impl<A: Address> Lookup for ExactTable<A> {
    type Key = A;
    type Answer = Value;

    #[inline]
    fn prefetch(&self, keys: &[A]) {
        for key in keys {
            prefetch(self.cuckoo().line(self.place(*key).home));
        }
    }

    fn lookup_then(&self, keys: &[A], upcoming: &[A], ahead: Prefetch, answers: &mut [Option<Value>]) {
        assert_eq!(keys.len(), answers.len(), "an answer for each key");
        let row = Row::new(keys, upcoming, ahead);
        let cuckoo = self.cuckoo();
        let mut moves = cuckoo.moves();
        let mut uncertain = [0; UNCERTAIN];
        let mut open = 0;
        for (index, key) in keys.iter().enumerate() {
            if let Some(ahead) = row.ahead_of(index) {
                prefetch(cuckoo.line(self.place(*ahead).home));
            }
            let place = self.place(*key);
            let glance = cuckoo.glance(&place, &mut moves);
            answers[index] = Value::from_successor(glance.successor as u16);
            if !glance.certain {
                prefetch(cuckoo.partner(&place));
                uncertain[open] = index;
                open += 1;
                if open == UNCERTAIN {
                    self.settle(&uncertain, keys, answers);
                    open = 0;
                }
            }
        }
        self.settle(&uncertain[..open], keys, answers);
    }
}
