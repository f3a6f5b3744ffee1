//! What has to be known of a device before a link is opened on it, asked of the calling thread's network namespace.

use super::socket;
use super::told;
use crate::error::LinkError;
use std::io;
use std::os::fd::AsRawFd;

/// What a frame may have beside the packet that the MTU bounds: the header of Ethernet, and one VLAN tag, which kernels
/// allow on top (`packet_snd` in net/packet/af_packet.c).
pub(crate) const LINK_HEADER_BYTES: usize = 14 + 4;

/// `ETHTOOL_GCHANNELS` of linux/ethtool.h.
const GET_CHANNELS: u32 = 0x3c;

/// `struct ethtool_channels` of linux/ethtool.h.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    most_receive: u32,
    most_transmit: u32,
    most_other: u32,
    most_combined: u32,
    receive: u32,
    transmit: u32,
    other: u32,
    combined: u32,
}

/// The index of a device.
pub(crate) fn index(device: &str) -> Result<u32, LinkError> {
    nix::net::if_::if_nametoindex(device).map_err(|_| LinkError::NoDevice {
        device: device.to_owned(),
    })
}

/// Receive queues of a device; `None` if its driver does not report it.
pub(crate) fn receive_queues(device: &str) -> Option<usize> {
    let mut channels = Channels {
        command: GET_CHANNELS,
        ..Channels::default()
    };
    let data = (&raw mut channels).cast();
    ask(device, libc::SIOCETHTOOL, |request| {
        request.ifr_ifru.ifru_data = data;
    })
    .ok()?;
    let queues = channels.receive + channels.combined;
    (queues > 0).then_some(queues as usize)
}

/// The largest packet of a device, without the header of Ethernet.
pub(crate) fn mtu(device: &str) -> io::Result<usize> {
    let answer = ask(device, libc::SIOCGIFMTU, |_| {})?;
    // SAFETY: the kernel wrote this member of the union.
    Ok(unsafe { answer.ifr_ifru.ifru_mtu } as usize)
}

/// Whether a device is switched on.
pub(crate) fn is_up(device: &str) -> io::Result<bool> {
    Ok(i32::from(flags(device)?) & libc::IFF_UP != 0)
}

/// Switches a device of our own making on.
pub(crate) fn switch_on(device: &str) -> io::Result<()> {
    let flags = flags(device)? | libc::IFF_UP as libc::c_short;
    ask(device, libc::SIOCSIFFLAGS, |request| {
        request.ifr_ifru.ifru_flags = flags;
    })
    .map(drop)
}

fn flags(device: &str) -> io::Result<libc::c_short> {
    let answer = ask(device, libc::SIOCGIFFLAGS, |_| {})?;
    // SAFETY: the kernel wrote this member of the union.
    Ok(unsafe { answer.ifr_ifru.ifru_flags })
}

/// Has the kernel answer a request, of which `fill` writes what it needs beside the device's name.
fn ask(device: &str, command: libc::Ioctl, fill: impl FnOnce(&mut libc::ifreq)) -> io::Result<libc::ifreq> {
    let mut request = request(device)?;
    fill(&mut request);
    let socket = socket::open(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    // SAFETY: the commands above read and write the request, and for `SIOCETHTOOL` the structure that it names; both outlive
    // the call.
    told(unsafe { libc::ioctl(socket.as_raw_fd(), command, &raw mut request) })?;
    Ok(request)
}

/// A request that names a device.
pub(crate) fn request(device: &str) -> io::Result<libc::ifreq> {
    // SAFETY: the structure holds integers and addresses, of which zeros are a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if device.len() >= libc::IFNAMSIZ || device.is_empty() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}
