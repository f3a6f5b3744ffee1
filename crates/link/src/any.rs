//! Any kind of link, chosen once a burst: what a specification opens.

use crate::burst::Burst;
use crate::capture::CaptureLink;
use crate::error::LinkError;
use crate::link::Link;
use crate::memory::{self, MemoryLink};
use crate::packet_socket::{self, PacketLink, PacketOptions};
use crate::spec::{LinkKind, LinkSpec};
use crate::tally::Tally;
use crate::tap::{self, TapLink};
use crate::xdp::{self, XdpLink, XdpOptions};
use std::os::fd::BorrowedFd;

/// Opens a link: one for each of its queues, in the calling thread's network namespace. Devices accept frames for any
/// address while they are open.
///
/// # Errors
/// As the kinds' own functions say.
pub fn open(spec: &LinkSpec) -> Result<Vec<AnyLink>, LinkError> {
    let layout = spec.layout;
    match &spec.kind {
        LinkKind::Xdp {
            device,
            queues,
            mode,
            hook,
            need_wakeup,
        } => {
            let options = XdpOptions {
                queues: *queues,
                mode: *mode,
                hook: *hook,
                need_wakeup: *need_wakeup,
                layout,
                promiscuous: true,
            };
            Ok(xdp::open(device, &options)?
                .into_iter()
                .map(|link| AnyLink::Xdp(Box::new(link)))
                .collect())
        }
        LinkKind::Packet {
            device,
            queues,
            fanout,
        } => {
            let options = PacketOptions {
                queues: *queues,
                fanout: *fanout,
                layout,
                promiscuous: true,
            };
            Ok(packet_socket::open(device, &options)?
                .into_iter()
                .map(AnyLink::Packet)
                .collect())
        }
        LinkKind::Tap { device, queues } => Ok(tap::open(device, *queues, layout)?
            .into_iter()
            .map(AnyLink::Tap)
            .collect()),
        LinkKind::Capture { read, write } => {
            let link = CaptureLink::open(read.as_deref(), write.as_deref(), layout)?;
            Ok(vec![AnyLink::Capture(Box::new(link))])
        }
        LinkKind::Ring { name } => Ok(vec![AnyLink::Memory(memory::shared(name, layout)?)]),
    }
}

/// One queue of any kind of link.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum AnyLink {
    Memory(MemoryLink),
    Packet(PacketLink),
    Xdp(Box<XdpLink>),
    Tap(TapLink),
    Capture(Box<CaptureLink>),
}

/// Does the same with whichever kind it is.
macro_rules! whichever {
    ($link:expr, $inner:ident => $action:expr) => {
        match $link {
            AnyLink::Memory($inner) => $action,
            AnyLink::Packet($inner) => $action,
            AnyLink::Xdp($inner) => $action,
            AnyLink::Tap($inner) => $action,
            AnyLink::Capture($inner) => $action,
        }
    };
}

impl Link for AnyLink {
    fn name(&self) -> &str {
        whichever!(self, link => link.name())
    }

    fn receive(&mut self, limit: usize) -> Result<Burst<'_>, LinkError> {
        whichever!(self, link => link.receive(limit))
    }

    fn transmit(
        &mut self,
        count: usize,
        write: impl FnMut(usize, &mut [u8]) -> usize,
    ) -> Result<usize, LinkError> {
        whichever!(self, link => link.transmit(count, write))
    }

    fn longest(&self) -> usize {
        whichever!(self, link => link.longest())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        whichever!(self, link => link.descriptor())
    }

    fn tally(&self) -> Tally {
        whichever!(self, link => link.tally())
    }

    fn is_ended(&self) -> bool {
        whichever!(self, link => link.is_ended())
    }

    fn check(&mut self) -> Result<(), LinkError> {
        whichever!(self, link => link.check())
    }
}
