//! AF_PACKET: frames of any device through rings that the kernel maps into the process (TPACKET_V3), over one or several
//! sockets (fanout).
//!
//! Frames are read and written in the rings; the kernel copies each once. The host's own stack also receives them. packet(7)
//! and Documentation/networking/packet_mmap.rst.
//!
//! Frames of merged segments leave by a socket of their own, without a ring, whose slots would need 64 KiB each. Both then pass
//! through the device's queueing discipline, which keeps their order; without it the kernel drops what it would have to cut
//! (`__dev_direct_xmit` of net/core/dev.c).
//!
//! `receive_ring` walks the blocks of received frames, `transmit_ring` the slots of frames to send.

mod receive_ring;
mod transmit_ring;

use crate::burst::Burst;
use crate::error::{self, LinkError, is_transient, on_use};
use crate::layout::FrameLayout;
use crate::link::{Link, Port, Sent, WriteFrame};
use crate::merged::Cut;
use crate::system::mapping::Mapping;
use crate::system::{device, socket as system};
use crate::tally::Tally;
use receive_ring::ReceiveRing;
use socket2::{Domain, Socket, Type};
use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use transmit_ring::TransmitRing;

/// How the kernel spreads received frames over the sockets of one link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Fanout {
    /// By the flow's hash (`PACKET_FANOUT_HASH`), which is symmetric; fragments are not reassembled.
    #[default]
    Hash = libc::PACKET_FANOUT_HASH,
    /// By the CPU that received the frame (`PACKET_FANOUT_CPU`).
    Cpu = libc::PACKET_FANOUT_CPU,
    /// By the device's queue (`PACKET_FANOUT_QM`).
    Queue = libc::PACKET_FANOUT_QM,
}

/// How a device is opened.
#[derive(Clone, Copy, Debug)]
pub struct PacketOptions {
    /// The number of sockets, each of which gets a share of the frames.
    pub queues: usize,
    /// How frames are distributed over them.
    pub fanout: Fanout,
    /// The layout of the transmit ring; the receive ring, in which the kernel packs frames, has as much memory.
    pub layout: FrameLayout,
    /// Makes the device accept frames for any address, as a bridge needs; ends with the link.
    pub promiscuous: bool,
    /// Sends [merged frames](Link::send_merged), too. Otherwise frames bypass the device's queueing discipline.
    pub merged: bool,
}

/// One AF_PACKET socket.
#[derive(Debug)]
pub struct PacketLink {
    port: Port,
    socket: Socket,
    mapping: Mapping,
    receive: ReceiveRing,
    transmit: TransmitRing,
    /// Sends merged frames.
    merged: Option<Socket>,
    /// Frames dropped by a full ring; reading resets the kernel's counter.
    dropped: Cell<u64>,
}

/// Opens a device: one link per queue, in the calling thread's network namespace.
///
/// # Errors
/// If there is no such device, it is down, or a privilege is missing.
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
        // Without a protocol nothing arrives before the rings exist and the socket is bound.
        let socket =
            Socket::new(Domain::PACKET, Type::RAW, None).map_err(failed("opening an AF_PACKET socket"))?;
        configure(&socket, &name, options)?;
        let receiving = receive_ring::request(options.layout);
        system::set(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &receiving)
            .map_err(failed("making the receive ring"))?;
        let sending = transmit_ring::request(options.layout);
        system::set(&socket, libc::SOL_PACKET, libc::PACKET_TX_RING, &sending)
            .map_err(failed("making the transmit ring"))?;
        let bytes =
            |request: &libc::tpacket_req3| request.tp_block_size as usize * request.tp_block_nr as usize;
        let mapping = Mapping::of_socket(&socket, 0, bytes(&receiving) + bytes(&sending))
            .map_err(failed("mapping the rings"))?;
        bind(&socket, libc::ETH_P_ALL, index).map_err(failed("binding to the device"))?;
        if let Ok(Some(cause)) = socket.take_error() {
            return Err(on_use(&name, "binding to the device", cause));
        }
        if options.promiscuous {
            promiscuous(&socket, index).map_err(failed("making the device promiscuous"))?;
        }
        if options.queues > 1 {
            join_group(&socket, options.fanout, group).map_err(failed("joining the fanout group"))?;
        }
        let merged = options.merged.then(|| merged_socket(index, options.layout));
        let merged = merged
            .transpose()
            .map_err(failed("opening a socket for merged frames"))?;
        let transmit = TransmitRing::new(bytes(&receiving), &sending);
        let mtu = device::mtu(device).map_err(failed("reading the device's MTU"))?;
        let longest = transmit.longest().min(mtu + device::LINK_HEADER_BYTES);
        Ok(PacketLink {
            port: Port::new(name, longest, options.layout),
            receive: ReceiveRing::new(&receiving),
            transmit,
            merged,
            socket,
            mapping,
            dropped: Cell::new(0),
        })
    }

    /// Makes the kernel send the frames in the ring.
    fn kick(&mut self) -> Result<(), LinkError> {
        match self.socket.send_with_flags(&[], libc::MSG_DONTWAIT) {
            // Otherwise the next call sends the frames in the ring.
            Err(error) if !is_transient(&error) => Err(on_use(&self.port.name, "sending", error)),
            _ => Ok(()),
        }
    }
}

impl Link for PacketLink {
    fn port(&self) -> &Port {
        &self.port
    }

    fn receive(&mut self, limit: usize) -> Result<Burst<'_>, LinkError> {
        self.receive.release(&self.mapping);
        self.port.extents.clear();
        self.receive.take(&self.mapping, limit, &mut self.port.extents);
        self.port.tally.count_received(&self.port.extents);
        // SAFETY: the extents are frames of blocks that the kernel handed over and gets back at the next call.
        Ok(unsafe { Burst::new(self.mapping.start(), &self.port.extents) })
    }

    fn transmit(&mut self, count: usize, write: impl WriteFrame) -> Result<usize, LinkError> {
        if count == 0 {
            return Ok(0);
        }
        let put = self.transmit.put(&self.mapping, count, self.port.longest, write);
        self.kick()?;
        Ok(self.port.tally.count_sent(put))
    }

    fn send_merged(&mut self, frame: &[u8], segment: u16) -> Result<Sent, LinkError> {
        let (Some(socket), Some(cut)) = (&self.merged, Cut::of(frame, segment)) else {
            return self.send(std::iter::once(frame));
        };
        let mut sent = Sent::default();
        match socket.send_vectored_with_flags(&cut.parts(), libc::MSG_DONTWAIT) {
            Err(error) if is_transient(&error) => {
                sent.full = 1;
                return Ok(sent);
            }
            // More bytes or segments than the device takes, or a header that it cannot cut by.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EMSGSIZE | libc::EINVAL)) => {
                self.port.tally.send_failed += 1;
            }
            outcome => drop(outcome.map_err(|error| on_use(&self.port.name, "sending", error))?),
        }
        sent.taken = self.port.tally.count_sent((1, frame.len() as u64));
        Ok(sent)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn tally(&self) -> Tally {
        let statistics: Result<libc::tpacket_stats_v3, _> =
            system::get(&self.socket, libc::SOL_PACKET, libc::PACKET_STATISTICS);
        if let Ok(statistics) = statistics {
            self.dropped
                .update(|dropped| dropped + u64::from(statistics.tp_drops));
        }
        Tally {
            receive_dropped: self.dropped.get(),
            ..self.port.tally
        }
    }

    fn check(&mut self) -> Result<(), LinkError> {
        if let Ok(Some(cause)) = self.socket.take_error() {
            return Err(on_use(&self.port.name, "using the device", cause));
        }
        self.kick()
    }
}

/// Sets the options of a socket that has no rings yet.
fn configure(socket: &Socket, name: &str, options: &PacketOptions) -> Result<(), LinkError> {
    let set = |option, value: libc::c_int, step| {
        system::set(socket, libc::SOL_PACKET, option, &value).map_err(refused(name, step))
    };
    let version = libc::tpacket_versions::TPACKET_V3 as libc::c_int;
    set(libc::PACKET_VERSION, version, "choosing TPACKET_V3")?;
    let reserved = receive_ring::reserve(options.layout);
    set(libc::PACKET_RESERVE, reserved, "reserving headroom")?;
    // Frames that the device rejects are skipped instead of blocking those behind them.
    set(libc::PACKET_LOSS, 1, "setting PACKET_LOSS")?;
    let ignoring = "ignoring frames that this host sends";
    set(libc::PACKET_IGNORE_OUTGOING, 1, ignoring)?;
    let bypass = libc::c_int::from(!options.merged);
    set(
        libc::PACKET_QDISC_BYPASS,
        bypass,
        "bypassing the queueing discipline",
    )
}

/// Binds to a device, for frames of this protocol; none arrive for 0.
fn bind(socket: &Socket, protocol: libc::c_int, index: u32) -> io::Result<()> {
    let mut address: libc::sockaddr_ll = system::zeroed();
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (protocol as u16).to_be();
    address.sll_ifindex = index as libc::c_int;
    system::bind(socket, &address)
}

/// A socket that sends frames with a header that says how they are cut.
fn merged_socket(index: u32, layout: FrameLayout) -> io::Result<Socket> {
    let socket = Socket::new(Domain::PACKET, Type::RAW, None)?;
    system::set(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1)?;
    // As many bytes under way as the ring has, where that is permitted: the default is three frames.
    let bytes = layout.bytes() as libc::c_int;
    let _ = system::set(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes);
    bind(&socket, 0, index)?;
    Ok(socket)
}

/// Makes a device accept frames for any address while the socket is open.
pub(crate) fn promiscuous(socket: &Socket, index: u32) -> io::Result<()> {
    let mut membership: libc::packet_mreq = system::zeroed();
    membership.mr_ifindex = index as libc::c_int;
    membership.mr_type = libc::PACKET_MR_PROMISC as u16;
    system::set(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)
}

/// Joins the group of the earlier sockets; the kernel chooses an unused number for the first.
fn join_group(socket: &Socket, fanout: Fanout, group: &mut Option<u32>) -> io::Result<()> {
    let (number, flags) = match *group {
        Some(number) => (number, 0),
        None => (0, libc::PACKET_FANOUT_FLAG_UNIQUEID),
    };
    let argument = (number | (fanout as u32 | flags) << 16) as libc::c_int;
    system::set(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &argument)?;
    if group.is_none() {
        let joined: libc::c_int = system::get(socket, libc::SOL_PACKET, libc::PACKET_FANOUT)?;
        *group = Some(joined as u32 & 0xffff);
    }
    Ok(())
}

/// The error of a step of opening.
fn refused(link: &str, step: &'static str) -> impl FnOnce(io::Error) -> LinkError {
    move |cause| error::refused(link, step, "CAP_NET_RAW (AF_PACKET)", &cause)
}
