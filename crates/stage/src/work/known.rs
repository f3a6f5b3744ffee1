//! What is known of the frames: their headers, read once for all stages, and what stages found.

use super::{HEADERS_AHEAD, Work};
use crate::batch::Batch;
use crate::facts::{Facts, Headers, Kinds, Rare};
use corelane_packet::{Dissection, Layout, Refusal};
use corelane_rss::Hash;
use std::time::Instant;

impl<B: Batch> Work<'_, B> {
    /// The headers of the frame at a place.
    ///
    /// # Errors
    /// Those of [`Dissection::of`].
    #[inline(always)]
    pub fn dissection(&self, place: usize) -> Result<Dissection<'_>, Refusal> {
        let frame = self.frame(place);
        match self.desk.facts.get(place) {
            Some(facts) => facts.dissection(frame),
            None => Dissection::of(frame),
        }
    }

    /// Where the headers of the frame at a place are; `None`: they were refused, or not read.
    #[inline(always)]
    pub(crate) fn layout(&self, place: usize) -> Option<Layout> {
        let facts = self.desk.facts.get(place);
        facts
            .filter(|facts| facts.headers == Headers::Read)
            .map(|facts| facts.layout)
    }

    /// Reads the headers of all frames that go on and are unread.
    #[inline]
    pub fn read(&mut self) {
        let is_first = self.untouched().is_some();
        let mut kinds = self.desk.kinds;
        let mut longest = match self.desk.longest {
            usize::MAX => 0,
            longest => longest,
        };
        self.desk.unread = false;
        self.desk.facts.resize(self.len(), Facts::default());
        for place in 0..HEADERS_AHEAD.min(self.len()) {
            self.prefetch(place);
        }
        for place in 0..self.len() {
            self.prefetch(place + HEADERS_AHEAD);
            if !is_first && !self.is_unread(place) {
                continue;
            }
            let frame = match is_first {
                true => self.lent.frame(place),
                false => self.frame(place),
            };
            longest = longest.max(frame.len());
            let headers = Dissection::of(frame).map(|packet| (packet.layout(), Kinds::of(&packet)));
            kinds |= self.desk.facts[place].keep(headers);
        }
        (self.desk.kinds, self.desk.longest) = (kinds, longest);
    }

    /// A number of bytes that no frame exceeds.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.desk.longest
    }

    /// Whether the headers of all frames are known as they are now.
    #[must_use]
    pub fn is_read(&self) -> bool {
        self.desk.facts.len() == self.len() && !self.desk.unread
    }

    /// Whether the frame at a place goes on, was read, and was not dispatched since.
    #[must_use]
    #[inline(always)]
    pub(crate) fn is_to_dispatch(&self, place: usize) -> bool {
        !self.desk.facts[place].dispatched && self.goes_on(place)
    }

    /// Keeps the hash that selects the bucket of the frame at a place. Headers must have been read.
    #[inline(always)]
    pub fn set_hash(&mut self, place: usize, hash: Hash) {
        self.desk.facts[place].hash = Some(hash);
    }

    /// Notes that the frame at a place was dispatched.
    #[inline(always)]
    pub(crate) fn dispatched(&mut self, place: usize) {
        self.desk.facts[place].dispatched = true;
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
        self.own_time(place).unwrap_or(self.now)
    }

    #[inline(always)]
    pub(super) fn own_time(&self, place: usize) -> Option<Instant> {
        let of_lent = || self.lent_at(place).and_then(|number| self.lent.time(number));
        self.rare(place).time.or_else(of_lent)
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
        self.facts(place).depth
    }

    #[inline(always)]
    pub(super) fn facts(&self, place: usize) -> Facts {
        self.desk.facts.get(place).copied().unwrap_or_default()
    }

    /// What is rarely known of the frame at a place.
    #[inline(always)]
    pub(crate) fn rare(&self, place: usize) -> Rare {
        self.desk.rare.get(place).copied().unwrap_or_default()
    }

    pub(crate) fn rare_mut(&mut self, place: usize) -> &mut Rare {
        if self.desk.rare.len() <= place {
            self.desk.rare.resize(self.len(), Rare::default());
        }
        &mut self.desk.rare[place]
    }

    /// The tunnels that the frame at a place was taken out of, by a hash that cannot be predicted; 0 if it was in none. What came
    /// out of different ones is not of one datagram or flow, whatever its addresses are.
    #[must_use]
    #[inline]
    pub fn tunnel(&self, place: usize) -> u32 {
        self.facts(place).tunnel
    }

    /// Counts one more tunnel that the frame at a place was taken out of; all of them have this hash. Headers must have been
    /// read.
    pub fn came_out(&mut self, place: usize, tunnel: u32) {
        let facts = &mut self.desk.facts[place];
        (facts.depth, facts.tunnel) = (facts.depth + 1, tunnel);
    }

    /// Whether no more is taken off the frame at a place.
    #[must_use]
    #[inline]
    pub fn is_unwrapped(&self, place: usize) -> bool {
        self.facts(place).unwrapped
    }

    /// Notes that no more is taken off the frame at a place: who runs the stages again after a change need not look at it
    /// again. Headers must have been read.
    #[inline]
    pub fn unwrapped(&mut self, place: usize) {
        self.desk.facts[place].unwrapped = true;
    }

    /// The identification of the fragments that the packet at a place may be cut into, whatever its header says: it was made of
    /// such, or a stage is its source.
    #[must_use]
    pub fn cut_as(&self, place: usize) -> Option<u32> {
        self.rare(place).cut_as
    }

    /// Keeps the identification of the fragments that the packet at a place may be cut into.
    pub fn set_cut_as(&mut self, place: usize, identification: u32) {
        self.rare_mut(place).cut_as = Some(identification);
    }
}
