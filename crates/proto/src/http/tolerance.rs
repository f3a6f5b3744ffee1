//! What other clients read past in a response, although RFC 9112 does not permit servers to send it: which deviations
//! a reader takes, and which it has met.
//!
//! None of them leaves the end of a message unknown to a reader that takes them. A server must not take them, because
//! a proxy before it may frame the same bytes differently (request smuggling).

/// A deviation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deviation {
    /// A line of the head, of a chunk or of a trailer ends with LF alone (RFC 9112 2.2: may be read as a line end).
    BareLineFeed,
    /// A field is continued on the next line (RFC 9112 5.2: a user agent must replace the fold with spaces).
    FoldedField,
    /// Spaces or tabs between a chunk's size, or its last extension, and the end of the line.
    ChunkBlank,
    /// The same `Content-Length` several times, in one field or in several (RFC 9110 8.6: may be read as one).
    RepeatedLength,
}

/// A set of deviations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Deviations(u8);

impl Deviations {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether this one is in the set.
    #[must_use]
    pub fn has(self, deviation: Deviation) -> bool {
        self.0 & 1 << deviation as u8 != 0
    }

    /// Adds those of another set.
    pub(super) fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// Whether a reader takes deviations, and those it has met; by default it refuses each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tolerance {
    /// Whether it takes them.
    pub(super) tolerant: bool,
    /// Those met so far.
    pub(super) met: Deviations,
}

impl Tolerance {
    pub(super) const STRICT: Self = Self {
        tolerant: false,
        met: Deviations(0),
    };

    /// A deviation is met: returns whether it is taken.
    pub(super) fn takes(&mut self, deviation: Deviation) -> bool {
        self.met.0 |= 1 << deviation as u8;
        self.tolerant
    }
}
