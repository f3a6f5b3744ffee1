//! What happens when more arrives than the provided buffers hold: the kernel ends a receive that finds none. Starting
//! it again at once would end it again, and cost as much as a receive that takes a buffer, for each connection that
//! has data. So they wait in their order, and only as many start again as the free buffers suffice for.

use crate::engine::slab::{Slab, Tenant};
use std::collections::VecDeque;

/// The free buffers of one group, and who waits for them.
#[derive(Debug)]
pub(super) struct Shortage {
    free: usize,
    /// Of the free buffers, those that were promised to receives since the last submission.
    promised: usize,
    /// Buffers that one receive may take before it ends.
    each: usize,
    /// The slots whose receive found no buffer, or had its turn while others found none.
    waiting: VecDeque<u32>,
}

impl Shortage {
    /// A group of `buffers`, none free yet, of which one receive takes up to `each`.
    pub(super) fn new(buffers: usize, each: usize) -> Self {
        Self {
            free: 0,
            promised: 0,
            each: each.clamp(1, buffers),
            waiting: VecDeque::new(),
        }
    }

    /// A completed receive has filled a buffer.
    pub(super) fn took(&mut self) {
        self.free -= 1;
    }

    /// A buffer was returned to the kernel.
    pub(super) fn returned(&mut self) {
        self.free += 1;
    }

    /// Whether receives wait for buffers.
    pub(super) fn lasts(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// A receive ended that is to start again after those that wait.
    pub(super) fn waits(&mut self, slot: u32) {
        self.waiting.push_back(slot);
    }

    /// The kernel has everything that was queued, so whoever was promised a buffer has taken it or had nothing to
    /// receive.
    pub(super) fn submitted(&mut self) {
        self.promised = 0;
    }

    /// Starts receives that found no buffer again, as far as buffers are free. A slot may have another tenant by now,
    /// which the engine's own state shows.
    pub(super) fn resume<T: Tenant>(&mut self, slots: &mut Slab<T>) {
        while let Some(slot) = self.next() {
            slots.note_change(slot);
        }
    }

    /// The next slot that may receive again.
    fn next(&mut self) -> Option<u32> {
        if self.promised + self.each > self.free {
            return None;
        }
        let slot = self.waiting.pop_front()?;
        self.promised += self.each;
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A group whose buffers are all free.
    fn group(buffers: usize, each: usize) -> Shortage {
        let mut shortage = Shortage::new(buffers, each);
        (0..buffers).for_each(|_| shortage.returned());
        shortage
    }

    fn next(shortage: &mut Shortage) -> Vec<u32> {
        std::iter::from_fn(|| shortage.next()).collect()
    }

    #[test]
    fn as_many_start_again_as_buffers_are_free_and_in_their_order() {
        let mut shortage = group(4, 2);
        assert_eq!(next(&mut shortage), [0; 0]);
        (0..4).for_each(|_| shortage.took());
        (0..5).for_each(|slot| shortage.waits(slot));
        assert_eq!(next(&mut shortage), [0; 0]);
        (0..3).for_each(|_| shortage.returned());
        assert_eq!(next(&mut shortage), [0]);
        shortage.returned();
        assert_eq!(next(&mut shortage), [1]);
        // They had nothing to receive: their buffers go to the next.
        shortage.submitted();
        assert_eq!(next(&mut shortage), [2, 3]);
        shortage.submitted();
        assert_eq!(next(&mut shortage), [4]);
    }

    #[test]
    fn a_receive_that_may_take_more_than_all_buffers_starts_when_all_are_free() {
        let mut shortage = group(2, 1_000);
        shortage.took();
        shortage.waits(7);
        assert_eq!(next(&mut shortage), [0; 0]);
        shortage.returned();
        assert_eq!(next(&mut shortage), [7]);
    }
}
