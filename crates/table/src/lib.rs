//! Sets and maps over addresses, prefixes and flows, looked up in batches at memory speed, concurrently with changes.
//!
//! Addresses, prefixes and flow keys are inserted one by one or as lists ([`read_list`]), and looked up in batches.
//! [`ExactMap`] finds single addresses, [`PrefixMap`] longest matches, [`AddressMap`] both in both families,
//! [`FlowMap`] flows. Each map has one writer and any number of [`Reader`]s, one per thread. [`post`] and [`limit`] are
//! references for benchmarks.
//!
//! ```
//! use corelane_table::{AddressMap, ListOptions, Lookup, Placement, Prefetch, Seed};
//!
//! let list = b"192.0.2.1\n198.51.100.0/24 7 # a class\n2001:db8::/32\n";
//! let options = ListOptions::default();
//! let (mut map, summary) = AddressMap::from_list(list, &options, Seed::default(), Placement::default())?;
//! assert_eq!(summary.prefixes, 3);
//!
//! let mut reader = map.reader();
//! let sources = ["192.0.2.1".parse()?, "198.51.100.9".parse()?, "203.0.113.1".parse()?];
//! let mut answers = [None; 3];
//! reader.table().v4.lookup(&sources, Prefetch::default(), &mut answers);
//! assert_eq!(answers.map(|value| value.map(|value| value.get())), [Some(0), Some(7), None]);
//!
//! map.remove("192.0.2.1".parse()?);
//! assert_eq!(reader.table().v4.get(sources[0]), None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(unsafe_code)]

mod address;
mod address_map;
mod batch;
mod cuckoo;
mod exact;
mod flow;
pub mod limit;
mod list;
mod map;
#[allow(unsafe_code)]
mod memory;
mod mix;
pub mod post;
mod prefix;
mod value;

pub use address::{Address, Prefix, PrefixError};
pub use address_map::{
    AddressMap, AddressTables, EntryCounts, FamilyTable, LoadError, Loaded, SnapshotError, SnapshotMemory,
    open_file,
};
pub use batch::{Lookup, Prefetch};
pub use exact::{ExactMap, ExactTable};
pub use flow::{FlowKey, FlowMap, FlowTable};
pub use list::{
    BadLine, BadLines, BadReason, IpPrefix, ListError, ListFormat, ListOptions, ListSummary, read_list,
};
pub use map::{Map, Reader};
pub use memory::{GrantedPages, MemoryError, Pages, Placement, Region, prefetch, vectors};
pub use mix::Seed;
pub use prefix::{PrefixMap, PrefixTable};
pub use value::{Value, ValueError};
