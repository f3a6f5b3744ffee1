//! A table of what a worker keeps per socket or connection of its engine.

use super::id::Id;

/// A table by [`Id`], which is indexed by its slot. An entry is found only under the `Id` that it was inserted with, so
/// that a late timer or event never reaches the next tenant of a slot.
#[derive(Debug)]
pub struct Slots<T>(Vec<Option<(Id, T)>>);

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Slots<T> {
    /// Inserts an entry, in the place of an earlier one of the slot.
    pub fn insert(&mut self, id: Id, entry: T) {
        let slot = id.slot();
        if self.0.len() <= slot {
            self.0.resize_with(slot + 1, || None);
        }
        self.0[slot] = Some((id, entry));
    }

    /// The entry of `id`.
    #[must_use]
    pub fn get(&self, id: Id) -> Option<&T> {
        let (owner, entry) = self.0.get(id.slot())?.as_ref()?;
        (*owner == id).then_some(entry)
    }

    /// The entry of `id`.
    pub fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        let (owner, entry) = self.0.get_mut(id.slot())?.as_mut()?;
        (*owner == id).then_some(entry)
    }

    /// Removes the entry of `id`.
    pub fn remove(&mut self, id: Id) -> Option<T> {
        let place = self.0.get_mut(id.slot())?;
        let (_, entry) = place.take_if(|(owner, _)| *owner == id)?;
        Some(entry)
    }

    /// All entries, by slot.
    pub fn iter(&self) -> impl Iterator<Item = (Id, &T)> {
        self.0.iter().flatten().map(|(id, entry)| (*id, entry))
    }

    /// All entries, by slot.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Id, &mut T)> {
        self.0.iter_mut().flatten().map(|(id, entry)| (*id, entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_found_under_its_own_id_only() {
        let ids = [1, 3].map(|generation| Id { slot: 2, generation });
        let mut slots = Slots::default();
        assert_eq!(slots.get(ids[0]), None);
        slots.insert(ids[0], "first");
        assert_eq!((slots.get(ids[0]), slots.get(ids[1])), (Some(&"first"), None));
        assert_eq!(slots.remove(ids[1]), None);
        slots.insert(ids[1], "second");
        assert_eq!(slots.iter().collect::<Vec<_>>(), [(ids[1], &"second")]);
        assert_eq!(slots.get_mut(ids[0]), None);
        assert_eq!(slots.remove(ids[1]), Some("second"));
        assert_eq!(slots.iter_mut().count(), 0);
    }
}
