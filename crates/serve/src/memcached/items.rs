//! A worker's items, as the commands of the protocol see them.
//!
//! In: keys with their hashes. Out: items of the worker's partition, and numbers of changes.

use corelane_proto::memcached::items::{Attributes, Item, Items, Key, Marks, NoRoom, Side, Value};
use corelane_store as store;
use corelane_store::{Hash, ItemMut, Partition, Reservation, Source};

/// The items of one worker.
pub(super) struct Share {
    pub(super) partition: Partition,
    /// The second of the batch.
    pub(super) now: u32,
    /// All items are forgotten when this second ends, and not found in it.
    pub(super) hides: bool,
    /// The last number of a change. Of *n* workers each takes every *n*-th, so that no number is given twice.
    last_cas: u64,
    workers: u64,
}

impl Share {
    /// The items of a worker in the second `now`, whose changes get every `workers`-th number after `index`.
    pub(super) fn new(partition: Partition, now: u32, index: usize, workers: usize) -> Self {
        Self {
            partition,
            now,
            hides: false,
            last_cas: index as u64,
            workers: workers as u64,
        }
    }

    /// A reserved value of two others, one behind the other.
    fn joined(&mut self, key: Key<'_>, added: &Value<'_, Reservation>, side: Side) -> Option<Reservation> {
        let (hash, now) = (hash(key), self.now);
        let present = self.partition.peek(hash, key.bytes, now)?.value.len();
        let length = match added {
            Value::Bytes(bytes) => bytes.len(),
            Value::Reserved(reservation) => self.partition.reserved(reservation)?.len(),
        };
        let mut room = self
            .partition
            .reserve(hash, key.bytes, present + length, now)
            .ok()?;
        let key = key.bytes;
        let present =
            |store: &mut Partition, room: &mut _| store.fill_from(room, Source::Stored { hash, key }, now);
        let added = |store: &mut Partition, room: &mut _| match added {
            Value::Bytes(bytes) => store.fill(room, bytes, now),
            Value::Reserved(reservation) => store.fill_from(room, Source::Reserved(reservation), now),
        };
        let store = &mut self.partition;
        let is_complete = match side {
            Side::Front => added(store, &mut room) && present(store, &mut room),
            Side::Back => present(store, &mut room) && added(store, &mut room),
        };
        if !is_complete {
            self.partition.cancel(room);
            return None;
        }
        Some(room)
    }
}

impl Items for Share {
    type Item<'a> = Found<'a>;
    type Reservation = Reservation;

    #[inline]
    fn read(&mut self, key: Key<'_>, now: u32) -> Option<Found<'_>> {
        if self.hides {
            return None;
        }
        self.partition.read(hash(key), key.bytes, now).map(Found)
    }

    #[inline]
    fn find(&mut self, key: Key<'_>, now: u32) -> Option<Found<'_>> {
        if self.hides {
            return None;
        }
        self.partition.change(hash(key), key.bytes, now).map(Found)
    }

    fn set(
        &mut self,
        key: Key<'_>,
        value: Value<'_, Reservation>,
        attributes: &Attributes,
    ) -> Result<(), NoRoom> {
        let attributes = stored(attributes);
        let set = match value {
            Value::Bytes(bytes) => self
                .partition
                .set(hash(key), key.bytes, bytes, attributes, self.now),
            Value::Reserved(reservation) => self.partition.commit(reservation, attributes, self.now),
        };
        set.map_err(|_| NoRoom)
    }

    fn join(
        &mut self,
        key: Key<'_>,
        value: Value<'_, Reservation>,
        side: Side,
        attributes: &Attributes,
    ) -> Result<(), NoRoom> {
        let joined = self.joined(key, &value, side);
        if let Value::Reserved(reservation) = value {
            self.partition.cancel(reservation);
        }
        let set = self
            .partition
            .commit(joined.ok_or(NoRoom)?, stored(attributes), self.now);
        set.map_err(|_| NoRoom)
    }

    fn remove(&mut self, key: Key<'_>, now: u32) -> bool {
        self.partition.remove(hash(key), key.bytes, now) && !self.hides
    }

    fn reserve(&mut self, key: Key<'_>, length: usize, now: u32) -> Result<Reservation, NoRoom> {
        self.partition
            .reserve(hash(key), key.bytes, length, now)
            .map_err(|_| NoRoom)
    }

    fn fill(&mut self, reservation: &mut Reservation, bytes: &[u8]) -> Result<(), NoRoom> {
        match self.partition.fill(reservation, bytes, self.now) {
            true => Ok(()),
            false => Err(NoRoom),
        }
    }

    fn cancel(&mut self, reservation: Reservation) {
        self.partition.cancel(reservation);
    }

    fn next_cas(&mut self) -> u64 {
        self.last_cas += self.workers;
        self.last_cas
    }
}

/// An item that was found.
pub(super) struct Found<'a>(ItemMut<'a>);

impl Item for Found<'_> {
    #[inline]
    fn attributes(&self) -> Attributes {
        attributes_of(self.0.attributes())
    }

    #[inline]
    fn set_attributes(&mut self, attributes: &Attributes) {
        self.0.set_attributes(stored(attributes));
    }

    #[inline]
    fn length(&self) -> usize {
        self.0.length()
    }

    #[inline]
    fn parts(&self) -> (&[u8], impl Iterator<Item = &[u8]>) {
        let value = self.0.item().value;
        (value.first(), value.rest())
    }

    fn overwrite(&mut self, value: &[u8], attributes: &Attributes) {
        self.0.overwrite(value, stored(attributes));
    }
}

/// The attributes as the commands have them; the bits of the marks mean the same.
#[inline]
pub(super) fn attributes_of(attributes: store::Attributes) -> Attributes {
    let store::Attributes {
        cas,
        expiry,
        accessed,
        flags,
        marks,
    } = attributes;
    Attributes {
        cas,
        flags,
        expiry,
        last_access: accessed,
        marks: Marks::from_bits(marks.bits()),
    }
}

/// The attributes as the store has them; the bits of the marks mean the same.
#[inline]
fn stored(attributes: &Attributes) -> store::Attributes {
    store::Attributes {
        cas: attributes.cas,
        expiry: attributes.expiry,
        accessed: attributes.last_access,
        flags: attributes.flags,
        marks: store::Marks::from_bits(attributes.marks.bits()),
    }
}

#[inline]
fn hash(key: Key<'_>) -> Hash {
    Hash::of_value(key.hash)
}
