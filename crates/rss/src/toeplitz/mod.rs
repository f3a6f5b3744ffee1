//! The Toeplitz hash at speed: a key is compiled once, tuples enter, hashes leave, equal to the [oracle](crate::oracle).

mod tables;

use crate::hash::HashFields;
use crate::key::Key;
use crate::tuple::{Tuple, v4_bytes, v6_bytes};
use tables::Tables;

/// A key compiled for hashing.
#[derive(Clone, Debug)]
pub struct Toeplitz {
    tables: Tables,
}

impl Toeplitz {
    /// Compiles `key`.
    #[must_use]
    pub fn new(key: &Key) -> Toeplitz {
        Toeplitz {
            tables: Tables::new(key),
        }
    }

    /// The hash of these fields of a tuple.
    #[must_use]
    pub fn hash(&self, tuple: &Tuple, fields: HashFields) -> u32 {
        match (*tuple, fields) {
            (Tuple::V4 { source, destination }, HashFields::TwoTuple) => {
                self.tables.hash(&v4_bytes(source, destination)[..8])
            }
            (Tuple::V4 { source, destination }, HashFields::FourTuple) => {
                self.tables.hash(&v4_bytes(source, destination))
            }
            (Tuple::V6 { source, destination }, HashFields::TwoTuple) => {
                self.tables.hash(&v6_bytes(source, destination)[..32])
            }
            (Tuple::V6 { source, destination }, HashFields::FourTuple) => {
                self.tables.hash(&v6_bytes(source, destination))
            }
        }
    }

    /// The hash of bytes already laid out as [`Tuple::input`] does. Key bits past the key's end count as zero.
    #[must_use]
    pub fn hash_input(&self, input: &[u8]) -> u32 {
        self.tables.hash(input)
    }
}
