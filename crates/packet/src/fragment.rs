//! Whether a packet is a fragment, and which one.

use crate::layout::Marks;

/// Whether a packet is a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fragment {
    /// The packet is a whole datagram.
    Whole,
    /// The packet has a fragment header but is a whole datagram (atomic fragment). Hosts treat it as if it had no such
    /// header (RFC 6946, section 4; RFC 8200, section 4.5); devices do not.
    Atomic {
        /// Identification of the datagram.
        identification: u32,
    },
    /// The packet is a fragment.
    Part(FragmentPart),
}

impl Fragment {
    pub(crate) fn marks(self) -> Marks {
        match self {
            Fragment::Whole | Fragment::Atomic { .. } => Marks::NONE,
            Fragment::Part(FragmentPart { offset: 0, .. }) => Marks::PART,
            Fragment::Part(_) => Marks::PART.with(Marks::LATER),
        }
    }
}

/// Datagram and position of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FragmentPart {
    /// Identification, common to all fragments of a datagram: 16 bits in IPv4, 32 in IPv6.
    pub identification: u32,
    /// Offset within the datagram, in bytes: a multiple of 8, at most 65,528.
    pub offset: u16,
    /// Whether later fragments follow.
    pub more: bool,
}
