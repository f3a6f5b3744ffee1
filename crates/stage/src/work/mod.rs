//! The frames of a batch on their way through the stages, in the order in which they leave.
//!
//! Each frame has a *place*: 0 is the one that leaves first. At first the places are the lent frames. Nothing is written
//! about them until a stage does something with one: a batch that just passes costs nothing here.
//!
//! Headers are read once for all stages, with [`Work::read`]: a stage that makes or changes a frame leaves it unread, and who
//! runs the stages reads again.

mod desk;

pub use desk::{Desk, View};

use crate::batch::Batch;
use crate::dispatch::Protocol;
use crate::facts::{Facts, Headers, Kinds};
use crate::fate::Fate;
use corelane_measure::counter::Counter;
use corelane_packet::{Dissection, Refusal};
use corelane_rss::{Bucket, Hash};
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

    /// The headers of the frame at a place.
    ///
    /// # Errors
    /// Those of [`Dissection::of`].
    #[inline(always)]
    pub fn dissection(&self, place: usize) -> Result<Dissection<'_>, Refusal> {
        match self.desk.facts.get(place) {
            Some(facts) if let Headers::Read(layout) = facts.headers => {
                Ok(Dissection::again(self.frame(place), layout))
            }
            _ => Dissection::of(self.frame(place)),
        }
    }

    /// Reads the headers of all frames that go on and are unread, and calls `each` with the place of each.
    #[inline]
    pub fn read(&mut self, mut each: impl FnMut(&mut Self, usize)) {
        self.desk.unread = false;
        for place in self.desk.facts.len()..self.len() {
            let time = self.lent_at(place).and_then(|number| self.lent.time(number));
            let facts = Facts {
                time,
                ..Facts::default()
            };
            self.desk.facts.push(facts);
        }
        for place in 0..HEADERS_AHEAD.min(self.len()) {
            self.prefetch(place);
        }
        for place in 0..self.len() {
            self.prefetch(place + HEADERS_AHEAD);
            if self.is_unread(place) {
                let mut headers = Headers::Unread;
                self.desk.kinds |= headers.read(self.frame(place));
                self.desk.facts[place].headers = headers;
                each(self, place);
            }
        }
    }

    /// Whether the frame at a place goes on and came, was made or was changed since headers were last read.
    #[must_use]
    #[inline(always)]
    pub fn is_unread(&self, place: usize) -> bool {
        let headers = self.desk.facts.get(place).map(|facts| facts.headers);
        self.goes_on(place) && matches!(headers, None | Some(Headers::Unread))
    }

    /// Whether frames were made or changed since headers were last read.
    #[must_use]
    pub fn has_unread(&self) -> bool {
        self.desk.unread
    }

    /// The kinds of frames that were read: a stage that works on none of them has nothing to do.
    #[must_use]
    pub fn kinds(&self) -> Kinds {
        self.desk.kinds
    }

    pub(crate) fn add_kinds(&mut self, kinds: Kinds) {
        self.desk.kinds |= kinds;
    }

    /// The time of the frame at a place: its own if it comes from a capture, otherwise that of the batch.
    #[must_use]
    pub fn time(&self, place: usize) -> Instant {
        self.facts(place).time.unwrap_or(self.now)
    }

    /// The hash that selected the bucket of the frame at a place.
    #[must_use]
    pub fn hash(&self, place: usize) -> Option<Hash> {
        self.facts(place).hash
    }

    /// The number of tunnels that the frame at a place was taken out of.
    #[must_use]
    #[inline]
    pub fn depth(&self, place: usize) -> u8 {
        self.desk.facts.get(place).map_or(0, |facts| facts.depth)
    }

    pub(crate) fn facts(&self, place: usize) -> Facts {
        self.desk.facts.get(place).copied().unwrap_or_default()
    }

    /// The facts of the frame at a place, to be changed. Headers must have been read.
    pub(crate) fn facts_mut(&mut self, place: usize) -> &mut Facts {
        &mut self.desk.facts[place]
    }

    /// Counts one more tunnel that the frame at a place was taken out of. Headers must have been read.
    pub fn deepen(&mut self, place: usize) {
        self.facts_mut(place).depth += 1;
    }

    /// Whether the frame at a place was left in its tunnel.
    #[must_use]
    #[inline]
    pub fn stays_in_tunnel(&self, place: usize) -> bool {
        self.desk.facts.get(place).is_some_and(|facts| facts.stays)
    }

    /// Leaves the frame at a place in its tunnel: who runs the stages again after a change need not look at it again. Headers
    /// must have been read.
    pub fn leave_in_tunnel(&mut self, place: usize) {
        self.facts_mut(place).stays = true;
    }

    /// The identification of the fragments that the packet at a place may be cut into, whatever its header says: it was made of
    /// such, or a stage is its source.
    #[must_use]
    pub fn cut_as(&self, place: usize) -> Option<u32> {
        self.facts(place).cut_as
    }

    /// Keeps the identification of the fragments that the packet at a place may be cut into. Headers must have been read.
    pub fn set_cut_as(&mut self, place: usize, identification: u32) {
        self.facts_mut(place).cut_as = Some(identification);
    }

    /// Keeps the hash that selects the bucket of the frame at a place. Headers must have been read.
    pub fn set_hash(&mut self, place: usize, hash: Option<Hash>) {
        self.facts_mut(place).hash = hash;
    }

    /// Whether the frame at a place was handed over to its bucket.
    #[must_use]
    #[inline(always)]
    pub fn was_queued(&self, place: usize) -> bool {
        self.desk.facts.get(place).is_some_and(|facts| facts.queued)
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
            (facts.headers, facts.hash, facts.stays) = (Headers::Unread, None, false);
            (facts.cut_as, facts.merged) = (None, None);
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
                queued: true,
                ..self.facts(place)
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

    /// Replaces the frame at a place by one of `length` bytes, which `fill` writes all, since they begin with any value.
    pub fn replace(&mut self, place: usize, length: usize, fill: impl FnOnce(&View<'_, B>, &mut [u8])) {
        self.locate();
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
            merged: None,
            ..self.facts(after)
        };
        self.add(after, made, facts);
    }

    /// Puts a frame of `length` bytes at the end, as if it had come from this link; see [`insert`](Work::insert).
    pub fn push(&mut self, link: usize, length: usize, fill: impl FnOnce(&mut [u8])) {
        let made = self.make(link, length, |_, bytes| fill(bytes));
        self.add(usize::MAX, made, Facts::default());
    }

    fn add(&mut self, after: usize, at: Place, facts: Facts) {
        self.desk.added = true;
        self.desk.unread = true;
        self.desk.inserted.push(Inserted { after, at, facts });
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
            self.locate();
            self.desk.renumber();
        }
    }
}
