//! What work is written on: where frames are, what is done with them, and the bytes of those that were made.

use crate::batch::Batch;
use crate::facts::{Facts, Kinds, Rare};
use crate::fate::Fate;
use std::ops::Range;

/// What a worker keeps from batch to batch, so that no batch allocates: where frames are, what is done with them, and the
/// bytes of those that stages made.
#[derive(Debug, Default)]
pub struct Desk {
    /// By place.
    pub(super) fates: Vec<Fate>,
    /// Whether one of `fates` was changed.
    pub(super) decided: bool,
    /// By place; empty while every place is the lent frame of that number.
    pub(super) places: Vec<Place>,
    /// By place; empty until headers are read.
    pub(super) facts: Vec<Facts>,
    /// By place; nothing is known of places beyond its end.
    pub(super) rare: Vec<Rare>,
    /// The kinds of all frames that were read.
    pub(super) kinds: Kinds,
    /// Bytes of the longest frame; [`usize::MAX`] until headers are read.
    pub(super) longest: usize,
    /// Whether frames were made or changed since headers were last read.
    pub(super) unread: bool,
    /// Frames to be put behind a place, or at the end.
    pub(super) inserted: Vec<Inserted>,
    pub(super) made: Bytes,
    /// Whether stages added frames.
    pub(super) added: bool,
}

/// A frame to be put behind a place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inserted {
    /// The place; [`usize::MAX`] for the end.
    pub(super) after: usize,
    pub(super) at: Place,
    pub(super) facts: Facts,
    pub(super) rare: Rare,
}

/// The bytes of frames that stages made: the first `length` are in use. They are not zeroed between batches.
#[derive(Debug, Default)]
pub(super) struct Bytes {
    pub(super) memory: Vec<u8>,
    pub(super) length: usize,
}

/// Where a frame is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The number of the lent frame, or [`MADE`].
    pub(super) lent: u32,
    /// Offset in that frame, or in the bytes that were made.
    pub(super) start: u32,
    pub(super) length: u32,
    /// The link that it came from.
    pub(super) link: u32,
}

pub(super) const MADE: u32 = u32::MAX;

/// Reads frames while another is made.
pub struct View<'a, B> {
    pub(super) lent: &'a B,
    pub(super) places: &'a [Place],
    pub(super) made: &'a [u8],
}

impl<B: Batch> View<'_, B> {
    /// The frame at a place, as it was before.
    #[must_use]
    pub fn frame(&self, place: usize) -> &[u8] {
        match self.places.get(place) {
            Some(at) if at.lent == MADE => &self.made[at.range()],
            Some(at) => &self.lent.frame(at.lent as usize)[at.range()],
            None => self.lent.frame(place),
        }
    }
}

impl Place {
    pub(super) fn range(self) -> Range<usize> {
        self.start as usize..(self.start + self.length) as usize
    }
}

impl Bytes {
    /// Memory for `length` bytes, and all that is in use before it.
    pub(super) fn reserve(&mut self, length: usize) -> (&[u8], &mut [u8]) {
        let (start, end) = (self.length, self.length + length);
        if self.memory.len() < end {
            self.memory.resize(end, 0);
        }
        self.length = end;
        let (before, rest) = self.memory.split_at_mut(start);
        (before, &mut rest[..length])
    }
}

impl Desk {
    /// Starts a batch of so many lent frames: all go on, to all other links.
    #[inline]
    pub(super) fn begin(&mut self, frames: usize) {
        if std::mem::take(&mut self.decided) {
            self.fates.clear();
        }
        self.fates.resize(frames, Fate::Flood);
        self.places.clear();
        self.facts.clear();
        self.rare.clear();
        (self.kinds, self.unread) = (Kinds::default(), false);
        (self.made.length, self.longest) = (0, usize::MAX);
        self.added = false;
    }

    /// Gives the inserted frames their places; every frame has one.
    pub(super) fn renumber(&mut self) {
        self.decided = true;
        // Stable: frames for one place keep their order.
        self.inserted.sort_by_key(|inserted| inserted.after);
        let old = self.places.len();
        let new = old + self.inserted.len();
        self.places.resize(new, self.inserted[0].at);
        self.fates.resize(new, Fate::Flood);
        self.facts.resize(new, Facts::default());
        self.rare.resize(new, Rare::default());
        // From the end on, each goes to its new place; where nothing is inserted any more, all are in place.
        let (mut from, mut to) = (old, new);
        while let Some(inserted) = self.inserted.pop() {
            let kept = inserted.after.saturating_add(1).min(old);
            let moved = from - kept;
            self.places.copy_within(kept..from, to - moved);
            self.fates.copy_within(kept..from, to - moved);
            self.facts.copy_within(kept..from, to - moved);
            self.rare.copy_within(kept..from, to - moved);
            (from, to) = (kept, to - moved - 1);
            self.places[to] = inserted.at;
            self.fates[to] = Fate::Flood;
            self.facts[to] = inserted.facts;
            self.rare[to] = inserted.rare;
        }
    }
}
