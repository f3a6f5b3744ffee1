//! A hash table of cache lines with two lines per key, read without locks while one writer changes it.
//!
//! A key has a home line and a partner line. It lives at home while home has room, so nearly every lookup reads one
//! line; it is in the partner line only if home is full. `bounds` is the arithmetic from a mixed key to its
//! lines, `layout` is the meaning of the words of a line, `protocol` the operations of readers and writer and their
//! order.

mod bounds;
mod layout;
mod protocol;
#[cfg(test)]
mod tests;

pub use bounds::{Bounds, FEWEST_LINES, Place};
pub use layout::{FlowSlots, Layout, V4Slots, V6Slots};
pub(crate) use protocol::{Cuckoo, Glance, Location, Moves, NoRoom, Overflowed, grown};
#[cfg(test)]
pub(crate) use tests::{ModelTable, ModelWord, model_key};
