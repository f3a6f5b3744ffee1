//! The portable implementation: one table of 256 hashes per input byte.

use crate::key::Key;
use crate::tuple::HashInput;

/// For each input byte position and value, the contribution of that byte to the hash.
#[derive(Clone)]
pub(super) struct Tables {
    positions: Box<[[u32; 256]; HashInput::LONGEST]>,
}

impl Tables {
    pub(super) fn new(key: &Key) -> Tables {
        let mut positions = Box::new([[0; 256]; HashInput::LONGEST]);
        for (position, table) in positions.iter_mut().enumerate() {
            fill(table, key, 8 * position);
        }
        Tables { positions }
    }

    /// The XOR of the contributions of all bytes, because the hash is linear over GF(2). `N` is at most 36.
    #[inline]
    pub(super) fn hash<const N: usize>(&self, input: &[u8; N]) -> u32 {
        let added = self.positions.iter().zip(input);
        added.fold(0, |hash, (table, &byte)| hash ^ table[usize::from(byte)])
    }
}

/// Contribution of each value of the input byte whose first bit is bit `first`.
fn fill(table: &mut [u32; 256], key: &Key, first: usize) {
    for value in 1..256_usize {
        let lowest = value.trailing_zeros() as usize;
        table[value] = table[value & (value - 1)] ^ key.window(first + 7 - lowest);
    }
}

impl std::fmt::Debug for Tables {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Tables({} bytes)", size_of_val(&*self.positions))
    }
}
