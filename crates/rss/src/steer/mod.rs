//! Socket steering: generates a classic BPF program that selects the socket of a group by a [`Steering`].
//!
//! The sockets of a group share an address through `SO_REUSEPORT`. There is one socket per bucket, bound (UDP) or
//! listening (TCP) in the order of the buckets. The program, attached with `SO_ATTACH_REUSEPORT_CBPF`, computes the low
//! bits of the packet's Toeplitz hash that index the table, looks up the bucket and returns it. It needs no privilege.
//!
//! ```
//! use corelane_rss::steer::{self, Families};
//! use corelane_rss::{HashFields, IndirectionTable, Key, Steering};
//!
//! let steering = Steering {
//!     key: Key::VERIFICATION,
//!     hash_fields: HashFields::TwoTuple,
//!     table: IndirectionTable::round_robin(128, 4)?,
//!     cpus: vec![0, 1, 2, 3],
//!     generation: 0,
//! };
//! let program = steer::program(&steering, Families::V4)?;
//! assert!(program.as_ref().len() <= steer::MOST_INSTRUCTIONS);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod header;
mod instruction;
mod lookup;
mod parity;

use crate::audit::Family;
use crate::steering::Steering;
pub use instruction::{Instruction, code};
use thiserror::Error;

/// Maximum number of instructions of a classic program in the kernel (`BPF_MAXINSNS` in `linux/bpf_common.h`).
pub const MOST_INSTRUCTIONS: usize = 4096;

/// The address families of a program. It does not check for others: a program for IPv4 alone would misread an IPv6
/// packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Families {
    /// Sockets of IPv4 addresses.
    V4,
    /// Sockets of IPv6 addresses that receive IPv6 only (`IPV6_V6ONLY`, or bound to an address that is not a wildcard).
    V6,
    /// Sockets of the IPv6 wildcard address that receive both: the program checks the version of each packet.
    Both,
}

/// A classic BPF program that returns the bucket of the packet it is run on.
///
/// When the program is attached, the kernel compares the size of its translation with `net.core.optmem_max`, and
/// rejects a larger one with `ENOMEM`. The default is 131,072 bytes since Linux 6.7 and 20,480 before, which programs
/// of about 2,000 instructions reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    instructions: Vec<Instruction>,
}

impl Program {
    /// The instructions, in order, at most [`MOST_INSTRUCTIONS`].
    #[must_use]
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }
}

impl AsRef<[Instruction]> for Program {
    fn as_ref(&self) -> &[Instruction] {
        &self.instructions
    }
}

/// The program that steers UDP datagrams and TCP connections of these families by `steering`.
///
/// The program skips IPv4 options and up to five IPv6 extension headers. It is an error if the table needs more
/// instructions than the kernel allows, or if other than low bits of the hash select the bucket.
pub fn program(steering: &Steering, families: Families) -> Result<Program, SteerError> {
    let entries = steering.table.size();
    let bits = steering
        .table
        .low_bits()
        .ok_or(SteerError::Remainder { entries })?;
    let lookup = lookup::bucket_of_entry(steering.table.period());
    let entry = |family| entry(steering, family, bits);
    let entry = match families {
        Families::V4 => entry(Family::V4),
        Families::V6 => entry(Family::V6),
        Families::Both => by_version(entry(Family::V4), entry(Family::V6)),
    };
    let instructions = [entry, lookup].concat();
    if instructions.len() > MOST_INSTRUCTIONS {
        return Err(SteerError::TooLong {
            needed: instructions.len(),
            entries,
            buckets: steering.table.buckets(),
        });
    }
    Ok(Program { instructions })
}

/// Sets A to the packet's entry, modulo the table's period. Emits nothing for a table of one bucket.
fn entry(steering: &Steering, family: Family, bits: u32) -> Vec<Instruction> {
    match bits {
        0 => Vec::new(),
        bits => {
            let load = header::load_words(family, steering.hash_fields);
            let words = header::words(family, steering.hash_fields);
            [load, parity::low_hash_bits(&steering.key, words, bits)].concat()
        }
    }
}

/// Runs `v4` on packets of IP version 4 and `v6` on those of version 6, and continues after both.
fn by_version(v4: Vec<Instruction>, v6: Vec<Instruction>) -> Vec<Instruction> {
    if v4 == v6 {
        return v4;
    }
    let past_v6 = Instruction::new(code::JUMP, v6.len() as u32);
    let past_v4 = Instruction::jump_if(code::JUMP_IF_AT_LEAST, VERSION_6, v4.len() + 1);
    let version = Instruction::new(code::LOAD_BYTE, header::NETWORK_HEADER);
    [vec![version], past_v4, v4, vec![past_v6], v6].concat()
}

/// The first byte of an IP header is at least this in version 6, and less in version 4: the version is its upper half.
const VERSION_6: u32 = 0x60;

/// Error of generating a program.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SteerError {
    /// The table is so irregular that the program would exceed the instruction limit.
    #[error(
        "a program for this table of {entries} entries and {buckets} buckets takes {needed} instructions, and the kernel \
         allows {MOST_INSTRUCTIONS}: give a smaller table, fewer buckets, one address family, or a table that repeats"
    )]
    TooLong {
        /// Instructions the program would have.
        needed: usize,
        /// Entries of the table.
        entries: usize,
        /// Its buckets.
        buckets: usize,
    },
    /// The size of the table is no power of two.
    #[error(
        "a table of {entries} entries is indexed by a remainder, and sockets are steered by low bits of the hash: give a table \
         whose size is a power of two"
    )]
    Remainder {
        /// Entries of the table.
        entries: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bucket, HashFields, IndirectionTable, Key};

    fn steering(table: IndirectionTable) -> Steering {
        Steering {
            key: Key::VERIFICATION,
            hash_fields: HashFields::FourTuple,
            cpus: (0..table.buckets() as u32).collect(),
            table,
            generation: 0,
        }
    }

    fn length(table: IndirectionTable, families: Families) -> usize {
        program(&steering(table), families).unwrap().instructions().len()
    }

    /// An irregular table: the bucket of every entry comes from the high bits of a linear congruential generator.
    fn irregular(size: u32, buckets: u32) -> IndirectionTable {
        let draw = |entry: u32| (entry.wrapping_mul(2_654_435_761) >> 12) % buckets;
        let entries = (0..size).map(|entry| Bucket::new(draw(entry) as u16));
        IndirectionTable::from_entries(entries.collect()).unwrap()
    }

    #[test]
    fn programs_stay_as_short_as_they_are() {
        let full = || IndirectionTable::round_robin(128, 128).unwrap();
        let lengths = [Families::V4, Families::V6, Families::Both].map(|families| length(full(), families));
        assert_eq!(lengths, [148, 364, 514]);
        let irregulars = [128, 512, 2048, 4096].map(|size| length(irregular(size, 256), Families::Both));
        assert_eq!(irregulars, [615, 1037, 2314, 3912]);
    }

    #[test]
    fn a_table_that_repeats_takes_only_the_hash_bits_that_matter() {
        let few = IndirectionTable::round_robin(4096, 2).unwrap();
        assert!(length(few, Families::V4) < 40);
        let one = IndirectionTable::round_robin(4096, 1).unwrap();
        assert_eq!(length(one, Families::Both), 1);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_both_numbers() {
        let error = program(&steering(irregular(4096, 4096)), Families::Both).unwrap_err();
        let SteerError::TooLong { needed, .. } = error else {
            panic!("{error}");
        };
        assert!(needed > MOST_INSTRUCTIONS);
        let message = error.to_string();
        assert!(
            message.contains(&needed.to_string()) && message.contains("4096"),
            "{message}"
        );
    }

    #[test]
    fn a_table_that_is_indexed_by_a_remainder_is_refused_unless_low_bits_decide() {
        let program = |buckets| {
            let table = IndirectionTable::round_robin(48, buckets).unwrap();
            program(&steering(table), Families::V4)
        };
        assert_eq!(program(6), Err(SteerError::Remainder { entries: 48 }));
        // Sixteen buckets in turn: four low bits decide.
        assert!(program(16).is_ok());
    }
}
