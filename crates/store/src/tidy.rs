//! What is done between requests: expired and flushed items are reclaimed. Flushing, and listing all items.

use crate::item::{Head, Item};
use crate::partition::Partition;
use crate::segments::{Queue, Use};

/// Bytes of an item, roughly, for the budget of [`Partition::tidy`].
const ITEM: usize = 128;

impl Partition {
    /// Forgets all items at once; [`tidy`](Partition::tidy) and eviction reclaim their memory. Reservations remain.
    pub fn flush(&mut self) {
        self.close(Queue::Small);
        self.close(Queue::Main);
        self.epoch = self.epoch.wrapping_add(1);
        self.stale = [Queue::Small, Queue::Main, Queue::Sparse]
            .map(|queue| self.segments.queued(queue))
            .iter()
            .sum();
        self.stale += usize::from(self.emptying.is_some());
        self.sweep.is_done_at = None;
    }

    /// Empties segments ahead of need, then looks at segments and items for expired and flushed ones, and reclaims them: about
    /// `budget` items in all. False if nothing is left to do in the second `now`, unless items are stored.
    pub fn tidy(&mut self, now: u32, budget: usize) -> bool {
        let mut left = self.empty_ahead(budget * ITEM, now) / ITEM;
        if self.sweep.is_done_at == Some(now) {
            return left == 0;
        }
        while left > 0 {
            left = self.sweep_segment(now, left - 1);
            if self.sweep.segment as usize == self.segments.count() {
                self.sweep.segment = 0;
                self.sweep.is_done_at = Some(now);
                return false;
            }
        }
        true
    }

    /// Looks at the items of the segment of the sweep; what is left of the budget.
    fn sweep_segment(&mut self, now: u32, mut budget: usize) -> usize {
        let number = self.sweep.segment;
        let segment = self.segments[number];
        let begun = self
            .sweep
            .position
            .filter(|_| self.sweep.generation == segment.generation);
        let mut position = begun.unwrap_or(0);
        if begun.is_none() {
            let is_due = segment.earliest <= now || segment.epoch != self.epoch;
            if !matches!(segment.used_for, Use::Open | Use::Queued(_)) || !is_due {
                self.next_to_sweep();
                return budget;
            }
            self.segments[number].earliest = u32::MAX;
            self.sweep.generation = segment.generation;
        }
        while position < segment.used {
            if budget == 0 {
                self.sweep.position = Some(position);
                self.settle(number);
                return 0;
            }
            budget -= 1;
            let location = self.segments.start(number) + position as usize;
            let head = Head::read(&self.memory, location);
            position += head.space().min(self.segments.bytes()) as u32;
            if !head.is_indexed() {
                continue;
            }
            match self.end_of(&head, location, now) {
                None => self.segments.expires(location, head.attributes.expiry),
                Some(end) => {
                    let (hash, slot) = self.slot_of(location);
                    self.end(hash, slot, location, &head, end);
                }
            }
        }
        self.settle(number);
        self.next_to_sweep();
        budget
    }

    fn next_to_sweep(&mut self) {
        self.sweep.segment += 1;
        self.sweep.position = None;
    }

    /// Passes the items of the next part of the index to `visit`, and returns where to continue, or `None` at the end. Start with 0.
    /// An item that is there all the time is visited at least once, if it is not stored again meanwhile.
    pub fn scan(&self, cursor: u64, now: u32, mut visit: impl FnMut(Item<'_>)) -> Option<u64> {
        let memory = &self.memory;
        if cursor >= self.index.buckets() {
            return None;
        }
        for (_, location) in self.index.slots(memory, cursor) {
            let head = Head::read(memory, location);
            if self.is_alive(&head, location, now) {
                visit(Item::of(&head, memory, &self.segments, location));
            }
        }
        Some(cursor + 1)
    }
}
