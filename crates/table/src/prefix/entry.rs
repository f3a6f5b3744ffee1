//! One cell of the trie: nothing, the value of the longest prefix, or the number of a node.
//!
//! From the lowest bit up: 13 bits of the value plus one (0 for nothing), 8 bits of the prefix's length plus one, and the
//! highest bit, set if the other 31 bits are a node's number.

use crate::value::Value;

/// The contents of a cell. Equal cells have equal bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(pub(crate) u32);

const SUCCESSOR_BITS: u32 = Value::BITS + 1;
const SUCCESSOR: u32 = (1 << SUCCESSOR_BITS) - 1;
const LENGTH: u32 = 0xff;
const LINK: u32 = 1 << 31;

impl Entry {
    /// No prefix.
    pub(crate) const NONE: Entry = Entry(0);

    /// The value of a prefix of this length.
    pub(crate) fn leaf(length: u8, value: Value) -> Entry {
        Entry((u32::from(length) + 1) << SUCCESSOR_BITS | (u32::from(value.get()) + 1))
    }

    /// A node, whose number is below 2^31.
    pub(crate) fn link(node: u32) -> Entry {
        Entry(LINK | node)
    }

    /// The node that it links.
    #[inline(always)]
    pub(crate) fn node(self) -> Option<u32> {
        (self.0 & LINK != 0).then_some(self.0 & !LINK)
    }

    /// Its value; meaningless in a link.
    #[inline(always)]
    pub(crate) fn value(self) -> Option<Value> {
        Value::from_successor((self.0 & SUCCESSOR) as u16)
    }

    /// The length of its prefix plus one, 0 if there is none; meaningless in a link.
    pub(crate) fn rank(self) -> u32 {
        self.0 >> SUCCESSOR_BITS & LENGTH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_and_links_are_told_apart_and_keep_what_they_hold() {
        for (length, value) in [(0, 0), (24, 4_095), (128, 17)] {
            let leaf = Entry::leaf(length, Value::new(value).unwrap());
            assert_eq!(
                (leaf.rank(), leaf.value()),
                (u32::from(length) + 1, Value::new(value).ok())
            );
            assert_eq!(leaf.node(), None);
        }
        assert_eq!((Entry::NONE.value(), Entry::NONE.rank()), (None, 0));
        assert_eq!(Entry::link(0).node(), Some(0));
        assert_eq!(Entry::link(u32::MAX >> 1).node(), Some(u32::MAX >> 1));
    }
}
