//! The items of a map: the reference of a store.

use corelane_proto::memcached::items::{Attributes, Item, Items, Key, NoRoom, Side, Value};
use std::collections::HashMap;

#[derive(Default)]
pub struct Map {
    items: HashMap<Vec<u8>, Stored>,
    cas: u64,
    /// The moment of the last flush.
    pub flushed: Option<u32>,
    /// No value is stored that would make the sum of their lengths larger.
    pub room: Option<usize>,
}

pub struct Stored {
    value: Vec<u8>,
    attributes: Attributes,
}

impl Item for &mut Stored {
    fn attributes(&self) -> Attributes {
        self.attributes
    }

    fn set_attributes(&mut self, attributes: &Attributes) {
        self.attributes = *attributes;
    }

    fn length(&self) -> usize {
        self.value.len()
    }

    fn parts(&self) -> (&[u8], impl Iterator<Item = &[u8]>) {
        // More than one if the value is long.
        let mut parts = self.value.chunks(4_096);
        (parts.next().unwrap_or_default(), parts)
    }

    fn overwrite(&mut self, value: &[u8], attributes: &Attributes) {
        self.value.fill(b' ');
        self.value[..value.len()].copy_from_slice(value);
        self.attributes = *attributes;
    }
}

impl Map {
    fn fits(&self, length: usize) -> Result<(), NoRoom> {
        let used: usize = self.items.values().map(|item| item.value.len()).sum();
        match self.room {
            Some(room) if used + length > room => Err(NoRoom),
            _ => Ok(()),
        }
    }
}

fn bytes<'a>(value: &'a Value<'_, Vec<u8>>) -> &'a [u8] {
    match value {
        Value::Bytes(bytes) => bytes,
        Value::Reserved(bytes) => bytes,
    }
}

impl Items for Map {
    type Item<'a> = &'a mut Stored;
    type Reservation = Vec<u8>;

    fn read(&mut self, key: Key<'_>, now: u32) -> Option<&mut Stored> {
        self.find(key, now)
    }

    fn find(&mut self, key: Key<'_>, now: u32) -> Option<&mut Stored> {
        let item = self.items.get_mut(key.bytes)?;
        let attributes = item.attributes;
        let expired = attributes.expiry != 0 && attributes.expiry <= now;
        let flushed = self
            .flushed
            .is_some_and(|moment| moment <= now && attributes.last_access <= moment);
        (!expired && !flushed).then_some(item)
    }

    fn set(
        &mut self,
        key: Key<'_>,
        value: Value<'_, Vec<u8>>,
        attributes: &Attributes,
    ) -> Result<(), NoRoom> {
        let value = bytes(&value);
        self.fits(value.len())?;
        let stored = Stored {
            value: value.to_vec(),
            attributes: *attributes,
        };
        self.items.insert(key.bytes.to_vec(), stored);
        Ok(())
    }

    fn join(
        &mut self,
        key: Key<'_>,
        value: Value<'_, Vec<u8>>,
        side: Side,
        attributes: &Attributes,
    ) -> Result<(), NoRoom> {
        let value = bytes(&value);
        self.fits(value.len())?;
        let item = self.items.get_mut(key.bytes).ok_or(NoRoom)?;
        item.attributes = *attributes;
        let at = if side == Side::Front { 0 } else { item.value.len() };
        item.value.splice(at..at, value.iter().copied());
        Ok(())
    }

    fn remove(&mut self, key: Key<'_>, now: u32) -> bool {
        self.find(key, now).is_some() && self.items.remove(key.bytes).is_some()
    }

    fn reserve(&mut self, _: Key<'_>, length: usize, _: u32) -> Result<Vec<u8>, NoRoom> {
        self.fits(length)?;
        Ok(Vec::new())
    }

    fn fill(&mut self, reservation: &mut Vec<u8>, bytes: &[u8]) -> Result<(), NoRoom> {
        reservation.extend_from_slice(bytes);
        Ok(())
    }

    fn cancel(&mut self, _: Vec<u8>) {}

    fn next_cas(&mut self) -> u64 {
        self.cas += 1;
        self.cas
    }
}
