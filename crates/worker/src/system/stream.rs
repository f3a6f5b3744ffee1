//! The system calls of TCP connections and of those over Unix sockets. None of them waits.

use super::address::on_device_of;
use super::option;
use nix::sys::sendfile::sendfile64;
use nix::sys::socket::{self, MsgFlags, Shutdown, SockaddrStorage};
use socket2::SockRef;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

/// Accepts a connection; the peer of a Unix socket has no address. Its descriptor is non-blocking; Nagle's algorithm and buffer sizes
/// are inherited from the listener.
pub(crate) fn accept(listener: BorrowedFd<'_>) -> io::Result<(OwnedFd, Option<SocketAddr>)> {
    let (connection, peer) = SockRef::from(&listener).accept4(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK)?;
    Ok((connection.into(), peer.as_socket()))
}

/// Starts to open a connection from `local`; with port 0 the kernel chooses the port. With `free_bind` no device needs to
/// have that address. Nagle's algorithm is off: bytes queued in a turn are sent in one call in any case, and
/// the last segment must not wait for an acknowledgement.
pub(crate) fn connect(to: SocketAddr, local: Option<SocketAddr>, free_bind: bool) -> io::Result<OwnedFd> {
    let kind = socket2::Type::STREAM.nonblocking();
    let socket = socket2::Socket::new(socket2::Domain::for_address(to), kind, None)?;
    socket.set_tcp_nodelay(true)?;
    if free_bind {
        match to {
            SocketAddr::V4(_) => socket.set_freebind_v4(true)?,
            SocketAddr::V6(_) => socket.set_freebind_v6(true)?,
        }
    }
    if let Some(local) = local {
        if local.port() == 0 {
            // The kernel then chooses the port when it knows the peer, so that one local port serves many peers.
            option::set(&socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
        } else {
            // An earlier connection on the port in TIME_WAIT does not prevent one to another peer.
            socket.set_reuse_address(true)?;
        }
        socket.bind(&on_device_of(to, local).into())?;
    }
    match socket.connect(&to.into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket.into()),
    }
}

/// Opens a connection to a Unix socket. A path without a socket counts as refused, like a socket without a listener.
pub(crate) fn connect_unix(path: &Path) -> io::Result<OwnedFd> {
    let kind = socket2::Type::STREAM.nonblocking();
    let socket = socket2::Socket::new(socket2::Domain::UNIX, kind, None)?;
    match socket.connect(&socket2::SockAddr::unix(path)?) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(io::Error::from_raw_os_error(libc::ECONNREFUSED))
        }
        connected => connected.map(|()| socket.into()),
    }
}

/// The pending error of a connection (`SO_ERROR`); the kernel reports it once.
pub(crate) fn take_error(connection: BorrowedFd<'_>) -> io::Result<()> {
    SockRef::from(&connection).take_error()?.map_or(Ok(()), Err)
}

/// The local address.
pub(crate) fn local_address(connection: BorrowedFd<'_>) -> Option<SocketAddr> {
    SockRef::from(&connection).local_addr().ok()?.as_socket()
}

/// The peer's address, which that of a Unix socket does not have; an error if the connection no longer exists.
pub(crate) fn peer_address(connection: BorrowedFd<'_>) -> io::Result<Option<SocketAddr>> {
    Ok(SockRef::from(&connection).peer_addr()?.as_socket())
}

/// Sets whether calls on the connection block.
pub(crate) fn set_blocking(connection: BorrowedFd<'_>, blocking: bool) -> io::Result<()> {
    SockRef::from(&connection).set_nonblocking(!blocking)
}

/// Receives the available bytes; 0 means that the peer has ended its side.
pub(crate) fn receive(connection: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<usize> {
    Ok(socket::recv(
        connection.as_raw_fd(),
        into,
        MsgFlags::MSG_DONTWAIT,
    )?)
}

/// Sends as much as the send buffer has room for. With `more` the kernel holds back the last partial segment, because
/// more bytes follow immediately.
pub(crate) fn send(connection: BorrowedFd<'_>, pieces: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
    let mut flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    flags.set(MsgFlags::from_bits_retain(libc::MSG_MORE), more);
    let descriptor = connection.as_raw_fd();
    Ok(match pieces {
        [one] => socket::send(descriptor, one, flags)?,
        many => socket::sendmsg::<SockaddrStorage>(descriptor, many, &[], flags, None)?,
    })
}

/// Sends from a file without copying through this process. The connection must be non-blocking.
pub(crate) fn send_file(
    connection: BorrowedFd<'_>,
    file: BorrowedFd<'_>,
    offset: u64,
    length: u64,
) -> io::Result<usize> {
    // The kernel sends at most 0x7ffff000 bytes per call (sendfile(2)).
    const MOST: u64 = 0x7fff_f000;
    let mut offset =
        libc::off64_t::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EOVERFLOW))?;
    let length = length.min(MOST) as usize;
    Ok(sendfile64(connection, file, Some(&mut offset), length)?)
}

/// Ends this side: the peer sees the end after all bytes sent.
pub(crate) fn shutdown(connection: BorrowedFd<'_>) -> io::Result<()> {
    Ok(socket::shutdown(connection.as_raw_fd(), Shutdown::Write)?)
}

/// Makes the following close reset the connection.
pub(crate) fn reset_on_close(connection: BorrowedFd<'_>) {
    // Fails if the descriptor is not a socket; then there is no connection to reset.
    let _ = SockRef::from(&connection).set_linger(Some(Duration::ZERO));
}
