//! Linear algebra over GF(2) for 16-bit numbers: the columns of a linear map enter, the sets of numbers that it maps to
//! each value leave, each in ascending order and without a search.

use std::ops::RangeInclusive;

/// A linear map from 16-bit numbers to bits, brought into a form from which the numbers behind a value can be read.
pub(super) struct LinearMap {
    /// For each dimension of the image, a value and a number mapped to it; the values are independent.
    image: Vec<(u32, u32)>,
    /// Numbers mapped to zero, ascending: independent, and in reduced echelon form by their highest bits.
    kernel: Vec<u32>,
}

impl LinearMap {
    /// The map that takes the number `1 << bit` to `columns[bit]`.
    pub(super) fn new(columns: [u32; 16]) -> LinearMap {
        let mut image: Vec<(u32, u32)> = Vec::new();
        let mut kernel = Vec::new();
        for (bit, column) in columns.into_iter().enumerate() {
            let (mut value, mut number) = (column, 1_u32 << bit);
            for &(pivot, combination) in &image {
                if value & top_bit(pivot) != 0 {
                    value ^= pivot;
                    number ^= combination;
                }
            }
            if value == 0 {
                kernel.push(number);
            } else {
                image.push((value, number));
            }
        }
        LinearMap {
            image,
            kernel: reduced(kernel),
        }
    }

    /// Every value the map takes, with the numbers that it maps there. Together they are all 65,536 numbers.
    pub(super) fn cosets(&self) -> impl Iterator<Item = (u32, Coset<'_>)> {
        (0..1_u32 << self.image.len()).map(|choice| {
            let chosen = |(value, number), (at, member): (usize, &(u32, u32))| match choice >> at & 1 {
                0 => (value, number),
                _ => (value ^ member.0, number ^ member.1),
            };
            let (value, number) = self.image.iter().enumerate().fold((0, 0), chosen);
            (value, Coset::new(number, &self.kernel))
        })
    }
}

/// The numbers that differ from one another by sums of kernel members.
pub(super) struct Coset<'a> {
    /// Its smallest member: the one in which the highest bit of every kernel member is zero.
    smallest: u32,
    kernel: &'a [u32],
}

impl Coset<'_> {
    fn new(member: u32, kernel: &[u32]) -> Coset<'_> {
        let clear = |number: u32, vector: &u32| match number & top_bit(*vector) {
            0 => number,
            _ => number ^ vector,
        };
        Coset {
            smallest: kernel.iter().fold(member, clear),
            kernel,
        }
    }

    /// The members within `range`, ascending.
    pub(super) fn within(&self, range: RangeInclusive<u16>) -> impl Iterator<Item = u16> {
        let size = 1_u32 << self.kernel.len();
        let first = first_where(size, |rank| self.member(rank) >= *range.start());
        (first..size)
            .map(|rank| self.member(rank))
            .take_while(move |member| member <= range.end())
    }

    /// The member that `rank` others are smaller than. Each kernel member's highest bit is set in no other and not in
    /// `smallest`, so adding them by the bits of `rank` sets exactly those bits, in the order of the ranks.
    fn member(&self, rank: u32) -> u16 {
        let chosen = self.kernel.iter().enumerate();
        let member = chosen.fold(self.smallest, |number, (bit, vector)| match rank >> bit & 1 {
            0 => number,
            _ => number ^ vector,
        });
        member as u16
    }
}

/// The reduced echelon form of independent numbers: ascending, and the highest bit of each is set in no other.
fn reduced(numbers: Vec<u32>) -> Vec<u32> {
    let mut form: Vec<u32> = Vec::with_capacity(numbers.len());
    for mut number in numbers {
        for &other in &form {
            if number & top_bit(other) != 0 {
                number ^= other;
            }
        }
        let top = top_bit(number);
        for other in &mut form {
            if *other & top != 0 {
                *other ^= number;
            }
        }
        form.push(number);
    }
    form.sort_unstable();
    form
}

/// The highest bit set, alone; zero for zero.
fn top_bit(value: u32) -> u32 {
    value.checked_ilog2().map_or(0, |bit| 1 << bit)
}

/// The first of `0..size` for which `holds`, given that it holds for all after; `size` if for none.
fn first_where(size: u32, holds: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (0, size);
    while low < high {
        let middle = low.midpoint(high);
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn apply(columns: &[u32; 16], number: u16) -> u32 {
        let set = (0..16).filter(|bit| number >> bit & 1 == 1);
        set.fold(0, |value, bit| value ^ columns[bit])
    }

    proptest! {
        #[test]
        fn the_cosets_are_all_numbers_sorted_by_their_value(
            columns in prop::array::uniform16(0_u32..=0xff),
            spread in any::<u32>(),
            start in any::<u16>(),
            end in any::<u16>(),
        ) {
            let columns = columns.map(|column| column.wrapping_mul(spread | 1));
            let mut seen = vec![false; 1 << 16];
            for (value, coset) in LinearMap::new(columns).cosets() {
                let members: Vec<u16> = coset.within(0..=u16::MAX).collect();
                prop_assert!(members.is_sorted());
                for &member in &members {
                    prop_assert_eq!(apply(&columns, member), value);
                    prop_assert!(!std::mem::replace(&mut seen[usize::from(member)], true));
                }
                let expected: Vec<u16> = members.into_iter().filter(|port| (start..=end).contains(port)).collect();
                prop_assert_eq!(coset.within(start..=end).collect::<Vec<_>>(), expected);
            }
            prop_assert!(seen.into_iter().all(|seen| seen));
        }
    }
}
