//! `memcached`: the text and the meta protocol of memcached.

pub mod client;
