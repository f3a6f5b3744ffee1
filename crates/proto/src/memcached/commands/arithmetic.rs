//! `incr`, `decr`, `ma`.

use super::context::Commands;
use super::flags::{Flags, OPAQUE_TOO_LONG};
use super::line::{Nowhere, Output, put_flag, put_key, put_unless};
use super::meta::{put_opaque, put_remaining, put_returned};
use crate::memcached::items::{Attributes, Item, Items, Key, Marks, Value};
use crate::memcached::number::{self, Decimal};
use crate::memcached::request::{Arithmetic, Meta, tokens};

const NO_NUMBER: &str = "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";

/// What a command does to a number.
#[derive(Clone, Copy)]
struct Change {
    delta: u64,
    decrement: bool,
    /// The number of the change that the item must have.
    cas: Option<u64>,
}

/// What a command led to.
enum Outcome {
    Missing,
    OtherCas,
    Failed(&'static str),
    Done(Done),
}

/// A number that was stored.
struct Done {
    number: Decimal,
    /// What was stored with it. If its value became longer, this is of the old item: memcached answers from it.
    attributes: Attributes,
    /// Whether the value became longer: then the old item is no longer there.
    replaced: bool,
    /// Whether there was no item.
    created: bool,
}

impl<I: Items> Commands<'_, I> {
    pub(super) fn arithmetic(&mut self, request: &Arithmetic<'_>, key: Key<'_>, out: &mut impl Output) {
        let change = Change {
            delta: request.delta,
            decrement: request.decrement,
            cas: None,
        };
        let answer = match self.change(change, key) {
            Outcome::Done(done) => {
                if !request.quiet {
                    out.put(done.number.bytes());
                }
                "\r\n"
            }
            Outcome::Failed(answer) => answer,
            Outcome::Missing | Outcome::OtherCas => {
                self.counts.missed(request.decrement);
                "NOT_FOUND\r\n"
            }
        };
        put_unless(request.quiet, answer, out);
    }

    fn change(&mut self, change: Change, key: Key<'_>) -> Outcome {
        let now = self.clock.now;
        let Some(item) = self.items.find(key, now) else {
            return Outcome::Missing;
        };
        let mut attributes = item.attributes();
        let length = item.length();
        // A value in several parts is too long for a number.
        let (text, rest) = item.parts();
        if text.is_empty() || text.len() < length {
            return Outcome::Failed(NO_NUMBER);
        }
        if change.cas.is_some_and(|cas| cas != attributes.cas) {
            return Outcome::OtherCas;
        }
        let Some(old) = number::wrapping_u64(text) else {
            return Outcome::Failed(NO_NUMBER);
        };
        drop(rest);
        drop(item);
        *if change.decrement {
            &mut self.counts.decr_hits
        } else {
            &mut self.counts.incr_hits
        } += 1;
        let number = Decimal::new(if change.decrement {
            old.saturating_sub(change.delta)
        } else {
            old.wrapping_add(change.delta)
        });
        attributes.cas = self.items.next_cas();
        let replaced = number.bytes().len() > length;
        if replaced {
            let new = Attributes {
                last_access: now,
                marks: Marks::NONE,
                ..attributes
            };
            if self.items.set(key, Value::Bytes(number.bytes()), &new).is_err() {
                return Outcome::Failed("SERVER_ERROR out of memory\r\n");
            }
        } else if let Some(mut item) = self.items.find(key, now) {
            attributes.last_access = now;
            item.overwrite(number.bytes(), &attributes);
        }
        Outcome::Done(Done {
            number,
            attributes,
            replaced,
            created: false,
        })
    }

    pub(super) fn meta_arithmetic(&mut self, meta: &Meta<'_>, key: Key<'_>, out: &mut impl Output) {
        let Ok(flags) = Flags::read(meta.flags, 2, (meta.key, key), self.clock) else {
            return out.put(b"CLIENT_ERROR invalid or duplicate flag\r\n");
        };
        let decrement = match flags.mode {
            0 | b'I' | b'+' => false,
            b'D' | b'-' => true,
            _ => return out.put(b"CLIENT_ERROR invalid mode for ma M token\r\n"),
        };
        let change = Change {
            delta: flags.delta.unwrap_or(1),
            decrement,
            cas: flags.cas.filter(|cas| *cas != 0),
        };
        let outcome = match self.change(change, key) {
            Outcome::Missing if flags.vivify.is_some() => self.create(&flags, key),
            outcome => outcome,
        };
        let status = match outcome {
            Outcome::Failed(answer) => return out.put(answer.as_bytes()),
            Outcome::Done(done) => return self.answer_number(done, meta, &flags, key, out),
            Outcome::Missing => {
                self.counts.missed(decrement);
                b"NF"
            }
            Outcome::OtherCas => b"EX",
        };
        if flags.opaque_too_long {
            return out.put(OPAQUE_TOO_LONG.as_bytes());
        }
        out.put(status);
        put_returned(meta.flags, key.bytes, flags.binary, out);
        out.put(b"\r\n");
    }

    /// An item with the first number, by `N`.
    fn create(&mut self, flags: &Flags, key: Key<'_>) -> Outcome {
        let number = Decimal::new(flags.initial);
        let attributes = Attributes {
            cas: flags.next_cas.unwrap_or_else(|| self.items.next_cas()),
            last_access: self.clock.now,
            ..Attributes::default()
        };
        match self.items.set(key, Value::Bytes(number.bytes()), &attributes) {
            Ok(()) => Outcome::Done(Done {
                number,
                attributes,
                replaced: false,
                created: true,
            }),
            Err(_) => Outcome::Failed("SERVER_ERROR Out of memory allocating new item\r\n"),
        }
    }

    /// Does what the other flags of `ma` say, and answers.
    fn answer_number(
        &mut self,
        mut done: Done,
        meta: &Meta<'_>,
        flags: &Flags,
        key: Key<'_>,
        out: &mut impl Output,
    ) {
        let now = self.clock.now;
        done.attributes.cas = flags.next_cas.unwrap_or(done.attributes.cas);
        if flags.opaque_too_long {
            done.line(meta.flags, flags, (key, now), &mut Nowhere);
            out.put(OPAQUE_TOO_LONG.as_bytes());
        } else if flags.quiet {
            done.line(meta.flags, flags, (key, now), &mut Nowhere);
        } else {
            let number = done.number.bytes();
            out.put(if flags.value { b"VA" } else { b"HD" });
            if flags.value {
                put_flag(" ", number.len() as u64, out);
            }
            done.line(meta.flags, flags, (key, now), out);
            out.put(b"\r\n");
            if flags.value {
                out.put(done.number.bytes());
                out.put(b"\r\n");
            }
        }
        if !done.replaced
            && let Some(mut item) = self.items.find(key, now)
        {
            item.set_attributes(&done.attributes);
        }
    }
}

impl Done {
    /// Writes what the flags return, and does what they say, in their order. An opaque that is too long ends this.
    fn line(&mut self, sent: &[u8], flags: &Flags, (key, now): (Key<'_>, u32), out: &mut impl Output) {
        for flag in tokens::split_short(sent) {
            match flag[0] {
                b'c' => put_flag(" c", self.attributes.cas, out),
                b't' => put_remaining(self.attributes.expiry, now, out),
                b'T' => self.attributes.expiry = flags.expiry.unwrap_or_default(),
                b'N' if self.created => self.attributes.expiry = flags.vivify.unwrap_or_default(),
                b'O' if flags.opaque_too_long => return,
                b'O' => put_opaque(flag, out),
                b'k' => put_key(key.bytes, flags.binary, out),
                _ => {}
            }
        }
    }
}
