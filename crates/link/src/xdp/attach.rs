//! Attaches the program to a device: bpf(2) loads it, and a BPF link keeps it attached while its descriptor is open.

use super::release::wait_for_release;
use super::socket::refused;
use super::{XdpHook, program};
use crate::error::LinkError;
use crate::packet_socket;
use nix::errno::Errno;
use socket2::{Domain, Socket, Type};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Commands of bpf(2).
const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const LINK_CREATE: libc::c_int = 28;

/// `BPF_MAP_TYPE_XSKMAP`, `BPF_PROG_TYPE_XDP` and `BPF_XDP` (how it is attached) of linux/bpf.h.
const XSKMAP: u32 = 17;
const XDP_PROGRAM: u32 = 6;
const AT_XDP: u32 = 37;
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
        let map = create_map(sockets.len() as u32).map_err(refused(link, "making the map of sockets"))?;
        for (queue, socket) in sockets.iter().enumerate() {
            update_map(&map, queue as u32, *socket)
                .map_err(refused(link, "putting a socket into the map"))?;
        }
        let program = load(&map).map_err(refused(link, "loading the XDP program"))?;
        let attached = match hook {
            XdpHook::Native => attach(&program, device, IN_DRIVER),
            XdpHook::Generic => attach(&program, device, BEHIND_DRIVER),
            XdpHook::Auto => match attach(&program, device, IN_DRIVER) {
                Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                    attach(&program, device, BEHIND_DRIVER)
                }
                attached => attached,
            },
        };
        let attached = attached.map_err(|cause| match cause.raw_os_error() {
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

/// A socket without a protocol: the device is promiscuous while it is open. AF_XDP has no such option.
fn promiscuous(device: u32) -> io::Result<Socket> {
    let socket = Socket::new(Domain::PACKET, Type::RAW, None)?;
    packet_socket::promiscuous(&socket, device)?;
    Ok(socket)
}

fn create_map(places: u32) -> io::Result<OwnedFd> {
    // Of `union bpf_attr`: the kind of map, bytes of a key and of a value, places, flags.
    let attributes: [u32; 5] = [XSKMAP, 4, 4, places, 0];
    // SAFETY: the attributes are those of the command and hold no addresses.
    unsafe { bpf_descriptor(MAP_CREATE, &attributes) }
}

/// `BPF_MAP_UPDATE_ELEM` of `union bpf_attr`.
#[repr(C)]
#[derive(Default)]
struct MapUpdate {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

fn update_map(map: &OwnedFd, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
    let value = socket.as_raw_fd();
    let attributes = MapUpdate {
        map: map.as_raw_fd() as u32,
        key: (&raw const queue) as u64,
        value: (&raw const value) as u64,
        ..MapUpdate::default()
    };
    // SAFETY: the attributes are those of the command; key and value have the map's sizes and outlive the call.
    unsafe { bpf(MAP_UPDATE_ELEM, &attributes) }.map(drop)
}

/// `BPF_PROG_LOAD` of `union bpf_attr`, up to what is used.
#[repr(C)]
#[derive(Default)]
struct ProgramLoad {
    kind: u32,
    instructions_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    device: u32,
    attach_kind: u32,
}

fn load(map: &OwnedFd) -> io::Result<OwnedFd> {
    let instructions = program::redirect(map.as_raw_fd());
    let attributes = ProgramLoad {
        kind: XDP_PROGRAM,
        instructions_count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        license: c"Dual MIT/GPL".as_ptr() as u64,
        name: *b"corelane_redir\0\0",
        attach_kind: AT_XDP,
        ..ProgramLoad::default()
    };
    // SAFETY: the attributes are those of the command; instructions and license outlive the call and are as long as said.
    unsafe { bpf_descriptor(PROG_LOAD, &attributes) }
}

fn attach(program: &OwnedFd, device: u32, flags: u32) -> io::Result<OwnedFd> {
    // Of `union bpf_attr`: the program, where to, how, flags.
    let attributes: [u32; 4] = [program.as_raw_fd() as u32, device, AT_XDP, flags];
    // SAFETY: the attributes are those of the command and hold no addresses.
    wait_for_release(|| unsafe { bpf_descriptor(LINK_CREATE, &attributes) })
}

/// A command of bpf(2) that makes a descriptor.
///
/// # Safety
/// As [`bpf`].
unsafe fn bpf_descriptor<T>(command: libc::c_int, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the caller vouches for the attributes.
    let descriptor = unsafe { bpf(command, attributes) }?;
    // SAFETY: the command made the descriptor for us, and nobody else closes it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
}

/// bpf(2). The kernel treats attributes that are shorter than its own as if zeros followed.
///
/// # Safety
/// The attributes are those of the command, and the addresses in them point to what the command reads.
unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<i64> {
    // SAFETY: the kernel reads as many bytes as the attributes have, and the caller vouches for their content.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, &raw const *attributes, size_of::<T>()) };
    Ok(Errno::result(result)?)
}
