//! AF_XDP: frames that the device's driver hands to the process before the host's stack sees them, through rings in memory
//! that both share (Documentation/networking/af_xdp.rst).
//!
//! Each queue of the device has a socket with frame memory of its own (`socket`). A program of six instructions
//! (`program`) hands the frames of each queue to its socket. It is attached by a BPF link (`attach`): a descriptor, with
//! whose last copy the program leaves the device, also when the process is killed.
//!
//! Zero copy where the driver can, else the kernel copies each frame once. The memory's stride is a setting: a power of two
//! is registered as aligned chunks, any other one as unaligned chunks that lie a stride apart.

mod attach;
mod program;
mod release;
mod socket;

use crate::burst::{Burst, Extent};
use crate::choice::Choice;
use crate::error::{LinkError, on_use};
use crate::layout::FrameLayout;
use crate::link::Link;
use crate::system::{device, socket as calls};
use crate::tally::Tally;
use attach::Attachment;
use socket::XdpSocket;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// The copy mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpMode {
    /// Zero copy if the driver supports it, otherwise copy.
    #[default]
    Auto,
    /// The kernel copies, once per frame (`XDP_COPY`).
    Copy,
    /// Zero copy only; otherwise opening fails (`XDP_ZEROCOPY`).
    ZeroCopy,
}

impl Choice for XdpMode {
    const NAMES: &'static [(XdpMode, &'static str)] = &[
        (XdpMode::Auto, "auto"),
        (XdpMode::Copy, "copy"),
        (XdpMode::ZeroCopy, "zerocopy"),
    ];
}

/// Where the program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpHook {
    /// In the driver if supported, otherwise generic.
    #[default]
    Auto,
    /// In the driver only; otherwise opening fails.
    Native,
    /// Generic, after the driver: works with every device; slow.
    Generic,
}

impl Choice for XdpHook {
    const NAMES: &'static [(XdpHook, &'static str)] = &[
        (XdpHook::Auto, "auto"),
        (XdpHook::Native, "native"),
        (XdpHook::Generic, "generic"),
    ];
}

/// Options for opening a device.
#[derive(Clone, Copy, Debug)]
pub struct XdpOptions {
    /// The number of queues, which must be all queues of the device. `None`: as many as it has.
    pub queues: Option<usize>,
    /// The copy mode.
    pub mode: XdpMode,
    /// Where the program runs.
    pub hook: XdpHook,
    /// Wake the kernel only when it requests it (`XDP_USE_NEED_WAKEUP`), rather than at every burst.
    pub need_wakeup: bool,
    /// The layout of frames in each direction.
    pub layout: FrameLayout,
    /// Have the device accept frames for other addresses than its own, as a bridge must; ends with the link.
    pub promiscuous: bool,
}

impl Default for XdpOptions {
    fn default() -> XdpOptions {
        XdpOptions {
            queues: None,
            mode: XdpMode::Auto,
            hook: XdpHook::Auto,
            need_wakeup: true,
            layout: FrameLayout::default(),
            promiscuous: true,
        }
    }
}

/// One queue of a device.
#[derive(Debug)]
pub struct XdpLink {
    name: String,
    device: String,
    index: u32,
    socket: XdpSocket,
    /// Keeps the program on the device, for all queues; never read.
    _attachment: Arc<Attachment>,
    extents: Vec<Extent>,
    longest: usize,
    tally: Tally,
}

/// Opens a device in the calling thread's network namespace: one link per queue.
///
/// # Errors
/// When there is no such device, it has another number of queues, has a program already, cannot do what is asked for, or a
/// privilege is missing.
pub fn open(device: &str, options: &XdpOptions) -> Result<Vec<XdpLink>, LinkError> {
    let index = device::index(device)?;
    let link = format!("xdp:{device}");
    let present = device::receive_queues(device).or(options.queues).unwrap_or(1);
    let asked = options.queues.unwrap_or(present);
    if asked != present {
        return Err(LinkError::Queues {
            device: device.to_owned(),
            present,
            asked,
        });
    }
    if !device::is_up(device).unwrap_or(false) {
        return Err(on_use(
            &link,
            "opening",
            std::io::Error::from_raw_os_error(libc::ENETDOWN),
        ));
    }
    let mtu = device::mtu(device).map_err(|cause| on_use(&link, "reading the device's MTU", cause))?;
    let mut sockets = Vec::with_capacity(present);
    for queue in 0..present {
        sockets.push(XdpSocket::open(
            &format!("{link}/{queue}"),
            index,
            queue as u32,
            options,
        )?);
    }
    // Only now, so that no frame is handed to a queue that is not ready.
    let descriptors: Vec<BorrowedFd<'_>> = sockets.iter().map(XdpSocket::descriptor).collect();
    let attachment = Arc::new(Attachment::new(&link, index, &descriptors, options)?);
    let links = sockets.into_iter().enumerate().map(|(queue, socket)| XdpLink {
        name: format!("{link}/{queue}"),
        device: device.to_owned(),
        index,
        longest: socket.longest().min(mtu + device::LINK_HEADER_BYTES),
        socket,
        _attachment: Arc::clone(&attachment),
        extents: Vec::with_capacity(options.layout.frames()),
        tally: Tally::default(),
    });
    Ok(links.collect())
}

impl XdpLink {
    /// Whether frames reach the process without being copied.
    #[must_use]
    pub fn is_zero_copy(&self) -> bool {
        self.socket.is_zero_copy()
    }

    /// Has the kernel send what stands in the ring.
    #[inline(always)]
    fn kick(&mut self) -> Result<(), LinkError> {
        let failed = self.socket.kick_transmit();
        self.tally.send_failed += failed.map_err(|cause| on_use(&self.name, "sending", cause))?;
        Ok(())
    }
}

impl Link for XdpLink {
    fn name(&self) -> &str {
        &self.name
    }

    #[inline]
    fn receive(&mut self, limit: usize) -> Result<Burst<'_>, LinkError> {
        self.extents.clear();
        self.socket
            .receive(limit, &mut self.extents)
            .map_err(|cause| on_use(&self.name, "receiving", cause))?;
        self.tally.count_received(&self.extents);
        // SAFETY: the extents are chunks of the socket's memory that the kernel handed over, checked to lie within it, and
        // gets back at the next call.
        Ok(unsafe { Burst::new(self.socket.memory(), &self.extents) })
    }

    #[inline]
    fn transmit(
        &mut self,
        count: usize,
        write: impl FnMut(usize, &mut [u8]) -> usize,
    ) -> Result<usize, LinkError> {
        if count == 0 {
            return Ok(0);
        }
        let put = self.socket.put(count, self.longest, write);
        let frames = self.tally.count_sent(put);
        self.kick()?;
        Ok(frames)
    }

    fn longest(&self) -> usize {
        self.longest
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.descriptor())
    }

    fn tally(&self) -> Tally {
        let statistics = self.socket.statistics();
        Tally {
            receive_dropped: statistics.rx_dropped + statistics.rx_ring_full,
            receive_invalid: statistics.rx_invalid_descs + self.socket.invalid(),
            send_failed: self.tally.send_failed + statistics.tx_invalid_descs,
            ..self.tally
        }
    }

    fn check(&mut self) -> Result<(), LinkError> {
        let lost = |cause| LinkError::Lost {
            link: self.name.clone(),
            cause,
        };
        if let Some(cause) = calls::pending_error(self.socket.descriptor()) {
            return Err(lost(cause));
        }
        // The socket of a device that went away and came back under its name is deaf and says nothing.
        if device::index(&self.device)? != self.index {
            return Err(lost(std::io::Error::from_raw_os_error(libc::ENODEV)));
        }
        if !device::is_up(&self.device).unwrap_or(false) {
            return Err(lost(std::io::Error::from_raw_os_error(libc::ENETDOWN)));
        }
        self.kick()
    }
}
