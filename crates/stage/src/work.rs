//! The frames of a batch on their way through the stages, in the order in which they leave.
//!
//! Each frame has a *place*: 0 is the one that leaves first. At first the places are the lent frames. Nothing is written
//! about them until a stage does something with one: a batch that just passes costs nothing here.

use crate::batch::Batch;
use crate::fate::{Fate, LinkSet};
use corelane_measure::counter::Counter;
use corelane_packet::{Dissection, Refusal};
use std::ops::Range;
use std::time::Instant;

/// What a worker keeps from batch to batch, so that no batch allocates: where frames are, what is done with them, and the
/// bytes of those that stages made.
#[derive(Debug, Default)]
pub struct Desk {
    /// By place.
    fates: Vec<Fate>,
    /// Whether one of `fates` was changed.
    decided: bool,
    /// By place; empty while every place is the lent frame of that number.
    places: Vec<Place>,
    /// Frames to be put behind a place, or at the end.
    inserted: Vec<(usize, Place, Fate)>,
    made: Bytes,
    /// Frames that stages took, and those that they added.
    used: u64,
    added: u64,
}

/// The bytes of frames that stages made: the first `length` are in use. They are not zeroed between batches.
#[derive(Debug, Default)]
struct Bytes {
    memory: Vec<u8>,
    length: usize,
}

/// Where a frame is.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The number of the lent frame, or [`MADE`].
    lent: u32,
    /// Offset in that frame, or in the bytes that were made.
    start: u32,
    length: u32,
    /// The link that it came from.
    link: u32,
}

const MADE: u32 = u32::MAX;

/// Reads frames while another is made.
pub struct View<'a, B> {
    lent: &'a B,
    places: &'a [Place],
    made: &'a [u8],
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
    fn range(self) -> Range<usize> {
        self.start as usize..(self.start + self.length) as usize
    }
}

impl Bytes {
    /// Memory for `length` bytes, and all that is in use before it.
    fn reserve(&mut self, length: usize) -> (&[u8], &mut [u8]) {
        let (start, end) = (self.length, self.length + length);
        if self.memory.len() < end {
            self.memory.resize(end, 0);
        }
        self.length = end;
        let (before, rest) = self.memory.split_at_mut(start);
        (before, &mut rest[..length])
    }
}

/// The frames of a batch, the time, and what stages do with them. Methods panic for places beyond the last, as slices do.
pub struct Work<'a, B> {
    lent: &'a mut B,
    desk: &'a mut Desk,
    now: Instant,
}

impl<'a, B: Batch> Work<'a, B> {
    /// The work that begins with these frames: all go on, to all other links.
    #[inline]
    pub fn new(desk: &'a mut Desk, lent: &'a mut B, now: Instant) -> Work<'a, B> {
        if std::mem::take(&mut desk.decided) {
            desk.fates.clear();
        }
        desk.fates.resize(lent.frames(), Fate::Flood);
        desk.places.clear();
        desk.made.length = 0;
        (desk.used, desk.added) = (0, 0);
        Work { lent, desk, now }
    }

    /// The number of places: numbers below it name one.
    #[must_use]
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.desk.fates.len()
    }

    /// Whether there is no frame: only time went on.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Whether the frame at a place is still on its way.
    #[must_use]
    #[inline(always)]
    pub fn goes_on(&self, place: usize) -> bool {
        !self.desk.decided || self.desk.fates[place] != Fate::Gone
    }

    /// The frame at a place.
    #[must_use]
    #[inline(always)]
    pub fn frame(&self, place: usize) -> &[u8] {
        if self.desk.places.is_empty() {
            return self.lent.frame(place);
        }
        self.placed(place)
    }

    fn placed(&self, place: usize) -> &[u8] {
        let at = self.desk.places[place];
        let whole = match at.lent {
            MADE => &self.desk.made.memory,
            lent => self.lent.frame(lent as usize),
        };
        &whole[at.range()]
    }

    /// The frame at a place, mutable.
    #[inline(always)]
    pub fn frame_mut(&mut self, place: usize) -> &mut [u8] {
        if self.desk.places.is_empty() {
            return self.lent.frame_mut(place);
        }
        let at = self.desk.places[place];
        let whole = match at.lent {
            MADE => &mut self.desk.made.memory,
            lent => self.lent.frame_mut(lent as usize),
        };
        &mut whole[at.range()]
    }

    /// The headers of the frame at a place.
    ///
    /// # Errors
    /// Those of [`Dissection::of`].
    #[inline(always)]
    pub fn dissection(&self, place: usize) -> Result<Dissection<'_>, Refusal> {
        Dissection::of(self.frame(place))
    }

    /// The index of the link that the frame at a place came from.
    #[must_use]
    #[inline(always)]
    pub fn link(&self, place: usize) -> usize {
        match self.desk.places.get(place) {
            Some(at) => at.link as usize,
            None => self.lent.link(place),
        }
    }

    /// Prefetches the first cache line of the frame at a place. Places beyond the last are ignored.
    #[inline(always)]
    pub fn prefetch(&self, place: usize) {
        if self.desk.places.is_empty() {
            self.lent.prefetch(place);
        }
    }

    /// What is done with the frame at each place, in order; `None`: all are flooded.
    #[must_use]
    #[inline(always)]
    pub fn fates(&self) -> Option<&[Fate]> {
        self.desk.decided.then_some(&self.desk.fates)
    }

    /// Frames that stages took, and frames that they added.
    #[must_use]
    pub fn used_and_added(&self) -> (u64, u64) {
        (self.desk.used, self.desk.added)
    }

    /// Drops the frame at a place, and counts it.
    #[inline(always)]
    pub fn drop(&mut self, place: usize, cause: &Counter) {
        cause.add(1);
        self.set(place, Fate::Gone);
    }

    /// Takes the frame at a place: the stage has used it for another one, or has a copy of it.
    pub fn take(&mut self, place: usize) {
        self.desk.used += 1;
        self.set(place, Fate::Gone);
    }

    /// Sends the frame at a place to these links.
    pub fn forward(&mut self, place: usize, links: LinkSet) {
        self.set(place, Fate::Forward(links));
    }

    #[inline(always)]
    fn set(&mut self, place: usize, fate: Fate) {
        self.desk.decided = true;
        self.desk.fates[place] = fate;
    }

    /// Lets the frame at a place be these bytes of it only.
    pub fn trim(&mut self, place: usize, kept: Range<usize>) {
        let length = self.frame(place).len();
        assert!(kept.start <= kept.end && kept.end <= length);
        self.locate();
        let at = &mut self.desk.places[place];
        at.start += kept.start as u32;
        at.length = kept.len() as u32;
    }

    /// Replaces the frame at a place by one of `length` bytes, which `fill` writes all, since they begin with any value.
    pub fn replace(&mut self, place: usize, length: usize, fill: impl FnOnce(&View<'_, B>, &mut [u8])) {
        self.locate();
        let made = self.make(self.link(place), length, fill);
        self.desk.places[place] = made;
    }

    /// Puts a frame of `length` bytes behind a place, as if it had come from the same link; see [`replace`](Work::replace).
    /// Several for one place leave in the order of the calls. They have places once the stage is done.
    pub fn insert(&mut self, after: usize, length: usize, fill: impl FnOnce(&View<'_, B>, &mut [u8])) {
        let made = self.make(self.link(after), length, fill);
        self.add(after, made, self.desk.fates[after]);
    }

    /// Puts a frame of `length` bytes at the end, as if it had come from this link, for all other links; see
    /// [`insert`](Work::insert).
    pub fn push(&mut self, link: usize, length: usize, fill: impl FnOnce(&mut [u8])) {
        let made = self.make(link, length, |_, bytes| fill(bytes));
        self.add(usize::MAX, made, Fate::Flood);
    }

    fn add(&mut self, after: usize, made: Place, fate: Fate) {
        self.desk.added += 1;
        self.desk.inserted.push((after, made, fate));
    }

    fn make(&mut self, link: usize, length: usize, fill: impl FnOnce(&View<'_, B>, &mut [u8])) -> Place {
        let start = self.desk.made.length as u32;
        let (made, bytes) = self.desk.made.reserve(length);
        let view = View {
            lent: &*self.lent,
            places: &self.desk.places,
            made,
        };
        fill(&view, bytes);
        Place {
            lent: MADE,
            start,
            length: length as u32,
            link: link as u32,
        }
    }

    /// Writes down where every frame is.
    fn locate(&mut self) {
        if !self.desk.places.is_empty() {
            return;
        }
        let lent = &*self.lent;
        let place = |number: usize| Place {
            lent: number as u32,
            start: 0,
            length: lent.frame(number).len() as u32,
            link: lent.link(number) as u32,
        };
        self.desk.places.extend((0..lent.frames()).map(place));
    }

    /// Gives the inserted frames their places. Called between two stages.
    #[inline(always)]
    pub fn settle(&mut self) {
        if !self.desk.inserted.is_empty() {
            self.renumber();
        }
    }

    fn renumber(&mut self) {
        self.locate();
        let desk = &mut *self.desk;
        desk.decided = true;
        // Stable: frames for one place keep their order.
        desk.inserted.sort_by_key(|(after, ..)| *after);
        let old = desk.places.len();
        let new = old + desk.inserted.len();
        desk.places.resize(new, desk.inserted[0].1);
        desk.fates.resize(new, Fate::Flood);
        // From the end on, each goes to its new place; where nothing is inserted any more, all are in place.
        let (mut from, mut to) = (old, new);
        while let Some((after, place, fate)) = desk.inserted.pop() {
            let kept = after.saturating_add(1).min(old);
            let moved = from - kept;
            desk.places.copy_within(kept..from, to - moved);
            desk.fates.copy_within(kept..from, to - moved);
            (from, to) = (kept, to - moved - 1);
            (desk.places[to], desk.fates[to]) = (place, fate);
        }
    }
}
