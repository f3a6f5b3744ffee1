//! How connections are opened.

use std::net::SocketAddr;
use std::time::Duration;

/// How one connection is to be opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ConnectOptions {
    /// The local address; with port 0 the kernel chooses one with the peer known (`IP_BIND_ADDRESS_NO_PORT`), so that
    /// every local address has some 28,000 ports (`net.ipv4.ip_local_port_range`) for each address and port of a peer.
    /// None leaves the address to the route.
    pub local: Option<SocketAddr>,
    /// Allows a local address that no device has (`IP_FREEBIND`), such as one of a prefix routed to this machine.
    pub free_bind: bool,
    /// After how long an attempt ends with [`Cause::TimedOut`](super::super::Cause::TimedOut); none leaves it to the
    /// kernel (`net.ipv4.tcp_syn_retries`: about two minutes).
    pub timeout: Option<Duration>,
    /// Whether to receive from the start; true by default.
    pub receive: bool,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            local: None,
            free_bind: false,
            timeout: None,
            receive: true,
        }
    }
}
