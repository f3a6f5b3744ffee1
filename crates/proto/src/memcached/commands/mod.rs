//! What the commands do with items, and what they answer.

mod arithmetic;
mod context;
mod copied;
mod dispatch;
mod flags;
pub(in crate::memcached) mod line;
mod meta;
mod retrieve;
mod store;

pub use context::{Commands, Counts, item_size};
pub use copied::Reading;
pub use line::Output;
pub use store::Pending;
