//! `corelane serve`: the foreground servers, one file each.

pub mod buckets;
mod device;
pub mod foreground;
mod http;
pub mod live_table;
mod memcached;
mod packets;
mod tcp;
mod tls;
mod udp;

pub use memcached::expanded;

use crate::verbs::verbs;

verbs! {
    ServeWhat:
    Udp(udp::ServeUdpArguments),
    Http(http::ServeHttpArguments),
    Packets(packets::ServePacketsArguments),
    Tcp(tcp::ServeTcpArguments),
    Memcached(memcached::ServeMemcachedArguments),
}
