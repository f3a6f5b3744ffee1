//! Indirection tables, which map a hash to an entry and an entry to a bucket.

use crate::error::InputError;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The target of an entry of the indirection table: the share of the traffic that one worker or queue handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bucket(u16);

impl Bucket {
    /// The bucket of this number, counting from zero.
    #[must_use]
    pub const fn new(number: u16) -> Bucket {
        Bucket(number)
    }

    /// Its number, for indexing per-bucket data.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Maps a hash to a bucket: the remainder of the hash selects the entry, `entry = hash % size`. Nearly all network interfaces
/// have a power of two of entries, so that the low bits of the hash are the remainder; some have 48 or 192.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Bucket>")]
pub struct IndirectionTable(
    /// Between 1 and [`IndirectionTable::LARGEST`] entries.
    Box<[Bucket]>,
);

impl IndirectionTable {
    /// Entries of the largest supported table. Devices have 128 (82599 datasheet, 7.1.2.8) to 2,048.
    pub const LARGEST: usize = 4096;

    /// A table of `size` entries that names the buckets 0, 1, … `buckets - 1` in turn, the default of drivers.
    pub fn round_robin(size: usize, buckets: usize) -> Result<IndirectionTable, InputError> {
        check_size(size)?;
        if buckets == 0 || buckets > size {
            return Err(InputError(format!(
                "{buckets} buckets in an indirection table of {size} entries: give 1 to {size} buckets, or a larger table"
            )));
        }
        let entries = (0..size).map(|entry| Bucket((entry % buckets) as u16));
        Ok(IndirectionTable(entries.collect()))
    }

    /// A table of these entries.
    pub fn from_entries(entries: Vec<Bucket>) -> Result<IndirectionTable, InputError> {
        check_size(entries.len())?;
        Ok(IndirectionTable(entries.into()))
    }

    /// How many entries there are.
    #[must_use]
    pub fn size(&self) -> usize {
        self.0.len()
    }

    /// Number of buckets: the highest bucket number plus one. A bucket below it may have no entry.
    #[must_use]
    pub fn buckets(&self) -> usize {
        let highest = self.0.iter().map(|bucket| bucket.index()).max();
        highest.map_or(0, |highest| highest + 1)
    }

    /// The entry that a hash selects.
    #[must_use]
    pub fn entry(&self, hash: u32) -> usize {
        let size = self.0.len();
        match size.is_power_of_two() {
            true => hash as usize & (size - 1),
            false => hash as usize % size,
        }
    }

    /// The bucket that a hash selects.
    #[must_use]
    pub fn bucket(&self, hash: u32) -> Bucket {
        self.0[self.entry(hash)]
    }

    /// The bucket of every entry, in order.
    #[must_use]
    pub fn entries(&self) -> &[Bucket] {
        &self.0
    }

    /// The shortest prefix of the table that, repeated, gives the table. Only the remainder of the hash by its length matters.
    #[must_use]
    pub fn period(&self) -> &[Bucket] {
        let table = &self.0[..];
        let repeats = |length: &usize| {
            table.len().is_multiple_of(*length) && table[*length..] == table[..table.len() - length]
        };
        let length = (1..table.len()).find(repeats);
        &table[..length.unwrap_or(table.len())]
    }

    /// How many low bits of the hash select the bucket; `None` if a remainder that is none of low bits does.
    #[must_use]
    pub fn low_bits(&self) -> Option<u32> {
        let period = self.period().len();
        period.is_power_of_two().then(|| period.ilog2())
    }
}

fn check_size(size: usize) -> Result<(), InputError> {
    if (1..=IndirectionTable::LARGEST).contains(&size) {
        return Ok(());
    }
    Err(InputError(format!(
        "an indirection table of {size} entries: give 1 to {}",
        IndirectionTable::LARGEST
    )))
}

impl TryFrom<Vec<Bucket>> for IndirectionTable {
    type Error = InputError;

    fn try_from(entries: Vec<Bucket>) -> Result<IndirectionTable, InputError> {
        IndirectionTable::from_entries(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(numbers: &[u16]) -> Vec<Bucket> {
        numbers.iter().copied().map(Bucket::new).collect()
    }

    #[test]
    fn round_robin_names_the_buckets_in_turn() {
        let table = IndirectionTable::round_robin(8, 3).unwrap();
        assert_eq!(table.entries(), numbered(&[0, 1, 2, 0, 1, 2, 0, 1]));
        assert_eq!((table.size(), table.buckets()), (8, 3));
    }

    #[test]
    fn a_hash_picks_its_entry_by_its_low_bits() {
        let table = IndirectionTable::from_entries(numbered(&[7, 0, 2, 2])).unwrap();
        assert_eq!(table.entry(0xffff_fff1), 1);
        assert_eq!(table.bucket(0xffff_fff1), Bucket::new(0));
        assert_eq!(table.bucket(4), Bucket::new(7));
        assert_eq!(table.buckets(), 8);
    }

    #[test]
    fn sizes_of_no_table_are_refused_with_the_reason() {
        for size in [0, 4097, 8192] {
            let error = IndirectionTable::round_robin(size, 1).unwrap_err();
            let expected = format!("an indirection table of {size} entries:");
            assert!(error.to_string().starts_with(&expected), "{error}");
            assert_eq!(
                IndirectionTable::from_entries(vec![Bucket::new(0); size]),
                Err(error.clone())
            );
        }
        for size in [1, 2, 48, 128, 192, 4096] {
            assert_eq!(IndirectionTable::round_robin(size, 1).unwrap().size(), size);
        }
    }

    #[test]
    fn a_hash_picks_its_entry_by_its_remainder_where_the_size_is_no_power_of_two() {
        for size in [48, 192, 100] {
            let table = IndirectionTable::round_robin(size, size).unwrap();
            for hash in [0, 47, 48, 0x51cc_c178, u32::MAX] {
                assert_eq!(table.entry(hash), hash as usize % size, "{hash:#x} in {size}");
            }
        }
        let low_bits = |size, buckets| IndirectionTable::round_robin(size, buckets).unwrap().low_bits();
        assert_eq!((low_bits(128, 4), low_bits(128, 6)), (Some(2), Some(7)));
        // Sixteen buckets in turn repeat in 48 entries, so that four bits decide; of six buckets, a remainder of three does.
        assert_eq!(
            (low_bits(48, 16), low_bits(48, 6), low_bits(48, 5)),
            (Some(4), None, None)
        );
    }

    #[test]
    fn buckets_without_an_entry_are_refused() {
        for buckets in [0, 9] {
            let error = IndirectionTable::round_robin(8, buckets).unwrap_err();
            let expected = format!("{buckets} buckets in an indirection table of 8 entries:");
            assert!(error.to_string().starts_with(&expected), "{error}");
        }
    }

    #[test]
    fn the_period_is_the_shortest_start_that_repeats() {
        let period = |numbers: &[u16]| {
            let table = IndirectionTable::from_entries(numbered(numbers)).unwrap();
            table.period().to_vec()
        };
        assert_eq!(period(&[0, 1, 0, 1, 0, 1, 0, 1]), numbered(&[0, 1]));
        assert_eq!(period(&[5, 5, 5, 5]), numbered(&[5]));
        assert_eq!(period(&[0, 1, 0, 2]), numbered(&[0, 1, 0, 2]));
        assert_eq!(period(&[3]), numbered(&[3]));
        assert_eq!(period(&[0, 1, 2, 0, 1, 2]), numbered(&[0, 1, 2]));
    }
}
