//! `get`, `gets`, `gat`, `gats`, `touch`, `delete`.

use super::context::Commands;
use super::line::{Output, put_unless};
use crate::memcached::items::{Attributes, Item, Items, Key};
use crate::memcached::number::Backwards;
use crate::memcached::request::{Delete, Get, Touch};

/// Most bytes of the numbers of a line, each behind a space, and its end.
const LONGEST_NUMBERS: usize = 3 * 21 + 2;

impl<I: Items> Commands<'_, I> {
    /// Answers one key of `get`, `gets`, `gat` or `gats`, and behind the last one the end.
    #[inline]
    pub fn get(&mut self, get: &Get<'_>, key: Key<'_>, out: &mut impl Output) {
        let now = self.clock.now;
        let found = if let Some(mut item) = self.items.read(key, now) {
            let mut attributes = item.attributes();
            let mut changed = attributes.used(now);
            if let Some(exptime) = get.touch {
                attributes.expiry = self.clock.expiry(exptime);
                changed = true;
            }
            if changed {
                item.set_attributes(&attributes);
            }
            let numbers = numbers(item.length(), &attributes, get.with_cas);
            let (first, rest) = item.parts();
            if first.len() == item.length() {
                out.put_all([b"VALUE ", key.bytes, numbers.bytes(), first, end(get)]);
            } else {
                out.put_all([b"VALUE ", key.bytes, numbers.bytes(), first]);
                rest.for_each(|part| out.put(part));
                out.put(end(get));
            }
            true
        } else {
            if get.last {
                out.put(b"END\r\n");
            }
            false
        };
        self.counts.retrieved(get.touch.is_some(), found);
    }

    /// Answers one key of `get` or `gets` with an item that is not among these, and that a read does not change; behind the last key the
    /// end.
    #[inline]
    pub(super) fn get_copy(
        &mut self,
        get: &Get<'_>,
        attributes: &Attributes,
        value: &[u8],
        out: &mut impl Output,
    ) {
        let numbers = numbers(value.len(), attributes, get.with_cas);
        out.put_all([b"VALUE ", get.key, numbers.bytes(), value, end(get)]);
        self.counts.retrieved(false, true);
    }

    pub(super) fn delete(&mut self, delete: &Delete<'_>, key: Key<'_>, out: &mut impl Output) {
        let found = self.items.remove(key, self.clock.now);
        self.counts.deleted(found);
        put_unless(
            delete.quiet,
            if found { "DELETED\r\n" } else { "NOT_FOUND\r\n" },
            out,
        );
    }

    pub(super) fn touch(&mut self, touch: &Touch<'_>, key: Key<'_>, out: &mut impl Output) {
        let now = self.clock.now;
        let found = if let Some(mut item) = self.items.read(key, now) {
            let mut attributes = item.attributes();
            attributes.used(now);
            attributes.expiry = self.clock.expiry(touch.exptime);
            item.set_attributes(&attributes);
            true
        } else {
            false
        };
        self.counts.retrieved(true, found);
        put_unless(
            touch.quiet,
            if found { "TOUCHED\r\n" } else { "NOT_FOUND\r\n" },
            out,
        );
    }
}

/// ` FLAGS LENGTH [CAS]`, and the line end.
#[inline]
fn numbers(length: usize, attributes: &Attributes, with_cas: bool) -> Backwards<LONGEST_NUMBERS> {
    let mut line = Backwards::empty();
    line.byte(b'\n');
    line.byte(b'\r');
    if with_cas {
        line.number(attributes.cas);
        line.byte(b' ');
    }
    line.number(length as u64);
    line.byte(b' ');
    line.number(u64::from(attributes.flags));
    line.byte(b' ');
    line
}

/// What follows a value.
#[inline]
fn end(get: &Get<'_>) -> &'static [u8] {
    if get.last { b"\r\nEND\r\n" } else { b"\r\n" }
}

/// Writes the value and a line end.
#[inline]
pub fn contents<'v>((first, rest): (&[u8], impl Iterator<Item = &'v [u8]>), out: &mut impl Output) {
    out.put(first);
    rest.for_each(|part| out.put(part));
    out.put(b"\r\n");
}
