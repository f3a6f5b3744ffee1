//! Options for opening connections.

use std::net::SocketAddr;
use std::time::Duration;

/// Options for opening one connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ConnectOptions {
    /// The local address. With port 0 the kernel chooses the port when it knows the peer (`IP_BIND_ADDRESS_NO_PORT`),
    /// so that each local address has about 28,000 ports (`net.ipv4.ip_local_port_range`) per peer address and port.
    /// With `None` the route determines the address.
    pub local: Option<SocketAddr>,
    /// Allows a local address that no device has (`IP_FREEBIND`), for instance from a prefix routed to this machine.
    pub free_bind: bool,
    /// The time after which an attempt ends with [`Cause::TimedOut`](super::super::Cause::TimedOut). With `None` the
    /// kernel's limit applies (`net.ipv4.tcp_syn_retries`: about two minutes).
    pub timeout: Option<Duration>,
    /// Whether the connection receives once it is open; true by default.
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
