//! AF_XDP: frames that the device's driver hands to the process before the host's stack sees them, through rings in memory
//! that both share (Documentation/networking/af_xdp.rst).
//!
//! Each queue of the device has a socket with its own frame memory (`socket`). A program of six instructions (`crate::program`)
//! hands the frames of each queue to its socket. It is attached by a BPF link (`attach`): when the last copy of that
//! descriptor is closed, the kernel detaches the program, also when the process is killed.
//!
//! Frames are not copied if the driver supports it, otherwise once by the kernel. The memory's stride is an option: a power
//! of two is registered as aligned chunks, any other as unaligned chunks one stride apart.

pub(crate) mod attach;
mod options;
mod release;
mod socket;

pub use options::{XdpHook, XdpMode, XdpOptions};

use crate::burst::Burst;
use crate::error::{LinkError, on_use};
use crate::layout::FrameLayout;
use crate::link::{Link, Port, WriteFrame};
use crate::system::device;
use crate::tally::Tally;
use attach::Attachment;
use socket::XdpSocket;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// One queue of a device.
#[derive(Debug)]
pub struct XdpLink {
    port: Port,
    device: String,
    index: u32,
    socket: XdpSocket,
    /// AF_XDP does not report which checksums are unfinished; only a virtual device has such frames.
    is_virtual: bool,
    /// Keeps the program on the device, for all queues; never read.
    _attachment: Arc<Attachment>,
}

/// Opens all queues of a device in the calling thread's network namespace: one link per queue. The device accepts frames
/// for any address while they are open.
///
/// # Errors
/// If there is no such device, it is down, has a program or another number of queues than `queues`, does not support the
/// options, or a privilege is missing.
pub fn open(
    device: &str,
    queues: Option<usize>,
    layout: FrameLayout,
    options: XdpOptions,
) -> Result<Vec<XdpLink>, LinkError> {
    let index = device::index(device)?;
    let link = format!("xdp:{device}");
    let present = device::receive_queues(device).or(queues).unwrap_or(1);
    if let Some(asked) = queues.filter(|asked| *asked != present) {
        return Err(LinkError::Failed(format!(
            "{device} has {present} receive queues but {asked} were requested: use {present}, or change the device \
             (ethtool -L {device} combined {asked})"
        )));
    }
    if !device::is_up(device).unwrap_or(false) {
        let down = std::io::Error::from_raw_os_error(libc::ENETDOWN);
        return Err(on_use(&link, "opening", down));
    }
    let mtu = device::mtu(device).map_err(|cause| on_use(&link, "reading the device's MTU", cause))?;
    let sockets: Vec<XdpSocket> = (0..present)
        .map(|queue| XdpSocket::open(&format!("{link}/{queue}"), index, queue as u32, layout, options))
        .collect::<Result<_, _>>()?;
    // Only now, so that no frame is handed to a queue that is not ready.
    let descriptors: Vec<BorrowedFd<'_>> = sockets.iter().map(|socket| socket.socket.as_fd()).collect();
    let attachment = Arc::new(Attachment::new(&link, index, &descriptors, options.hook)?);
    let is_virtual = device::is_virtual(device);
    let links = sockets.into_iter().enumerate().map(|(queue, socket)| XdpLink {
        port: Port::new(
            format!("{link}/{queue}"),
            socket.longest.min(mtu + device::LINK_HEADER_BYTES),
            layout,
        ),
        device: device.to_owned(),
        index,
        socket,
        is_virtual,
        _attachment: Arc::clone(&attachment),
    });
    Ok(links.collect())
}

impl XdpLink {
    /// Makes the kernel send the frames in the ring.
    #[inline(always)]
    fn kick(&mut self) -> Result<(), LinkError> {
        let failed = self.socket.kick_transmit();
        self.port.tally.send_failed += failed.map_err(|cause| on_use(&self.port.name, "sending", cause))?;
        Ok(())
    }
}

impl Link for XdpLink {
    fn port(&self) -> &Port {
        &self.port
    }

    #[inline]
    fn receive(&mut self, limit: usize) -> Result<Burst<'_>, LinkError> {
        self.port.extents.clear();
        self.socket
            .receive(limit, &mut self.port.extents)
            .map_err(|cause| on_use(&self.port.name, "receiving", cause))?;
        self.port.tally.count_received(&self.port.extents);
        // SAFETY: the extents are chunks that the kernel handed over, checked to lie within the socket's memory; the kernel
        // gets them back at the next call.
        let mut burst = unsafe { Burst::new(self.socket.memory.start(), &self.port.extents) };
        if self.is_virtual {
            (0..burst.len()).for_each(|number| corelane_packet::finish_checksum(burst.frame_mut(number)));
        }
        Ok(burst)
    }

    #[inline]
    fn transmit(&mut self, count: usize, write: impl WriteFrame) -> Result<usize, LinkError> {
        if count == 0 {
            return Ok(0);
        }
        let put = self.socket.put(count, self.port.longest, write);
        let frames = self.port.tally.count_sent(put);
        self.kick()?;
        Ok(frames)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.socket.as_fd())
    }

    fn tally(&self) -> Tally {
        let statistics = self.socket.statistics();
        Tally {
            receive_dropped: statistics.rx_dropped + statistics.rx_ring_full,
            receive_invalid: statistics.rx_invalid_descs + self.socket.invalid,
            send_failed: self.port.tally.send_failed + statistics.tx_invalid_descs,
            ..self.port.tally
        }
    }

    fn check(&mut self) -> Result<(), LinkError> {
        let lost = |cause| LinkError::lost(&self.port.name, cause);
        if let Some(cause) = self.socket.socket.take_error().ok().flatten() {
            return Err(lost(cause));
        }
        // If a device was replaced by another of the same name, the socket receives nothing and reports no error.
        if device::index(&self.device)? != self.index {
            return Err(lost(std::io::Error::from_raw_os_error(libc::ENODEV)));
        }
        if !device::is_up(&self.device).unwrap_or(false) {
            return Err(lost(std::io::Error::from_raw_os_error(libc::ENETDOWN)));
        }
        self.kick()
    }
}
