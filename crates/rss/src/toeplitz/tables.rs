//! The portable way: one table of 256 hashes for each byte of input. A key enters; hashes of byte strings leave.

use crate::key::Key;

/// For each position of an input byte and each value of it, what that byte adds to the hash.
#[derive(Clone)]
pub(super) struct Tables {
    /// One table a byte of the key: an input byte further on meets no key bit and adds nothing.
    positions: Box<[[u32; 256]]>,
}

impl Tables {
    pub(super) fn new(key: &Key) -> Tables {
        let positions = 0..key.as_bytes().len();
        Tables {
            positions: positions.map(|position| table(key, 8 * position)).collect(),
        }
    }

    /// The XOR of what every byte adds: the hash is linear over GF(2).
    #[inline]
    pub(super) fn hash(&self, input: &[u8]) -> u32 {
        let added = self.positions.iter().zip(input);
        added.fold(0, |hash, (table, &byte)| hash ^ table[usize::from(byte)])
    }
}

/// What each value of the input byte whose first bit is bit `first` adds.
fn table(key: &Key, first: usize) -> [u32; 256] {
    let mut table = [0; 256];
    for value in 1..256_usize {
        let lowest = value.trailing_zeros() as usize;
        table[value] = table[value & (value - 1)] ^ key.window(first + 7 - lowest);
    }
    table
}

impl std::fmt::Debug for Tables {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Tables({} bytes)", size_of_val(&*self.positions))
    }
}
