//! `corelane lab scale`: an experiment per protocol.

use super::{scale_http, scale_memcached, scale_tcp, scale_udp};
use crate::verbs::verbs;

verbs! {
    ScaleWhat:
    Udp(scale_udp::ScaleUdpArguments),
    Http(scale_http::ScaleHttpArguments),
    Tcp(scale_tcp::ScaleTcpArguments),
    Memcached(scale_memcached::ScaleMemcachedArguments),
}
