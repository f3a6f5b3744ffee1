//! How streams are registered: listeners, and the options of connections to be opened.

#[cfg(feature = "simulated")]
use crate::engine::simulated::SimulatedSocket;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

/// What an engine can be given to accept connections from: a listener of the kernel, or in tests of a simulated network.
#[derive(Debug)]
pub enum Listener {
    /// For the engines over epoll and io_uring. Connections have its `TCP_NODELAY` and buffer sizes.
    Kernel(TcpListener),
    /// For the simulated engine.
    #[cfg(feature = "simulated")]
    Simulated(SimulatedSocket),
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Listener::Kernel(listener)
    }
}

#[cfg(feature = "simulated")]
impl From<SimulatedSocket> for Listener {
    fn from(listener: SimulatedSocket) -> Self {
        Listener::Simulated(listener)
    }
}

/// How one connection is to be opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
