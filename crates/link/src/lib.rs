//! Whole-frame I/O behind one trait: bursts of Ethernet frames come from a link and go to it, in the link's own memory.
//!
//! Input: the text of a [`LinkSpec`], such as `xdp:eth0` or `tap:t0,queues=2`. Output: one [`Link`] per queue, which
//! [receives](Link::receive) and [transmits](Link::transmit) bursts of frames (see [`Burst`]). Frames start at the
//! Ethernet destination address and have no frame check sequence.
//!
//! [`Wrapped`] adds faults and a capture to any link, by options of a specification
//! (`tap:t0,drop=1%,capture=seen.pcapng`). [`AnyLink`] is a link of any kind, dispatched once per burst, not per frame;
//! an [`Opener`] opens it, also again after it was lost.
//!
//! [`software_rss`] steers the frames of a device to CPUs by an exact Toeplitz hash, before the host's stack.
//! [`key_steering`] selects the socket of the worker that owns a datagram's key. [`MarkedQueues`] lets sockets of the host's stack name the transmit queue.
//!
//! ```
//! use corelane_link::{FrameLayout, Link, memory};
//!
//! let (mut left, mut right) = memory::pair(FrameLayout::default())?;
//! left.send([&[0xff; 60][..], &[0x02; 1500]].into_iter())?;
//! let mut burst = right.receive(1024)?;
//! assert_eq!(burst.iter().map(<[u8]>::len).collect::<Vec<_>>(), [60, 1500]);
//! burst.frame_mut(0)[0] = 0x02; // in place, in the link's memory
//! # Ok::<(), corelane_link::LinkError>(())
//! ```

mod any;
mod burst;
pub mod capture;
mod error;
mod files;
pub mod key_steering;
mod layout;
mod link;
mod marked;
pub mod memory;
mod merged;
mod opener;
pub mod packet_socket;
mod program;
mod queues;
pub mod software_rss;
mod spec;
mod system;
mod tally;
pub mod tap;
mod wrapper;
pub mod xdp;

pub use any::{AnyLink, BareLink};
pub use burst::{Burst, FrameTime};
pub use capture::is_written_capture;
pub use error::LinkError;
pub use files::is_same_file;
pub use layout::{FrameLayout, LayoutError};
pub use link::{Link, Port, Sent, WriteFrame, too_long};
pub use marked::MarkedQueues;
pub use opener::Opener;
pub use queues::{QueueLoop, share_out, wait};
pub use spec::{LinkKind, LinkSpec, SpecError};
pub use tally::Tally;
pub use wrapper::{FaultPlan, FrameDirection, Injected, Wrapped};

/// The README's example compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
