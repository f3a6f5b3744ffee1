//! Lines of `watch`, as memcached writes them.

use crate::memcached::commands::Output;
use crate::memcached::listing::put_encoded;
use crate::memcached::request::Mode;
use std::net::SocketAddr;

/// What a line is about.
#[derive(Debug, Clone, Copy)]
pub enum Entry<'a> {
    /// A request as it was sent (`rawcmds`).
    Request {
        /// The connection.
        connection: usize,
        /// The line, without its end.
        line: &'a [u8],
    },
    /// A key was looked for (`fetchers`).
    Get {
        /// The key.
        key: &'a [u8],
        /// What was found.
        found: Found,
        /// Bytes of the value; 0 if there is none.
        size: usize,
        /// The connection.
        connection: usize,
    },
    /// A value was stored, or not (`mutations`).
    Store {
        /// The key.
        key: &'a [u8],
        /// What came of it.
        status: Status,
        /// How it was to be stored.
        mode: Mode,
        /// Seconds until it expires; 0 for never.
        ttl: u32,
        /// Bytes of the value.
        size: usize,
        /// The connection.
        connection: usize,
    },
    /// An item was deleted by a request (`deletions`).
    Deleted {
        /// The key.
        key: &'a [u8],
        /// By `md`, not `delete`.
        by_meta: bool,
        /// Bytes of the value.
        size: usize,
    },
    /// An item was evicted (`evictions`).
    Evicted {
        /// The key.
        key: &'a [u8],
        /// Whether it was read.
        fetched: bool,
        /// Seconds until it would have expired; `None` for never.
        ttl: Option<u32>,
        /// Seconds since it was last accessed.
        idle: u32,
        /// Bytes of the value.
        size: usize,
    },
    /// A connection was opened (`connevents`).
    Opened(Peer),
    /// A connection ended (`connevents`).
    Closed(Peer, Reason),
}

/// A connection.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    /// Its number.
    pub connection: usize,
    /// Its client; `None` on a Unix socket.
    pub address: Option<SocketAddr>,
}

/// What a key had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// An item.
    Item,
    /// An item that is flushed.
    Flushed,
    /// An item that has expired.
    Expired,
}

/// What came of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It is not stored for what the key has.
    NotStored,
    /// It is stored.
    Stored,
    /// The key has another number.
    Exists,
    /// The key has none.
    NotFound,
    /// It is larger than `-I`.
    TooLarge,
    /// There is no room.
    NoMemory,
}

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It failed.
    Error,
    /// Its client ended it, or asked for it.
    Normal,
    /// Its client sent nothing for too long.
    IdleTimeout,
}

impl Entry<'_> {
    /// The stream that has it, of [`Watched::NAMES`](crate::memcached::control::Watched::NAMES).
    pub const fn stream(&self) -> &'static str {
        match self {
            Self::Request { .. } => "rawcmds",
            Self::Get { .. } => "fetchers",
            Self::Store { .. } => "mutations",
            Self::Deleted { .. } => "deletions",
            Self::Evicted { .. } => "evictions",
            Self::Opened(_) | Self::Closed(..) => "connevents",
        }
    }

    /// Writes the line, at this Unix time in microseconds, of this number among all lines. There are no slab classes: items are of class
    /// 1, and none is of class 0.
    pub fn put(&self, time: u64, number: u64, out: &mut impl Output) {
        let (seconds, micros) = (time / 1_000_000, time % 1_000_000);
        out.put(format!("ts={seconds}.{micros} gid={number} ").as_bytes());
        self.contents(out);
        out.put(b"\n");
    }

    fn contents(&self, out: &mut impl Output) {
        match *self {
            Self::Request { connection, line } => {
                out.put(format!("<{connection} ").as_bytes());
                out.put(line);
            }
            Self::Get {
                key,
                found,
                size,
                connection,
            } => {
                put_key("item_get", key, out);
                let (status, class) = (found.name(), u8::from(found == Found::Item));
                out.put(format!("status={status} clsid={class} cfd={connection} size={size}").as_bytes());
            }
            Self::Store {
                key,
                status,
                mode,
                ttl,
                size,
                connection,
            } => {
                put_key("item_store", key, out);
                let (status, mode) = (status.name(), name(mode));
                let rest =
                    format!("status={status} cmd={mode} ttl={ttl} clsid=1 cfd={connection} size={size}");
                out.put(rest.as_bytes());
            }
            Self::Deleted { key, by_meta, size } => {
                put_key("deleted", key, out);
                let command = if by_meta { "md" } else { "delete" };
                out.put(format!("cmd={command} clsid=1 size={size}").as_bytes());
            }
            Self::Evicted {
                key,
                fetched,
                ttl,
                idle,
                size,
            } => {
                put_key("eviction", key, out);
                let fetched = if fetched { "yes" } else { "no" };
                let ttl = ttl.map_or(-1, i64::from);
                out.put(format!("fetch={fetched} ttl={ttl} la={idle} clsid=1 size={size}").as_bytes());
            }
            Self::Opened(peer) => {
                peer.put("conn_new", out);
                out.put(format!("cfd={}", peer.connection).as_bytes());
            }
            Self::Closed(peer, reason) => {
                peer.put("conn_close", out);
                let reason = reason.name();
                out.put(format!("reason={reason} cfd={}", peer.connection).as_bytes());
            }
        }
    }
}

fn put_key(kind: &str, key: &[u8], out: &mut impl Output) {
    out.put(format!("type={kind} key=").as_bytes());
    put_encoded(key, out);
    out.put(b" ");
}

impl Peer {
    fn put(&self, kind: &str, out: &mut impl Output) {
        let (address, port, transport) = match self.address {
            Some(address) => (address.ip().to_canonical().to_string(), address.port(), "tcp"),
            None => ("unix".to_owned(), 0, "local"),
        };
        out.put(format!("type={kind} rip={address} rport={port} transport={transport} ").as_bytes());
    }
}

impl Found {
    const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "not_found",
            Self::Item => "found",
            Self::Flushed => "flushed",
            Self::Expired => "expired",
        }
    }
}

impl Status {
    const fn name(self) -> &'static str {
        match self {
            Self::NotStored => "not_stored",
            Self::Stored => "stored",
            Self::Exists => "exists",
            Self::NotFound => "not_found",
            Self::TooLarge => "too_large",
            Self::NoMemory => "no_memory",
        }
    }
}

impl Reason {
    const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Normal => "normal",
            Self::IdleTimeout => "idle_timeout",
        }
    }
}

const fn name(mode: Mode) -> &'static str {
    match mode {
        Mode::Set => "set",
        Mode::Add => "add",
        Mode::Replace => "replace",
        Mode::Append => "append",
        Mode::Prepend => "prepend",
        Mode::Cas => "cas",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBER: usize = 27;

    fn lines(entries: &[Entry<'_>]) -> String {
        let mut out = Vec::new();
        for (number, entry) in entries.iter().enumerate() {
            entry.put(1_700_000_000_000_007, number as u64, &mut out);
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lines_about_keys_are_those_of_memcached() {
        let get = |key, found, size| Entry::Get {
            key,
            found,
            size,
            connection: NUMBER,
        };
        let entries = [
            get(b"a b", Found::Item, 3),
            get(b"a", Found::Expired, 0),
            Entry::Store {
                key: b"a",
                status: Status::Stored,
                mode: Mode::Set,
                ttl: 9,
                size: 3,
                connection: NUMBER,
            },
            Entry::Deleted {
                key: b"a",
                by_meta: true,
                size: 3,
            },
            Entry::Evicted {
                key: b"a",
                fetched: false,
                ttl: None,
                idle: 8,
                size: 3,
            },
        ];
        let expected = "ts=1700000000.7 gid=0 type=item_get key=a%20b status=found clsid=1 cfd=27 size=3\n\
            ts=1700000000.7 gid=1 type=item_get key=a status=expired clsid=0 cfd=27 size=0\n\
            ts=1700000000.7 gid=2 type=item_store key=a status=stored cmd=set ttl=9 clsid=1 cfd=27 size=3\n\
            ts=1700000000.7 gid=3 type=deleted key=a cmd=md clsid=1 size=3\n\
            ts=1700000000.7 gid=4 type=eviction key=a fetch=no ttl=-1 la=8 clsid=1 size=3\n";
        assert_eq!(lines(&entries), expected);
    }

    #[test]
    fn lines_about_connections_are_those_of_memcached() {
        let peer = |address| Peer {
            connection: NUMBER,
            address,
        };
        let entries = [
            Entry::Request {
                connection: NUMBER,
                line: b"get a",
            },
            Entry::Opened(peer(Some("[::ffff:127.0.0.1]:5".parse().unwrap()))),
            Entry::Closed(peer(None), Reason::IdleTimeout),
        ];
        let expected = "ts=1700000000.7 gid=0 <27 get a\n\
            ts=1700000000.7 gid=1 type=conn_new rip=127.0.0.1 rport=5 transport=tcp cfd=27\n\
            ts=1700000000.7 gid=2 type=conn_close rip=unix rport=0 transport=local reason=idle_timeout cfd=27\n";
        assert_eq!(lines(&entries), expected);
    }
}
