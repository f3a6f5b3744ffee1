//! The integration tests of this crate, in one program.

mod bridge;
mod changing_tables;
mod common;
mod documents;
mod http;
mod http_files;
mod http_files_changed;
mod http_hostile;
mod http_statuses;
mod http_tls;
mod memcached;
mod memcached_datagrams;
mod memcached_hostile;
mod memcached_owners;
mod memcached_reads;
mod memcached_statistics;
mod memcached_watch;
mod path;
mod rebalancing;
mod tcp;
mod udp;
mod wildcard;
