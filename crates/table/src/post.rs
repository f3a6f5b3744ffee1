//! The reference table of the post "Intel DDIO, LLC cache, buffer alignment, prefetching, shared locks and packet
//! rates": a set of addresses.
//!
//! "Said hash table has 524,288 buckets, and each points to an array of IPv4 addresses to search", later 2,097,152.
//! "Not very optimal by any measure, but it's the kind of thing you'd expect to find in an existing project." It stays as
//! the post describes it, to measure others against: batches of packets whose bucket heads are prefetched, and a shared
//! read lock taken for every two lookups (source and destination of a packet) or for a batch of them.

use crate::memory::prefetch;
use crate::mix::{Mix32, Seed};
use crate::value::Value;
use std::net::Ipv4Addr;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// A set of addresses in buckets that point to arrays.
pub struct PostTable {
    buckets: Box<[Head]>,
    mix: Mix32,
    entries: usize,
}

/// The address and the length of a bucket's array.
#[derive(Clone, Default)]
struct Head(Box<[u32]>);

/// The memory that a batch prefetches before its lookups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostPrefetch {
    /// Nothing.
    None,
    /// The heads of the buckets, as in the post.
    Head,
    /// The heads, then the first lines of the arrays.
    HeadAndArray,
}

/// The shared read lock of the post. It protects nothing; only the cost of acquiring it matters.
#[derive(Clone, Copy, Debug)]
pub enum PostLock<'a> {
    /// None.
    None,
    /// Taken for every two lookups, as in the post: source and destination of a packet.
    Pair(&'a RwLock<()>),
    /// Taken for every batch of keys (for every 64 keys when lookups roll).
    Batch(&'a RwLock<()>),
}

impl<'a> PostLock<'a> {
    /// The lock for the whole batch, in that mode.
    fn for_batch(self) -> Option<RwLockReadGuard<'a, ()>> {
        let PostLock::Batch(lock) = self else { return None };
        Some(shared(lock))
    }

    /// The lock for two keys of a batch, in that mode.
    fn for_pair(self) -> Option<RwLockReadGuard<'a, ()>> {
        let PostLock::Pair(lock) = self else { return None };
        Some(shared(lock))
    }
}

/// The lock, even after a holder panicked: it guards no data that could be inconsistent.
fn shared(lock: &RwLock<()>) -> RwLockReadGuard<'_, ()> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

impl PostTable {
    /// The bucket counts of the post.
    pub const BUCKETS: [usize; 2] = [524_288, 2_097_152];

    /// The table of these addresses in `buckets` buckets (at least one).
    #[must_use]
    pub fn new(buckets: usize, addresses: &[Ipv4Addr]) -> PostTable {
        let mut table = PostTable {
            buckets: vec![Head::default(); buckets.max(1)].into(),
            mix: Mix32::from(Seed::default()),
            entries: 0,
        };
        let mut filling = vec![Vec::new(); table.buckets.len()];
        for address in addresses {
            let bucket: &mut Vec<u32> = &mut filling[table.bucket(*address)];
            if !bucket.contains(&address.to_bits()) {
                bucket.push(address.to_bits());
                table.entries += 1;
            }
        }
        table.buckets = filling.into_iter().map(|bucket| Head(bucket.into())).collect();
        table
    }

    /// The number of addresses.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Bytes of heads and arrays, without what the allocator adds.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.buckets.len() * size_of::<Head>() + self.entries * size_of::<u32>()
    }

    /// Looks up one batch of keys, as in the post: memory is prefetched before the first lookup. Answer `i` is that of
    /// key `i`, as far as there are answers: [`Value::MEMBER`] or nothing.
    #[inline]
    pub fn lookup_batch(
        &self,
        keys: &[Ipv4Addr],
        ask: PostPrefetch,
        lock: PostLock<'_>,
        answers: &mut [Option<Value>],
    ) {
        let _locked = lock.for_batch();
        if ask != PostPrefetch::None {
            for key in keys {
                prefetch(self.head(*key));
            }
        }
        if ask == PostPrefetch::HeadAndArray {
            for key in keys {
                self.ask_for_array(*key);
            }
        }
        for (keys, answers) in keys.chunks(2).zip(answers.chunks_mut(2)) {
            let _locked = lock.for_pair();
            for (key, answer) in keys.iter().zip(answers) {
                *answer = self.search(*key);
            }
        }
    }

    /// Better than in the post: bucket heads are prefetched twice the distance (in keys) ahead, arrays the distance
    /// ahead.
    ///
    /// # Panics
    /// If there are fewer answers than keys.
    pub fn lookup_rolling(
        &self,
        keys: &[Ipv4Addr],
        distance: usize,
        lock: PostLock<'_>,
        answers: &mut [Option<Value>],
    ) {
        /// Keys for which a batch lock is held.
        const LOCKED: usize = 64;
        for key in keys.iter().take(2 * distance) {
            prefetch(self.head(*key));
        }
        for key in keys.iter().take(distance) {
            self.ask_for_array(*key);
        }
        for first in (0..keys.len()).step_by(LOCKED) {
            let _locked = lock.for_batch();
            let last = keys.len().min(first + LOCKED);
            for pair in (first..last).step_by(2) {
                let _locked = lock.for_pair();
                for index in pair..last.min(pair + 2) {
                    if let Some(key) = keys.get(index + 2 * distance) {
                        prefetch(self.head(*key));
                    }
                    if let Some(key) = keys.get(index + distance) {
                        self.ask_for_array(*key);
                    }
                    answers[index] = self.search(keys[index]);
                }
            }
        }
    }

    #[inline(always)]
    fn ask_for_array(&self, key: Ipv4Addr) {
        if let Some(first) = self.head(key).0.first() {
            prefetch(first);
        }
    }

    #[inline(always)]
    fn search(&self, key: Ipv4Addr) -> Option<Value> {
        self.head(key).0.contains(&key.to_bits()).then_some(Value::MEMBER)
    }

    #[inline(always)]
    fn head(&self, key: Ipv4Addr) -> &Head {
        &self.buckets[self.bucket(key)]
    }

    #[inline(always)]
    fn bucket(&self, key: Ipv4Addr) -> usize {
        ((u64::from(self.mix.mix(key.to_bits())) * self.buckets.len() as u64) >> 32) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_order_and_lock_answers_like_a_set() {
        let address = |number: u32| Ipv4Addr::from_bits(number.wrapping_mul(0x0100_8421));
        let members: Vec<_> = (0..5_000).map(|number| address(number % 4_000)).collect();
        let table = PostTable::new(512, &members);
        assert_eq!(table.len(), 4_000);
        let set: BTreeSet<_> = members.into_iter().collect();
        let keys: Vec<_> = (2_000..6_001).map(address).collect();
        let expected: Vec<_> = keys
            .iter()
            .map(|key| set.contains(key).then_some(Value::MEMBER))
            .collect();
        let lock = RwLock::new(());
        for lock in [PostLock::None, PostLock::Pair(&lock), PostLock::Batch(&lock)] {
            for prefetch in [PostPrefetch::None, PostPrefetch::Head, PostPrefetch::HeadAndArray] {
                for batch in [1, 3, 4, 16, 64] {
                    let mut answers = vec![None; keys.len()];
                    for (keys, answers) in keys.chunks(batch).zip(answers.chunks_mut(batch)) {
                        table.lookup_batch(keys, prefetch, lock, answers);
                    }
                    assert_eq!(answers, expected, "{batch} {prefetch:?} {lock:?}");
                }
            }
            for distance in [0, 1, 16, 5_000] {
                let mut answers = vec![None; keys.len()];
                table.lookup_rolling(&keys, distance, lock, &mut answers);
                assert_eq!(answers, expected, "rolling {distance} {lock:?}");
            }
        }
    }
}
