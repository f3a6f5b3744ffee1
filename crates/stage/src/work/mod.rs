//! The frames of a batch on their way through the stages, in the order in which they leave.
//!
//! Each frame has a *place*: 0 is the one that leaves first. At first the places are the lent frames. Nothing is written
//! about them until a stage does something with one: a batch that just passes costs nothing here.
//!
//! Headers are read once for all stages, with [`Work::read`]: a stage that makes or changes a frame leaves it unread, and who
//! runs the stages reads again.

mod desk;
mod known;

pub use desk::{Desk, View};

use crate::batch::Batch;
use crate::dispatch::Protocol;
use crate::facts::{Facts, Headers, Kinds, Rare};
use crate::fate::Fate;
use corelane_measure::counter::Counter;
use corelane_packet::Layout;
use corelane_rss::Bucket;
use desk::{Inserted, MADE, Place};
use std::ops::Range;
use std::time::Instant;

/// Prefetch distance of headers in frames: enough to hide memory latency, few enough for the first-level cache.
pub(crate) const HEADERS_AHEAD: usize = 16;

/// What a frame keeps, besides its bytes, when it is handed over.
#[derive(Clone, Copy, Debug)]
pub struct Carried {
    /// What it was queued for.
    pub protocol: Protocol,
    link: u32,
    facts: Facts,
    rare: Rare,
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
        desk.begin(lent.frames());
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
        !self.desk.decided || self.desk.fates[place] == Fate::Flood
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

    /// The lent frames, while each is at the place of its number.
    #[must_use]
    #[inline(always)]
    pub fn lent(&self) -> Option<&B> {
        self.desk.places.is_empty().then_some(&*self.lent)
    }

    /// The lent frames, while nothing is known of them, and all go on. A stage that is first may run over them alone.
    #[must_use]
    #[inline(always)]
    pub fn untouched(&self) -> Option<&B> {
        let is_untouched = !self.desk.decided && self.desk.facts.is_empty();
        self.lent().filter(|_| is_untouched)
    }

    /// The frame at a place, mutable: addresses, ports, checksums and what headers do not locate. Other changes of headers are
    /// those of [`replace`](Work::replace) or [`trim`](Work::trim).
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

    /// The number of the lent frame at a place.
    #[inline(always)]
    fn lent_at(&self, place: usize) -> Option<usize> {
        match self.desk.places.get(place) {
            Some(at) => (at.lent != MADE).then_some(at.lent as usize),
            None => Some(place),
        }
    }

    /// Leaves a changed frame unread.
    fn forget(&mut self, place: usize) {
        self.desk.unread = true;
        if let Some(facts) = self.desk.facts.get_mut(place) {
            *facts = facts.of_changed();
        }
        if let Some(rare) = self.desk.rare.get_mut(place) {
            (rare.cut_as, rare.merged) = (None, None);
        }
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

    /// Whether stages added frames.
    #[must_use]
    pub fn has_added(&self) -> bool {
        self.desk.added
    }

    /// Drops the frame at a place, and counts it.
    #[inline(always)]
    pub fn drop(&mut self, place: usize, cause: &Counter) {
        cause.add(1);
        self.set(place, Fate::Gone);
    }

    /// Takes the frame at a place: the stage has used it for another one, or has a copy of it.
    pub fn take(&mut self, place: usize) {
        self.set(place, Fate::Gone);
    }

    /// Hands the frame at a place over to a bucket.
    #[inline(always)]
    pub fn hand_over(&mut self, place: usize, bucket: Bucket, protocol: Protocol) {
        self.set(place, Fate::HandOver(bucket, protocol));
    }

    /// What the frame at a place keeps when it is handed over for this protocol.
    #[must_use]
    pub fn carried(&self, place: usize, protocol: Protocol) -> Carried {
        Carried {
            protocol,
            link: self.link(place) as u32,
            facts: Facts {
                headers: Headers::Unread,
                dispatched: true,
                ..self.facts(place)
            },
            rare: Rare {
                time: self.own_time(place),
                ..self.rare(place)
            },
        }
    }

    /// Puts a frame that was handed over at the end, before any stage runs. The batch has no lent frames.
    pub fn take_over(&mut self, carried: &Carried, bytes: &[u8]) {
        let made = self.make(carried.link as usize, bytes.len(), |_, made| {
            made.copy_from_slice(bytes);
        });
        self.desk.places.push(made);
        self.desk.fates.push(Fate::Flood);
        self.desk.facts.push(carried.facts);
        self.desk.rare.push(carried.rare);
    }

    #[inline(always)]
    fn set(&mut self, place: usize, fate: Fate) {
        self.desk.decided = true;
        self.desk.fates[place] = fate;
    }

    /// Lets the frame at a place be these bytes of it only, without copying any.
    pub fn trim(&mut self, place: usize, kept: Range<usize>) {
        let length = self.frame(place).len();
        assert!(kept.start <= kept.end && kept.end <= length);
        self.locate();
        let at = &mut self.desk.places[place];
        at.start += kept.start as u32;
        at.length = kept.len() as u32;
        self.forget(place);
    }

    /// Keeps what a stage has read of the frame that it has trimmed, so that it is not read again.
    #[inline(always)]
    pub(crate) fn keep_headers(&mut self, place: usize, layout: Layout, kinds: Kinds) {
        self.desk.kinds |= self.desk.facts[place].keep(Ok((layout, kinds)));
    }

    /// Replaces the frame at a place by one of `length` bytes, which `fill` writes all, since they begin with any value.
    pub fn replace(&mut self, place: usize, length: usize, fill: impl FnOnce(&View<'_, B>, &mut [u8])) {
        self.locate();
        if let Some(time) = self.own_time(place) {
            self.rare_mut(place).time = Some(time);
        }
        let made = self.make(self.link(place), length, fill);
        self.desk.places[place] = made;
        self.forget(place);
    }

    /// Puts a frame of `length` bytes behind a place, as if it had come from the same link; see [`replace`](Work::replace).
    /// Several for one place leave in the order of the calls. They have places once the stage is done.
    pub fn insert(&mut self, after: usize, length: usize, fill: impl FnOnce(&View<'_, B>, &mut [u8])) {
        let made = self.make(self.link(after), length, fill);
        let facts = Facts {
            headers: Headers::Unread,
            hash: None,
            dispatched: false,
            ..self.facts(after)
        };
        let rare = Rare {
            time: self.own_time(after),
            merged: None,
            ..self.rare(after)
        };
        self.add(Inserted {
            after,
            at: made,
            facts,
            rare,
        });
    }

    /// Puts a frame of `length` bytes at the end, as if it had come from this link; see [`insert`](Work::insert).
    pub fn push(&mut self, link: usize, length: usize, fill: impl FnOnce(&mut [u8])) {
        let made = self.make(link, length, |_, bytes| fill(bytes));
        self.add(Inserted {
            after: usize::MAX,
            at: made,
            facts: Facts::default(),
            rare: Rare::default(),
        });
    }

    fn add(&mut self, inserted: Inserted) {
        self.desk.added = true;
        self.desk.unread = true;
        self.desk.inserted.push(inserted);
    }

    fn make(&mut self, link: usize, length: usize, fill: impl FnOnce(&View<'_, B>, &mut [u8])) -> Place {
        let start = self.desk.made.length as u32;
        self.desk.longest = self.desk.longest.max(length);
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
            self.locate();
            self.desk.renumber();
        }
    }
}
