//! A bounded store of items in one region of memory: one owner's share of a cache.
//!
//! A [`Partition`] has no locks and allocates nothing after its start, but for the list of evicted items if one is kept. Time is passed in, in seconds. Keys are found by their
//! [`hash`], which also says which partition owns a key.
//!
//! ```
//! use corelane_store::{Attributes, Memory, Partition, Placement, Settings, hash};
//!
//! let settings = Settings::default();
//! let mut store = Partition::new(Memory::zeroed(8 << 20, Placement::default())?, &settings)?;
//! let key = b"user:1";
//! let hash = hash(key, settings.seed);
//! let attributes = Attributes { expiry: 60, ..Attributes::default() };
//! store.set(hash, key, b"Ada", attributes, 0)?;
//!
//! assert_eq!(store.read(hash, key, 59).unwrap().item().value.whole(), Some(&b"Ada"[..]));
//! assert!(store.read(hash, key, 60).is_none(), "it has expired");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(unsafe_code)]

mod bucket;
mod classes;
mod counts;
mod evictions;
mod hash;
mod index;
mod item;
mod log;
#[allow(unsafe_code)]
mod memory;
mod partition;
mod published;
mod reader;
mod segments;
mod sweep;
#[cfg(test)]
mod tests;
mod tidy;
mod write;

pub use classes::Class;
pub use corelane_table::{MemoryError, Placement};
pub use counts::Counts;
pub use evictions::Evicted;
pub use hash::{Hash, hash};
pub use item::{Attributes, Item, ItemMut, Marks, Value};
pub use memory::Memory;
pub use partition::{Partition, Settings, Unusable};
pub use reader::{Copied, NotRead, Reader};
pub use write::{Refused, Reservation, Source};
