//! Packet sockets that observe a device: opened without delivery, given a filter program, and read without blocking.

use crate::group::set_receive_buffer;
use crate::system::option;
use corelane_rss::steer::{SteerError, code};
use nix::net::if_::if_nametoindex;
use socket2::{Domain, SockFilter, Socket, Type};
use std::io::{self, Read};

/// Why a device cannot be observed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// Packet sockets need a capability.
    #[error("reading received frames needs CAP_NET_RAW: run as root or in a user namespace")]
    NotPermitted,
    /// No such device.
    #[error("there is no device {device}: ip link lists those of this network namespace")]
    NoDevice {
        /// The name given.
        device: String,
    },
    /// The sampling ratio is 0.
    #[error("one_in is 0: use 1 to observe all datagrams, or more for a sample")]
    NoSample,
    /// The buckets of frames are encoded in a few bits.
    #[error("frames are read with {most} steerings of {most_buckets} buckets at most")]
    Steerings {
        /// Limit of steerings.
        most: usize,
        /// Limit of the buckets of each.
        most_buckets: usize,
    },
    /// There is no program for a table.
    #[error(transparent)]
    Program(#[from] SteerError),
    /// Any other kernel error.
    #[error("cannot {what}: {source}")]
    System {
        /// The failed step.
        what: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

pub(crate) fn check<T>(what: &'static str, result: io::Result<T>) -> Result<T, WatchError> {
    result.map_err(|source| WatchError::System { what, source })
}

/// The index of a device of this network namespace.
pub(crate) fn index_of(device: &str) -> Result<u32, WatchError> {
    if_nametoindex(device).map_err(|_| WatchError::NoDevice {
        device: device.to_owned(),
    })
}

/// A packet socket of one device and one `ETH_P_*` protocol, with a receive buffer of this many bytes as far as the
/// kernel allows. It delivers nothing until it has a program.
pub(crate) fn open(
    device: u32,
    protocol: i32,
    kind: Type,
    buffer_bytes: usize,
) -> Result<Socket, WatchError> {
    let socket = match Socket::new(Domain::PACKET, kind, None) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => return Err(WatchError::NotPermitted),
        opened => check("open a packet socket", opened)?,
    };
    check("not block", socket.set_nonblocking(true))?;
    let sized = set_receive_buffer(&socket, buffer_bytes);
    check("set the receive buffer", sized)?;
    attach(&socket, &[SockFilter::new(code::ANSWER_CONSTANT, 0, 0, 0)])?;
    let bound = option::bind_packet(&socket, protocol as u16, device);
    check("bind to the device", bound)?;
    Ok(socket)
}

/// Attaches the program that selects the frames.
pub(crate) fn attach(socket: &Socket, program: &[SockFilter]) -> Result<(), WatchError> {
    check("attach the filter", socket.attach_filter(program))
}

/// Reads a queued frame; `None` if there is none.
pub(crate) fn read(mut socket: &Socket, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    loop {
        match socket.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read.map(Some),
        }
    }
}

/// Loads frame metadata (`SKF_AD_*`).
pub(crate) fn load(field: i32) -> SockFilter {
    SockFilter::new(code::LOAD_WORD, 0, 0, (libc::SKF_AD_OFF + field) as u32)
}

/// Accepts only frames whose metadata `field` is `value`, or is not.
pub(crate) fn only(field: i32, value: u32, is: bool) -> [SockFilter; 3] {
    [
        load(field),
        SockFilter::new(code::JUMP_IF_EQUAL, u8::from(is), u8::from(!is), value),
        SockFilter::new(code::ANSWER_CONSTANT, 0, 0, 0),
    ]
}

/// The type of a frame addressed to this host (`PACKET_HOST` of `linux/if_packet.h`).
pub(crate) const TO_THIS_HOST: u32 = 0;

/// The type of a frame on its way out (`PACKET_OUTGOING` of `linux/if_packet.h`).
pub(crate) const OUTGOING: u32 = 4;
