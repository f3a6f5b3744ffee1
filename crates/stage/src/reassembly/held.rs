//! The fragments that wait, and what another one does to its datagram.

use super::counts::{Cause, Counts};
use super::key::Key;
use super::overlap::{self, Overlap, Place};
use super::part::Part;
use super::plan::Plan;
use super::store::{NONE, Piece, Store};
use super::waiting::{Datagram, Waiting};
use crate::seeds::Seeds;
use corelane_packet::Dissection;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a fragment does to its datagram.
pub(super) enum Arrived {
    /// It waits.
    Waits,
    /// It makes the datagram of this number whole.
    Completes(u32),
    /// It is dropped alone.
    Dropped(Cause),
    /// It is dropped with the datagram of this number.
    Ruins(u32, Cause),
}

/// Fragments that wait for others of their datagrams.
#[derive(Debug)]
pub(super) struct Held {
    plan: Plan,
    timeout: Duration,
    seeds: Seeds,
    pub store: Store,
    pub waiting: Waiting,
    pub counts: Arc<Counts>,
}

impl Held {
    /// Nothing held yet.
    pub fn new(plan: Plan, seed: u64, counts: Arc<Counts>) -> Held {
        Held {
            timeout: Duration::from_secs_f64(plan.timeout),
            seeds: Seeds::new(seed),
            store: Store::new(plan.memory),
            waiting: Waiting::new(plan.datagrams),
            counts,
            plan,
        }
    }

    /// Holds what another one held. What is beyond a limit that is lower now is given up when more arrives.
    pub fn take_over(&mut self, old: Held) {
        self.seeds = old.seeds;
        self.store = old.store.with_limit(self.plan.memory);
        self.waiting = old.waiting.with_limit(self.plan.datagrams);
    }

    /// What a fragment does that came from this link, and out of this tunnel.
    pub fn arrive(
        &mut self,
        frame: &Dissection<'_>,
        part: &mut Part,
        from: (usize, u32),
        now: Instant,
    ) -> Arrived {
        let overlap = match part.is_ipv6 {
            true => self.plan.overlap_ipv6.into(),
            false => self.plan.overlap_ipv4,
        };
        let (key, hash) = Key::of(frame, part.identification, from, &self.seeds);
        let mut found = self.waiting.find(&key, hash);
        if let Some(late) = found.filter(|number| self.is_late(*number, now)) {
            self.give_up(late, |counts| &counts.timeout);
            found = None;
        }
        if part.start == part.end {
            let cause: Cause = |counts| &counts.empty;
            return match found.filter(|_| overlap != Overlap::Trim) {
                Some(number) => Arrived::Ruins(number, cause),
                None => Arrived::Dropped(cause),
            };
        }
        let number = found.unwrap_or_else(|| self.begin(key, hash, now));
        self.place(frame.frame(), part, number, overlap)
    }

    /// Begins a datagram.
    #[inline]
    fn begin(&mut self, key: Key, hash: u64, now: Instant) -> u32 {
        let is_full = |this: &Held, _| this.waiting.is_full();
        self.give_up_oldest(|counts| &counts.too_many_datagrams, usize::MAX, is_full);
        self.waiting.add(key, hash, now)
    }

    /// Finds the place of a fragment, which has data.
    #[inline]
    fn place(&mut self, frame: &[u8], part: &mut Part, number: u32, overlap: Overlap) -> Arrived {
        let (store, datagram) = (&mut self.store, self.waiting.get(number));
        let end_before = datagram.is_end_known.then_some(datagram.end);
        if contradicts_end(datagram, part, overlap) {
            let cause: Cause = |counts| &counts.contradicts_end;
            return match overlap {
                Overlap::Trim => Arrived::Dropped(cause),
                _ => Arrived::Ruins(number, cause),
            };
        }
        datagram.end = datagram.end.max(part.end);
        datagram.is_end_known |= !part.more;
        let place = match overlap {
            Overlap::Linux => overlap::by_runs(store, datagram, part.start, part.end),
            Overlap::Drop => overlap::by_fragments(store, datagram, part.start, part.end, |other| {
                let other_is_last = end_before == Some(part.end);
                let skipped = store.piece(other).skipped as usize;
                other_is_last != part.more && store.begins_with(other, skipped, part.bytes(frame))
            }),
            Overlap::Trim => {
                let waited = datagram.fragments;
                let place = overlap::by_trimming(store, datagram, part);
                self.counts.duplicate.add(u64::from(waited - datagram.fragments));
                place
            }
        };
        match place {
            Place::Ignored => Arrived::Dropped(|counts| &counts.duplicate),
            Place::Overlaps => Arrived::Ruins(number, |counts| &counts.overlap),
            Place::Behind(before, is_joined) => self.accept(frame, part, number, before, is_joined),
        }
    }

    /// Lets a fragment wait, or completes its datagram.
    #[inline]
    fn accept(&mut self, frame: &[u8], part: &Part, number: u32, before: u32, is_joined: bool) -> Arrived {
        let datagram = self.waiting.get(number);
        datagram.bytes += part.end - part.start;
        datagram.ecn |= part.ecn;
        datagram.longest = datagram.longest.max(part.total);
        if part.is_whole {
            datagram.longest_whole = datagram.longest_whole.max(part.total);
        }
        if datagram.is_end_known && datagram.bytes == datagram.end {
            return Arrived::Completes(number);
        }
        if u64::from(datagram.fragments) >= self.plan.fragments {
            return Arrived::Ruins(number, |counts| &counts.too_many_fragments);
        }
        // The headers of the datagram are those of its fragment at offset 0.
        let skipped = if part.start == 0 { part.data } else { 0 };
        let bytes = &frame[part.data - skipped..part.data + part.length()];
        let no_memory: Cause = |counts| &counts.no_memory;
        if !self.store.can_hold(bytes.len()) {
            return Arrived::Ruins(number, no_memory);
        }
        let needs_room = |this: &Held, oldest| oldest != number && !this.store.has_room(bytes.len());
        self.give_up_oldest(no_memory, usize::MAX, needs_room);
        if !self.store.has_room(bytes.len()) {
            return Arrived::Ruins(number, no_memory);
        }
        let piece = Piece {
            start: part.start,
            end: part.end,
            skipped: skipped as u32,
            is_joined,
            next: NONE,
        };
        let fragment = self.store.put(bytes, piece);
        self.waiting.get(number).link(&mut self.store, before, fragment);
        Arrived::Waits
    }

    /// Drops a datagram.
    pub fn give_up(&mut self, number: u32, cause: Cause) {
        let waited = self.release(number);
        cause(&self.counts).add(waited);
    }

    /// Forgets a datagram; returns how many of its fragments waited.
    #[inline]
    pub fn release(&mut self, number: u32) -> u64 {
        let mut fragment = self.waiting.get(number).first;
        let mut waited = 0;
        while fragment != NONE {
            let next = self.store.piece(fragment).next;
            self.store.free(fragment);
            fragment = next;
            waited += 1;
        }
        self.waiting.remove(number);
        waited
    }

    #[inline]
    pub fn is_late(&self, number: u32, now: Instant) -> bool {
        now.saturating_duration_since(self.waiting.began(number)) > self.timeout
    }

    /// Gives up datagrams, oldest first, as long as `is_over` holds for them.
    pub fn give_up_oldest(&mut self, cause: Cause, most: usize, is_over: impl Fn(&Held, u32) -> bool) {
        for _ in 0..most {
            match self.waiting.oldest() {
                Some(oldest) if is_over(self, oldest) => self.give_up(oldest, cause),
                _ => break,
            }
        }
    }

    /// Publishes what waits.
    pub fn publish(&self) {
        let counts = &self.counts;
        counts.waiting.set(self.store.fragments());
        counts.datagrams_waiting.set(self.waiting.len() as u64);
        counts.memory.set(self.store.in_use());
    }
}

/// Whether a fragment gives its datagram another end, or data behind its end. What Linux compares, also if the fragment
/// turns out to be a duplicate.
#[inline]
fn contradicts_end(datagram: &Datagram, part: &Part, overlap: Overlap) -> bool {
    let (end, is_known) = (datagram.end, datagram.is_end_known);
    match part.more {
        // FreeBSD also refuses data that others should follow, but cannot.
        true => is_known && (part.end > end || overlap == Overlap::Trim && part.end == end),
        false => part.end < end || is_known && part.end != end,
    }
}
