//! Where the search for expired items stands.

/// The next item to look at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sweep {
    /// The segment.
    pub(crate) segment: u32,
    /// The byte of it, if it was begun.
    pub(crate) position: Option<u32>,
    /// The segment's generation when it was begun.
    pub(crate) generation: u32,
    /// The second in which all segments were looked at.
    pub(crate) is_done_at: Option<u32>,
}
