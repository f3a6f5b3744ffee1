//! The commands that store a value.

use super::context::{Commands, item_size};
use super::flags::{Flags, OPAQUE_TOO_LONG};
use super::line::{Output, put_flag, put_key, put_unless};
use super::meta::put_opaque;
use crate::memcached::items::{Attributes, Item, Items, Key, Marks, NoRoom, Side, Value};
use crate::memcached::request::{Data, Mode, Store, tokens};

/// The most bytes of flags that are kept to be returned: an opaque, and three letters, each behind a space.
const KEPT: usize = 1 + 32 + 3 * 2;

const BAD_CHUNK: &str = "CLIENT_ERROR bad data chunk\r\n";
const NO_MEMORY: &str = "SERVER_ERROR out of memory storing object\r\n";
const TOO_LARGE: &str = "SERVER_ERROR object too large for cache\r\n";

/// A request whose value is not there yet: what it wants, and the room for its value.
#[derive(Debug)]
pub struct Pending<R> {
    plan: Plan,
    key: Box<[u8]>,
    hash: u64,
    reservation: Result<R, NoRoom>,
}

impl<R> Pending<R> {
    /// Its key.
    pub fn key(&self) -> Key<'_> {
        Key {
            bytes: &self.key,
            hash: self.hash,
        }
    }

    /// How it is to be stored.
    pub fn mode(&self) -> Mode {
        self.plan.mode
    }

    /// Length of its value in bytes.
    pub fn length(&self) -> u32 {
        self.plan.length
    }
}

/// What a request wants.
#[derive(Debug, Clone, Copy)]
struct Plan {
    mode: Mode,
    /// Whether `append` and `prepend` make an item if there is none.
    vivify: bool,
    flags: u32,
    expiry: u32,
    length: u32,
    /// The number that the item must have; 0 if none.
    cas: u64,
    /// The number that it gets.
    next_cas: Option<u64>,
    /// Whether a smaller number is accepted: the value is then stale.
    may_be_stale: bool,
    binary: bool,
    quiet: bool,
    opaque_too_long: bool,
    /// What `ms` returns.
    returned: Option<Returned>,
}

/// The flags of `ms` that are returned: `O`, `k`, `c` and `s`.
#[derive(Debug, Clone, Copy)]
struct Returned {
    flags: [u8; KEPT],
    length: u8,
}

/// What a request led to.
enum Outcome {
    /// The value was stored with this number, and has this length if others were joined.
    Stored {
        cas: u64,
        joined: Option<usize>,
    },
    Exists,
    NotFound,
    NotStored,
    NoRoom,
}

impl<I: Items> Commands<'_, I> {
    /// A request whose value is there.
    pub(super) fn store(&mut self, store: &Store<'_>, key: Key<'_>, out: &mut impl Output) {
        let Some(plan) = self.planned(store, key, out) else {
            return;
        };
        match store.data {
            Data::Whole(value) => self.put(&plan, key, Value::Bytes(value), out),
            Data::Bad => plan.refuse(out),
            Data::Later => {}
        }
    }

    /// Starts a request whose value is not there. What is returned gets the parts of the value
    /// ([`Commands::continue_with`]) and then its end ([`Commands::finish`]), or is given up. If nothing is returned,
    /// the error has been answered, and the value is ignored.
    pub fn begin(
        &mut self,
        store: &Store<'_>,
        key: Key<'_>,
        out: &mut impl Output,
    ) -> Option<Pending<I::Reservation>> {
        let plan = self.planned(store, key, out)?;
        let reservation = self.items.reserve(key, store.length as usize, self.clock.now);
        if reservation.is_err() {
            self.no_room(&plan, key, out);
            return None;
        }
        Some(Pending {
            plan,
            key: key.bytes.into(),
            hash: key.hash,
            reservation,
        })
    }

    /// Takes a part of a value.
    pub fn continue_with(&mut self, pending: &mut Pending<I::Reservation>, part: &[u8]) {
        if let Ok(reservation) = &mut pending.reservation
            && self.items.fill(reservation, part).is_err()
        {
            pending.reservation = Err(NoRoom);
        }
    }

    /// Ends a request, whose value ended where it should or not.
    pub fn finish(&mut self, pending: Pending<I::Reservation>, good: bool, out: &mut impl Output) {
        let Pending {
            plan, reservation, ..
        } = pending;
        let key = Key {
            bytes: &pending.key,
            hash: pending.hash,
        };
        match reservation {
            Ok(reservation) if good => self.put(&plan, key, Value::Reserved(reservation), out),
            Ok(reservation) => {
                self.items.cancel(reservation);
                plan.refuse(out);
            }
            Err(NoRoom) => self.no_room(&plan, key, out),
        }
    }

    /// What a request wants; nothing if it is refused.
    fn planned(&mut self, store: &Store<'_>, key: Key<'_>, out: &mut impl Output) -> Option<Plan> {
        let plan = match store.meta {
            None => Plan {
                mode: store.mode,
                vivify: false,
                flags: store.flags,
                expiry: self.clock.expiry(store.exptime),
                length: store.length,
                cas: store.cas,
                next_cas: None,
                may_be_stale: false,
                binary: false,
                quiet: store.quiet,
                opaque_too_long: false,
                returned: None,
            },
            Some(sent) => {
                let flags = Flags::read(sent, 3, (store.key, key), self.clock);
                match flags.and_then(|flags| Plan::of_flags(sent, &flags, store.length)) {
                    Ok(plan) => plan,
                    Err(answer) => {
                        out.put(answer.as_bytes());
                        return None;
                    }
                }
            }
        };
        if item_size(key.bytes.len(), plan.flags, store.length as usize) > self.largest_item {
            self.counts.too_large += 1;
            self.refuse(TOO_LARGE, &plan, key, out);
            return None;
        }
        self.counts.sets += 1;
        if plan.opaque_too_long {
            out.put(OPAQUE_TOO_LONG.as_bytes());
            return None;
        }
        Some(plan)
    }

    fn no_room(&mut self, plan: &Plan, key: Key<'_>, out: &mut impl Output) {
        self.counts.no_memory += 1;
        self.refuse(NO_MEMORY, plan, key, out);
    }

    /// Answers an error of a value for which there is no room. An old one would be out of date.
    fn refuse(&mut self, answer: &str, plan: &Plan, key: Key<'_>, out: &mut impl Output) {
        if plan.returned.is_some() || plan.mode == Mode::Set {
            self.items.remove(key, self.clock.now);
        }
        put_unless(plan.quiet && plan.returned.is_none(), answer, out);
    }

    fn put(&mut self, plan: &Plan, key: Key<'_>, value: Value<'_, I::Reservation>, out: &mut impl Output) {
        match self.outcome(plan, key, value) {
            Outcome::NoRoom => self.no_room(plan, key, out),
            outcome => plan.answer(&outcome, key.bytes, out),
        }
    }

    /// Stores a value, if what is there allows it.
    fn outcome(&mut self, plan: &Plan, key: Key<'_>, value: Value<'_, I::Reservation>) -> Outcome {
        let now = self.clock.now;
        let mut new = Attributes {
            cas: 0,
            flags: plan.flags,
            expiry: plan.expiry,
            last_access: now,
            marks: if plan.binary {
                Marks::BINARY_KEY
            } else {
                Marks::NONE
            },
        };
        let decision = match plan.mode {
            Mode::Set => Ok(()),
            Mode::Add => self.if_absent(key),
            Mode::Replace => self.items.find(key, now).map(drop).ok_or(Outcome::NotStored),
            Mode::Cas => self.if_same(plan, key, &mut new),
            Mode::Append => return self.join(plan, key, value, (Side::Back, new)),
            Mode::Prepend => return self.join(plan, key, value, (Side::Front, new)),
        };
        match decision {
            Ok(()) => self.set(plan, key, value, new),
            Err(outcome) => {
                self.drop_value(value);
                outcome
            }
        }
    }

    fn set(
        &mut self,
        plan: &Plan,
        key: Key<'_>,
        value: Value<'_, I::Reservation>,
        mut new: Attributes,
    ) -> Outcome {
        new.cas = plan.next_cas.unwrap_or_else(|| self.items.next_cas());
        match self.items.set(key, value, &new) {
            Ok(()) => Outcome::Stored {
                cas: new.cas,
                joined: None,
            },
            Err(NoRoom) => Outcome::NoRoom,
        }
    }

    fn drop_value(&mut self, value: Value<'_, I::Reservation>) {
        if let Value::Reserved(reservation) = value {
            self.items.cancel(reservation);
        }
    }

    /// `add`, which is an access to the item that is there.
    fn if_absent(&mut self, key: Key<'_>) -> Result<(), Outcome> {
        let now = self.clock.now;
        let Some(mut item) = self.items.find(key, now) else {
            return Ok(());
        };
        let mut attributes = item.attributes();
        attributes.last_access = now;
        item.set_attributes(&attributes);
        Err(Outcome::NotStored)
    }

    /// `cas`.
    fn if_same(&mut self, plan: &Plan, key: Key<'_>, new: &mut Attributes) -> Result<(), Outcome> {
        let Some(item) = self.items.find(key, self.clock.now) else {
            self.counts.cas_misses += 1;
            return Err(Outcome::NotFound);
        };
        let old = item.attributes();
        let stale = plan.may_be_stale && plan.cas < old.cas;
        if plan.cas == 0 || (plan.cas != old.cas && !stale) {
            self.counts.cas_badval += 1;
            return Err(Outcome::Exists);
        }
        self.counts.cas_hits += 1;
        if plan.cas != old.cas {
            new.expiry = old.expiry;
            new.marks |= Marks::STALE;
            if old.marks.contains(Marks::WON) {
                new.marks |= Marks::WON;
            }
        }
        Ok(())
    }

    /// `append` and `prepend`. The item keeps its flags and its expiry.
    fn join(
        &mut self,
        plan: &Plan,
        key: Key<'_>,
        value: Value<'_, I::Reservation>,
        (side, new): (Side, Attributes),
    ) -> Outcome {
        let found = self
            .items
            .find(key, self.clock.now)
            .map(|item| (item.attributes(), item.length()));
        let Some((old, length)) = found else {
            if plan.vivify {
                return self.set(plan, key, value, new);
            }
            self.drop_value(value);
            return Outcome::NotStored;
        };
        let length = length + plan.length as usize;
        let other = plan.cas != 0 && plan.cas != old.cas;
        if other || item_size(key.bytes.len(), old.flags, length) > self.largest_item {
            self.drop_value(value);
            return if other {
                Outcome::Exists
            } else {
                Outcome::NotStored
            };
        }
        let cas = plan.next_cas.unwrap_or_else(|| self.items.next_cas());
        let joined = Attributes {
            cas,
            flags: old.flags,
            expiry: old.expiry,
            last_access: self.clock.now,
            marks: Marks::NONE,
        };
        match self.items.join(key, value, side, &joined) {
            Ok(()) => Outcome::Stored {
                cas,
                joined: Some(length),
            },
            Err(NoRoom) => Outcome::NotStored,
        }
    }
}

impl Plan {
    fn of_flags(sent: &[u8], flags: &Flags, length: u32) -> Result<Self, &'static str> {
        let mut expiry = flags.expiry.unwrap_or_default();
        let mut mode = match flags.mode {
            0 | b'S' => Mode::Set,
            b'E' => Mode::Add,
            b'A' => Mode::Append,
            b'P' => Mode::Prepend,
            b'R' => Mode::Replace,
            _ => return Err("CLIENT_ERROR invalid mode for ms M token\r\n"),
        };
        if let (Mode::Append | Mode::Prepend, Some(vivify)) = (mode, flags.vivify) {
            expiry = vivify;
        }
        if flags.cas.is_some() && matches!(mode, Mode::Set | Mode::Replace) {
            mode = Mode::Cas;
        }
        Ok(Self {
            mode,
            vivify: flags.vivify.is_some(),
            flags: flags.client_flags,
            expiry,
            length,
            cas: flags.cas.unwrap_or_default(),
            // 0 is no number.
            next_cas: flags.next_cas.filter(|cas| *cas != 0),
            may_be_stale: flags.stale,
            binary: flags.binary,
            quiet: flags.quiet,
            opaque_too_long: flags.opaque_too_long,
            returned: Some(Returned::new(sent)),
        })
    }

    /// Answers that the value did not end where it should. `ms` says so in any case.
    fn refuse(&self, out: &mut impl Output) {
        put_unless(self.quiet && self.returned.is_none(), BAD_CHUNK, out);
    }

    fn answer(&self, outcome: &Outcome, key: &[u8], out: &mut impl Output) {
        let (line, status) = match outcome {
            Outcome::Stored { .. } => ("STORED\r\n", b"HD"),
            Outcome::Exists => ("EXISTS\r\n", b"EX"),
            Outcome::NotFound => ("NOT_FOUND\r\n", b"NF"),
            Outcome::NotStored | Outcome::NoRoom => ("NOT_STORED\r\n", b"NS"),
        };
        let (cas, joined) = match outcome {
            Outcome::Stored { cas, joined } => (*cas, *joined),
            _ => (0, None),
        };
        match &self.returned {
            None => put_unless(self.quiet, line, out),
            Some(_) if self.quiet && status == b"HD" => {}
            Some(returned) => {
                out.put(status);
                for flag in tokens::split_short(returned.flags()) {
                    match flag[0] {
                        b'k' => put_key(key, self.binary, out),
                        b'c' => put_flag(" c", cas, out),
                        b's' => put_flag(" s", joined.unwrap_or(self.length as usize) as u64, out),
                        _ => put_opaque(flag, out),
                    }
                }
                out.put(b"\r\n");
            }
        }
    }
}

impl Returned {
    fn new(sent: &[u8]) -> Self {
        let mut kept = Self {
            flags: [0; KEPT],
            length: 0,
        };
        for flag in tokens::split_short(sent) {
            match flag[0] {
                b'O' => kept.push(flag),
                b'k' | b'c' | b's' => kept.push(&flag[..1]),
                _ => {}
            }
        }
        kept
    }

    fn push(&mut self, flag: &[u8]) {
        let start = usize::from(self.length);
        // An opaque that is too long is not kept: it is an error.
        if let Some([space, room @ ..]) = self.flags.get_mut(start..start + 1 + flag.len()) {
            *space = b' ';
            room.copy_from_slice(flag);
            self.length += 1 + flag.len() as u8;
        }
    }

    fn flags(&self) -> &[u8] {
        &self.flags[..usize::from(self.length)]
    }
}
