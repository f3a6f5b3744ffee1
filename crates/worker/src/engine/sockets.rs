//! The sockets of one engine: a slab whose slots are reused under a new generation.

use super::id::Id;
use super::sends::Queue;
#[cfg(feature = "simulated")]
use super::simulated::SimulatedSocket;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};

/// What an engine can be given to send and receive datagrams: a socket of the kernel, or in tests of a simulated network.
#[derive(Debug)]
pub enum Socket {
    /// For the engines over epoll and io_uring.
    Kernel(UdpSocket),
    /// For the simulated engine.
    #[cfg(feature = "simulated")]
    Simulated(Box<SimulatedSocket>),
}

impl From<UdpSocket> for Socket {
    fn from(socket: UdpSocket) -> Self {
        Socket::Kernel(socket)
    }
}

#[cfg(feature = "simulated")]
impl From<SimulatedSocket> for Socket {
    fn from(socket: SimulatedSocket) -> Self {
        Socket::Simulated(Box::new(socket))
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

/// A socket and what its owner wants of it. What the kernel was told so far is the engine's to know.
#[derive(Debug)]
pub(crate) struct Entry {
    generation: u32,
    pub(crate) socket: Option<Socket>,
    pub(crate) queue: Queue,
    /// Segments over this size are sent one by one: the path refused them as `UDP_SEGMENT`.
    pub(crate) segment_limit: u16,
    pub(crate) receiving: bool,
    /// Closed by its owner; it lives on until the kernel is done with it.
    pub(crate) closing: bool,
    /// Whether the slot is in the list of sockets with something to send.
    pub(crate) waiting: bool,
    /// Whether the slot is in the list of sockets whose wishes changed.
    pub(crate) changed: bool,
}

impl Entry {
    /// The descriptor of a kernel socket.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(|socket| socket.kernel().as_fd())
    }
}

#[derive(Debug, Default)]
pub(crate) struct Sockets {
    entries: Vec<Entry>,
    free: Vec<u32>,
}

impl Sockets {
    pub(crate) fn insert(&mut self, socket: Socket, receiving: bool) -> Id {
        let entry = Entry {
            generation: 0,
            socket: Some(socket),
            queue: Queue::EMPTY,
            segment_limit: u16::MAX,
            receiving,
            closing: false,
            waiting: false,
            changed: false,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                let old = &mut self.entries[slot as usize];
                *old = Entry {
                    generation: old.generation,
                    ..entry
                };
                slot
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        self.id(slot)
    }

    /// Drops the socket in a slot and frees the slot for the next generation.
    pub(crate) fn remove(&mut self, slot: u32) {
        let entry = &mut self.entries[slot as usize];
        entry.socket = None;
        entry.generation = entry.generation.wrapping_add(1) & !Id::STREAM;
        self.free.push(slot);
    }

    /// The entry in a slot: its socket, or what is left of the last one.
    pub(crate) fn at(&self, slot: u32) -> &Entry {
        &self.entries[slot as usize]
    }

    pub(crate) fn at_mut(&mut self, slot: u32) -> &mut Entry {
        &mut self.entries[slot as usize]
    }

    pub(crate) fn id(&self, slot: u32) -> Id {
        Id {
            slot,
            generation: self.at(slot).generation,
        }
    }

    /// Whether the socket is there still, closing or not.
    pub(crate) fn is_current(&self, id: Id) -> bool {
        self.entries
            .get(id.slot())
            .is_some_and(|entry| entry.generation == id.generation && entry.socket.is_some())
    }

    /// The socket, unless its owner closed it.
    pub(crate) fn open_mut(&mut self, id: Id) -> Option<&mut Entry> {
        self.entries
            .get_mut(id.slot())
            .filter(|entry| entry.generation == id.generation && entry.socket.is_some() && !entry.closing)
    }

    pub(crate) fn is_open(&self, id: Id) -> bool {
        self.is_current(id) && !self.at(id.slot).closing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_reused_has_another_id() {
        let mut sockets = Sockets::default();
        let bind = || Socket::from(UdpSocket::bind("127.0.0.1:0").unwrap());
        let first = sockets.insert(bind(), true);
        sockets.remove(first.slot);
        let second = sockets.insert(bind(), true);
        assert_eq!(first.slot(), second.slot());
        assert_ne!(first, second);
        assert!(!sockets.is_open(first));
        assert!(sockets.is_open(second));
        assert_eq!(Id::from_bits(second.to_bits()), second);
    }

    #[test]
    fn a_socket_costs_at_most_100_bytes() {
        // 65,536 sockets a worker are a plain request of a generator; its own state needs the room.
        assert!(size_of::<Entry>() <= 64, "{}", size_of::<Entry>());
    }
}
