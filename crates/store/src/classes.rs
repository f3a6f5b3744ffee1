//! Counts of items by class, such as their size: the user says which class an item has.

use crate::item::Head;

/// The class of an item with these flags of the client, bytes of the key, and bytes of the value.
pub type Class = fn(u32, usize, usize) -> usize;

/// How many items each class has.
pub(crate) struct Classes {
    class: Class,
    pub(crate) items: Box<[u32]>,
}

impl Classes {
    pub(crate) fn new(count: usize, class: Class) -> Self {
        let items = vec![0; count].into();
        Self { class, items }
    }

    pub(crate) fn add(&mut self, head: &Head) {
        if let Some(items) = self.of(head) {
            *items = items.wrapping_add(1);
        }
    }

    pub(crate) fn remove(&mut self, head: &Head) {
        if let Some(items) = self.of(head) {
            *items = items.wrapping_sub(1);
        }
    }

    fn of(&mut self, head: &Head) -> Option<&mut u32> {
        let (flags, key, value) = (head.attributes.flags, head.key, head.value);
        self.items
            .get_mut((self.class)(flags, usize::from(key), value as usize))
    }
}
