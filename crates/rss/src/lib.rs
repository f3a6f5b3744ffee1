//! Receive side scaling (RSS) in software.
//!
//! From a [`Key`], a [`Tuple`] and an [`IndirectionTable`], the crate computes the [`Hash`](struct@Hash) that a network
//! interface computes, the table entry, and its [`Bucket`]. It plans the addresses and ports that reach each bucket
//! ([`plan`]), and generates the socket filter program with which an unmodified kernel selects sockets by the same hash
//! ([`steer`]).
//!
//! ```
//! use corelane_rss::{HashFields, Key, Toeplitz, Tuple};
//!
//! let tuple = Tuple::new("66.9.149.187:2794".parse()?, "161.142.100.80:1766".parse()?)?;
//! let toeplitz = Toeplitz::new(&Key::VERIFICATION);
//! assert_eq!(toeplitz.hash(&tuple, HashFields::FourTuple), 0x51cc_c178);
//! assert_eq!(toeplitz.hash(&tuple, HashFields::TwoTuple), 0x323e_8fc2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(unsafe_code)]

pub mod audit;
pub mod balance;
mod error;
mod fields;
mod hash;
pub mod infer;
mod key;
pub mod oracle;
pub mod plan;
pub mod steer;
mod steering;
mod table;
mod toeplitz;
mod transform;
mod tuple;

pub use error::InputError;
pub use fields::HashFields;
pub use hash::{Hash, HashType, Protocol};
pub use key::Key;
pub use steering::{FlowMetadata, Steerer, Steering};
pub use table::{Bucket, IndirectionTable};
pub use toeplitz::{Toeplitz, Way};
pub use transform::Transform;
pub use tuple::{HashInput, Tuple, TupleError, same_address};

/// Compiles and runs the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
