//! Any kind of link, chosen once a burst, and what stands around it: what a specification opens.

use crate::burst::Burst;
use crate::capture::CaptureLink;
use crate::error::LinkError;
use crate::link::Link;
use crate::memory::MemoryLink;
use crate::packet_socket::PacketLink;
use crate::tally::Tally;
use crate::tap::TapLink;
use crate::wrapper::{Captured, Faulty, Injected};
use crate::xdp::XdpLink;
use std::os::fd::BorrowedFd;

/// One queue of any kind of link, and what stands around it.
#[derive(Debug)]
#[allow(missing_docs)]
#[allow(
    clippy::large_enum_variant,
    reason = "a bare link is reached without another pointer"
)]
pub enum AnyLink {
    Bare(BareLink),
    Captured(Box<Captured<AnyLink>>),
    Faulty(Box<Faulty<AnyLink>>),
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
    /// The link itself, without what stands around it.
    #[must_use]
    pub fn bare(&self) -> &BareLink {
        match self {
            AnyLink::Bare(link) => link,
            AnyLink::Captured(link) => link.inner().bare(),
            AnyLink::Faulty(link) => link.inner().bare(),
        }
    }

    /// What befell its frames so far; none where no faults were asked for.
    #[must_use]
    pub fn injected(&self) -> Option<Injected> {
        match self {
            AnyLink::Bare(_) => None,
            AnyLink::Captured(link) => link.inner().injected(),
            AnyLink::Faulty(link) => Some(link.injected()),
        }
    }
}

/// All functions of [`Link`] but `transmit`, which do the same with whichever variant it is.
macro_rules! same_with {
    ($($variant:ident),+) => {
        fn name(&self) -> &str {
            match self { $(Self::$variant(link) => link.name(),)+ }
        }

        fn receive(&mut self, limit: usize) -> Result<Burst<'_>, LinkError> {
            match self { $(Self::$variant(link) => link.receive(limit),)+ }
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
    };
}

impl Link for BareLink {
    same_with!(Memory, Packet, Xdp, Tap, Capture);

    fn transmit(
        &mut self,
        count: usize,
        write: impl FnMut(usize, &mut [u8]) -> usize,
    ) -> Result<usize, LinkError> {
        match self {
            BareLink::Memory(link) => link.transmit(count, write),
            BareLink::Packet(link) => link.transmit(count, write),
            BareLink::Xdp(link) => link.transmit(count, write),
            BareLink::Tap(link) => link.transmit(count, write),
            BareLink::Capture(link) => link.transmit(count, write),
        }
    }
}

impl Link for AnyLink {
    same_with!(Bare, Captured, Faulty);

    /// Only a bare link is known at compile time: one inside another has its frames written through a pointer.
    fn transmit(
        &mut self,
        count: usize,
        mut write: impl FnMut(usize, &mut [u8]) -> usize,
    ) -> Result<usize, LinkError> {
        let written: &mut dyn FnMut(usize, &mut [u8]) -> usize = &mut write;
        match self {
            AnyLink::Bare(link) => link.transmit(count, write),
            AnyLink::Captured(link) => link.transmit(count, written),
            AnyLink::Faulty(link) => link.transmit(count, written),
        }
    }
}
