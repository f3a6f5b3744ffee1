//! `corelane load`: the foreground generators, one file each.

mod foreground;
mod http;
mod live;
mod memcached;
mod packets;
mod proxy;
mod sources;
mod streams;
mod targets;
mod tcp;
mod trust;
mod udp;

pub use memcached::ShapeArguments;

use crate::verbs::verbs;

verbs! {
    LoadWhat:
    Udp(udp::LoadUdpArguments),
    Http(http::LoadHttpArguments),
    Memcached(memcached::LoadMemcachedArguments),
    Packets(packets::LoadPacketsArguments),
    Tcp(tcp::LoadTcpArguments),
}
