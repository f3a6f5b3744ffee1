//! `memcached`: the text and the meta protocol of memcached.
//!
//! A client writes requests and checks answers with [`client`]. The rest is for servers. In: bytes in any segments, the time, and the items of a store ([`items::Items`]). Out: [`request::Request`]s, and
//! the bytes of the answers. The rules are those of memcached 1.6.45, as its clients see them: the same limits, the
//! same lines for the same errors. Where the text says "memcached", that version is meant.
//!
//! A server gives received bytes to a [`request::Parser`]. It computes the hash of each request's key, and lets
//! [`commands::Commands`] answer it, or the worker that owns the key do so.

mod base64;
pub mod client;
pub mod commands;
pub mod control;
pub mod items;
pub mod listing;
mod number;
pub mod request;
pub mod time;
pub mod udp;
pub mod watch;
