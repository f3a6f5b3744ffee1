//! The readers' view of an exact map: lookups in batches.

use super::placing::Places;
use crate::address::Address;
use crate::batch::{BLOCK, Call, Lookup, Prefetch, blocks};
use crate::cuckoo::{Bounds, Cuckoo, Layout, Moves, Place};
use crate::memory::{GrantedPages, Kernel, Lanes, Line, Region, prefetch, with_widest_vectors};
use crate::mix::Seed;
use crate::value::Value;
use std::sync::atomic::AtomicU64;

/// The lines of an exact map, shared by its readers. See [`ExactMap`](super::ExactMap).
pub struct ExactTable<A: Address> {
    pub(crate) lines: Region<Line>,
    pub(crate) bounds: Bounds,
    mix: A::Mix,
    pub(crate) seed: Seed,
    moves: Moves,
}

impl<A: Address> ExactTable<A> {
    /// The table in these lines, of which there are fewer than 2^32, written under this seed.
    pub(crate) fn of_lines(lines: Region<Line>, seed: Seed) -> ExactTable<A> {
        let bounds = Bounds::new(lines.len() as u32, A::UPPER_BITS, A::Slots::REMAINDER_BITS);
        ExactTable {
            lines,
            bounds,
            mix: A::Mix::from(seed),
            seed,
            moves: Moves::default(),
        }
    }

    /// The value of an address. For several, [`Lookup::lookup`] is many times as fast.
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

    /// The kind of pages of its lines.
    #[must_use]
    pub fn pages(&self) -> GrantedPages {
        self.lines.pages()
    }

    /// Every address and its value, in no particular order. For the writer only: concurrent changes would mix up
    /// entries.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (A, Value)> {
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

    #[inline(always)]
    pub(crate) fn place(&self, address: A) -> Place {
        address.place(self.mix, self.bounds)
    }

    /// Repeats the lookup, with the second lines, for the keys that the first lookup did not decide.
    #[inline]
    fn settle(&self, uncertain: Uncertain, keys: &[A], answers: &mut [Option<Value>]) {
        for index in uncertain.indices() {
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
        with_widest_vectors(Call {
            table: self,
            keys,
            upcoming,
            ahead,
            answers,
        });
    }
}

impl<A: Address> Kernel for Call<'_, ExactTable<A>> {
    #[inline(always)]
    fn run<V: Lanes>(self) {
        let table = self.table;
        let cuckoo = table.cuckoo();
        let (mix, bounds) = (table.mix, table.bounds);
        let mut moves = cuckoo.moves();
        let (mut places, mut ahead) = (Places::new(), Places::new());
        let mut before = Uncertain::default();
        for block in blocks(self.keys, self.upcoming, self.ahead) {
            let [ahead_here, ahead_later] = block.ahead;
            places.set(0, block.keys, mix, bounds);
            ahead.set(0, ahead_here, mix, bounds);
            ahead.set(ahead_here.len(), ahead_later, mix, bounds);
            let asked = ahead_here.len() + ahead_later.len();
            let mut uncertain = Uncertain {
                first: block.first,
                bits: 0,
            };
            for (index, answer) in self.answers[block.first..][..block.keys.len()]
                .iter_mut()
                .enumerate()
            {
                if index < asked {
                    prefetch(cuckoo.line(ahead.get(index).home));
                }
                let place = places.get(index);
                let glance = cuckoo.glance::<V>(&place, &mut moves);
                *answer = Value::from_successor(glance.successor as u16);
                if !glance.certain {
                    prefetch(cuckoo.line(cuckoo.partner(&place)));
                    uncertain.bits |= 1 << index;
                }
            }
            table.settle(before, self.keys, self.answers);
            before = uncertain;
        }
        table.settle(before, self.keys, self.answers);
    }
}

/// Keys of a block that the first lookup did not decide. They are looked up again one block later, when their second
/// lines have arrived.
#[derive(Clone, Copy, Default)]
struct Uncertain {
    first: usize,
    /// One bit per key of the block.
    bits: u32,
}

impl Uncertain {
    fn indices(self) -> impl Iterator<Item = usize> {
        let mut bits = self.bits;
        std::iter::from_fn(move || {
            let index = bits.trailing_zeros() as usize;
            bits &= bits.checked_sub(1)?;
            Some(self.first + index)
        })
    }
}

const _: () = assert!(BLOCK <= u32::BITS as usize, "a bit for each key of a block");
