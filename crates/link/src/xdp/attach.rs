//! Attaches the program to a device, for as long as a descriptor is open.

use super::options::XdpHook;
use super::release::wait_for_release;
use super::socket::refused;
use crate::error::LinkError;
use crate::packet_socket;
use crate::program;
use crate::system::bpf::{self, Kind, MapKind};
use socket2::{Domain, Socket, Type};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// `BPF_PROG_TYPE_XDP` and `BPF_XDP` (how it is attached) of linux/bpf.h.
pub(crate) const XDP: Kind = Kind {
    program: 6,
    attached: 37,
};
/// `XDP_FLAGS_SKB_MODE` and `XDP_FLAGS_DRV_MODE` of linux/if_link.h.
const BEHIND_DRIVER: u32 = 1 << 1;
const IN_DRIVER: u32 = 1 << 2;

/// The attached program. Dropping it detaches the program.
#[derive(Debug)]
pub(super) struct Attachment {
    /// Keeps the program attached; never read.
    _link: OwnedFd,
    /// Keeps the device promiscuous; never read.
    _promiscuous: Socket,
}

impl Attachment {
    /// Hands the frames of queue `n` of a device to socket `n`.
    pub(super) fn new(
        link: &str,
        device: u32,
        sockets: &[BorrowedFd<'_>],
        hook: XdpHook,
    ) -> Result<Attachment, LinkError> {
        let map = bpf::map(MapKind::Sockets, size_of::<RawFd>(), sockets.len() as u32, None)
            .map_err(refused(link, "making the map of sockets"))?;
        for (queue, socket) in sockets.iter().enumerate() {
            bpf::update_map(&map, queue as u32, &socket.as_raw_fd().to_ne_bytes())
                .map_err(refused(link, "putting a socket into the map"))?;
        }
        let instructions = program::redirect(map.as_raw_fd());
        let program = bpf::load(XDP, b"corelane_redir\0\0", &instructions)
            .map_err(refused(link, "loading the XDP program"))?;
        let attached = attach(&program, device, hook).map_err(|cause| match cause.raw_os_error() {
            Some(libc::EOPNOTSUPP) => {
                let hint = "use hook=generic, or packet: instead of xdp:";
                LinkError::unsupported(link, "XDP in the driver", hint)
            }
            Some(libc::ERANGE | libc::EINVAL) => {
                let hint = "its MTU may be too large for one buffer, or its queues too many; lower them, or use packet:";
                LinkError::unsupported(link, "XDP with this device's settings", hint)
            }
            _ => refused(link, "attaching the XDP program")(cause),
        })?;
        Ok(Attachment {
            _link: attached,
            _promiscuous: promiscuous(device).map_err(refused(link, "making the device promiscuous"))?,
        })
    }
}

/// Attaches an XDP program to a device for as long as the returned BPF link is open.
pub(crate) fn attach(program: &OwnedFd, device: u32, hook: XdpHook) -> io::Result<OwnedFd> {
    let attach = |flags| wait_for_release(|| bpf::attach(XDP, program, device, flags));
    match hook {
        XdpHook::Native => attach(IN_DRIVER),
        XdpHook::Generic => attach(BEHIND_DRIVER),
        XdpHook::Auto => match attach(IN_DRIVER) {
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => attach(BEHIND_DRIVER),
            attached => attached,
        },
    }
}

/// A socket without a protocol: the device is promiscuous while it is open. AF_XDP has no such option.
fn promiscuous(device: u32) -> io::Result<Socket> {
    let socket = Socket::new(Domain::PACKET, Type::RAW, None)?;
    packet_socket::promiscuous(&socket, device)?;
    Ok(socket)
}
