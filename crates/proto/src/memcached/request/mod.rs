//! The requests of one connection: takes received bytes in any segments, returns requests that borrow them.
//!
//! [`Parser`] stops at each unit of work. A request for several keys is returned key by key. A request that stores a
//! value is returned as soon as its command line is there; if the value is not, it follows in parts.

mod line;
mod parser;
pub(in crate::memcached) mod tokens;

pub use parser::{LONGEST_LINE, Parser, Step};

use crate::memcached::base64;

/// Longest key in bytes.
pub const LONGEST_KEY: usize = 250;

/// What the bytes at the front are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// Nothing to be done: bytes were skipped, or more are needed (if none were used).
    Nothing,
    /// A request about one key.
    Request(Request<'a>),
    /// A part of the value of the last [`Store`], whose data was [`Data::Later`].
    Part(&'a [u8]),
    /// The end of that value: whether it ended where it should.
    End(bool),
    /// An answer that needs no items: the line of an error, `MN`.
    Answer(&'static str),
    /// A request about the whole server.
    Control(Control<'a>),
    /// Nothing more is parsed: the server sends the answers that are due and closes the connection.
    Close(Reason),
}

/// Why a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The client asked for it (`quit`).
    Quit,
    /// A line of HTTP.
    Http,
    /// More than [`LONGEST_LINE`] bytes without a line end.
    LineTooLong,
    /// The binary protocol, which is not spoken here: answer with [`BINARY_REFUSED`].
    Binary,
}

/// The answer to a first byte of the binary protocol (0x80).
pub const BINARY_REFUSED: &str = "CLIENT_ERROR the binary protocol is not supported\r\n";

/// A request about one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'a> {
    /// `get`, `gets`, `gat`, `gats`: one of its keys.
    Get(Get<'a>),
    /// A request that stores a value.
    Store(Store<'a>),
    /// `delete`.
    Delete(Delete<'a>),
    /// `incr`, `decr`.
    Arithmetic(Arithmetic<'a>),
    /// `touch`.
    Touch(Touch<'a>),
    /// `mg`, `md`, `ma`, `me`.
    Meta(Meta<'a>),
}

/// One key of `get`, `gets`, `gat` or `gats`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Get<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The `exptime` of `gat` and `gats`.
    pub touch: Option<i32>,
    /// Whether the answer has the number of the change (`gets`, `gats`).
    pub with_cas: bool,
    /// Whether it is the last key, whose answer ends the request's.
    pub last: bool,
}

/// `set`, `add`, `replace`, `append`, `prepend`, `cas`, `ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Store<'a> {
    /// The key as it was sent.
    pub key: &'a [u8],
    /// How it is stored. Of `ms`, the flags say this.
    pub mode: Mode,
    /// Flags of the client.
    pub flags: u32,
    /// When it expires.
    pub exptime: i32,
    /// The number that the item must have (`cas`).
    pub cas: u64,
    /// Length of the value in bytes.
    pub length: u32,
    /// Whether only errors of the protocol are answered (`noreply`).
    pub quiet: bool,
    /// The flags of `ms`; none of the fields above counts then but key and length.
    pub meta: Option<&'a [u8]>,
    /// The value.
    pub data: Data<'a>,
}

/// When a value is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Always.
    Set,
    /// If the key has none.
    Add,
    /// If the key has one.
    Replace,
    /// Behind the one of the key.
    Append,
    /// In front of the one of the key.
    Prepend,
    /// If the key has one with a given number.
    Cas,
}

/// The value of a [`Store`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Data<'a> {
    /// All of it.
    Whole(&'a [u8]),
    /// It does not end where it should; it is not stored.
    Bad,
    /// It follows as [`Event::Part`] and [`Event::End`].
    Later,
}

/// `delete`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delete<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Whether there is no answer.
    pub quiet: bool,
}

/// `incr`, `decr`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arithmetic<'a> {
    /// The key.
    pub key: &'a [u8],
    /// How much.
    pub delta: u64,
    /// Whether it is subtracted.
    pub decrement: bool,
    /// Whether there is no answer.
    pub quiet: bool,
}

/// `touch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touch<'a> {
    /// The key.
    pub key: &'a [u8],
    /// When it expires.
    pub exptime: i32,
    /// Whether there is no answer.
    pub quiet: bool,
}

/// `mg`, `md`, `ma`, `me`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta<'a> {
    /// Which one.
    pub command: MetaCommand,
    /// The key as it was sent.
    pub key: &'a [u8],
    /// The flags as they were sent, separated by spaces.
    pub flags: &'a [u8],
}

/// The meta commands about one key that store no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetaCommand {
    /// `mg`.
    Get,
    /// `md`.
    Delete,
    /// `ma`.
    Arithmetic,
    /// `me`.
    Debug,
}

/// A request about the whole server, as a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Control<'a> {
    /// The line, without its end.
    pub line: &'a [u8],
    /// Whether there is no answer.
    pub quiet: bool,
}

/// Room for a decoded key.
pub type KeyBuffer = [u8; LONGEST_KEY];

impl<'a> Request<'a> {
    /// The key, which is decoded into the buffer if it was sent as base64. A key that cannot be decoded is returned as
    /// it was sent; the request's answer is then an error.
    pub fn key<'b>(&self, buffer: &'b mut KeyBuffer) -> &'b [u8]
    where
        'a: 'b,
    {
        let (key, flags) = match *self {
            Self::Get(Get { key, .. })
            | Self::Delete(Delete { key, .. })
            | Self::Arithmetic(Arithmetic { key, .. })
            | Self::Touch(Touch { key, .. })
            | Self::Store(Store { key, meta: None, .. }) => return key,
            Self::Store(Store {
                key,
                meta: Some(flags),
                ..
            }) => (key, flags),
            Self::Meta(meta) if meta.command == MetaCommand::Debug && !meta.is_binary_debug() => {
                return meta.key;
            }
            Self::Meta(Meta { key, flags, .. }) => (key, flags),
        };
        let binary = flags.contains(&b'b') && tokens::split_short(flags).any(|flag| flag[0] == b'b');
        if binary {
            base64::decode(key, buffer).unwrap_or(key)
        } else {
            key
        }
    }
}

impl Meta<'_> {
    /// Whether `me` decodes its key: another flag has to follow `b`.
    pub(in crate::memcached) fn is_binary_debug(&self) -> bool {
        let mut flags = tokens::split_short(self.flags);
        flags.next() == Some(b"b") && flags.next().is_some()
    }
}
