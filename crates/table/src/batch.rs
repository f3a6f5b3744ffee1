//! Lookups in batches, with prefetching of memory.

/// When to prefetch the memory of a key.
///
/// The distance is fixed: while one key is processed, the line of the key this many positions later is prefetched, also
/// across calls (see [`Lookup::lookup_then`]). Prefetching a whole batch before processing it was half as fast, because
/// memory idles while the CPU compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefetch {
    /// Never: each key waits for its memory, except for the overlap by out-of-order execution.
    None,
    /// This many keys ahead; 32 to 64 suit the memory of today's servers.
    Ahead(usize),
}

impl Prefetch {
    /// The distance; `None` without prefetching.
    #[must_use]
    pub const fn distance(self) -> Option<usize> {
        match self {
            Prefetch::None => None,
            Prefetch::Ahead(distance) => Some(distance),
        }
    }
}

impl Default for Prefetch {
    /// 64 keys ahead.
    fn default() -> Prefetch {
        Prefetch::Ahead(64)
    }
}

/// A table that answers batches of keys.
pub trait Lookup {
    /// The key.
    type Key: Copy;
    /// The value of a key.
    type Answer: Copy;

    /// Prefetches the memory of the first keys, as many as the distance, before the first call of
    /// [`lookup_then`](Lookup::lookup_then).
    fn prefetch(&self, keys: &[Self::Key]);

    /// Looks up `keys`, whose first ones were already prefetched, and prefetches `upcoming`, the keys of the next calls
    /// (as many as the distance; more are ignored). Answer `i` is that of key `i`.
    ///
    /// # Panics
    /// If the numbers of answers and keys differ.
    fn lookup_then(
        &self,
        keys: &[Self::Key],
        upcoming: &[Self::Key],
        prefetch: Prefetch,
        answers: &mut [Option<Self::Answer>],
    );

    /// Looks up `keys` without prefetching across calls. Answer `i` is that of key `i`.
    ///
    /// # Panics
    /// If the numbers of answers and keys differ.
    fn lookup(&self, keys: &[Self::Key], prefetch: Prefetch, answers: &mut [Option<Self::Answer>]) {
        if let Some(distance) = prefetch.distance() {
            self.prefetch(&keys[..distance.min(keys.len())]);
        }
        self.lookup_then(keys, &[], prefetch, answers);
    }
}

/// The table and the arguments of one call of [`Lookup::lookup_then`].
pub(crate) struct Call<'a, T: Lookup> {
    pub(crate) table: &'a T,
    pub(crate) keys: &'a [T::Key],
    pub(crate) upcoming: &'a [T::Key],
    pub(crate) ahead: Prefetch,
    pub(crate) answers: &'a mut [Option<T::Answer>],
}

/// Keys that are processed together: few enough for registers and first-level cache, enough to compute their places in
/// vectors.
pub(crate) const BLOCK: usize = 32;

/// Keys that are processed together, and those to prefetch meanwhile.
#[derive(Clone, Copy)]
pub(crate) struct Block<'a, K> {
    /// The number of the first key in its call.
    pub(crate) first: usize,
    /// At most [`BLOCK`] keys.
    pub(crate) keys: &'a [K],
    /// As many keys at most, in two parts: of this call, and of later ones.
    pub(crate) ahead: [&'a [K]; 2],
}

/// All keys of one call of [`Lookup::lookup_then`], in blocks.
#[inline(always)]
pub(crate) fn blocks<'a, K>(
    keys: &'a [K],
    upcoming: &'a [K],
    prefetch: Prefetch,
) -> impl Iterator<Item = Block<'a, K>> {
    let distance = prefetch.distance().unwrap_or(usize::MAX / 2);
    let count = keys.len();
    (0..count).step_by(BLOCK).map(move |first| {
        let last = count.min(first + BLOCK);
        let (from, to) = (first + distance, last + distance);
        let later = |index: usize| index.saturating_sub(count).min(upcoming.len());
        Block {
            first,
            keys: &keys[first..last],
            ahead: [
                &keys[from.min(count)..to.min(count)],
                &upcoming[later(from)..later(to)],
            ],
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_asked_for_once_and_the_row_goes_on_in_the_next_call() {
        let keys: Vec<u32> = (0..300).collect();
        for distance in [0, 1, 3, 8, 50, 400] {
            for call in [4, 37, 100] {
                let mut prefetched: Vec<u32> = keys.iter().copied().take(distance).collect();
                let mut worked = Vec::new();
                for start in (0..keys.len()).step_by(call) {
                    let end = keys.len().min(start + call);
                    for block in blocks(&keys[start..end], &keys[end..], Prefetch::Ahead(distance)) {
                        assert_eq!(block.first + start, worked.len());
                        worked.extend(block.keys);
                        prefetched.extend(block.ahead.concat());
                    }
                }
                assert_eq!(
                    (&worked, &prefetched),
                    (&keys, &keys),
                    "distance {distance}, {call} keys a call"
                );
            }
        }
        let mut blocks = blocks(&keys, &keys, Prefetch::None);
        assert!(blocks.all(|block| block.ahead.concat().is_empty()));
    }
}
