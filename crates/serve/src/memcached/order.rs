//! The answers of one client, in the order of its requests, while some of them come from other workers.

use corelane_proto::memcached::commands::Output;
use corelane_proto::memcached::control::Stats;
use std::collections::VecDeque;

/// Units of one client that other workers have at a time: more would only wait in their mailboxes.
pub(super) const MOST: usize = 64;

/// Answers that are not complete.
#[derive(Default)]
pub(super) struct Order {
    /// The number of the first entry.
    first: u32,
    entries: VecDeque<Entry>,
    /// Bytes of answers that wait for earlier ones.
    waiting: usize,
}

/// The answer of other workers, and what is answered behind it.
#[derive(Default)]
struct Entry {
    /// Workers that have not answered.
    missing: usize,
    /// The one that answers, unless all others do.
    owner: Option<usize>,
    /// Their answer is not for the client.
    discarded: bool,
    /// What they answered so far, unless it is written already.
    answer: Vec<u8>,
    /// Statistics that are answered when all workers have published theirs.
    stats: Option<Stats>,
    /// Answers of this worker.
    behind: Vec<u8>,
}

impl Order {
    /// Whether all is answered.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether other workers have as much of this client as one may ask for at a time.
    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= MOST
    }

    /// Bytes of answers that wait for earlier ones.
    #[inline]
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Bytes of memory, besides what it has reserved.
    pub(super) fn held(&self) -> usize {
        self.entries.len() * size_of::<Entry>() + self.waiting
    }

    /// The number of the next entry.
    pub(super) fn next(&self) -> u32 {
        self.first.wrapping_add(self.entries.len() as u32)
    }

    /// Adds an entry that waits for a worker.
    pub(super) fn wait(&mut self, owner: usize) {
        self.entries.push_back(Entry {
            missing: 1,
            owner: Some(owner),
            ..Entry::default()
        });
    }

    /// Adds an entry that waits for so many workers, all others, and then for these statistics.
    pub(super) fn wait_for_all(&mut self, missing: usize, stats: Option<Stats>) {
        self.entries.push_back(Entry {
            missing,
            stats,
            ..Entry::default()
        });
    }

    /// Whether a worker has not answered all that it was asked.
    pub(super) fn is_owed_by(&self, owner: usize) -> bool {
        let owes = |entry: &Entry| entry.missing > 0 && entry.owner.is_none_or(|other| other == owner);
        self.entries.iter().any(owes)
    }

    /// The answer to the entry of this number is dropped.
    pub(super) fn discard(&mut self, number: u32) {
        let place = number.wrapping_sub(self.first) as usize;
        if let Some(entry) = self.entries.get_mut(place) {
            entry.discarded = true;
        }
    }

    /// Where answers of this worker go; `None` if nothing is ahead of them.
    #[inline]
    pub(super) fn behind(&mut self) -> Option<Behind<'_>> {
        let Self { entries, waiting, .. } = self;
        entries.back_mut().map(|entry| Behind {
            bytes: &mut entry.behind,
            waiting,
        })
    }

    /// Takes a part of an answer to the entry of this number, or with `is_last` its end, and writes what is complete now.
    /// Statistics are written by `stats`.
    pub(super) fn answered<O: Output>(
        &mut self,
        number: u32,
        (part, is_last): (&[u8], bool),
        out: &mut O,
        stats: impl Fn(Stats, &mut O),
    ) {
        let place = number.wrapping_sub(self.first) as usize;
        let Some(entry) = self.entries.get_mut(place) else {
            return;
        };
        entry.missing -= usize::from(is_last);
        let part = if entry.discarded { &[] } else { part };
        if place > 0 {
            entry.answer.extend_from_slice(part);
            self.waiting += part.len();
            return;
        }
        out.put(part);
        while let Some(entry) = self.entries.front_mut() {
            self.waiting -= entry.answer.len();
            out.put(&std::mem::take(&mut entry.answer));
            if entry.missing > 0 {
                return;
            }
            if let Some(asked) = entry.stats {
                stats(asked, out);
            }
            self.waiting -= entry.behind.len();
            out.put(&entry.behind);
            self.entries.pop_front();
            self.first = self.first.wrapping_add(1);
        }
    }
}

/// Answers that wait for earlier ones.
pub(super) struct Behind<'a> {
    bytes: &'a mut Vec<u8>,
    waiting: &'a mut usize,
}

impl Output for Behind<'_> {
    fn put(&mut self, bytes: &[u8]) {
        *self.waiting += bytes.len();
        self.bytes.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> Order {
        let mut order = Order::default();
        order.wait(1);
        order.behind().unwrap().put(b"b");
        order.wait_for_all(2, Some(Stats::General));
        order.wait(2);
        order.behind().unwrap().put(b"g");
        order.behind().unwrap().put(b"h");
        order
    }

    #[test]
    fn answers_are_written_in_the_order_of_the_requests_however_they_arrive() {
        let answers = [
            (0, &b"a"[..], false),
            (0, b"A", true),
            (1, b"", true),
            (1, b"", true),
            (2, b"e", false),
            (2, b"f", true),
        ];
        for start in 0..answers.len() {
            let (mut order, mut out) = (order(), Vec::new());
            // Those of one worker keep their order; the first two and the last two do.
            let turned = (0..answers.len()).map(|place| answers[(place + start) % answers.len()]);
            let mut turned: Vec<_> = turned.collect();
            turned.sort_by_key(|(number, _, is_last)| {
                (*number as usize + start) % 3 * 2 + usize::from(*is_last)
            });
            for (number, part, is_last) in turned {
                order.answered(number, (part, is_last), &mut out, |_, out| out.put(b"S"));
            }
            assert!(order.is_empty() && !order.is_owed_by(1));
            assert_eq!(out, b"aAbSefgh", "{start}");
            assert_eq!((order.waiting, order.next()), (0, 3));
        }
    }

    #[test]
    fn a_discarded_answer_is_not_written_and_too_many_owed_ones_are_noticed() {
        let mut order = order();
        order.discard(0);
        let mut out = Vec::new();
        order.answered(0, (b"a", false), &mut out, |_, _| {});
        assert_eq!((order.waiting(), out.len()), (3, 0));
        order.answered(0, (b"A", true), &mut out, |_, _| {});
        assert_eq!((order.waiting(), &*out), (2, &b"b"[..]));
        while order.entries.len() < MOST {
            assert!(!order.is_full());
            order.wait(1);
        }
        assert!(order.is_full());
    }
}
