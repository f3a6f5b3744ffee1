//! `mg`, `md`, `me`.

use super::context::{Commands, item_size};
use super::flags::{Flags, OPAQUE_TOO_LONG};
use super::line::{Nowhere, Output, put_base64, put_flag, put_key, put_number};
use super::retrieve;
use crate::memcached::items::{Attributes, Item, Items, Key, Marks, Value};
use crate::memcached::request::{Meta, tokens};
use crate::memcached::time::Clock;

/// Tokens in front of the flags.
pub const BEFORE: usize = 2;

impl<I: Items> Commands<'_, I> {
    pub(super) fn meta_get(&mut self, meta: &Meta<'_>, key: Key<'_>, out: &mut impl Output) {
        let flags = match Flags::read(meta.flags, BEFORE, (meta.key, key), self.clock) {
            Ok(flags) => flags,
            Err(answer) => return out.put(answer.as_bytes()),
        };
        let now = self.clock.now;
        let mut hit = Hit {
            clock: self.clock,
            flags: &flags,
            created: false,
            key: key.bytes,
        };
        let found = if flags.no_update {
            self.items.find(key, now)
        } else {
            self.items.read(key, now)
        };
        let mut found = found.map(|mut item| hit.answer_and_change(meta.flags, &mut item, out));
        if found.is_none() && flags.vivify.is_some() && self.make_empty(key, &flags) {
            hit.created = true;
            let item = self.items.find(key, now);
            found = item.map(|mut item| hit.answer_and_change(meta.flags, &mut item, out));
        }
        let found = found.is_some();
        self.counts.retrieved(found && flags.expiry.is_some(), found);
        if !found {
            miss(&flags, meta, key, out);
        }
    }

    /// An item without a value, by `N`.
    fn make_empty(&mut self, key: Key<'_>, flags: &Flags) -> bool {
        let attributes = Attributes {
            cas: flags.next_cas.unwrap_or_else(|| self.items.next_cas()),
            last_access: self.clock.now,
            ..Attributes::default()
        };
        self.items.set(key, Value::Bytes(b""), &attributes).is_ok()
    }

    pub(super) fn meta_delete(&mut self, meta: &Meta<'_>, key: Key<'_>, out: &mut impl Output) {
        let flags = match Flags::read(meta.flags, BEFORE, (meta.key, key), self.clock) {
            Ok(flags) if flags.opaque_too_long => return out.put(OPAQUE_TOO_LONG.as_bytes()),
            Ok(flags) => flags,
            Err(answer) => return out.put(answer.as_bytes()),
        };
        let now = self.clock.now;
        let found = self.items.find(key, now).map(|item| item.attributes());
        let status: &[u8] = match found {
            None => b"NF",
            Some(attributes) if flags.cas.is_some_and(|cas| cas != attributes.cas) => b"EX",
            Some(attributes) => {
                if !self.remove(key, &attributes, &flags) {
                    return out.put(b"SERVER_ERROR out of memory\r\n");
                }
                b"HD"
            }
        };
        if status != b"HD" || !flags.stale {
            self.counts.deleted(status == b"HD");
        }
        if status != b"HD" || !flags.quiet {
            out.put(status);
            put_returned(meta.flags, key.bytes, flags.binary, out);
            out.put(b"\r\n");
        }
    }

    /// Removes an item, or its value (`x`), or marks it as stale (`I`); returns whether there was room.
    fn remove(&mut self, key: Key<'_>, old: &Attributes, flags: &Flags) -> bool {
        let now = self.clock.now;
        if flags.remove_value {
            let attributes = Attributes {
                cas: flags.next_cas.unwrap_or(old.cas),
                flags: flags.client_flags,
                expiry: flags.expiry.unwrap_or_default(),
                last_access: now,
                marks: Marks::NONE,
            };
            if self.items.set(key, Value::Bytes(b""), &attributes).is_err() {
                return false;
            }
        }
        if flags.stale {
            let cas = flags.next_cas.unwrap_or_else(|| self.items.next_cas());
            if let Some(mut item) = self.items.find(key, now) {
                let mut attributes = item.attributes();
                attributes.cas = cas;
                attributes.expiry = flags.expiry.unwrap_or(attributes.expiry);
                attributes.marks = attributes.marks.without(Marks::WON) | Marks::STALE;
                item.set_attributes(&attributes);
            }
        } else if !flags.remove_value {
            self.items.remove(key, now);
        }
        true
    }

    pub(super) fn meta_debug(&mut self, meta: &Meta<'_>, key: Key<'_>, out: &mut impl Output) {
        if meta.is_binary_debug() && meta.key.len() == key.bytes.len() {
            return out.put(b"CLIENT_ERROR bad command line format\r\n");
        }
        self.counts.metas += 1;
        let now = self.clock.now;
        let Some(item) = self.items.find(key, now) else {
            return out.put(b"EN\r\n");
        };
        let attributes = item.attributes();
        out.put(b"ME ");
        if attributes.marks.contains(Marks::BINARY_KEY) {
            put_base64(key.bytes, out);
        } else {
            out.put(key.bytes);
        }
        out.put(b" exp=");
        match attributes.expiry {
            0 => out.put(b"-1"),
            expiry => put_number(u64::from(expiry.saturating_sub(now)), out),
        }
        out.put(b" la=");
        put_number(u64::from(now.saturating_sub(attributes.last_access)), out);
        out.put(b" cas=");
        put_number(attributes.cas, out);
        let fetched = attributes.marks.contains(Marks::FETCHED);
        out.put(if fetched { b" fetch=yes" } else { b" fetch=no" });
        // There are no slab classes.
        out.put(b" cls=1 size=");
        let size = item_size(key.bytes.len(), attributes.flags, item.length());
        put_number(size as u64, out);
        out.put(b"\r\n");
    }
}

/// The answer of `mg` to a key that is there.
pub struct Hit<'a> {
    pub clock: Clock,
    pub flags: &'a Flags,
    pub created: bool,
    pub key: &'a [u8],
}

impl Hit<'_> {
    fn answer_and_change(&self, sent: &[u8], item: &mut impl Item, out: &mut impl Output) {
        let before = item.attributes();
        let after = self.answer(sent, &before, (item.length(), item.parts()), out);
        if after != before {
            item.set_attributes(&after);
        }
    }

    /// Answers with an item of these attributes, and a value of this length in these parts; returns the attributes that it has then.
    pub fn answer<'v>(
        &self,
        sent: &[u8],
        attributes: &Attributes,
        (length, parts): (usize, (&'v [u8], impl Iterator<Item = &'v [u8]>)),
        out: &mut impl Output,
    ) -> Attributes {
        let mut attributes = *attributes;
        let now = self.clock.now;
        let Flags {
            no_update,
            used_last,
            opaque_too_long,
            ..
        } = *self.flags;
        if !no_update && !used_last {
            attributes.used(now);
        }
        if opaque_too_long {
            self.line(sent, length, &mut attributes, &mut Nowhere);
            out.put(OPAQUE_TOO_LONG.as_bytes());
        } else {
            let with_value = self.flags.value && self.flags.cas != Some(attributes.cas);
            out.put(if with_value { b"VA" } else { b"HD" });
            if with_value {
                put_flag(" ", length as u64, out);
            }
            let won = self.line(sent, length, &mut attributes, out);
            marks(won, &mut attributes, out);
            if with_value {
                retrieve::contents(parts, out);
            }
            if !no_update && used_last {
                attributes.used(now);
            }
        }
        attributes
    }

    /// Writes what the flags return, and does what they say, in their order; returns whether the client is asked for a
    /// newer value. An opaque that is too long ends this.
    fn line(&self, sent: &[u8], length: usize, attributes: &mut Attributes, out: &mut impl Output) -> bool {
        let now = self.clock.now;
        let mut won = false;
        for flag in tokens::split_short(sent) {
            match flag[0] {
                b'T' => attributes.expiry = self.flags.expiry.unwrap_or_default(),
                b'N' if self.created => {
                    attributes.expiry = self.flags.vivify.unwrap_or_default();
                    won = true;
                }
                b'R' => {
                    let soon = attributes.expiry != 0 && attributes.expiry < self.flags.recache;
                    won |= soon && !self.created && !attributes.marks.contains(Marks::WON);
                }
                b's' => put_flag(" s", length as u64, out),
                b't' => put_remaining(attributes.expiry, now, out),
                b'c' => put_flag(" c", attributes.cas, out),
                b'f' => put_flag(" f", u64::from(attributes.flags), out),
                b'l' => put_flag(" l", u64::from(now.wrapping_sub(attributes.last_access)), out),
                b'h' => {
                    let fetched = attributes.marks.contains(Marks::FETCHED);
                    out.put(if fetched { b" h1" } else { b" h0" });
                }
                b'O' if self.flags.opaque_too_long => return won,
                b'O' => put_opaque(flag, out),
                b'k' => put_key(self.key, attributes.marks.contains(Marks::BINARY_KEY), out),
                _ => {}
            }
        }
        won
    }
}

/// Writes the marks of an item, and the end of the line.
fn marks(mut won: bool, attributes: &mut Attributes, out: &mut impl Output) {
    let sent = attributes.marks.contains(Marks::WON);
    if sent {
        out.put(b" Z");
    }
    if attributes.marks.contains(Marks::STALE) {
        out.put(b" X");
        won |= !sent;
    }
    if won {
        out.put(b" W");
        attributes.marks |= Marks::WON;
    }
    out.put(b"\r\n");
}

/// The answer of `mg` to a key that is not there.
fn miss(flags: &Flags, meta: &Meta<'_>, key: Key<'_>, out: &mut impl Output) {
    if flags.opaque_too_long {
        out.put(OPAQUE_TOO_LONG.as_bytes());
    } else if !flags.quiet {
        out.put(b"EN");
        put_returned(meta.flags, key.bytes, flags.binary, out);
        out.put(b"\r\n");
    }
}

/// Writes the flags that are returned without an item: opaque and key.
pub fn put_returned(sent: &[u8], key: &[u8], binary: bool, out: &mut impl Output) {
    for flag in tokens::split_short(sent) {
        match flag[0] {
            b'O' => put_opaque(flag, out),
            b'k' => put_key(key, binary, out),
            _ => {}
        }
    }
}

/// Writes the flag `t`: the seconds that are left, -1 if there is no end.
pub fn put_remaining(expiry: u32, now: u32, out: &mut impl Output) {
    match expiry {
        0 => out.put(b" t-1"),
        // A time in the past was just given to the item; memcached wraps as well.
        expiry => put_flag(" t", u64::from(expiry.wrapping_sub(now)), out),
    }
}

/// Writes the flag `O` as it was sent.
pub fn put_opaque(flag: &[u8], out: &mut impl Output) {
    out.put(b" ");
    out.put(flag);
}
