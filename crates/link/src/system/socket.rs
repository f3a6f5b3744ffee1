//! Socket options and addresses that no crate wraps.

use nix::errno::Errno;
use std::io;
use std::os::fd::AsRawFd;

/// Sets an option to a plain C value.
pub(crate) fn set<T: Plain>(
    socket: &impl AsRawFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let (value, bytes) = ((&raw const *value).cast(), size_of::<T>() as libc::socklen_t);
    // SAFETY: the kernel reads `bytes` bytes of a value that outlives the call.
    Errno::result(unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value, bytes) })?;
    Ok(())
}

/// Reads an option into a plain C value. The kernel may know a shorter structure than we do: the rest stays zero.
pub(crate) fn get<T: Plain>(socket: &impl AsRawFd, level: libc::c_int, option: libc::c_int) -> io::Result<T> {
    let mut bytes = size_of::<T>() as libc::socklen_t;
    let mut value = zeroed::<T>();
    let place = (&raw mut value).cast();
    // SAFETY: the kernel writes at most `bytes` bytes, which is the size of the value.
    Errno::result(unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, place, &raw mut bytes) })?;
    Ok(value)
}

/// Binds to a plain C address.
pub(crate) fn bind<T: Plain>(socket: &impl AsRawFd, address: &T) -> io::Result<()> {
    let bytes = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `bytes` bytes of an address that outlives the call.
    Errno::result(unsafe { libc::bind(socket.as_raw_fd(), (&raw const *address).cast(), bytes) })?;
    Ok(())
}

/// A C structure of integers: any bytes are a value, also zeros.
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
