//! Fast Toeplitz hash: a key is compiled once and then hashes tuples. The results equal those of the
//! [oracle](crate::oracle).
//!
//! There are three [implementations](Way). Compiling a key selects one by the CPU's features.

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "vector instructions that the compiler cannot assume")]
mod carryless;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "vector instructions that the compiler cannot assume")]
mod gfni;
mod tables;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "vector instructions that the compiler cannot assume")]
mod transpose;
mod way;

#[cfg(target_arch = "x86_64")]
use carryless::Carryless;
#[cfg(target_arch = "x86_64")]
use gfni::Gfni;
use tables::Tables;
pub use way::Way;

use crate::error::InputError;
use crate::fields::HashFields;
use crate::key::Key;
use crate::oracle;
use crate::tuple::{Tuple, v4_bytes, v6_bytes};

/// A key compiled for hashing.
#[derive(Clone, Debug)]
pub struct Toeplitz {
    key: Key,
    compiled: Compiled,
}

/// The compiled key of each implementation.
#[derive(Clone, Debug)]
enum Compiled {
    Tables(Tables),
    #[cfg(target_arch = "x86_64")]
    Carryless(Carryless),
    #[cfg(target_arch = "x86_64")]
    Gfni(Gfni),
}

impl Toeplitz {
    /// Compiles `key` for the fastest implementation that this CPU supports.
    #[must_use]
    pub fn new(key: &Key) -> Toeplitz {
        let fastest = Way::ALL.into_iter().find_map(|way| Compiled::new(key, way));
        Toeplitz {
            key: key.clone(),
            compiled: fastest.unwrap_or_else(|| Compiled::Tables(Tables::new(key))),
        }
    }

    /// Compiles `key` for this implementation; an error if the CPU does not support it.
    pub fn with_way(key: &Key, way: Way) -> Result<Toeplitz, InputError> {
        let compiled = Compiled::new(key, way).ok_or_else(|| {
            InputError(format!(
                "hashing by {way} takes {}: choose another way, tables run everywhere",
                way.takes()
            ))
        })?;
        Ok(Toeplitz {
            key: key.clone(),
            compiled,
        })
    }

    /// The selected implementation.
    #[must_use]
    pub fn way(&self) -> Way {
        match self.compiled {
            Compiled::Tables(_) => Way::Tables,
            #[cfg(target_arch = "x86_64")]
            Compiled::Carryless(_) => Way::Carryless,
            #[cfg(target_arch = "x86_64")]
            Compiled::Gfni(_) => Way::Gfni,
        }
    }

    /// The hash of these fields of a tuple.
    #[must_use]
    #[inline]
    pub fn hash(&self, tuple: &Tuple, fields: HashFields) -> u32 {
        #[cfg(target_arch = "x86_64")]
        if let Compiled::Gfni(gfni) = &self.compiled {
            return gfni.hash_tuple(tuple, fields);
        }
        match *tuple {
            Tuple::V4 { source, destination } => self.hash_array(&v4_bytes(source, destination, fields)),
            Tuple::V6 { source, destination } => self.hash_array(&v6_bytes(source, destination, fields)),
        }
    }

    /// The hash of bytes in the layout of [`Tuple::input`].
    ///
    /// Inputs of any other length are hashed by the slow oracle. Key bits past the key's end count as zero.
    #[must_use]
    #[inline]
    pub fn hash_input(&self, input: &[u8]) -> u32 {
        if let Ok(input) = <&[u8; 8]>::try_from(input) {
            self.hash_array(input)
        } else if let Ok(input) = <&[u8; 12]>::try_from(input) {
            self.hash_array(input)
        } else if let Ok(input) = <&[u8; 32]>::try_from(input) {
            self.hash_array(input)
        } else if let Ok(input) = <&[u8; 36]>::try_from(input) {
            self.hash_array(input)
        } else {
            oracle::toeplitz(&self.key, input)
        }
    }

    /// The hashes of a batch of inputs, all of one kind: IPv4 (`N` = 8 or 12) or IPv6 (`N` = 32 or 36) addresses, N =
    /// 12 or 36 with ports, in the layout of [`Tuple::input`]. This is the fastest method.
    ///
    /// `hashes[i]` becomes the hash of `inputs[i]`; if the slices differ in length, the rest of the longer one is not
    /// touched. Inputs of any other length are hashed by the slow oracle.
    pub fn hash_inputs<const N: usize>(&self, inputs: &[[u8; N]], hashes: &mut [u32]) {
        let done = match &self.compiled {
            #[cfg(target_arch = "x86_64")]
            Compiled::Gfni(gfni) if tuple_length(N) => gfni.hash_sixteens(inputs, hashes),
            _ => 0,
        };
        for (input, hash) in inputs[done..].iter().zip(&mut hashes[done..]) {
            *hash = self.hash_array(input);
        }
    }

    #[inline]
    fn hash_array<const N: usize>(&self, input: &[u8; N]) -> u32 {
        match &self.compiled {
            _ if !tuple_length(N) => oracle::toeplitz(&self.key, input),
            Compiled::Tables(tables) => tables.hash(input),
            #[cfg(target_arch = "x86_64")]
            Compiled::Carryless(carryless) => carryless.hash(input),
            #[cfg(target_arch = "x86_64")]
            Compiled::Gfni(gfni) => gfni.hash(input),
        }
    }
}

impl Compiled {
    fn new(key: &Key, way: Way) -> Option<Compiled> {
        match way {
            Way::Tables => Some(Compiled::Tables(Tables::new(key))),
            #[cfg(target_arch = "x86_64")]
            Way::Carryless => Carryless::new(key).map(Compiled::Carryless),
            #[cfg(target_arch = "x86_64")]
            Way::Gfni => Gfni::new(key).map(Compiled::Gfni),
            #[cfg(not(target_arch = "x86_64"))]
            Way::Carryless | Way::Gfni => None,
        }
    }
}

/// Whether this is the input length of a tuple, which the implementations support.
const fn tuple_length(bytes: usize) -> bool {
    matches!(bytes, 8 | 12 | 32 | 36)
}
