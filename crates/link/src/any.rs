//! A link of any kind, dispatched once per burst.

use crate::burst::Burst;
use crate::capture::CaptureLink;
use crate::error::LinkError;
use crate::link::{Link, Port, Sent, WriteFrame};
use crate::memory::MemoryLink;
use crate::packet_socket::PacketLink;
use crate::tally::Tally;
use crate::tap::TapLink;
use crate::wrapper::Wrapped;
use crate::xdp::XdpLink;
use std::os::fd::BorrowedFd;

/// One queue of a link of any kind, with its wrapper.
pub type AnyLink = Wrapped<BareLink>;

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

/// Calls a method of the link of any kind.
macro_rules! of_kind {
    ($this:ident.$method:ident($($argument:ident),*)) => {
        match $this {
            BareLink::Memory(link) => link.$method($($argument),*),
            BareLink::Packet(link) => link.$method($($argument),*),
            BareLink::Xdp(link) => link.$method($($argument),*),
            BareLink::Tap(link) => link.$method($($argument),*),
            BareLink::Capture(link) => link.$method($($argument),*),
        }
    };
}

impl Link for BareLink {
    fn port(&self) -> &Port {
        of_kind!(self.port())
    }

    fn receive(&mut self, limit: usize) -> Result<Burst<'_>, LinkError> {
        of_kind!(self.receive(limit))
    }

    fn transmit(&mut self, count: usize, write: impl WriteFrame) -> Result<usize, LinkError> {
        of_kind!(self.transmit(count, write))
    }

    fn send_merged(&mut self, frame: &[u8], segment: u16) -> Result<Sent, LinkError> {
        of_kind!(self.send_merged(frame, segment))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        of_kind!(self.descriptor())
    }

    fn tally(&self) -> Tally {
        of_kind!(self.tally())
    }

    fn is_ended(&self) -> bool {
        of_kind!(self.is_ended())
    }

    fn check(&mut self) -> Result<(), LinkError> {
        of_kind!(self.check())
    }
}
