//! What is done between requests: expired and flushed items are reclaimed. Flushing, and listing all items.

use crate::item::{Head, Item};
use crate::partition::Partition;
use crate::segments::{Queue, Use};
use crate::sweep::Lifetimes;

/// Bytes of an item, roughly, for the budget of [`Partition::tidy`].
const ITEM: usize = 128;
/// Items and segments that are looked at for memory before a value is refused: some hundred microseconds of work.
const URGENT: usize = 4_096;

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
        self.begin_pass();
        self.announce_flush(None);
    }

    fn begin_pass(&mut self) {
        self.sweep.left = self.segments.count();
        self.sweep.is_done_at = None;
    }

    /// Announces a [`flush`](Partition::flush) for a second, or none: from then on until it is done other threads read nothing.
    pub fn announce_flush(&mut self, second: Option<u32>) {
        self.flush_at = second;
        self.publish_flush();
    }

    /// Lets other threads read as long as no item is flushed.
    pub(crate) fn publish_flush(&self) {
        let second = if self.stale > 0 { Some(0) } else { self.flush_at };
        self.index.published.close_from(second);
    }

    /// Empties segments ahead of need, then looks at segments and items for expired and flushed ones, and reclaims them: about
    /// `budget` items in all. False if nothing is left to do in the second `now`, unless items are stored.
    ///
    /// If it is called in each second until it returns false, an expired item is reclaimed at most 5 seconds, or an eighth of the mean
    /// time that other items of its segment have left, up to 65 seconds, after its expiry.
    pub fn tidy(&mut self, now: u32, budget: usize) -> bool {
        if self.withhold(budget * ITEM, now) {
            return true;
        }
        let mut left = self.empty_ahead(budget * ITEM, now) / ITEM;
        left = self.finish_emptying(left, now);
        if self.sweep.is_done_at == Some(now) {
            return left == 0;
        }
        if self.sweep.left == 0 {
            self.begin_pass();
        }
        while left > 0 && self.sweep.left > 0 {
            left = self.sweep_segment(now, left - 1);
        }
        self.sweep.left > 0
    }

    /// Goes on emptying a segment with expired or flushed items, which the sweep leaves out; what is left of the budget.
    fn finish_emptying(&mut self, mut left: usize, now: u32) -> usize {
        while left > 0
            && let Some(emptying) = self.emptying
        {
            let segment = &self.segments[emptying.number];
            if segment.epoch == self.epoch && segment.earliest > now {
                break;
            }
            let emptied = self.empty_group(now).unwrap_or(0);
            left = left.saturating_sub(emptied.div_ceil(ITEM).max(1));
        }
        left
    }

    /// Reclaims expired and flushed items before something is refused: until `wanted` segments are free, or for a bounded time. In each
    /// second it looks at no segment twice.
    pub(crate) fn reclaim(&mut self, wanted: usize, now: u32) {
        if self.sweep.urgent_at != Some(now) {
            self.sweep.urgent_at = Some(now);
            self.sweep.is_urgent = true;
            self.begin_pass();
        }
        let mut left = URGENT;
        while left > 0 && self.sweep.left > 0 && self.segments.free() < wanted {
            left = self.sweep_segment(now, left - 1);
        }
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
            let is_awake = segment.rests_until <= now || self.sweep.is_urgent;
            let is_due = segment.earliest <= now && is_awake || segment.epoch != self.epoch;
            if !matches!(segment.used_for, Use::Open | Use::Queued(_)) || !is_due {
                self.next_to_sweep(now);
                return budget;
            }
            self.segments[number].earliest = u32::MAX;
            self.sweep.generation = segment.generation;
            self.sweep.lifetimes = Lifetimes::default();
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
                None => {
                    self.segments.expires(location, head.attributes.expiry);
                    self.sweep.lifetimes.add(head.attributes.expiry, now);
                }
                Some(end) => {
                    let (hash, slot) = self.slot_of(location);
                    self.end(hash, slot, location, &head, end);
                }
            }
        }
        self.segments[number].rests_until = now + self.sweep.lifetimes.rest();
        self.settle(number);
        self.next_to_sweep(now);
        budget
    }

    fn next_to_sweep(&mut self, now: u32) {
        let sweep = &mut self.sweep;
        sweep.segment = (sweep.segment + 1) % self.segments.count() as u32;
        sweep.position = None;
        sweep.left -= 1;
        if sweep.left == 0 {
            sweep.is_done_at = Some(now);
            sweep.is_urgent = false;
        }
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
