//! The store's items, as the commands see them.

use std::ops::{BitOr, BitOrAssign};

/// A key, and its hash as the server computed it; nothing here uses the hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key<'a> {
    /// 1 to 250 bytes; any bytes if it was sent as base64.
    pub bytes: &'a [u8],
    /// The hash.
    pub hash: u64,
}

/// What is stored with a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Number of the change that stored the value; larger for each later one of the same key, unless a client chose it.
    pub cas: u64,
    /// Flags of the client.
    pub flags: u32,
    /// When it expires ([`Clock`](crate::memcached::time::Clock)): 0 is never.
    pub expiry: u32,
    /// When it was stored, or last used by the rules of [`Attributes::used`].
    pub last_access: u32,
    /// Marks.
    pub marks: Marks,
}

impl Attributes {
    /// Records that a client reads the item, and returns whether something changed. As memcached has it for its
    /// segmented LRU: the first read is marked, the second moves the time of the last access, the ones after it change
    /// nothing.
    pub fn used(&mut self, now: u32) -> bool {
        if self.marks.contains(Marks::ACTIVE) {
            return false;
        }
        if self.marks.contains(Marks::FETCHED) {
            self.marks |= Marks::ACTIVE;
            self.last_access = now;
        } else {
            self.marks |= Marks::FETCHED;
        }
        true
    }
}

/// Bits that are stored with an item.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Marks(u8);

impl Marks {
    /// None.
    pub const NONE: Self = Self(0);
    /// It was read since it was stored.
    pub const FETCHED: Self = Self(1);
    /// It was read more than once.
    pub const ACTIVE: Self = Self(2);
    /// A client said that the value is out of date.
    pub const STALE: Self = Self(4);
    /// A client was asked to store a newer value.
    pub const WON: Self = Self(8);
    /// The key was sent as base64.
    pub const BINARY_KEY: Self = Self(16);

    /// The marks of these bits, of which the lower five count.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & 31)
    }

    /// The bits: at most 31.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether it has all marks of the other.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Without the marks of the other.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl BitOr for Marks {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Marks {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// There is no room for a value, or the room that was reserved has been taken for something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no memory for a value")]
pub struct NoRoom;

/// At which end of a value another one is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// In front (`prepend`).
    Front,
    /// Behind (`append`).
    Back,
}

/// A value that is to be stored.
#[derive(Debug)]
pub enum Value<'a, R> {
    /// The bytes.
    Bytes(&'a [u8]),
    /// A reservation that is filled.
    Reserved(R),
}

/// The items of a store, or of a part of it. Items that are expired or flushed are not there.
///
/// An item is flushed if its last access was at or before the moment of a flush whose time has come.
pub trait Items {
    /// An item.
    type Item<'a>: Item
    where
        Self: 'a;
    /// Room for a value which is not seen yet.
    type Reservation;

    /// The item of a key, read for a client: eviction may count this as an access.
    fn read(&mut self, key: Key<'_>, now: u32) -> Option<Self::Item<'_>>;

    /// The item of a key.
    fn find(&mut self, key: Key<'_>, now: u32) -> Option<Self::Item<'_>>;

    /// Stores a value, replaces the old one if there is one. If there is no room, an old value may stay.
    fn set(
        &mut self,
        key: Key<'_>,
        value: Value<'_, Self::Reservation>,
        attributes: &Attributes,
    ) -> Result<(), NoRoom>;

    /// Replaces the value of an item that is there by itself and the given bytes at one of its ends.
    fn join(
        &mut self,
        key: Key<'_>,
        value: Value<'_, Self::Reservation>,
        side: Side,
        attributes: &Attributes,
    ) -> Result<(), NoRoom>;

    /// Removes an item; returns whether it was there.
    fn remove(&mut self, key: Key<'_>, now: u32) -> bool;

    /// Room for a value of this many bytes.
    fn reserve(&mut self, key: Key<'_>, length: usize, now: u32) -> Result<Self::Reservation, NoRoom>;

    /// Appends bytes to the value of a reservation, at most as many as were reserved in all.
    fn fill(&mut self, reservation: &mut Self::Reservation, bytes: &[u8]) -> Result<(), NoRoom>;

    /// Gives a reservation up.
    fn cancel(&mut self, reservation: Self::Reservation);

    /// A number for a change: larger than those before.
    fn next_cas(&mut self) -> u64;
}

/// An item that is there.
pub trait Item {
    /// What is stored with the value.
    fn attributes(&self) -> Attributes;

    /// Replaces what is stored with the value.
    fn set_attributes(&mut self, attributes: &Attributes);

    /// Length of the value in bytes.
    fn length(&self) -> usize;

    /// The value, in order: its first part, and those that follow.
    fn parts(&self) -> (&[u8], impl Iterator<Item = &[u8]>);

    /// Replaces the front of a value of one part by bytes that are at most as long, the rest by spaces, and the attributes.
    fn overwrite(&mut self, value: &[u8], attributes: &Attributes);
}
