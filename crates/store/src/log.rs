//! The log: how items get memory, and how their memory becomes free.

use crate::hash::{Hash, hash};
use crate::index::{self, Slot};
use crate::item::{Head, Marks, key_at, mark};
use crate::partition::Partition;
use crate::segments::{NONE, Queue, Use};
use crate::sweep::Emptying;

/// Segments that are kept free, so that a segment that is emptied always has room for what is kept of it.
const RESERVE: usize = 1;
/// Items are kept as long as no more than this many bytes are copied per byte that becomes free. So an operation is bounded, also
/// when all items are accessed.
const MOST_COPIED: i64 = 16;
/// Bytes of a segment that are emptied per stored byte while few segments are free: more than are needed at [`MOST_COPIED`].
pub(crate) const PACE: usize = 20;
/// One free segment for each of so many, up to [`MOST_AHEAD`], is made before it is needed.
const SEGMENTS_PER_AHEAD: usize = 256;
const MOST_AHEAD: usize = 4;
/// Segments that are compacted for one free segment where nothing is evicted: items may fit worse where they are copied to.
const COMPACTED: usize = 8;
/// Segments with reservations are not emptied while they are at most one in this many: so values that arrive slowly survive heavy
/// writing, and those that never arrive do not fill the store.
const SEGMENTS_PER_RESERVED: usize = 4;
/// Items whose index lines are prefetched together when a segment is emptied.
const GROUP: usize = 16;

/// Why an item left the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Removed or replaced.
    Removed,
    Expired,
    Flushed,
    Evicted,
}

/// What happens to an item whose segment is emptied.
enum Fate {
    /// It is copied to the log of a home, or its own segment is queued there.
    Stays {
        home: Queue,
        accesses: u64,
    },
    Ends(End),
}

impl Partition {
    /// Room for `space` bytes at the end of the log of a home. It may evict items. `None` if no segment can be freed.
    pub(crate) fn append(&mut self, home: Queue, space: usize, now: u32) -> Option<usize> {
        self.empty_ahead(space * PACE, now);
        if !self.fits(home, space) {
            // Also compaction that frees no segment may leave an open one with room.
            if self.make_free(1, now).is_none() && !self.fits(home, space) {
                return None;
            }
            self.open_next(home, space);
        }
        Some(self.bump(home, space))
    }

    /// Whether the open segment of a home has room.
    fn fits(&self, home: Queue, space: usize) -> bool {
        let open = self.open[home as usize];
        open != NONE && self.segments[open].used as usize + space <= self.segments.bytes()
    }

    /// Closes the open segment of a home and opens another one, if what is open has no room now. A free segment is there.
    fn open_next(&mut self, home: Queue, space: usize) {
        if !self.fits(home, space) {
            self.close(home);
            let next = self.segments.take(Use::Open, home, self.epoch);
            self.open[home as usize] = next.expect("a segment is free");
        }
    }

    fn bump(&mut self, home: Queue, space: usize) -> usize {
        let open = self.open[home as usize];
        let segment = &mut self.segments[open];
        let at = segment.used as usize;
        segment.used += space as u32;
        segment.live += space as u32;
        self.segments.start(open) + at
    }

    /// Puts the open segment of a home into its queue.
    pub(crate) fn close(&mut self, home: Queue) {
        let open = std::mem::replace(&mut self.open[home as usize], NONE);
        if open != NONE {
            self.segments.enqueue(open, home);
            self.settle(open);
        }
    }

    /// Segments that stay free.
    fn reserve_segments(&self) -> usize {
        RESERVE + self.withheld.now
    }

    /// Makes `wanted` segments free beyond the reserve.
    pub(crate) fn make_free(&mut self, wanted: usize, now: u32) -> Option<()> {
        if !self.evicts {
            return self.compact(wanted, now).or_else(|| {
                self.reclaim(wanted + self.reserve_segments(), now);
                self.compact(wanted, now)
            });
        }
        let mut is_possible = true;
        while is_possible && self.segments.free() < wanted + self.reserve_segments() {
            if self.empty_group(now).is_none() {
                // Only open segments are left: nothing of them is kept.
                self.credit = i64::MIN / 2;
                is_possible = self.open != [NONE; 2];
                self.close(Queue::Small);
                self.close(Queue::Main);
            }
        }
        self.credit = self.credit.max(0);
        is_possible.then_some(())
    }

    /// Makes segments free without loss: from sparse ones, each of them as a whole, so that the reserve has room for its items.
    fn compact(&mut self, wanted: usize, now: u32) -> Option<()> {
        for _ in 0..COMPACTED {
            if self.segments.free() >= wanted + self.reserve_segments() {
                return Some(());
            }
            self.empty_group(now)?;
            while self.emptying.is_some() {
                self.empty_group(now);
            }
        }
        (self.segments.free() >= wanted + self.reserve_segments()).then_some(())
    }

    /// Segments that are made free before they are needed.
    fn ahead(&self) -> usize {
        (self.segments.count() / SEGMENTS_PER_AHEAD).min(MOST_AHEAD)
    }

    /// Withholds the segments that are free, and empties others for that, up to so many bytes of them. Whether that is not all yet that
    /// shall be withheld.
    pub(crate) fn withhold(&mut self, mut bytes: usize, now: u32) -> bool {
        // Of what is used at most half is the index, which does not shrink.
        let most = self.segments.count().saturating_sub(2 * self.index.segments());
        while self.withheld.now < self.withheld.target.min(most) {
            if self.segments.free() > self.reserve_segments() + self.ahead() {
                self.withheld.now += 1;
                continue;
            }
            if !self.evicts || bytes == 0 {
                break;
            }
            match self.empty_group(now) {
                Some(emptied) => bytes = bytes.saturating_sub(emptied),
                None => break,
            }
        }
        self.evicts && bytes == 0
    }

    /// Empties up to so many bytes of segments, if few are free: so that nothing waits for a whole segment. What is left of the bytes.
    pub(crate) fn empty_ahead(&mut self, mut bytes: usize, now: u32) -> usize {
        if !self.evicts {
            return bytes;
        }
        let ahead = self.ahead();
        while bytes > 0 && self.segments.free() <= self.reserve_segments() + ahead {
            match self.empty_group(now) {
                Some(emptied) => bytes = bytes.saturating_sub(emptied),
                None => return bytes,
            }
        }
        bytes
    }

    /// The next segment to empty: a sparse one; where items are evicted, otherwise the oldest of the small queue while that has more
    /// than a tenth, otherwise the oldest of the main queue.
    fn victim(&mut self) -> Option<u32> {
        if !self.evicts {
            return self.oldest(Queue::Sparse);
        }
        let [small, main] = [Queue::Small, Queue::Main].map(|queue| self.segments.queued(queue));
        let order = if small * 10 > small + main {
            [Queue::Sparse, Queue::Small, Queue::Main]
        } else {
            [Queue::Sparse, Queue::Main, Queue::Small]
        };
        order.into_iter().find_map(|queue| self.oldest(queue))
    }

    /// The oldest segment of a queue that may be emptied. Those with reservations are queued again, and that for which it is emptied.
    fn oldest(&mut self, queue: Queue) -> Option<u32> {
        for _ in 0..self.segments.queued(queue) {
            let first = self.segments.first(queue)?;
            let are_few = self.segments.reserved() * SEGMENTS_PER_RESERVED <= self.segments.count();
            let is_reserved = self.segments[first].reservations > 0;
            if first != self.extending && !(is_reserved && are_few) {
                return Some(first);
            }
            self.segments.enqueue(first, queue);
        }
        None
    }

    /// Empties the next few items of a segment, and frees it after the last; the bytes that they had. `None` if no segment can be
    /// emptied.
    pub(crate) fn empty_group(&mut self, now: u32) -> Option<usize> {
        let mut emptying = match self.emptying {
            Some(emptying) => emptying,
            None => {
                let number = self.victim()?;
                let is_sparse = self.segments[number].used_for == Use::Queued(Queue::Sparse);
                self.counts.reservations_evicted += u64::from(self.segments[number].reservations);
                self.segments.withdraw(number);
                let segment = self.segments[number];
                self.add_credit((segment.used - segment.live) as usize);
                Emptying {
                    number,
                    position: 0,
                    is_sparse,
                }
            }
        };
        let Emptying { number, position, .. } = emptying;
        let mut group = [(0, Hash::default()); GROUP];
        let items = self.gather(number, &mut emptying.position, &mut group);
        self.emptying = Some(emptying);
        for (location, hash) in &group[..items] {
            let head = Head::read(&self.memory, *location);
            let slot = self.slot_at(*hash, *location);
            match self.fate(&emptying, &head, *location, slot, now) {
                Fate::Ends(end) => self.evict(*hash, slot, *location, &head, end),
                Fate::Stays { home, accesses } => {
                    index::set_accesses(&mut self.memory, slot, accesses);
                    self.credit -= if emptying.is_sparse {
                        0
                    } else {
                        head.space() as i64
                    };
                    if head.space() > self.segments.bytes() / 2 {
                        self.segments.enqueue(number, home);
                        self.segments.expires(*location, head.attributes.expiry);
                        self.emptying = None;
                    } else {
                        self.copy((*hash, slot), *location, &head, home);
                    }
                }
            }
        }
        if self.emptying.is_some() && emptying.position >= self.segments[number].used as usize {
            self.emptying = None;
            self.release(number);
        }
        Some(emptying.position - position)
    }

    /// Lets more be copied, since so many bytes become free.
    fn add_credit(&mut self, bytes: usize) {
        let most = self.segments.bytes() as i64 * MOST_COPIED;
        self.credit = (self.credit + bytes as i64 * MOST_COPIED).min(most);
    }

    /// Ends an item whose segment is emptied. An evicted one of the small queue becomes a ghost.
    fn evict(&mut self, hash: Hash, slot: Slot, location: usize, head: &Head, end: End) {
        self.end(hash, slot, location, head, end);
        self.add_credit(head.space());
        if end == End::Evicted && self.segments[self.segments.of(location)].home == Queue::Small {
            self.index.add_ghost(&mut self.memory, hash.value());
        }
    }

    /// The next indexed items of a segment, whose index lines are prefetched; how many.
    fn gather(&self, victim: u32, position: &mut usize, group: &mut [(usize, Hash); GROUP]) -> usize {
        let (start, used) = (self.segments.start(victim), self.segments[victim].used as usize);
        let mut items = 0;
        while *position < used && items < GROUP {
            let location = start + *position;
            let head = Head::read(&self.memory, location);
            *position += head.space();
            if head.is_indexed() {
                let hash = self.hash_at(location);
                self.prefetch(hash);
                group[items] = (location, hash);
                items += 1;
            }
        }
        items
    }

    /// What happens to an item of a segment that is emptied.
    fn fate(&self, emptying: &Emptying, head: &Head, location: usize, slot: Slot, now: u32) -> Fate {
        if let Some(end) = self.end_of(head, location, now) {
            return Fate::Ends(end);
        }
        let accesses = index::accesses(&self.memory, slot);
        let home = self.segments[emptying.number].home;
        let fate = match home {
            _ if !self.evicts => return Fate::Stays { home, accesses },
            _ if self.credit < 0 => return Fate::Ends(End::Evicted),
            _ if emptying.is_sparse => Fate::Stays { home, accesses },
            _ if accesses == 0 => return Fate::Ends(End::Evicted),
            Queue::Small => Fate::Stays {
                home: Queue::Main,
                accesses: 0,
            },
            _ => Fate::Stays {
                home,
                accesses: accesses - 1,
            },
        };
        // Between the groups of a segment others may have used the reserve.
        match fate {
            Fate::Stays { home, .. }
                if self.segments.free() <= self.withheld.now && !self.fits(home, head.space()) =>
            {
                Fate::Ends(End::Evicted)
            }
            fate => fate,
        }
    }

    fn hash_at(&self, location: usize) -> Hash {
        hash(key_at(&self.memory, location), self.seed)
    }

    /// The slot of an indexed item.
    fn slot_at(&self, hash: Hash, location: usize) -> Slot {
        let memory = &self.memory;
        let found = self.index.find(memory, hash.value(), |other| other == location);
        found.expect("a live item is in the index").0
    }

    /// The hash of the key of an indexed item, and its slot.
    pub(crate) fn slot_of(&self, location: usize) -> (Hash, Slot) {
        let hash = self.hash_at(location);
        (hash, self.slot_at(hash, location))
    }

    /// Why an item is no longer returned, if so.
    pub(crate) fn end_of(&self, head: &Head, location: usize, now: u32) -> Option<End> {
        if self.is_alive(head, location, now) {
            None
        } else if self.segments[self.segments.of(location)].epoch == self.epoch {
            Some(End::Expired)
        } else {
            Some(End::Flushed)
        }
    }

    /// Copies an item that is kept. The reserve has room for it.
    fn copy(&mut self, (hash, slot): (Hash, Slot), from: usize, head: &Head, home: Queue) {
        let space = head.space();
        self.open_next(home, space);
        let to = self.bump(home, space);
        let memory = &mut self.memory;
        memory.copy(from, to, head.bytes());
        self.index.relocate(memory, hash.value(), slot, to);
        self.segments.expires(to, head.attributes.expiry);
        self.discard(from, head);
        self.counts.copied_bytes += space as u64;
    }

    /// Takes an item out of the index and counts why. [`settle`](Partition::settle) its segment afterwards.
    pub(crate) fn end(&mut self, hash: Hash, slot: Slot, location: usize, head: &Head, end: End) {
        if end == End::Evicted && self.evictions.are_kept {
            let key = key_at(&self.memory, location);
            let is_kept = self.evictions.keep(key, head.attributes, head.value as usize);
            self.counts.evictions_not_kept += u64::from(!is_kept);
        }
        self.index.remove(&mut self.memory, hash.value(), slot);
        self.count_end(head, end);
        self.discard(location, head);
    }

    /// Ends an item that was found and is gone.
    #[cold]
    pub(crate) fn end_found(&mut self, hash: Hash, slot: Slot, location: usize, head: &Head, now: u32) {
        let end = self.end_of(head, location, now).unwrap_or(End::Expired);
        *match end {
            End::Flushed => &mut self.counts.found_flushed,
            _ => &mut self.counts.found_expired,
        } += 1;
        self.end(hash, slot, location, head, end);
        self.settle(self.segments.of(location));
    }

    pub(crate) fn count_end(&mut self, head: &Head, end: End) {
        let unread = u64::from(!head.attributes.marks.has(Marks::FETCHED));
        let counts = &mut self.counts;
        match end {
            End::Removed => {}
            End::Expired => {
                counts.expired += 1;
                counts.expired_unread += unread;
            }
            End::Flushed => counts.flushed += 1,
            End::Evicted => {
                counts.evicted += 1;
                counts.evicted_unread += unread;
            }
        }
        counts.item_bytes -= head.space() as u64;
        counts.payload_bytes -= u64::from(head.key) + u64::from(head.value);
        if let Some(classes) = &mut self.classes {
            classes.remove(head);
        }
    }

    /// Makes the memory of an item dead.
    pub(crate) fn discard(&mut self, location: usize, head: &Head) {
        mark(&mut self.memory, location, Marks::DEAD);
        let space = head.space().min(self.segments.bytes());
        let number = self.segments.of(location);
        self.segments[number].live -= space as u32;
    }

    /// Frees a full segment without live items, and lets one be emptied first of which less than half is alive. Where nothing is
    /// evicted, one of which an eighth is dead: the memory of items that are gone is all that there is. What was never used of a
    /// segment is not counted there, since copying its items elsewhere gains nothing.
    pub(crate) fn settle(&mut self, number: u32) {
        let segment = self.segments[number];
        let Use::Queued(queue) = segment.used_for else {
            return;
        };
        let (bytes, live) = (self.segments.bytes(), segment.live as usize);
        let is_sparse = match self.evicts {
            true => live < bytes / 2,
            false => segment.used as usize - live > bytes / 8,
        };
        if live == 0 {
            self.release(number);
        } else if is_sparse && queue != Queue::Sparse && segment.chain == NONE {
            self.segments.enqueue(number, Queue::Sparse);
        }
    }

    /// Frees a segment with items.
    fn release(&mut self, number: u32) {
        if self.segments[number].epoch != self.epoch {
            self.stale -= 1;
            self.publish_flush();
        }
        self.segments.release(number);
    }
}
