//! Where work on segments stands that is done in parts: the search for expired items, and the emptying of a segment.

/// The next item to look at for expiry.
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

/// The segment that is being emptied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Emptying {
    pub(crate) number: u32,
    /// The next byte of it.
    pub(crate) position: usize,
    /// Whether it was sparse: all items are kept.
    pub(crate) is_sparse: bool,
}
