//! The name of a socket, listener or connection of one engine.

/// Names a socket of one engine: a slot, and the generation of its tenant. An `Id` that was closed never names the
/// slot's next tenant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Id {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

impl Id {
    /// Set in the generation of listeners and connections, which are counted apart from datagram sockets.
    pub(crate) const STREAM: u32 = 1 << 31;

    /// Names no socket.
    pub(crate) const NONE: Id = Id {
        slot: u32::MAX,
        generation: u32::MAX,
    };

    /// The slot: small and dense, for tables of one's own beside the engine's. It is reused after the socket has
    /// closed. Datagram sockets have slots of their own, streams (listeners and connections) have theirs.
    #[must_use]
    pub fn slot(self) -> usize {
        self.slot as usize
    }

    /// Whether it names a listener or a connection.
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
