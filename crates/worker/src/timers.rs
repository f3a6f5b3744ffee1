//! A hierarchical timer wheel with millisecond ticks, for millions of deadlines. Deadlines with a key are inserted,
//! keys of expired deadlines are returned. It reads no clock.
//!
//! Six levels of 64 slots (Varghese, Lauck: Hashed and Hierarchical Timing Wheels, 1987): insertion and cancellation
//! take constant time, and an entry moves down at most five times before it fires. A deadline never fires early, and at
//! most one tick late if the wheel is polled in time.

use crate::time::Time;
use std::num::NonZeroU32;

/// Nanoseconds per tick. Connection deadlines are in seconds; a finer wheel would only cascade more often.
const TICK: u64 = 1_000_000;

const LEVELS: usize = 6;
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;

/// The list of expired entries, after the lists of all slots.
const EXPIRED: usize = LEVELS * SLOTS;

const NONE: u32 = u32::MAX;

/// Identifies an entry of one wheel. The id of a fired or cancelled entry is never reused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timer {
    entry: u32,
    /// Never 0, so that an `Option` takes no more space.
    generation: NonZeroU32,
}

/// The wheel. It takes 24 bytes per key besides the key itself.
#[derive(Debug)]
pub struct Wheel<K> {
    entries: Vec<Entry<K>>,
    /// Unused entries, linked by `next`.
    unused: u32,
    lists: Box<[u32; LEVELS * SLOTS + 1]>,
    /// Which slots of a level have entries.
    occupied: [u64; LEVELS],
    /// The tick up to which everything has fired.
    elapsed: u64,
    entered: usize,
}

#[derive(Debug)]
struct Entry<K> {
    due: u64,
    previous: u32,
    next: u32,
    generation: NonZeroU32,
    list: u16,
    key: Option<K>,
}

impl<K> Wheel<K> {
    /// An empty wheel, at `now`.
    #[must_use]
    pub fn new(now: Time) -> Self {
        Self {
            entries: Vec::new(),
            unused: NONE,
            lists: Box::new([NONE; LEVELS * SLOTS + 1]),
            occupied: [0; LEVELS],
            elapsed: now.nanoseconds() / TICK,
            entered: 0,
        }
    }

    /// The number of pending entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entered
    }

    /// Whether there are no pending entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entered == 0
    }

    /// Inserts a deadline, rounded up to a tick. One in the past fires at the next [`expired`](Self::expired).
    pub fn insert(&mut self, due: Time, key: K) -> Timer {
        let due = due.nanoseconds().div_ceil(TICK);
        let entry = match self.unused {
            NONE => {
                self.entries.push(Entry {
                    due,
                    previous: NONE,
                    next: NONE,
                    generation: NonZeroU32::MIN,
                    list: 0,
                    key: Some(key),
                });
                (self.entries.len() - 1) as u32
            }
            unused => {
                let entry = &mut self.entries[unused as usize];
                self.unused = entry.next;
                (entry.due, entry.key) = (due, Some(key));
                unused
            }
        };
        self.entered += 1;
        self.place(entry);
        Timer {
            entry,
            generation: self.entries[entry as usize].generation,
        }
    }

    /// Cancels an entry; returns its key unless it has fired or was cancelled already.
    pub fn cancel(&mut self, timer: Timer) -> Option<K> {
        let entry = self.entries.get(timer.entry as usize)?;
        if entry.generation != timer.generation || entry.key.is_none() {
            return None;
        }
        self.unlink(timer.entry);
        self.free(timer.entry)
    }

    /// The next expired key, in no order within a tick. Call it until it returns `None`.
    pub fn expired(&mut self, now: Time) -> Option<K> {
        if self.lists[EXPIRED] == NONE {
            self.advance(now.nanoseconds() / TICK);
        }
        let entry = self.lists[EXPIRED];
        if entry == NONE {
            return None;
        }
        self.unlink(entry);
        self.free(entry)
    }

    /// The time of the next poll: no entry fires before it. [`Time::NEVER`] if the wheel is empty.
    #[must_use]
    pub fn next_due(&self) -> Time {
        if self.lists[EXPIRED] != NONE {
            return Time::default();
        }
        self.next_slot().map_or(Time::NEVER, |(_, _, tick)| {
            Time::from_nanoseconds(tick.saturating_mul(TICK))
        })
    }

    /// Advances time and moves due entries to the expired list.
    fn advance(&mut self, now: u64) {
        while let Some((level, slot, tick)) = self.next_slot()
            && tick <= now
        {
            self.elapsed = tick;
            let list = level * SLOTS + slot;
            while self.lists[list] != NONE {
                let entry = self.lists[list];
                self.unlink(entry);
                self.place(entry);
            }
        }
        self.elapsed = self.elapsed.max(now);
    }

    /// The first occupied slot, and its first tick.
    fn next_slot(&self) -> Option<(usize, usize, u64)> {
        for level in 0..LEVELS {
            if self.occupied[level] == 0 {
                continue;
            }
            let shift = level as u32 * SLOT_BITS;
            let current = (self.elapsed >> shift) as u32 & (SLOTS as u32 - 1);
            let ahead = self.occupied[level].rotate_right(current).trailing_zeros();
            let slot = (current + ahead) as usize % SLOTS;
            let tick = ((self.elapsed >> shift) + u64::from(ahead)) << shift;
            // Entries of a lower level precede all entries of higher ones.
            return Some((level, slot, tick.max(self.elapsed)));
        }
        None
    }

    fn place(&mut self, number: u32) {
        let due = self.entries[number as usize].due;
        let list = if due <= self.elapsed {
            EXPIRED
        } else {
            // Deadlines beyond the last level wait in its farthest slot and are inserted again from there.
            let farthest = self.elapsed | ((1 << (LEVELS as u32 * SLOT_BITS)) - 1);
            let due = due.min(farthest.max(self.elapsed + 1));
            let level = (63 - (due ^ self.elapsed).leading_zeros()) / SLOT_BITS;
            let level = (level as usize).min(LEVELS - 1);
            let slot = (due >> (level as u32 * SLOT_BITS)) as usize % SLOTS;
            self.occupied[level] |= 1 << slot;
            level * SLOTS + slot
        };
        let head = self.lists[list];
        let entry = &mut self.entries[number as usize];
        (entry.previous, entry.next, entry.list) = (NONE, head, list as u16);
        if head != NONE {
            self.entries[head as usize].previous = number;
        }
        self.lists[list] = number;
    }

    fn unlink(&mut self, number: u32) {
        let entry = &self.entries[number as usize];
        let (previous, next, list) = (entry.previous, entry.next, usize::from(entry.list));
        if next != NONE {
            self.entries[next as usize].previous = previous;
        }
        if previous != NONE {
            self.entries[previous as usize].next = next;
            return;
        }
        self.lists[list] = next;
        if next == NONE && list != EXPIRED {
            self.occupied[list / SLOTS] &= !(1 << (list % SLOTS));
        }
    }

    fn free(&mut self, number: u32) -> Option<K> {
        self.entered -= 1;
        let entry = &mut self.entries[number as usize];
        entry.generation = entry.generation.checked_add(1).unwrap_or(NonZeroU32::MIN);
        entry.next = self.unused;
        self.unused = number;
        entry.key.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::time::Duration;

    fn at(milliseconds: u64) -> Time {
        Time::from_nanoseconds(milliseconds * TICK)
    }

    fn fired(wheel: &mut Wheel<u32>, now: Time) -> Vec<u32> {
        let mut keys: Vec<u32> = std::iter::from_fn(|| wheel.expired(now)).collect();
        keys.sort_unstable();
        keys
    }

    #[test]
    fn a_deadline_fires_at_its_tick_and_not_before() {
        let mut wheel = Wheel::new(at(1_000));
        wheel.insert(at(1_500) + Duration::from_nanos(1), 1);
        wheel.insert(at(1_000), 2);
        assert_eq!(fired(&mut wheel, at(1_000)), [2]);
        assert!(wheel.next_due() <= at(1_501));
        assert!(fired(&mut wheel, at(1_500)).is_empty());
        assert_eq!(fired(&mut wheel, at(1_501)), [1]);
        assert_eq!((wheel.next_due(), wheel.is_empty()), (Time::NEVER, true));
    }

    #[test]
    fn a_cancelled_deadline_never_fires_and_its_id_is_not_reused() {
        let mut wheel = Wheel::new(at(0));
        let first = wheel.insert(at(10), 1);
        assert_eq!(wheel.cancel(first), Some(1));
        let second = wheel.insert(at(10), 2);
        assert_eq!(wheel.cancel(first), None);
        assert_eq!(fired(&mut wheel, at(10)), [2]);
        assert_eq!(wheel.cancel(second), None);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u64),
        Cancel(usize),
        Wait(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let near = || prop_oneof![0..200u64, 0..100_000u64];
        prop_oneof![
            prop_oneof![near(), 0..(1u64 << 38)].prop_map(Step::Insert),
            any::<usize>().prop_map(Step::Cancel),
            prop_oneof![near(), 0..(1u64 << 33)].prop_map(Step::Wait),
        ]
    }

    proptest! {
        #[test]
        fn it_fires_what_an_ordered_map_would(start in 0..(1u64 << 38), steps in prop::collection::vec(step(), 1..200)) {
            let mut wheel = Wheel::new(at(start));
            let mut model: BTreeMap<u32, (u64, Timer)> = BTreeMap::new();
            let mut now = start;
            for (number, step) in (0u32..).zip(steps) {
                match step {
                    Step::Insert(after) => {
                        let timer = wheel.insert(at(now + after), number);
                        model.insert(number, (now + after, timer));
                    }
                    Step::Cancel(which) if !model.is_empty() => {
                        let number = *model.keys().nth(which % model.len()).unwrap();
                        let (_, timer) = model.remove(&number).unwrap();
                        prop_assert_eq!(wheel.cancel(timer), Some(number));
                    }
                    Step::Cancel(_) => {}
                    Step::Wait(time) => {
                        now += time;
                        let due: Vec<u32> =
                            model.iter().filter(|(_, (due, _))| *due <= now).map(|(number, _)| *number).collect();
                        prop_assert_eq!(fired(&mut wheel, at(now)), due.clone());
                        due.iter().for_each(|number| { model.remove(number); });
                    }
                }
                prop_assert_eq!(wheel.len(), model.len());
                let first = model.values().map(|(due, _)| *due).min();
                match first {
                    None => prop_assert_eq!(wheel.next_due(), Time::NEVER),
                    Some(first) => prop_assert!(wheel.next_due() <= at(first.max(now))),
                }
            }
        }
    }
}
