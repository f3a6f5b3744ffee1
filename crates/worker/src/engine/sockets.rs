//! The datagram sockets of one engine.

use super::sends::Queue;
#[cfg(feature = "simulated")]
use super::simulated::SimulatedSocket;
use super::slab::Tenant;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};

/// What an engine can be given to send and receive datagrams: a socket of the kernel, or in tests of a simulated network.
#[derive(Debug)]
pub enum Socket {
    /// For the engines over epoll and io_uring.
    Kernel(UdpSocket),
    /// For the simulated engine.
    #[cfg(feature = "simulated")]
    Simulated(SimulatedSocket),
}

impl From<UdpSocket> for Socket {
    fn from(socket: UdpSocket) -> Self {
        Socket::Kernel(socket)
    }
}

#[cfg(feature = "simulated")]
impl From<SimulatedSocket> for Socket {
    fn from(socket: SimulatedSocket) -> Self {
        Socket::Simulated(socket)
    }
}

impl Socket {
    /// The kernel's socket.
    ///
    /// # Panics
    /// For a simulated one, which [`Ops::datagrams`](super::Ops::datagrams) refuses on engines that ask this.
    pub(crate) fn kernel(&self) -> &UdpSocket {
        match self {
            Socket::Kernel(socket) => socket,
            #[cfg(feature = "simulated")]
            Socket::Simulated(_) => unreachable!("a real engine was given a simulated socket"),
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
