//! Facts about a device that are needed to open a link on it, in the calling thread's network namespace.

use crate::error::LinkError;
use nix::errno::Errno;
use socket2::{Domain, Socket, Type};
use std::io;
use std::os::fd::AsRawFd;

/// The bytes of a frame that the MTU does not include: the Ethernet header, and one VLAN tag, which the kernel permits in
/// addition (`packet_snd` in net/packet/af_packet.c).
pub(crate) const LINK_HEADER_BYTES: usize = 14 + 4;

/// `ETHTOOL_GCHANNELS` of linux/ethtool.h.
const GET_CHANNELS: u32 = 0x3c;

/// `ETHTOOL_GDRVINFO` of linux/ethtool.h.
const GET_DRIVER: u32 = 0x3;

/// The index of a device.
pub(crate) fn index(device: &str) -> Result<u32, LinkError> {
    let none = || LinkError::Lost(format!("there is no device {device} in this network namespace"));
    nix::net::if_::if_nametoindex(device).map_err(|_| none())
}

/// Receive queues of a device; `None` if its driver does not report it.
pub(crate) fn receive_queues(device: &str) -> Option<usize> {
    // `struct ethtool_channels`: the command, four maxima, then the receive, transmit, other and combined channels.
    let mut channels = [0_u32; 9];
    channels[0] = GET_CHANNELS;
    let data = (&raw mut channels).cast();
    ask(device, libc::SIOCETHTOOL, |request| {
        request.ifr_ifru.ifru_data = data;
    })
    .ok()?;
    let queues = channels[5] + channels[8];
    (queues > 0).then_some(queues as usize)
}

/// Drivers whose frames may come from this machine or its host.
const VIRTUAL: [&[u8]; 7] = [
    b"veth",
    b"tun",
    b"bridge",
    b"macvlan",
    b"ipvlan",
    b"bonding",
    b"virtio_net",
];

/// Whether a device hands on frames of a host on this machine, whose checksums may be unfinished.
pub(crate) fn is_virtual(device: &str) -> bool {
    driver(device).is_some_and(|driver| VIRTUAL.contains(&&driver[..]))
}

/// Whether a device runs XDP programs over frames with unfinished checksums. `virtio_net` does not: it turns them off first.
pub(crate) fn is_unfinished_in_driver(device: &str) -> bool {
    driver(device).is_some_and(|driver| [&b"veth"[..], b"tun"].contains(&&driver[..]))
}

/// The name of a device's driver.
fn driver(device: &str) -> Option<Vec<u8>> {
    // `struct ethtool_drvinfo`: the command, and the driver's name in the next 32 bytes of 192.
    let mut information = [0_u32; 49];
    information[0] = GET_DRIVER;
    let data = (&raw mut information).cast();
    ask(device, libc::SIOCETHTOOL, |request| {
        request.ifr_ifru.ifru_data = data;
    })
    .ok()?;
    let name = information[1..9].iter().flat_map(|part| part.to_ne_bytes());
    Some(name.take_while(|byte| *byte != 0).collect())
}

/// The largest packet of a device, without the Ethernet header.
pub(crate) fn mtu(device: &str) -> io::Result<usize> {
    let answer = ask(device, libc::SIOCGIFMTU, |_| {})?;
    // SAFETY: the kernel wrote this member of the union.
    Ok(unsafe { answer.ifr_ifru.ifru_mtu } as usize)
}

/// Whether a device is up.
pub(crate) fn is_up(device: &str) -> io::Result<bool> {
    Ok(i32::from(flags(device)?) & libc::IFF_UP != 0)
}

/// Brings up a device that we created.
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

/// Makes an ioctl request; `fill` writes its fields besides the device's name.
fn ask(device: &str, command: libc::Ioctl, fill: impl FnOnce(&mut libc::ifreq)) -> io::Result<libc::ifreq> {
    let mut request = request(device)?;
    fill(&mut request);
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    // SAFETY: the commands above read and write the request, and for `SIOCETHTOOL` the array that it names; both outlive the
    // call.
    Errno::result(unsafe { libc::ioctl(socket.as_raw_fd(), command, &raw mut request) })?;
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
