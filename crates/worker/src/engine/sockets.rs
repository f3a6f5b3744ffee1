//! The sockets and listeners that engines accept, and the datagram sockets of one engine.

use super::sends::Queue;
#[cfg(feature = "simulated")]
use super::simulated::SimulatedSocket;
use super::slab::Tenant;
use crate::system::stream;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;

/// A socket or listener for an engine: of the kernel, or in tests of a simulated network.
#[derive(Debug)]
pub enum Source<K> {
    /// For the engines over epoll and io_uring.
    Kernel(K),
    /// For the simulated engine.
    #[cfg(feature = "simulated")]
    Simulated(Box<SimulatedSocket>),
}

/// A datagram socket.
pub type Socket = Source<UdpSocket>;

/// A listener of TCP or of a Unix socket. Accepted connections inherit `TCP_NODELAY` and buffer sizes from a kernel listener.
pub type Listener = Source<OwnedFd>;

impl From<UdpSocket> for Socket {
    fn from(socket: UdpSocket) -> Self {
        Source::Kernel(socket)
    }
}

impl From<OwnedFd> for Listener {
    fn from(listener: OwnedFd) -> Self {
        Source::Kernel(listener)
    }
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Source::Kernel(listener.into())
    }
}

impl From<UnixListener> for Listener {
    fn from(listener: UnixListener) -> Self {
        Source::Kernel(listener.into())
    }
}

#[cfg(feature = "simulated")]
impl<K> From<SimulatedSocket> for Source<K> {
    fn from(socket: SimulatedSocket) -> Self {
        Source::Simulated(Box::new(socket))
    }
}

impl<K: AsFd> Source<K> {
    /// The descriptor; none if simulated.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Source::Kernel(socket) => Some(socket.as_fd()),
            #[cfg(feature = "simulated")]
            Source::Simulated(_) => None,
        }
    }

    /// The simulated socket; none if it is the kernel's.
    #[cfg(feature = "simulated")]
    pub(crate) fn simulated(&self) -> Option<&SimulatedSocket> {
        match self {
            Source::Kernel(_) => None,
            Source::Simulated(socket) => Some(socket),
        }
    }

    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        #[cfg(feature = "simulated")]
        if let Source::Simulated(socket) = self {
            return Some(socket.local_address());
        }
        stream::local_address(self.descriptor()?)
    }
}

/// A socket and its send queue. The engine itself records which operations the kernel holds for it.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) socket: Option<Socket>,
    pub(crate) queue: Queue,
    /// Datagrams over this size are sent one by one, because the path rejected them as `UDP_SEGMENT`.
    pub(crate) segment_limit: u16,
    /// The local port, if the engine reports destinations.
    pub(crate) port: u16,
    /// The send buffer is full; the engine is notified when there is room.
    pub(crate) blocked: bool,
}

impl Entry {
    pub(crate) fn new(socket: Socket) -> Self {
        Self {
            socket: Some(socket),
            queue: Queue::EMPTY,
            segment_limit: u16::MAX,
            port: 0,
            blocked: false,
        }
    }

    /// The descriptor; none once the socket is closed.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref()?.descriptor()
    }
}

impl Tenant for Entry {
    const KIND: u32 = 0;

    fn has_queued(&self) -> bool {
        self.queue.runs > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::slab::Slot;

    #[test]
    fn a_socket_costs_at_most_100_bytes() {
        // Generators open 65,536 sockets per worker and need the rest of the budget for their own state.
        assert!(size_of::<Slot<Entry>>() <= 64, "{}", size_of::<Slot<Entry>>());
    }
}
