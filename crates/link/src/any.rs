//! A link of any kind, dispatched once per burst, with its wrapper.

use crate::burst::Burst;
use crate::capture::CaptureLink;
use crate::error::LinkError;
use crate::link::Link;
use crate::memory::MemoryLink;
use crate::packet_socket::PacketLink;
use crate::tally::Tally;
use crate::tap::TapLink;
use crate::wrapper::{Injected, Wrapped};
use crate::xdp::XdpLink;
use std::os::fd::BorrowedFd;

/// One queue of a link of any kind, with its wrapper.
#[derive(Debug)]
#[allow(missing_docs)]
#[allow(
    clippy::large_enum_variant,
    reason = "a bare link is reached without another pointer"
)]
pub enum AnyLink {
    Bare(BareLink),
    Wrapped(Box<Wrapped<BareLink>>),
}

/// One queue of any kind of link.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum BareLink {
    Memory(MemoryLink),
    Packet(PacketLink),
    Xdp(Box<XdpLink>),
    Tap(TapLink),
    Capture(Box<CaptureLink>),
}

impl AnyLink {
    /// The link itself, without its wrapper.
    #[must_use]
    pub fn bare(&self) -> &BareLink {
        match self {
            AnyLink::Bare(link) => link,
            AnyLink::Wrapped(link) => link.inner(),
        }
    }

    /// The fault counters; `None` without faults.
    #[must_use]
    pub fn injected(&self) -> Option<Injected> {
        match self {
            AnyLink::Bare(_) => None,
            AnyLink::Wrapped(link) => link.injected(),
        }
    }
}

/// Dispatches [`Link`] by variant.
macro_rules! link_by_variant {
    ($link:ident: $($variant:ident),+) => {
        impl Link for $link {
            fn name(&self) -> &str {
                match self { $(Self::$variant(link) => link.name(),)+ }
            }

            fn receive(&mut self, limit: usize) -> Result<Burst<'_>, LinkError> {
                match self { $(Self::$variant(link) => link.receive(limit),)+ }
            }

            fn transmit(
                &mut self,
                count: usize,
                write: impl FnMut(usize, &mut [u8]) -> usize,
            ) -> Result<usize, LinkError> {
                match self { $(Self::$variant(link) => link.transmit(count, write),)+ }
            }

            fn longest(&self) -> usize {
                match self { $(Self::$variant(link) => link.longest(),)+ }
            }

            fn descriptor(&self) -> Option<BorrowedFd<'_>> {
                match self { $(Self::$variant(link) => link.descriptor(),)+ }
            }

            fn tally(&self) -> Tally {
                match self { $(Self::$variant(link) => link.tally(),)+ }
            }

            fn is_ended(&self) -> bool {
                match self { $(Self::$variant(link) => link.is_ended(),)+ }
            }

            fn check(&mut self) -> Result<(), LinkError> {
                match self { $(Self::$variant(link) => link.check(),)+ }
            }
        }
    };
}

link_by_variant!(BareLink: Memory, Packet, Xdp, Tap, Capture);
link_by_variant!(AnyLink: Bare, Wrapped);
