//! Requests as bytes.

use crate::memcached::number::Decimal;

/// Bytes of a request that are written in place: a key, or a value.
pub trait Content {
    /// How many [`write`](Self::write) appends.
    fn length(&self) -> usize;

    /// Appends them.
    fn write(&self, out: &mut Vec<u8>);
}

impl Content for &[u8] {
    fn length(&self) -> usize {
        self.len()
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

/// How values are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Get {
    /// `get`.
    Get,
    /// `gets`: with their cas numbers.
    Gets,
    /// `gat`: their expiration becomes this one.
    Gat(i64),
    /// `gats`: both.
    Gats(i64),
}

/// How a value is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Store {
    /// Always.
    Set,
    /// If the key has none.
    Add,
    /// If the key has one.
    Replace,
    /// Behind the one that the key has.
    Append,
    /// Before it.
    Prepend,
    /// If the key's still has this number.
    Cas(u64),
}

/// A flag of a meta command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flag {
    /// Without a token, such as `v`.
    Plain(u8),
    /// With a number, such as `T30`.
    Number(u8, i64),
    /// With an unsigned number, such as `C17`.
    Unsigned(u8, u64),
    /// With a letter, such as `ME`.
    Letter(u8, u8),
}

/// `mn`, which is answered by `MN` after all that came before.
pub const NO_OPERATION: &[u8] = b"mn\r\n";

const END: &[u8] = b"\r\n";

/// `get` and its relatives, for one or more keys.
pub fn get(out: &mut Vec<u8>, how: Get, keys: impl IntoIterator<Item = impl Content>) {
    match how {
        Get::Get => out.extend_from_slice(b"get"),
        Get::Gets => out.extend_from_slice(b"gets"),
        Get::Gat(expires) => named(out, b"gat ", expires),
        Get::Gats(expires) => named(out, b"gats ", expires),
    }
    for key in keys {
        out.push(b' ');
        key.write(out);
    }
    out.extend_from_slice(END);
}

/// `set` and its relatives. `expires` is an exptime: seconds from now up to 30 days, a Unix time beyond; 0 for never.
pub fn store(
    out: &mut Vec<u8>,
    how: Store,
    key: impl Content,
    flags: u32,
    expires: i64,
    value: impl Content,
) {
    out.extend_from_slice(match how {
        Store::Set => b"set ",
        Store::Add => b"add ",
        Store::Replace => b"replace ",
        Store::Append => b"append ",
        Store::Prepend => b"prepend ",
        Store::Cas(_) => b"cas ",
    });
    key.write(out);
    named(out, b" ", i64::from(flags));
    named(out, b" ", expires);
    out.push(b' ');
    digits(out, value.length() as u64);
    if let Store::Cas(unique) = how {
        out.push(b' ');
        digits(out, unique);
    }
    out.extend_from_slice(END);
    value.write(out);
    out.extend_from_slice(END);
}

/// `delete`.
pub fn delete(out: &mut Vec<u8>, key: impl Content) {
    out.extend_from_slice(b"delete ");
    key.write(out);
    out.extend_from_slice(END);
}

/// `incr` by this much.
pub fn incr(out: &mut Vec<u8>, key: impl Content, by: u64) {
    arithmetic(out, b"incr ", key, by);
}

/// `decr` by this much.
pub fn decr(out: &mut Vec<u8>, key: impl Content, by: u64) {
    arithmetic(out, b"decr ", key, by);
}

fn arithmetic(out: &mut Vec<u8>, name: &[u8], key: impl Content, by: u64) {
    out.extend_from_slice(name);
    key.write(out);
    out.push(b' ');
    digits(out, by);
    out.extend_from_slice(END);
}

/// `touch`.
pub fn touch(out: &mut Vec<u8>, key: impl Content, expires: i64) {
    out.extend_from_slice(b"touch ");
    key.write(out);
    named(out, b" ", expires);
    out.extend_from_slice(END);
}

/// A meta command such as `mg`, with its flags; `ms` has a value.
pub fn meta(
    out: &mut Vec<u8>,
    command: [u8; 2],
    key: impl Content,
    flags: &[Flag],
    value: Option<impl Content>,
) {
    out.extend_from_slice(&command);
    out.push(b' ');
    key.write(out);
    if let Some(value) = &value {
        out.push(b' ');
        digits(out, value.length() as u64);
    }
    for flag in flags {
        out.push(b' ');
        match *flag {
            Flag::Plain(name) => out.push(name),
            Flag::Number(name, token) => named(out, &[name], token),
            Flag::Unsigned(name, token) => {
                out.push(name);
                digits(out, token);
            }
            Flag::Letter(name, token) => out.extend_from_slice(&[name, token]),
        }
    }
    out.extend_from_slice(END);
    if let Some(value) = value {
        value.write(out);
        out.extend_from_slice(END);
    }
}

/// Appends a name, and a number in decimal.
fn named(out: &mut Vec<u8>, name: &[u8], number: i64) {
    out.extend_from_slice(name);
    if number < 0 {
        out.push(b'-');
    }
    digits(out, number.unsigned_abs());
}

/// Appends a number in decimal.
fn digits(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(Decimal::new(number).bytes());
}
