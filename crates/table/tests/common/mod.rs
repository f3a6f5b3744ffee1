//! Helpers shared by the tests of this crate: keys and values of random tables.

use corelane_table::{Address, Seed, Value};

/// An address of either family made of 32 bits: distinct addresses for distinct numbers.
pub fn address<A: Address>(number: u32) -> A {
    // The number is in the highest bits, and again in the lowest, so that both halves of an IPv6 address differ.
    A::from_high_bits(u128::from(number) << 96 | u128::from(number))
}

pub fn value(value: u16) -> Value {
    Value::new(value % (Value::LARGEST + 1)).unwrap()
}

pub const SEED: Seed = Seed(0x0123_4567_89ab_cdef);
