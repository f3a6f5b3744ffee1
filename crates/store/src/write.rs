//! How items are stored and removed.

use crate::hash::Hash;
use crate::index::{self, Need, set_accesses};
use crate::item::{Attributes, HEADER, Head, Item, Marks, Value, key_at};
use crate::log::{End, PACE};
use crate::partition::Partition;
use crate::segments::{NONE, Queue, Use};
use thiserror::Error;

/// Why an item is not stored.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Refused {
    /// A key of more than 255 bytes.
    #[error("a key of {0} bytes is longer than 255")]
    Key(usize),
    /// An item that needs more than half of the segments.
    #[error("an item of {0} bytes is larger than half of the store")]
    TooLarge(usize),
    /// The index and reserved items fill the memory.
    #[error("no memory can be freed")]
    Full,
    /// The reserved memory was evicted before the value was complete.
    #[error("the memory of an incomplete item was evicted")]
    Evicted,
}

/// Memory for an item that is not visible yet: to be committed or cancelled. It may be evicted meanwhile if reservations are in more
/// than a quarter of the segments.
#[must_use = "memory is reserved until it is committed, cancelled or evicted"]
#[derive(Debug)]
pub struct Reservation {
    hash: Hash,
    location: usize,
    /// The generation of the segment when it was reserved.
    generation: u32,
    /// Bytes of the value that are missing.
    missing: usize,
    /// Those of them that have memory.
    room: usize,
    /// The byte behind the last one of the value that is there.
    next: usize,
    /// The last segment.
    last: u32,
}

impl Reservation {
    /// Bytes of the value that are missing.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.missing
    }
}

/// A value that is here.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// The value of a key.
    Stored {
        /// The hash of the key.
        hash: Hash,
        /// The key.
        key: &'a [u8],
    },
    /// What has arrived of a reserved value.
    Reserved(&'a Reservation),
}

impl Partition {
    /// Stores a whole value.
    ///
    /// # Errors
    /// If there is no room for it; what the key had before remains then.
    pub fn set(
        &mut self,
        hash: Hash,
        key: &[u8],
        value: &[u8],
        attributes: Attributes,
        now: u32,
    ) -> Result<(), Refused> {
        if self.overwrite(hash, key, value, attributes, now) {
            return Ok(());
        }
        let mut reservation = self.reserve(hash, key, value.len(), now)?;
        if !self.fill(&mut reservation, value, now) {
            return Err(Refused::Full);
        }
        self.commit(reservation, attributes, now)
    }

    /// Replaces a value of as many bytes of memory in place, if the key has one.
    fn overwrite(&mut self, hash: Hash, key: &[u8], value: &[u8], attributes: Attributes, now: u32) -> bool {
        let Some((_, location, old)) = self.find_alive(hash, key, now) else {
            return false;
        };
        let new = head(key, value.len(), attributes);
        let is_whole = self.segments[self.segments.of(location)].chain == NONE;
        if old.space() != new.space() || !is_whole {
            return false;
        }
        self.index.published.begin(hash.value());
        let memory = &mut self.memory;
        new.write(memory, location);
        memory.write(location + HEADER + key.len(), value);
        self.index.published.end(hash.value());
        self.segments.expires(location, attributes.expiry);
        self.counts.payload_bytes += u64::from(new.value);
        self.counts.payload_bytes -= u64::from(old.value);
        if let Some(classes) = &mut self.classes {
            classes.remove(&old);
            classes.add(&new);
        }
        self.counts.stored += 1;
        true
    }

    /// Memory for a value of `length` bytes. What the key has now remains until the commit, unless it is evicted for this. Where items
    /// are evicted, a value of several segments gets them as it arrives.
    ///
    /// # Errors
    /// If there is no room.
    pub fn reserve(
        &mut self,
        hash: Hash,
        key: &[u8],
        length: usize,
        now: u32,
    ) -> Result<Reservation, Refused> {
        if key.len() > usize::from(u8::MAX) {
            return Err(Refused::Key(key.len()));
        }
        // The header has 32 bits for the length.
        if length > (self.usable() / 2 * self.segments.bytes()).min(u32::MAX as usize) {
            return Err(Refused::TooLarge(length));
        }
        let mut head = head(key, length, Attributes::default());
        head.attributes.marks = Marks::PENDING;
        let home = self.home_of(hash, key);
        let (location, last) = if head.space() <= self.segments.bytes() / 2 {
            let location = self.append(home, head.space(), now).ok_or(Refused::Full)?;
            (location, self.segments.of(location))
        } else {
            self.chain(home, head.space(), now)?
        };
        let memory = &mut self.memory;
        head.write(memory, location);
        let next = location + HEADER + key.len();
        memory.write(location + HEADER, key);
        let number = self.segments.of(location);
        self.segments.hold(number);
        let room = self.segments.room(next) + (self.segments.chained(number) - 1) * self.segments.bytes();
        Ok(Reservation {
            hash,
            location,
            generation: self.segments[number].generation,
            missing: length,
            room: room.min(length),
            next,
            last,
        })
    }

    /// Where the next version of a key goes: to where the present one is; to the main queue if it was evicted too early.
    fn home_of(&self, hash: Hash, key: &[u8]) -> Queue {
        match self.find(hash, key) {
            Some((_, location)) => self.segments[self.segments.of(location)].home,
            None if self.index.is_ghost(&self.memory, hash.value()) => Queue::Main,
            None => Queue::Small,
        }
    }

    /// The first segment for a large item, or all of them where nothing is evicted: what does not fit is refused at once there. The
    /// item's location, and the last segment.
    fn chain(&mut self, home: Queue, space: usize, now: u32) -> Result<(usize, u32), Refused> {
        let bytes = self.segments.bytes();
        let parts = space.div_ceil(bytes);
        if parts > self.usable() / 2 {
            return Err(Refused::TooLarge(space));
        }
        let parts = if self.evicts { 1 } else { parts };
        self.make_free(parts, now).ok_or(Refused::Full)?;
        let (mut next, mut last) = (NONE, NONE);
        for part in (0..parts).rev() {
            let used_for = if part == 0 { Use::Open } else { Use::Part };
            let number = self
                .segments
                .take(used_for, home, self.epoch)
                .ok_or(Refused::Full)?;
            self.segments[number].chain = next;
            (next, last) = (number, if last == NONE { number } else { last });
        }
        let segment = &mut self.segments[next];
        segment.used = space.min(bytes) as u32;
        segment.live = segment.used;
        self.segments.enqueue(next, home);
        Ok((self.segments.start(next), last))
    }

    /// Chains segments for the next `bytes` bytes of a value, whose memory is not evicted for it. The reservation ends if there are none.
    fn extend(&mut self, reservation: &mut Reservation, bytes: usize, now: u32) {
        if !self.is_held(reservation) {
            return;
        }
        self.extending = self.segments.of(reservation.location);
        self.empty_ahead(bytes * PACE, now);
        while reservation.room < bytes {
            if self.make_free(1, now).is_none() {
                self.end_reservation(reservation);
                break;
            }
            let next = self.segments.take(Use::Part, Queue::Small, self.epoch);
            let next = next.expect("a segment is free");
            self.segments.chain(reservation.last, next);
            reservation.last = next;
            reservation.room = reservation.missing.min(reservation.room + self.segments.bytes());
        }
        self.extending = NONE;
    }

    /// Adds the next bytes of the value. It may evict items, no more than these bytes need. False if the memory was evicted, or if
    /// there is none for these bytes: they are ignored then.
    ///
    /// # Panics
    /// If the value has fewer bytes.
    pub fn fill(&mut self, reservation: &mut Reservation, mut bytes: &[u8], now: u32) -> bool {
        assert!(
            bytes.len() <= reservation.missing,
            "more bytes than were reserved"
        );
        if !self.has_room(reservation, bytes.len(), now) {
            return false;
        }
        reservation.missing -= bytes.len();
        reservation.room -= bytes.len();
        while !bytes.is_empty() {
            reservation.next = self.segments.follow(reservation.next);
            let part = bytes.len().min(self.segments.room(reservation.next));
            let (now, later) = bytes.split_at(part);
            self.memory.write(reservation.next, now);
            reservation.next += part;
            bytes = later;
        }
        true
    }

    /// Whether the next `bytes` bytes of a value have memory now.
    #[inline]
    fn has_room(&mut self, reservation: &mut Reservation, bytes: usize, now: u32) -> bool {
        if reservation.room < reservation.missing {
            self.extend(reservation, bytes, now);
        }
        self.is_held(reservation)
    }

    /// Adds a value that is here already. False if that is gone or was evicted for this, or if the memory was evicted or there is none.
    ///
    /// # Panics
    /// If the value has more bytes than are missing.
    pub fn fill_from(&mut self, reservation: &mut Reservation, source: Source<'_>, now: u32) -> bool {
        let Some((_, length)) = self.source(source, now) else {
            return false;
        };
        assert!(length <= reservation.missing, "more bytes than were reserved");
        // It may evict the source, or copy it elsewhere.
        if !self.has_room(reservation, length, now) {
            return false;
        }
        let Some((mut from, mut left)) = self.source(source, now) else {
            return false;
        };
        reservation.missing -= left;
        reservation.room -= left;
        while left > 0 {
            from = self.segments.follow(from);
            reservation.next = self.segments.follow(reservation.next);
            let part = left
                .min(self.segments.room(from))
                .min(self.segments.room(reservation.next));
            self.memory.copy(from, reservation.next, part);
            (from, left) = (from + part, left - part);
            reservation.next += part;
        }
        true
    }

    /// Where the bytes of a source begin, and how many they are.
    fn source(&self, source: Source<'_>, now: u32) -> Option<(usize, usize)> {
        let (location, missing) = match source {
            Source::Stored { hash, key } => (self.find_alive(hash, key, now)?.1, 0),
            Source::Reserved(other) => (self.is_held(other).then_some(other.location)?, other.missing),
        };
        let head = Head::read(&self.memory, location);
        let start = location + HEADER + usize::from(head.key);
        Some((start, head.value as usize - missing))
    }

    /// The bytes of the value of a reservation that are there; `None` if its memory was evicted.
    #[must_use]
    pub fn reserved(&self, reservation: &Reservation) -> Option<Value<'_>> {
        let memory = &self.memory;
        self.is_held(reservation).then(|| {
            let mut head = Head::read(memory, reservation.location);
            head.value -= reservation.missing as u32;
            Item::of(&head, memory, &self.segments, reservation.location).value
        })
    }

    /// Whether its memory was not evicted.
    fn is_held(&self, reservation: &Reservation) -> bool {
        self.segments[self.segments.of(reservation.location)].generation == reservation.generation
    }

    /// Gives reserved memory back.
    pub fn cancel(&mut self, reservation: Reservation) {
        self.end_reservation(&reservation);
    }

    fn end_reservation(&mut self, reservation: &Reservation) {
        if self.is_held(reservation) {
            let head = Head::read(&self.memory, reservation.location);
            let number = self.segments.of(reservation.location);
            self.segments.let_go(number);
            self.discard(reservation.location, &head);
            self.settle(number);
        }
    }

    /// Makes a complete item visible; it replaces what the key has.
    ///
    /// # Errors
    /// If its memory was evicted, or the index cannot grow.
    ///
    /// # Panics
    /// If bytes of the value are missing.
    pub fn commit(
        &mut self,
        mut reservation: Reservation,
        attributes: Attributes,
        now: u32,
    ) -> Result<(), Refused> {
        assert!(
            reservation.missing == 0 || !self.is_held(&reservation),
            "the value is incomplete"
        );
        if self.prepare_index(now).is_none() && !self.is_replacement(&reservation) {
            self.cancel(reservation);
            return Err(Refused::Full);
        }
        self.renew(&mut reservation, now)?;
        let Reservation { hash, location, .. } = reservation;
        let found = self.find(hash, key_at(&self.memory, location));
        if found.is_none() && !self.make_place(hash, now) {
            self.cancel(reservation);
            return Err(Refused::Full);
        }
        let mut head = Head::read(&self.memory, location);
        head.attributes = attributes;
        let memory = &mut self.memory;
        head.write(memory, location);
        self.segments.let_go(self.segments.of(location));
        self.segments.expires(location, attributes.expiry);
        self.counts.stored += 1;
        self.counts.item_bytes += head.space() as u64;
        self.counts.payload_bytes += u64::from(head.key) + u64::from(head.value);
        if let Some(classes) = &mut self.classes {
            classes.add(&head);
        }
        let Some((slot, old)) = found else {
            self.index.insert(&mut self.memory, hash.value(), location);
            return Ok(());
        };
        let before = Head::read(&self.memory, old);
        let end = self.end_of(&before, old, now);
        let memory = &mut self.memory;
        self.index.relocate(memory, hash.value(), slot, location);
        if end.is_some() {
            set_accesses(memory, slot, 0);
        }
        self.count_end(&before, end.unwrap_or(End::Removed));
        self.discard(old, &before);
        self.settle(self.segments.of(old));
        Ok(())
    }

    /// Whether the index has the key. If that is evicted before the commit, the index has the room that it had.
    fn is_replacement(&self, reservation: &Reservation) -> bool {
        let key = || key_at(&self.memory, reservation.location);
        self.is_held(reservation) && self.find(reservation.hash, key()).is_some()
    }

    /// Moves a reservation that was made before a flush to where it survives.
    fn renew(&mut self, reservation: &mut Reservation, now: u32) -> Result<(), Refused> {
        if !self.is_held(reservation) {
            return Err(Refused::Evicted);
        }
        let from = reservation.location;
        let number = self.segments.of(from);
        if self.segments[number].epoch == self.epoch {
            return Ok(());
        }
        let head = Head::read(&self.memory, from);
        if self.segments[number].chain != NONE || head.space() > self.segments.bytes() / 2 {
            self.segments[number].epoch = self.epoch;
            self.stale -= 1;
            self.publish_flush();
            return Ok(());
        }
        let to = self
            .append(Queue::Small, head.space(), now)
            .ok_or(Refused::Full)?;
        if !self.is_held(reservation) {
            head.write(&mut self.memory, to);
            self.discard(to, &head);
            return Err(Refused::Evicted);
        }
        self.memory.copy(from, to, head.bytes());
        self.segments.let_go(number);
        self.discard(from, &head);
        self.settle(number);
        reservation.location = to;
        let number = self.segments.of(to);
        self.segments.hold(number);
        reservation.generation = self.segments[number].generation;
        Ok(())
    }

    /// Gives the index the segments that it needs for one more item. It may do without more buckets: chains are longer then.
    fn prepare_index(&mut self, now: u32) -> Option<()> {
        loop {
            let may_grow = self.index.segments() * 2 < self.usable();
            let Some(need) = self.index.need(may_grow) else {
                return Some(());
            };
            if self.make_free(1, now).is_none() {
                return (need == Need::Bucket).then_some(());
            }
            let segment = self.segments.take(Use::Index, Queue::Small, self.epoch)?;
            self.zero(segment);
            self.index.add(segment, need);
        }
    }

    /// Ends an item of a chain that may not be longer: one that is gone, or the least accessed one where items are evicted. False if none
    /// may end.
    fn make_place(&mut self, hash: Hash, now: u32) -> bool {
        let memory = &self.memory;
        if !self.index.is_crowded(memory, hash.value()) {
            return true;
        }
        let slots = self.index.slots(memory, self.index.bucket_of(hash.value()));
        let ranked = slots.map(|(slot, location)| {
            let head = Head::read(memory, location);
            let end = self.end_of(&head, location, now);
            let accesses = end.is_none().then(|| index::accesses(memory, slot));
            (accesses, slot, location, head, end)
        });
        let least = ranked.min_by_key(|(accesses, ..)| *accesses);
        let Some((_, slot, location, head, end)) = least.filter(|item| self.evicts || item.4.is_some())
        else {
            return false;
        };
        self.end(hash, slot, location, &head, end.unwrap_or(End::Evicted));
        self.settle(self.segments.of(location));
        true
    }

    /// Removes the item of a key; whether there was one.
    pub fn remove(&mut self, hash: Hash, key: &[u8], now: u32) -> bool {
        let Some((slot, location)) = self.find(hash, key) else {
            return false;
        };
        let head = Head::read(&self.memory, location);
        let end = self.end_of(&head, location, now);
        self.end(hash, slot, location, &head, end.unwrap_or(End::Removed));
        self.settle(self.segments.of(location));
        end.is_none()
    }
}

fn head(key: &[u8], length: usize, attributes: Attributes) -> Head {
    Head {
        attributes,
        value: length as u32,
        key: key.len() as u8,
    }
}
