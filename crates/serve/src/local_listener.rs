//! Listeners at the path of a Unix socket: a socket that an ended server left there is replaced.

use socket2::{Domain, SockAddr, Socket, Type};
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// A socket that is bound to a path, and does not listen yet.
pub(crate) fn bound(path: &Path) -> io::Result<Socket> {
    let (socket, name) = (
        Socket::new(Domain::UNIX, Type::STREAM, None)?,
        SockAddr::unix(path)?,
    );
    match socket.bind(&name) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_left_over(path) => {
            fs::remove_file(path)?;
            socket.bind(&name)?;
        }
        bound => bound?,
    }
    Ok(socket)
}

/// Whether this is a socket without a listener.
fn is_left_over(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|there| there.file_type().is_socket());
    is_socket && connects(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// Connects without waiting: the backlog of a listener that accepts nothing may be full.
fn connects(path: &Path) -> io::Result<()> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.connect(&SockAddr::unix(path)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_listener_with_a_full_backlog_is_neither_waited_for_nor_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics");
        let listener = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        listener.bind(&SockAddr::unix(&path).unwrap()).unwrap();
        listener.listen(0).unwrap();
        let _queued = UnixStream::connect(&path).unwrap();
        assert_eq!(connects(&path).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert!(!is_left_over(&path));
    }
}
