//! AF_PACKET: frames of any device through rings that the kernel maps into the process (TPACKET_V3), over several sockets
//! where asked (fanout).
//!
//! Frames are received where the kernel put them and written where it takes them; the kernel itself copies each once. The
//! host's own stack sees received frames as well: AF_PACKET copies frames, it does not take them. packet(7) and
//! Documentation/networking/packet_mmap.rst.
//!
//! `receive_ring` walks the blocks of received frames, `transmit_ring` the slots of those to send.

mod receive_ring;
mod transmit_ring;

use crate::burst::{Burst, Extent};
use crate::choice::Choice;
use crate::error::{LinkError, on_use};
use crate::layout::FrameLayout;
use crate::link::Link;
use crate::system::mapping::Mapping;
use crate::system::{device, socket};
use crate::tally::Tally;
use receive_ring::ReceiveRing;
use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use transmit_ring::TransmitRing;

/// How the kernel spreads received frames over the sockets of one link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fanout {
    /// By the flow's hash (`PACKET_FANOUT_HASH`), symmetric, defragmented by none.
    #[default]
    Hash,
    /// By the CPU that received the frame (`PACKET_FANOUT_CPU`).
    Cpu,
    /// By the device's queue (`PACKET_FANOUT_QM`).
    Queue,
}

impl Fanout {
    fn kind(self) -> libc::c_uint {
        match self {
            Fanout::Hash => libc::PACKET_FANOUT_HASH,
            Fanout::Cpu => libc::PACKET_FANOUT_CPU,
            Fanout::Queue => libc::PACKET_FANOUT_QM,
        }
    }
}

impl Choice for Fanout {
    const NAMES: &'static [(Fanout, &'static str)] = &[
        (Fanout::Hash, "hash"),
        (Fanout::Cpu, "cpu"),
        (Fanout::Queue, "queue"),
    ];
}

/// How a device is opened.
#[derive(Clone, Copy, Debug)]
pub struct PacketOptions {
    /// Sockets to open, each of which gets a share of the frames.
    pub queues: usize,
    /// How frames are shared out.
    pub fanout: Fanout,
    /// The layout of frames: slots of the transmit ring, and as much memory for received ones, which the kernel packs as
    /// they come.
    pub layout: FrameLayout,
    /// Have the device accept frames for other addresses than its own, as a bridge must; ends with the link.
    pub promiscuous: bool,
}

/// One AF_PACKET socket.
#[derive(Debug)]
pub struct PacketLink {
    name: String,
    socket: OwnedFd,
    mapping: Mapping,
    receive: ReceiveRing,
    transmit: TransmitRing,
    extents: Vec<Extent>,
    longest: usize,
    tally: Tally,
    /// Frames dropped by a full ring; the kernel forgets the number when it is read.
    dropped: Cell<u64>,
}

/// Opens a device: one link a queue, in the calling thread's network namespace.
///
/// # Errors
/// When there is no such device, it is down, or a privilege is missing.
pub fn open(device: &str, options: &PacketOptions) -> Result<Vec<PacketLink>, LinkError> {
    let mut group = None;
    (0..options.queues.max(1))
        .map(|queue| PacketLink::open(device, queue, options, &mut group))
        .collect()
}

impl PacketLink {
    fn open(
        device: &str,
        queue: usize,
        options: &PacketOptions,
        group: &mut Option<u32>,
    ) -> Result<PacketLink, LinkError> {
        let name = format!("packet:{device}/{queue}");
        let index = device::index(device)?;
        let failed = |step| refused(&name, step);
        // Protocol 0: nothing arrives before the rings are there and the socket is bound.
        let socket = socket::open(libc::AF_PACKET, libc::SOCK_RAW, 0)
            .map_err(failed("opening an AF_PACKET socket"))?;
        let fd = socket.as_fd();
        let switch = |option, value: libc::c_int| socket::set(fd, libc::SOL_PACKET, option, &value);
        switch(
            libc::PACKET_VERSION,
            libc::tpacket_versions::TPACKET_V3 as libc::c_int,
        )
        .map_err(failed("choosing TPACKET_V3"))?;
        switch(libc::PACKET_RESERVE, receive_ring::reserve(options.layout))
            .map_err(failed("reserving headroom"))?;
        // Frames that the device cannot take are passed over instead of blocking those behind them.
        switch(libc::PACKET_LOSS, 1).map_err(failed("setting PACKET_LOSS"))?;
        switch(libc::PACKET_IGNORE_OUTGOING, 1).map_err(failed("ignoring frames that this host sends"))?;
        switch(libc::PACKET_QDISC_BYPASS, 1).map_err(failed("bypassing the queueing discipline"))?;
        let receiving = receive_ring::request(options.layout);
        socket::set(fd, libc::SOL_PACKET, libc::PACKET_RX_RING, &receiving)
            .map_err(failed("making the receive ring"))?;
        let sending = transmit_ring::request(options.layout);
        socket::set(fd, libc::SOL_PACKET, libc::PACKET_TX_RING, &sending)
            .map_err(failed("making the transmit ring"))?;
        let bytes =
            |request: &libc::tpacket_req3| request.tp_block_size as usize * request.tp_block_nr as usize;
        let mapping = Mapping::of_socket(fd, 0, bytes(&receiving) + bytes(&sending))
            .map_err(failed("mapping the rings"))?;
        bind(fd, index).map_err(failed("binding to the device"))?;
        if let Some(cause) = socket::pending_error(fd) {
            return Err(on_use(&name, "binding to the device", cause));
        }
        if options.promiscuous {
            promiscuous(fd, index).map_err(failed("making the device promiscuous"))?;
        }
        if options.queues > 1 {
            join_group(fd, options.fanout, group).map_err(failed("joining the fanout group"))?;
        }
        let transmit = TransmitRing::new(bytes(&receiving), &sending);
        let mtu = device::mtu(device).map_err(failed("reading the device's MTU"))?;
        Ok(PacketLink {
            longest: transmit.longest().min(mtu + device::LINK_HEADER_BYTES),
            receive: ReceiveRing::new(&receiving),
            transmit,
            name,
            socket,
            mapping,
            extents: Vec::with_capacity(options.layout.frames()),
            tally: Tally::default(),
            dropped: Cell::new(0),
        })
    }

    /// Asks the kernel to send what stands in the ring.
    fn kick(&mut self) -> Result<(), LinkError> {
        match socket::kick_send(self.socket.as_fd()) {
            Ok(()) => Ok(()),
            Err(error) => match error.raw_os_error() {
                // Nothing to send, or the device has no room now; what stands in the ring is sent with the next kick.
                Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => Ok(()),
                _ => Err(on_use(&self.name, "sending", error)),
            },
        }
    }
}

impl Link for PacketLink {
    fn name(&self) -> &str {
        &self.name
    }

    fn receive(&mut self, limit: usize) -> Result<Burst<'_>, LinkError> {
        self.receive.release(&self.mapping);
        self.extents.clear();
        self.receive.take(&self.mapping, limit, &mut self.extents);
        self.tally.count_received(&self.extents);
        // SAFETY: the extents are frames of blocks that the kernel handed over and gets back at the next call.
        Ok(unsafe { Burst::new(self.mapping.start(), &self.extents) })
    }

    fn transmit(
        &mut self,
        count: usize,
        write: impl FnMut(usize, &mut [u8]) -> usize,
    ) -> Result<usize, LinkError> {
        if count == 0 {
            return Ok(0);
        }
        let put = self.transmit.put(&self.mapping, count, self.longest, write);
        self.kick()?;
        Ok(self.tally.count_sent(put))
    }

    fn longest(&self) -> usize {
        self.longest
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn tally(&self) -> Tally {
        let statistics: Result<libc::tpacket_stats_v3, _> =
            socket::get(self.socket.as_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS);
        if let Ok(statistics) = statistics {
            self.dropped
                .set(self.dropped.get() + u64::from(statistics.tp_drops));
        }
        Tally {
            receive_dropped: self.dropped.get(),
            ..self.tally
        }
    }

    fn check(&mut self) -> Result<(), LinkError> {
        if let Some(cause) = socket::pending_error(self.socket.as_fd()) {
            return Err(on_use(&self.name, "using the device", cause));
        }
        self.kick()
    }
}

fn bind(socket: BorrowedFd<'_>, index: u32) -> std::io::Result<()> {
    let mut address: libc::sockaddr_ll = socket::zeroed();
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index as libc::c_int;
    socket::bind(socket, &address)
}

/// Has a device accept frames for other addresses than its own while the socket is open.
pub(crate) fn promiscuous(socket: BorrowedFd<'_>, index: u32) -> std::io::Result<()> {
    let mut membership: libc::packet_mreq = socket::zeroed();
    membership.mr_ifindex = index as libc::c_int;
    membership.mr_type = libc::PACKET_MR_PROMISC as u16;
    socket::set(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)
}

/// Joins the group of the sockets before; the first one has the kernel choose a number that nobody uses.
fn join_group(socket: BorrowedFd<'_>, fanout: Fanout, group: &mut Option<u32>) -> std::io::Result<()> {
    let (number, flags) = match *group {
        Some(number) => (number, 0),
        None => (0, libc::PACKET_FANOUT_FLAG_UNIQUEID),
    };
    let argument = (number | (fanout.kind() | flags) << 16) as libc::c_int;
    socket::set(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &argument)?;
    if group.is_none() {
        let joined: libc::c_int = socket::get(socket, libc::SOL_PACKET, libc::PACKET_FANOUT)?;
        *group = Some(joined as u32 & 0xffff);
    }
    Ok(())
}

/// What a step of opening was refused for.
fn refused(link: &str, step: &'static str) -> impl FnOnce(std::io::Error) -> LinkError {
    let link = link.to_owned();
    move |cause| match cause.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => LinkError::NotPermitted {
            link,
            needs: "CAP_NET_RAW (AF_PACKET)",
        },
        _ => LinkError::System { link, step, cause },
    }
}
