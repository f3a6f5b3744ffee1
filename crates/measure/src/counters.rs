//! Blocks of counters: one declaration gives a block its sum, its difference and the names of its counters.

use std::borrow::Borrow;
use std::collections::BTreeMap;

/// Counts that can be added up, and of which two readings have a difference. Declare a struct of them with
/// [`counters!`](crate::counters!).
pub trait Counters: Clone {
    /// Adds the counts of `other`.
    fn add(&mut self, other: &Self);

    /// What was counted after `earlier`; 0 for a count that decreased.
    #[must_use]
    fn since(&self, earlier: &Self) -> Self;

    /// The sum of two.
    #[must_use]
    fn plus(&self, other: &Self) -> Self {
        let mut sum = self.clone();
        sum.add(other);
        sum
    }

    /// The sum of all parts.
    #[must_use]
    fn sum(parts: impl IntoIterator<Item: Borrow<Self>>) -> Self
    where
        Self: Default,
    {
        let mut sum = Self::default();
        parts.into_iter().for_each(|part| sum.add(part.borrow()));
        sum
    }
}

/// No counts.
impl Counters for () {
    fn add(&mut self, (): &Self) {}

    fn since(&self, (): &Self) -> Self {}
}

impl Counters for u64 {
    fn add(&mut self, other: &Self) {
        *self = self.saturating_add(*other);
    }

    fn since(&self, earlier: &Self) -> Self {
        self.saturating_sub(*earlier)
    }
}

impl<const N: usize> Counters for [u64; N] {
    fn add(&mut self, other: &Self) {
        self.iter_mut().zip(other).for_each(|(sum, count)| sum.add(count));
    }

    fn since(&self, earlier: &Self) -> Self {
        std::array::from_fn(|place| self[place].since(&earlier[place]))
    }
}

/// Counts by place; a place that one of two does not have counts 0 there.
impl Counters for Vec<u64> {
    fn add(&mut self, other: &Self) {
        self.resize(self.len().max(other.len()), 0);
        self.iter_mut().zip(other).for_each(|(sum, count)| sum.add(count));
    }

    fn since(&self, earlier: &Self) -> Self {
        let before = earlier.iter().chain(std::iter::repeat(&0));
        self.iter()
            .zip(before)
            .map(|(count, before)| count.since(before))
            .collect()
    }
}

/// Seconds.
impl Counters for f64 {
    fn add(&mut self, other: &Self) {
        *self += other;
    }

    fn since(&self, earlier: &Self) -> Self {
        self - earlier
    }
}

/// Counts by key; a key that is missing in one of two counts 0 there.
impl<Key: Ord + Clone, Counts: Counters + Default> Counters for BTreeMap<Key, Counts> {
    fn add(&mut self, other: &Self) {
        for (key, counts) in other {
            self.entry(key.clone()).or_default().add(counts);
        }
    }

    fn since(&self, earlier: &Self) -> Self {
        let before = |key| earlier.get(key).cloned().unwrap_or_default();
        let counts = self.iter();
        counts
            .map(|(key, counts)| (key.clone(), counts.since(&before(key))))
            .collect()
    }
}

/// Declares a struct whose fields all implement [`Counters`](crate::counters::Counters), and implements that trait for
/// it. If all fields are `u64`, it also gets `named`: each count with the name of its field. A type parameter stands for
/// further counters.
///
/// ```
/// use corelane_measure::counters::Counters;
///
/// corelane_measure::counters! {
///     #[derive(Debug, Clone, Default, PartialEq)]
///     struct Frames {
///         received: u64,
///         dropped: u64,
///     }
/// }
///
/// let before = Frames { received: 2, dropped: 1 };
/// let after = before.plus(&Frames { received: 3, dropped: 0 });
/// assert_eq!(after.since(&before).received, 3);
/// assert_eq!(after.named(), [("received", 5), ("dropped", 1)]);
/// ```
#[macro_export]
macro_rules! counters {
    (
        $(#[$about:meta])*
        $seen:vis struct $block:ident {
            $( $(#[$field_about:meta])* $field_seen:vis $field:ident: u64, )+
        }
    ) => {
        $crate::counters! {
            @block
            $(#[$about])*
            $seen struct $block {
                $( $(#[$field_about])* $field_seen $field: u64, )+
            }
        }

        impl $block {
            /// Each count with the name of its field.
            #[allow(dead_code, reason = "not every block is shown by name")]
            $seen fn named(&self) -> [(&'static str, u64); [$(stringify!($field)),+].len()] {
                [$( (stringify!($field), self.$field) ),+]
            }
        }
    };
    (
        @block
        $(#[$about:meta])*
        $seen:vis struct $block:ident $(<$own:ident>)? {
            $( $(#[$field_about:meta])* $field_seen:vis $field:ident: $counts:ty, )+
        }
    ) => {
        $(#[$about])*
        $seen struct $block $(<$own>)? {
            $( $(#[$field_about])* $field_seen $field: $counts, )+
        }

        impl $(<$own: $crate::counters::Counters>)? $crate::counters::Counters for $block $(<$own>)? {
            fn add(&mut self, other: &Self) {
                $( $crate::counters::Counters::add(&mut self.$field, &other.$field); )+
            }

            fn since(&self, earlier: &Self) -> Self {
                Self { $( $field: $crate::counters::Counters::since(&self.$field, &earlier.$field), )+ }
            }
        }
    };
    ($($block:tt)+) => {
        $crate::counters! { @block $($block)+ }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    counters! {
        #[derive(Clone, Debug, Default, PartialEq)]
        struct Block {
            frames: u64,
            places: [u64; 2],
            buckets: Vec<u64>,
            causes: BTreeMap<&'static str, u64>,
        }
    }

    #[test]
    fn a_sum_less_one_part_is_the_other() {
        let one = Block {
            frames: 3,
            places: [1, 2],
            buckets: vec![1],
            causes: BTreeMap::from([("full", 1)]),
        };
        let other = Block {
            frames: 4,
            places: [0, 5],
            buckets: vec![2, 3],
            causes: BTreeMap::from([("full", 2), ("late", 7)]),
        };
        assert_eq!(one.plus(&other).since(&one), other);
    }

    #[test]
    fn a_count_that_decreased_counts_nothing() {
        assert_eq!(3_u64.since(&4), 0);
    }
}
