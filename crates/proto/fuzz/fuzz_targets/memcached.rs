//! Arbitrary bytes as requests of memcached's protocols, over a connection and as datagrams.

#![no_main]

#[path = "../../tests/common/any_memcached.rs"]
mod any_memcached;
#[path = "../../tests/memcached/map.rs"]
mod memcached_map;
#[path = "../../tests/memcached/server.rs"]
mod memcached_server;

libfuzzer_sys::fuzz_target!(|input: &[u8]| any_memcached::holds(input));
