//! Socket options and calls that no crate wraps.

use super::told;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// A socket that is closed on exec.
pub(crate) fn open(family: libc::c_int, kind: libc::c_int, protocol: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: no memory is passed.
    let socket = told(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) })?;
    // SAFETY: the kernel just made it for us, and nobody else closes it.
    Ok(unsafe { OwnedFd::from_raw_fd(socket as i32) })
}

/// Sets an option to a plain C value.
pub(crate) fn set<T: Plain>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let bytes = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `bytes` bytes of a value that outlives the call.
    told(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const *value).cast(),
            bytes,
        )
    })
    .map(drop)
}

/// Reads an option into a plain C value. The kernel may know a shorter structure than we do: what it leaves out stays zero.
pub(crate) fn get<T: Plain>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
) -> io::Result<T> {
    let mut bytes = size_of::<T>() as libc::socklen_t;
    let mut value = zeroed::<T>();
    // SAFETY: the kernel writes at most `bytes` bytes, which is the size of the value.
    told(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw mut value).cast(),
            &raw mut bytes,
        )
    })?;
    Ok(value)
}

/// Binds to a plain C address.
pub(crate) fn bind<T: Plain>(socket: BorrowedFd<'_>, address: &T) -> io::Result<()> {
    let bytes = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `bytes` bytes of an address that outlives the call.
    told(unsafe { libc::bind(socket.as_raw_fd(), (&raw const *address).cast(), bytes) }).map(drop)
}

/// Tells the kernel to work on what is in a transmit ring, without waiting.
pub(crate) fn kick_send(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no memory is passed.
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            std::ptr::null(),
            0,
            libc::MSG_DONTWAIT,
            std::ptr::null(),
            0,
        )
    };
    told(sent as i64).map(drop)
}

/// Tells the kernel to work on what is in a fill ring, without waiting.
pub(crate) fn kick_receive(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no memory is passed.
    let received = unsafe {
        libc::recvfrom(
            socket.as_raw_fd(),
            std::ptr::null_mut(),
            0,
            libc::MSG_DONTWAIT,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        )
    };
    told(received as i64).map(drop)
}

/// The error that waits on a socket, which reading clears; none when there is none.
pub(crate) fn pending_error(socket: BorrowedFd<'_>) -> Option<io::Error> {
    let error: libc::c_int = get(socket, libc::SOL_SOCKET, libc::SO_ERROR).ok()?;
    (error != 0).then(|| io::Error::from_raw_os_error(error))
}

/// A C structure of integers: any bytes, zero too, are one.
pub(crate) trait Plain: Copy {}
impl Plain for libc::c_int {}
impl Plain for libc::sockaddr_ll {}
impl Plain for libc::sockaddr_xdp {}
impl Plain for libc::packet_mreq {}
impl Plain for libc::tpacket_req3 {}
impl Plain for libc::tpacket_stats_v3 {}
impl Plain for libc::xdp_umem_reg {}
impl Plain for libc::xdp_mmap_offsets {}
impl Plain for libc::xdp_options {}
impl Plain for libc::xdp_statistics {}

/// A plain C value of zeros.
pub(crate) fn zeroed<T: Plain>() -> T {
    // SAFETY: the trait is implemented only for structures of integers, of which zeros are a value.
    unsafe { std::mem::zeroed() }
}
