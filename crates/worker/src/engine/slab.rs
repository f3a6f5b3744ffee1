//! Slots for the sockets and streams of one engine. A slot is reused with a new generation. It is listed when it has
//! something to send, or when its owner changed its settings.

use super::id::Id;
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

/// The contents of a slot.
pub(crate) trait Tenant {
    /// Bits set in the generation of its ids, to distinguish datagram sockets from streams.
    const KIND: u32;

    /// Whether it has something to send.
    fn has_queued(&self) -> bool;
}

/// A tenant and its owner's settings.
#[derive(Debug)]
pub(crate) struct Slot<T> {
    /// Odd while the slot has a tenant.
    generation: u32,
    pub(crate) receiving: bool,
    /// Closed by its owner; it remains until the engine has finished with it.
    pub(crate) closing: bool,
    /// Whether the slot is in the list `waiting`.
    waiting: bool,
    /// Whether the slot is in the list `changes`.
    changed: bool,
    tenant: T,
}

impl<T> Deref for Slot<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.tenant
    }
}

impl<T> DerefMut for Slot<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.tenant
    }
}

#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    /// Slots with something to send.
    waiting: VecDeque<u32>,
    /// Slots whose settings changed.
    changes: VecDeque<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            waiting: VecDeque::new(),
            changes: VecDeque::new(),
        }
    }
}

impl<T: Tenant> Slab<T> {
    pub(crate) fn insert(&mut self, tenant: T, receiving: bool) -> Id {
        let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
        match self.slots.get_mut(slot as usize) {
            Some(old) => {
                old.generation += 1;
                (old.receiving, old.closing, old.tenant) = (receiving, false, tenant);
            }
            None => self.slots.push(Slot {
                generation: 1,
                receiving,
                closing: false,
                waiting: false,
                changed: false,
                tenant,
            }),
        }
        self.id(slot)
    }

    /// Invalidates the ids of a slot's tenant. The slot stays in use until it is [freed](Self::free).
    pub(crate) fn retire(&mut self, slot: u32) -> &mut T {
        let slot = &mut self.slots[slot as usize];
        slot.generation = slot.generation.wrapping_add(1) & !Id::STREAM;
        slot
    }

    /// Makes a retired slot available again.
    pub(crate) fn free(&mut self, slot: u32) {
        self.free.push(slot);
    }

    pub(crate) fn at(&self, slot: u32) -> &Slot<T> {
        &self.slots[slot as usize]
    }

    pub(crate) fn at_mut(&mut self, slot: u32) -> &mut Slot<T> {
        &mut self.slots[slot as usize]
    }

    pub(crate) fn id(&self, slot: u32) -> Id {
        Id {
            slot,
            generation: self.at(slot).generation | T::KIND,
        }
    }

    /// The tenant, closing or not.
    pub(crate) fn current(&self, id: Id) -> Option<&Slot<T>> {
        let slot = self.slots.get(id.slot())?;
        (slot.generation | T::KIND == id.generation && slot.generation % 2 == 1).then_some(slot)
    }

    /// The slot of a retired tenant, until it has another one.
    pub(crate) fn retired(&self, id: Id) -> Option<&Slot<T>> {
        let slot = self.slots.get(id.slot())?;
        (slot.generation == id.generation.wrapping_add(1) & !Id::STREAM).then_some(slot)
    }

    /// Whether the tenant still exists, closing or not.
    pub(crate) fn is_current(&self, id: Id) -> bool {
        self.current(id).is_some()
    }

    /// The tenant, unless its owner closed it.
    pub(crate) fn open(&self, id: Id) -> Option<&Slot<T>> {
        self.current(id).filter(|slot| !slot.closing)
    }

    pub(crate) fn is_open(&self, id: Id) -> bool {
        self.open(id).is_some()
    }

    pub(crate) fn open_mut(&mut self, id: Id) -> Option<&mut Slot<T>> {
        if !self.is_open(id) {
            return None;
        }
        self.slots.get_mut(id.slot())
    }

    pub(crate) fn receive(&mut self, id: Id, on: bool) {
        if let Some(slot) = self.open_mut(id)
            && slot.receiving != on
        {
            slot.receiving = on;
            self.note_change(id.slot() as u32);
        }
    }

    pub(crate) fn close(&mut self, id: Id) {
        if let Some(slot) = self.open_mut(id) {
            slot.closing = true;
            self.note_change(id.slot() as u32);
        }
    }

    /// Makes the engine apply a slot's settings in its next pass.
    pub(crate) fn note_change(&mut self, number: u32) {
        let slot = self.at_mut(number);
        if !slot.changed {
            slot.changed = true;
            self.changes.push_back(number);
        }
    }

    /// Makes the engine send a slot's queue in its next pass, unless it is empty.
    pub(crate) fn note_waiting(&mut self, number: u32) {
        let slot = self.at_mut(number);
        if !slot.waiting && slot.has_queued() {
            slot.waiting = true;
            self.waiting.push_back(number);
        }
    }

    /// Removes and returns the next slot whose settings changed.
    pub(crate) fn next_change(&mut self) -> Option<u32> {
        while let Some(number) = self.changes.pop_front() {
            let slot = self.at_mut(number);
            slot.changed = false;
            if slot.generation % 2 == 1 {
                return Some(number);
            }
        }
        None
    }

    /// Removes and returns the next slot with something to send.
    pub(crate) fn next_waiting(&mut self) -> Option<u32> {
        while let Some(number) = self.waiting.pop_front() {
            let slot = self.at_mut(number);
            slot.waiting = false;
            if slot.generation % 2 == 1 {
                return Some(number);
            }
        }
        None
    }

    pub(crate) fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Whether the engine's next pass has nothing to do.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.changes.is_empty()
    }
}

/// An engine's own state per slot; the default for slots not used yet.
#[derive(Debug, Default)]
pub(crate) struct PerSlot<T>(Vec<T>);

impl<T: Clone + Default> PerSlot<T> {
    pub(crate) fn at(&mut self, slot: u32) -> &mut T {
        if self.0.len() <= slot as usize {
            self.0.resize(slot as usize + 1, T::default());
        }
        &mut self.0[slot as usize]
    }

    pub(crate) fn len(&self) -> u32 {
        self.0.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing<const KIND: u32>;

    impl<const KIND: u32> Tenant for Nothing<KIND> {
        const KIND: u32 = KIND;

        fn has_queued(&self) -> bool {
            false
        }
    }

    fn reused<const KIND: u32>() {
        let mut slab = Slab::default();
        let first = slab.insert(Nothing::<KIND>, true);
        slab.retire(first.slot);
        assert!(!slab.is_current(first) && !slab.is_current(slab.id(first.slot)));
        assert!(slab.retired(first).is_some());
        slab.free(first.slot);
        let second = slab.insert(Nothing, true);
        assert!(slab.retired(first).is_none() && slab.retired(second).is_none());
        assert_eq!(first.slot(), second.slot());
        assert_ne!(first, second);
        assert!(!slab.is_open(first) && slab.is_open(second));
        assert_eq!(Id::from_bits(second.to_bits()), second);
        assert_eq!(second.is_stream(), KIND == Id::STREAM);
    }

    #[test]
    fn a_slot_reused_has_another_id() {
        reused::<0>();
        reused::<{ Id::STREAM }>();
    }
}
