//! Frame dissection, RSS hash input, and verification of RSS steering.
//!
//! The input is an Ethernet frame, or a packet starting at its IP header, as a byte slice. [`Dissection`] yields
//! addresses, ports, fragment information and offsets, [`RssInput`] the bytes that a network interface hashes.
//! [`Editor`] changes addresses and ports and updates the checksums, [`tunnel`] finds what is inside tunnels, and [`verify`]
//! checks whether frames arrived on the queue that their hash selects. The crate does no I/O, never reads past a frame, and
//! never panics on any frame.
//!
//! ```
//! use corelane_packet::{Dissection, HashTypes};
//! use corelane_rss::{HashType, Key, Toeplitz};
//!
//! let mut frame = vec![0; 12];                                                // addresses of Ethernet
//! frame.extend([0x08, 0x00, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0]);       // IPv4, UDP
//! frame.extend([66, 9, 149, 187, 161, 142, 100, 80]);                         // source, destination
//! frame.extend([0x0a, 0xea, 0x06, 0xe6, 0, 8, 0, 0]);                         // ports 2794 and 1766
//! let dissection = Dissection::of(&frame)?;
//! let input = dissection.rss_input(HashTypes::ALL).expect("IPv4 is hashed");
//! let hash = input.hash(&Toeplitz::new(&Key::VERIFICATION));
//! assert_eq!((hash.value, hash.hash_type), (0x51cc_c178, HashType::UDP_IPV4));
//! # Ok::<(), corelane_packet::Refusal>(())
//! ```

#![forbid(unsafe_code)]

mod bytes;
mod captured;
pub mod checksum;
mod dissection;
mod edit;
pub mod ethernet;
mod fragment;
mod integrity;
mod ipv4;
mod ipv6;
mod layout;
mod plain;
mod protocol;
mod refusal;
mod rss_input;
pub mod tunnel;
pub mod verify;

pub use dissection::{Addresses, Dissection, Ports, TransportHeader};
pub use edit::{EditError, Editor, finish_checksum};
pub use fragment::{Fragment, FragmentPart};
pub use layout::Layout;
pub use protocol::IpProtocol;
pub use refusal::Refusal;
pub use rss_input::{HashTypes, RssInput};
