//! Reads that are answered with a copy of an item, which is not among those of the commands and which the read does not change.

use super::context::Commands;
use super::flags::Flags;
use super::line::{Nowhere, Output};
use super::meta::{BEFORE, Hit};
use crate::memcached::items::{Attributes, Items, Key};
use crate::memcached::request::{Get, Meta, MetaCommand};
use crate::memcached::time::Clock;
use std::iter;

/// A read that a copy of its item can answer.
#[derive(Debug)]
pub enum Reading<'a> {
    /// One key of `get` or `gets`.
    Get(&'a Get<'a>),
    /// `mg`.
    Meta(MetaGet<'a>),
}

/// `mg`, with its flags.
#[derive(Debug)]
pub struct MetaGet<'a> {
    key: &'a [u8],
    sent: &'a [u8],
    flags: Flags,
    clock: Clock,
}

impl<'a> Reading<'a> {
    /// A key of `get` or `gets`; `None` if it gets a new expiry (`gat`, `gats`).
    #[inline]
    pub fn get(get: &'a Get<'a>) -> Option<Self> {
        get.touch.is_none().then_some(Self::Get(get))
    }

    /// `mg`; `None` if it gives the item a new expiry, is answered by an error, or is another command. The key is decoded if it was sent
    /// as base64.
    pub fn meta(meta: &Meta<'a>, key: Key<'a>, clock: Clock) -> Option<Self> {
        if meta.command != MetaCommand::Get {
            return None;
        }
        let flags = Flags::read(meta.flags, BEFORE, (meta.key, key), clock).ok()?;
        let is_read = flags.expiry.is_none() && !flags.opaque_too_long;
        is_read.then_some(Self::Meta(MetaGet {
            key: key.bytes,
            sent: meta.flags,
            flags,
            clock,
        }))
    }

    /// The key.
    #[inline]
    pub fn key(&self) -> &'a [u8] {
        match self {
            Self::Get(get) => get.key,
            Self::Meta(meta) => meta.key,
        }
    }

    /// Whether it changes nothing of an item with these attributes.
    #[inline]
    pub fn leaves(&self, attributes: &Attributes) -> bool {
        match self {
            Self::Get(_) => !attributes.clone().used(attributes.last_access),
            Self::Meta(meta) => meta.leaves(attributes),
        }
    }
}

impl MetaGet<'_> {
    /// Not if it was used in a second that has not begun here: the answer may have the time since.
    fn leaves(&self, attributes: &Attributes) -> bool {
        attributes.last_access <= self.clock.now && self.answer(attributes, b"", &mut Nowhere) == *attributes
    }

    fn answer(&self, attributes: &Attributes, value: &[u8], out: &mut impl Output) -> Attributes {
        let hit = Hit {
            clock: self.clock,
            flags: &self.flags,
            created: false,
            key: self.key,
        };
        let whole = (value.len(), (value, iter::empty()));
        hit.answer(self.sent, attributes, whole, out)
    }
}

impl<I: Items> Commands<'_, I> {
    /// Answers with a copy of the item, whose attributes the read [leaves](Reading::leaves) as they are.
    #[inline]
    pub fn answer_with(
        &mut self,
        reading: &Reading<'_>,
        attributes: &Attributes,
        value: &[u8],
        out: &mut impl Output,
    ) {
        match reading {
            Reading::Get(get) => self.get_copy(get, attributes, value, out),
            Reading::Meta(meta) => {
                meta.answer(attributes, value, out);
                self.counts.retrieved(false, true);
            }
        }
    }
}
