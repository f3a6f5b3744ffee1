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
            head(key.bytes, item.length(), &attributes, get.with_cas, out);
            contents(&item, out);
            true
        } else {
            false
        };
        self.counts.retrieved(get.touch.is_some(), found);
        if get.last {
            out.put(b"END\r\n");
        }
    }

    /// Answers one key of `get` or `gets` with an item that is not among these, and that a read does not change; behind the last key the
    /// end.
    #[inline]
    pub fn get_copy(&mut self, get: &Get<'_>, attributes: &Attributes, value: &[u8], out: &mut impl Output) {
        head(get.key, value.len(), attributes, get.with_cas, out);
        out.put(value);
        out.put(b"\r\n");
        self.counts.retrieved(false, true);
        if get.last {
            out.put(b"END\r\n");
        }
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

/// Writes `VALUE KEY FLAGS LENGTH [CAS]`.
#[inline]
fn head(key: &[u8], length: usize, attributes: &Attributes, with_cas: bool, out: &mut impl Output) {
    out.put(b"VALUE ");
    out.put(key);
    let mut line = Backwards::<LONGEST_NUMBERS>::empty();
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
    out.put(line.bytes());
}

/// Writes the value and a line end.
#[inline]
pub fn contents(item: &impl Item, out: &mut impl Output) {
    item.parts().for_each(|part| out.put(part));
    out.put(b"\r\n");
}
