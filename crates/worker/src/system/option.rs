//! Socket options and bindings that no library provides: plain values, and packet sockets.

use nix::errno::Errno;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Sets an option whose value is an `int` or a 32-bit word.
pub(crate) fn set(socket: &impl AsFd, level: i32, name: i32, value: u32) -> io::Result<()> {
    let value_pointer: *const u32 = &value;
    // SAFETY: the pointer and the length describe `value`, which outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            value_pointer.cast(),
            size_of::<u32>() as libc::socklen_t,
        )
    };
    Ok(Errno::result(result).map(drop)?)
}

/// Reads an option whose value is an `int` or a 32-bit word.
pub(crate) fn get(socket: &impl AsFd, level: i32, name: i32) -> io::Result<u32> {
    get_words(socket, level, name).map(|[word]| word)
}

/// Reads an option whose value is an array of 32-bit words; words that this kernel does not have stay 0.
pub(crate) fn get_words<const WORDS: usize>(
    socket: &impl AsFd,
    level: i32,
    name: i32,
) -> io::Result<[u32; WORDS]> {
    let mut words = [0; WORDS];
    let words_pointer: *mut [u32; WORDS] = &mut words;
    let mut length = size_of::<[u32; WORDS]>() as libc::socklen_t;
    // SAFETY: the pointer and the length describe `words`, which outlives the call; every bit pattern is a valid `u32`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            words_pointer.cast(),
            &mut length,
        )
    };
    Errno::result(result)?;
    Ok(words)
}

/// Binds a packet socket to the frames of one `ETH_P_*` protocol (host order) that one device receives.
pub(crate) fn bind_packet(socket: &impl AsFd, protocol: u16, device: u32) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: i32::try_from(device).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let address_pointer: *const libc::sockaddr_ll = &address;
    // SAFETY: the pointer and the length describe `address`, which outlives the call.
    let result = unsafe {
        libc::bind(
            socket.as_fd().as_raw_fd(),
            address_pointer.cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    Ok(Errno::result(result).map(drop)?)
}
