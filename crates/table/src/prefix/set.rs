//! The prefixes of a writer; the cells do not store those that longer prefixes cover.

use crate::address::{Address, Prefix};
use crate::memory::{MemoryError, Placement, Region, Word};
use crate::value::Value;
use std::collections::HashMap;
use std::sync::atomic::AtomicU64;

/// Prefixes and their values. Those of a snapshot stay as they were stored until the first change.
pub(crate) struct PrefixSet<A: Address> {
    /// Prefixes one after the other, three words each: the upper and the lower half of the address's 128 highest bits, and
    /// the length with the value above it.
    stored: Option<Region<AtomicU64>>,
    /// Empty as long as `stored` is used.
    prefixes: HashMap<Prefix<A>, Value>,
    /// How many prefixes there are of each length, except stored ones.
    lengths: Vec<usize>,
}

const WORDS_OF_A_PREFIX: usize = 3;

impl<A: Address> PrefixSet<A> {
    pub(crate) fn with_capacity(prefixes: usize) -> PrefixSet<A> {
        PrefixSet {
            stored: None,
            prefixes: HashMap::with_capacity(prefixes),
            lengths: vec![0; usize::from(A::BITS) + 1],
        }
    }

    /// The prefixes that [`PrefixSet::to_region`] stored.
    pub(crate) fn of_region(stored: Region<AtomicU64>) -> PrefixSet<A> {
        PrefixSet {
            stored: Some(stored),
            ..PrefixSet::with_capacity(0)
        }
    }

    pub(crate) fn to_region(&self) -> Result<Region<AtomicU64>, MemoryError> {
        let region = Region::<AtomicU64>::zeroed(self.len() * WORDS_OF_A_PREFIX, Placement::default())?;
        for (words, (prefix, value)) in region.chunks_exact(WORDS_OF_A_PREFIX).zip(self.iter()) {
            let bits = prefix.address().to_high_bits();
            words[0].set((bits >> 64) as u64);
            words[1].set(bits as u64);
            words[2].set(u64::from(prefix.length()) | u64::from(value.get()) << 8);
        }
        Ok(region)
    }

    pub(crate) fn len(&self) -> usize {
        let words = self.stored.as_ref().map_or(0, |words| words.len());
        words / WORDS_OF_A_PREFIX + self.prefixes.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Prefix<A>, Value)> {
        let others = self.prefixes.iter().map(|(prefix, value)| (*prefix, *value));
        stored(self.stored.as_deref().unwrap_or_default()).chain(others)
    }

    /// The value of exactly this prefix.
    pub(crate) fn get(&mut self, prefix: Prefix<A>) -> Option<Value> {
        self.unpack();
        self.prefixes.get(&prefix).copied()
    }

    pub(crate) fn insert(&mut self, prefix: Prefix<A>, value: Value) {
        self.unpack();
        let before = self.prefixes.insert(prefix, value);
        self.lengths[usize::from(prefix.length())] += usize::from(before.is_none());
    }

    pub(crate) fn remove(&mut self, prefix: Prefix<A>) -> Option<Value> {
        self.unpack();
        let value = self.prefixes.remove(&prefix)?;
        self.lengths[usize::from(prefix.length())] -= 1;
        Some(value)
    }

    /// The longest of the shorter prefixes that contain this one.
    pub(crate) fn cover(&mut self, prefix: Prefix<A>) -> Option<(Prefix<A>, Value)> {
        self.unpack();
        let shorter = (0..prefix.length())
            .rev()
            .filter(|length| self.lengths[usize::from(*length)] > 0);
        shorter
            .map(|length| prefix.shortened(length))
            .find_map(|around| Some((around, *self.prefixes.get(&around)?)))
    }

    fn unpack(&mut self) {
        if let Some(words) = self.stored.take() {
            self.prefixes.reserve(words.len() / WORDS_OF_A_PREFIX);
            for (prefix, value) in stored(&words) {
                self.insert(prefix, value);
            }
        }
    }
}

fn stored<A: Address>(words: &[AtomicU64]) -> impl Iterator<Item = (Prefix<A>, Value)> {
    words.chunks_exact(WORDS_OF_A_PREFIX).filter_map(|words| {
        let bits = u128::from(words[0].get()) << 64 | u128::from(words[1].get());
        let prefix = Prefix::new(A::from_high_bits(bits), words[2].get() as u8).ok()?;
        Some((prefix, Value::from_low_bits((words[2].get() >> 8) as u32)))
    })
}
