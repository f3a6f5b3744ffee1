//! The identifier of a socket, listener or connection of one engine.

/// Identifies a socket, listener or connection of one engine by a slot and its generation. An `Id` that was closed
/// never refers to the slot's next user.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Id {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

impl Id {
    /// Set in the generation of listeners and connections, whose slots are separate from those of datagram sockets.
    pub(crate) const STREAM: u32 = 1 << 31;

    /// Identifies no socket.
    pub(crate) const NONE: Id = Id {
        slot: u32::MAX,
        generation: u32::MAX,
    };

    /// The slot: a small, dense number that can index the caller's own tables. It is reused after the socket has
    /// closed. Datagram sockets and streams (listeners and connections) are numbered separately.
    #[must_use]
    pub fn slot(self) -> usize {
        self.slot as usize
    }

    /// Whether it identifies a listener or a connection.
    #[must_use]
    pub fn is_stream(self) -> bool {
        self.generation & Self::STREAM != 0
    }

    pub(crate) fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.slot)
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self {
            slot: bits as u32,
            generation: (bits >> 32) as u32,
        }
    }
}
