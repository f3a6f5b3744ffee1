//! What engines are given to serve, and the datagram sockets of one engine.

use super::sends::Queue;
#[cfg(feature = "simulated")]
use super::simulated::SimulatedSocket;
use super::slab::Tenant;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

/// What an engine can be given: a socket or listener of the kernel, or in tests of a simulated network.
#[derive(Debug)]
pub enum Source<K> {
    /// For the engines over epoll and io_uring.
    Kernel(K),
    /// For the simulated engine.
    #[cfg(feature = "simulated")]
    Simulated(SimulatedSocket),
}

/// What datagrams are sent and received on.
pub type Socket = Source<UdpSocket>;

/// What connections are accepted from; they have the `TCP_NODELAY` and buffer sizes of a listener of the kernel.
pub type Listener = Source<TcpListener>;

impl From<UdpSocket> for Socket {
    fn from(socket: UdpSocket) -> Self {
        Source::Kernel(socket)
    }
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Source::Kernel(listener)
    }
}

#[cfg(feature = "simulated")]
impl<K> From<SimulatedSocket> for Source<K> {
    fn from(socket: SimulatedSocket) -> Self {
        Source::Simulated(socket)
    }
}

impl<K> Source<K> {
    /// The kernel's socket.
    ///
    /// # Panics
    /// For a simulated one, which [`Ops::datagrams`](super::Ops::datagrams) refuses on engines that ask this.
    pub(crate) fn kernel(&self) -> &K {
        match self {
            Source::Kernel(socket) => socket,
            #[cfg(feature = "simulated")]
            Source::Simulated(_) => unreachable!("a real engine was given a simulated socket"),
        }
    }
}

/// A socket and what it has queued. What the kernel knows of it so far is recorded by the engine.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) socket: Option<Socket>,
    pub(crate) queue: Queue,
    /// Segments over this size are sent one by one: the path refused them as `UDP_SEGMENT`.
    pub(crate) segment_limit: u16,
    /// The socket took no more; the engine is notified when it does again.
    pub(crate) blocked: bool,
}

impl Entry {
    pub(crate) fn new(socket: Socket) -> Self {
        Self {
            socket: Some(socket),
            queue: Queue::EMPTY,
            segment_limit: u16::MAX,
            blocked: false,
        }
    }

    /// The descriptor of a kernel socket.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(|socket| socket.kernel().as_fd())
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
        // 65,536 sockets a worker are a plain request of a generator; its own state needs the room.
        assert!(size_of::<Slot<Entry>>() <= 64, "{}", size_of::<Slot<Entry>>());
    }
}
