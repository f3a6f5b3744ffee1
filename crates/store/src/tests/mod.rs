//! Tests of the store as a whole.

mod access;
mod crowded;
mod full;
mod interleavings;
mod invariants;
mod limit;
mod model;
mod reads;
mod sizes;
mod slow;

use crate::{Memory, Placement};

/// Memory that is not empty.
fn memory(bytes: usize) -> Memory {
    let mut memory = Memory::zeroed(bytes, Placement::default()).expect("memory");
    memory.write(0, &vec![0xa5; bytes]);
    memory
}
