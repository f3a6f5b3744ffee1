//! Items that were evicted, for a user that wants to know them.

use crate::item::Attributes;

/// Evicted items that are kept until they are taken.
const MOST: usize = 4_096;

/// An item that was evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// Its key.
    pub key: Box<[u8]>,
    /// Its attributes.
    pub attributes: Attributes,
    /// Bytes of its value.
    pub length: usize,
}

/// Those that were not taken.
#[derive(Debug, Default)]
pub(crate) struct Evictions {
    pub(crate) are_kept: bool,
    evicted: Vec<Evicted>,
}

impl Evictions {
    /// Keeps one; whether there was room.
    #[cold]
    pub(crate) fn keep(&mut self, key: &[u8], attributes: Attributes, length: usize) -> bool {
        let has_room = self.evicted.len() < MOST;
        if has_room {
            let key = key.into();
            self.evicted.push(Evicted {
                key,
                attributes,
                length,
            });
        }
        has_room
    }

    /// Takes them.
    pub(crate) fn take(&mut self) -> Vec<Evicted> {
        std::mem::take(&mut self.evicted)
    }
}
