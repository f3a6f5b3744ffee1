//! Lookups in batches: keys enter, an answer for each leaves, and memory is asked for ahead of the work.

/// When to ask for the memory of a key.
///
/// The distance is fixed and rolls on: while one key is worked on, the line of the key this many places later is asked
/// for, across calls too (see [`Lookup::lookup_then`]). Asking for a whole batch and then working on it measured half as
/// fast, because the memory idles while the CPU compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefetch {
    /// Never: each key waits for its memory, save for what the CPU overlaps by itself.
    None,
    /// This many keys ahead; 32 to 64 suit the memory of today's servers.
    Ahead(usize),
}

impl Prefetch {
    /// The distance, none when there is no prefetching.
    #[must_use]
    pub const fn distance(self) -> Option<usize> {
        match self {
            Prefetch::None => None,
            Prefetch::Ahead(distance) => Some(distance),
        }
    }
}

impl Default for Prefetch {
    /// 48 keys ahead.
    fn default() -> Prefetch {
        Prefetch::Ahead(48)
    }
}

/// A table that answers batches of keys.
pub trait Lookup {
    /// What is looked up.
    type Key: Copy;
    /// What a present key maps to.
    type Answer: Copy;

    /// Asks for the memory of these keys, to be looked up soon: as many as the distance, before the first call of
    /// [`lookup_then`](Lookup::lookup_then).
    fn prefetch(&self, keys: &[Self::Key]);

    /// Looks up `keys`, whose first ones were asked for before, and meanwhile asks for `upcoming`, the keys of the next
    /// calls (as many as the distance; more are ignored). Answer `i` is that of key `i`.
    ///
    /// # Panics
    /// When there are not as many answers as keys.
    fn lookup_then(
        &self,
        keys: &[Self::Key],
        upcoming: &[Self::Key],
        prefetch: Prefetch,
        answers: &mut [Option<Self::Answer>],
    );

    /// Looks up `keys`; nothing is known of those before and after. Answer `i` is that of key `i`.
    ///
    /// # Panics
    /// When there are not as many answers as keys.
    fn lookup(&self, keys: &[Self::Key], prefetch: Prefetch, answers: &mut [Option<Self::Answer>]) {
        if let Some(distance) = prefetch.distance() {
            self.prefetch(&keys[..distance.min(keys.len())]);
        }
        self.lookup_then(keys, &[], prefetch, answers);
    }
}

/// The keys of a call and those after them, as one row.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a, K> {
    keys: &'a [K],
    upcoming: &'a [K],
    distance: usize,
}

impl<'a, K> Row<'a, K> {
    /// The row of one call of [`Lookup::lookup_then`].
    #[inline(always)]
    pub(crate) fn new(keys: &'a [K], upcoming: &'a [K], prefetch: Prefetch) -> Row<'a, K> {
        let distance = prefetch.distance().unwrap_or(usize::MAX / 2);
        Row {
            keys,
            upcoming,
            distance,
        }
    }

    /// The key to ask for while key `index` is worked on.
    #[inline(always)]
    pub(crate) fn ahead_of(&self, index: usize) -> Option<&'a K> {
        let ahead = index + self.distance;
        match ahead.checked_sub(self.keys.len()) {
            None => self.keys.get(ahead),
            Some(upcoming) => self.upcoming.get(upcoming),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_asked_for_once_and_the_row_goes_on_in_the_next_call() {
        let keys: Vec<u32> = (0..20).collect();
        for distance in [0, 1, 3, 8, 50] {
            let mut asked: Vec<u32> = keys.iter().copied().take(distance).collect();
            for start in (0..20).step_by(4) {
                let row = Row::new(
                    &keys[start..start + 4],
                    &keys[start + 4..],
                    Prefetch::Ahead(distance),
                );
                asked.extend((0..4).filter_map(|index| row.ahead_of(index)));
            }
            assert_eq!(asked, keys, "distance {distance}");
        }
        let row = Row::new(&keys, &keys, Prefetch::None);
        assert!((0..20).all(|index| row.ahead_of(index).is_none()));
    }
}
