//! One request: what it does, with which keys, and what was known about them when it was made.

use super::keys::{Key, Keys};
use super::ledger::Direction;
use super::mix::Operation;
use super::parts::{Part, Side};
use super::plan::Memcached;
use super::value::{Origin, Value};
use corelane_proto::memcached::client::{self, Flag, Get, NO_OPERATION, Store};

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    /// `get`.
    Get,
    /// `gets`.
    Gets,
    /// `gat`.
    Gat,
    /// `set`, also after a miss.
    Set,
    /// `add`.
    Add,
    /// `replace`.
    Replace,
    /// `append` or `prepend`.
    Extend(Side),
    /// `gets`, whose cas number the `cas` that follows has.
    ReadForCas,
    /// `cas`.
    Cas {
        /// The number.
        unique: u64,
        /// The version that was read with it, or the largest number if that is unknown.
        seen: u32,
    },
    /// `delete`.
    Delete,
    /// `incr` or `decr`.
    Count(Direction),
    /// `add` of a counter.
    Start(Direction),
    /// `touch`.
    Touch,
    /// `set` of the value that is there ahead of a run.
    Prefill,
}

impl Verb {
    /// The operation as which it is counted.
    pub(super) const fn operation(self) -> Operation {
        match self {
            Self::Get => Operation::Get,
            Self::Gets | Self::ReadForCas => Operation::Gets,
            Self::Gat => Operation::Gat,
            Self::Set | Self::Prefill => Operation::Set,
            Self::Add | Self::Start(_) => Operation::Add,
            Self::Replace => Operation::Replace,
            Self::Extend(Side::Back) => Operation::Append,
            Self::Extend(Side::Front) => Operation::Prepend,
            Self::Cas { .. } => Operation::Cas,
            Self::Delete => Operation::Delete,
            Self::Count(Direction::Up) => Operation::Incr,
            Self::Count(Direction::Down) => Operation::Decr,
            Self::Touch => Operation::Touch,
        }
    }

    /// Whether it reads values.
    pub(super) const fn reads(self) -> bool {
        self.operation().reads()
    }

    /// Whether it changes the expiration alone.
    pub(super) const fn prolongs(self) -> bool {
        matches!(self, Self::Gat | Self::Touch)
    }

    /// Whether its answer settles a version.
    pub(super) const fn writes(self) -> bool {
        matches!(
            self,
            Self::Set | Self::Add | Self::Replace | Self::Extend(_) | Self::Cas { .. } | Self::Delete
        )
    }
}

/// One key of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asked {
    /// Its place among the keys of the worker.
    pub(super) index: u32,
    /// The version that the request writes; of reads, the last part that must be there; of counters, how often they had been
    /// started.
    pub(super) version: u32,
    /// The oldest version that it may find; of counters, how far they have gone at least.
    pub(super) oldest: u64,
}

/// A request.
#[derive(Debug)]
pub struct Request {
    pub(super) verb: Verb,
    /// Opaque of meta commands.
    pub(super) opaque: u32,
    pub(super) first: Asked,
    /// Further keys to read.
    pub(super) others: Vec<Asked>,
}

impl Request {
    /// All keys.
    pub(super) fn asked(&self) -> impl Iterator<Item = &Asked> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// The key at this place of the request.
    pub(super) fn at(&self, place: usize) -> &Asked {
        match place.checked_sub(1) {
            None => &self.first,
            Some(other) => &self.others[other],
        }
    }

    /// Number of keys.
    pub(super) fn count(&self) -> usize {
        1 + self.others.len()
    }
}

/// What requests are written with.
#[derive(Clone, Copy)]
pub(super) struct Writing<'a> {
    pub(super) keys: &'a Keys,
    pub(super) plan: &'a Memcached,
    /// The first number of the worker's keys, and the distance to the next.
    pub(super) numbers: (u64, u64),
    /// The keys of the worker's bucket, which these numbers count; all, if there are none.
    pub(super) owned: Option<&'a [u32]>,
    /// Size of the value of a number, and the run that writes it.
    pub(super) length: usize,
    pub(super) run: u32,
}

impl<'a> Writing<'a> {
    pub(super) fn number(&self, index: u32) -> u64 {
        let number = self.numbers.0 + u64::from(index) * self.numbers.1;
        match self.owned {
            None => number,
            Some(owned) => owned[number as usize].into(),
        }
    }

    fn key(&self, index: u32) -> Key<'a> {
        Key(self.keys, self.number(index))
    }

    fn expires(&self) -> i64 {
        self.plan.ttl_s.map_or(0, i64::from)
    }

    /// Appends the request.
    pub(super) fn write(&self, request: &Request, out: &mut Vec<u8>) {
        match self.plan.meta {
            true => self.write_meta(request, out),
            false => self.write_text(request, out),
        }
    }

    fn origin(&self, request: &Request) -> Origin {
        Origin {
            number: self.number(request.first.index),
            run: self.run,
            version: request.first.version,
        }
    }

    fn value(&self, request: &Request) -> Value {
        Value {
            origin: self.origin(request),
            length: self.length,
        }
    }

    fn part(&self, request: &Request, side: Side) -> Part {
        Part {
            origin: self.origin(request),
            side,
        }
    }

    fn write_text(&self, request: &Request, out: &mut Vec<u8>) {
        let (key, expires) = (self.key(request.first.index), self.expires());
        let keys = || request.asked().map(|asked| self.key(asked.index));
        let mut store = |how| {
            let value = self.value(request);
            client::store(out, how, key, value.origin.flags(), expires, value);
        };
        match request.verb {
            Verb::Set | Verb::Prefill => store(Store::Set),
            Verb::Add => store(Store::Add),
            Verb::Replace => store(Store::Replace),
            Verb::Cas { unique, .. } => store(Store::Cas(unique)),
            Verb::Extend(side) => {
                let how = match side {
                    Side::Front => Store::Prepend,
                    Side::Back => Store::Append,
                };
                client::store(out, how, key, 0, 0, self.part(request, side));
            }
            Verb::Start(direction) => {
                client::store(out, Store::Add, key, 0, expires, direction.first().as_bytes());
            }
            Verb::Get => client::get(out, Get::Get, keys()),
            Verb::Gets | Verb::ReadForCas => client::get(out, Get::Gets, keys()),
            Verb::Gat => client::get(out, Get::Gat(expires), keys()),
            Verb::Delete => client::delete(out, key),
            Verb::Count(Direction::Up) => client::incr(out, key, 1),
            Verb::Count(Direction::Down) => client::decr(out, key, 1),
            Verb::Touch => client::touch(out, key, expires),
        }
    }

    fn write_meta(&self, request: &Request, out: &mut Vec<u8>) {
        let key = self.key(request.first.index);
        let opaque = Flag::Unsigned(b'O', request.opaque.into());
        let expires = Flag::Number(b'T', self.expires());
        let named = Flag::Plain(b'k');
        let mut store = |mode: u8, more: &[Flag]| {
            let value = self.value(request);
            let flags = Flag::Number(b'F', value.origin.flags().into());
            let mode = Flag::Letter(b'M', mode);
            let flags = [&[named, opaque, expires, flags, mode], more].concat();
            client::meta(out, *b"ms", key, &flags, Some(value));
        };
        let none = None::<&[u8]>;
        match request.verb {
            Verb::Set | Verb::Prefill => store(b'S', &[]),
            Verb::Add => store(b'E', &[]),
            Verb::Replace => store(b'R', &[]),
            Verb::Cas { unique, .. } => store(b'S', &[Flag::Unsigned(b'C', unique)]),
            Verb::Extend(side) => {
                let mode = match side {
                    Side::Front => b'P',
                    Side::Back => b'A',
                };
                let flags = [named, opaque, Flag::Letter(b'M', mode)];
                client::meta(out, *b"ms", key, &flags, Some(self.part(request, side)));
            }
            Verb::Start(direction) => {
                let flags = [named, opaque, expires, Flag::Letter(b'M', b'E')];
                client::meta(out, *b"ms", key, &flags, Some(direction.first().as_bytes()));
            }
            Verb::Get | Verb::Gets | Verb::ReadForCas | Verb::Gat => self.write_meta_get(request, out),
            Verb::Delete => client::meta(out, *b"md", key, &[named, opaque], none),
            Verb::Count(direction) => {
                let mode = match direction {
                    Direction::Up => b'I',
                    Direction::Down => b'D',
                };
                let flags = [named, opaque, Flag::Plain(b'v'), Flag::Letter(b'M', mode)];
                client::meta(out, *b"ma", key, &flags, none);
            }
            Verb::Touch => client::meta(out, *b"mg", key, &[named, opaque, expires], none),
        }
    }

    /// Several keys are as many quiet commands, and one that is answered after them.
    fn write_meta_get(&self, request: &Request, out: &mut Vec<u8>) {
        let mut flags = [Flag::Plain(b'v'); 7];
        let mut count = 1;
        let mut add = |flag| {
            flags[count] = flag;
            count += 1;
        };
        add(Flag::Plain(b'k'));
        add(Flag::Plain(b'f'));
        add(Flag::Unsigned(b'O', request.opaque.into()));
        match request.verb {
            Verb::Gets | Verb::ReadForCas => add(Flag::Plain(b'c')),
            Verb::Gat => add(Flag::Number(b'T', self.expires())),
            _ => {}
        }
        let is_quiet = request.count() > 1;
        if is_quiet {
            add(Flag::Plain(b'q'));
        }
        for asked in request.asked() {
            client::meta(out, *b"mg", self.key(asked.index), &flags[..count], None::<&[u8]>);
        }
        if is_quiet {
            out.extend_from_slice(NO_OPERATION);
        }
    }
}
