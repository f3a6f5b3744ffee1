//! Why a datagram was not sent, a connection ended or a socket complained; and the counts of one engine.

use std::fmt;
use std::io;

/// Why an operation failed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Cause {
    /// The peer answered that nobody listens there (`ECONNREFUSED`): by ICMP to a connected datagram socket, by a reset to
    /// a connection being opened.
    Refused,
    /// No route to the peer, or a router or host said so (`ENETUNREACH`, `EHOSTUNREACH`, `ENETDOWN`).
    Unreachable,
    /// The datagram is larger than the protocol or the path allows (`EMSGSIZE`).
    TooLarge,
    /// The kernel or the device had no room (`ENOBUFS`, `ENOMEM`).
    NoBuffer,
    /// A firewall or a missing permission (`EPERM`, `EACCES`).
    Forbidden,
    /// As its owner asked: the end of a socket that was closed.
    Asked,
    /// The peer reset the connection (`ECONNRESET`, `EPIPE`, `ECONNABORTED`).
    Reset,
    /// The connection was not opened in time, or the peer no longer acknowledges (`ETIMEDOUT`).
    TimedOut,
    /// No descriptor is left (`EMFILE`, `ENFILE`).
    NoDescriptor,
    /// The local address and port are taken (`EADDRINUSE`).
    AddressInUse,
    /// No device has the local address, or no port is left for it (`EADDRNOTAVAIL`).
    NoAddress,
    /// A file was shorter than the length that was queued of it.
    Truncated,
    /// Any other error number of `errno(3)`.
    Other(i32),
}

impl Cause {
    /// The cause an error number stands for.
    #[must_use]
    pub fn from_errno(errno: i32) -> Self {
        match errno {
            libc::ECONNREFUSED => Cause::Refused,
            libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENETDOWN => Cause::Unreachable,
            libc::EMSGSIZE => Cause::TooLarge,
            libc::ENOBUFS | libc::ENOMEM => Cause::NoBuffer,
            libc::EPERM | libc::EACCES => Cause::Forbidden,
            libc::ECONNRESET | libc::EPIPE | libc::ECONNABORTED => Cause::Reset,
            libc::ETIMEDOUT => Cause::TimedOut,
            libc::EMFILE | libc::ENFILE => Cause::NoDescriptor,
            libc::EADDRINUSE => Cause::AddressInUse,
            libc::EADDRNOTAVAIL => Cause::NoAddress,
            other => Cause::Other(other),
        }
    }

    pub(crate) fn from_error(error: &io::Error) -> Self {
        Self::from_errno(error.raw_os_error().unwrap_or(libc::EIO))
    }

    /// Whether a receive that ended so can never succeed: the descriptor is no socket, or none that receives messages.
    pub(crate) fn is_final(self) -> bool {
        matches!(
            self,
            Cause::Other(libc::ENOTSOCK | libc::EBADF | libc::EOPNOTSUPP | libc::EINVAL | libc::ENOTCONN)
        )
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Refused => formatter.write_str("nobody listens on the peer's port"),
            Cause::Unreachable => formatter.write_str("no route to the peer"),
            Cause::TooLarge => formatter.write_str("larger than the protocol or the path allows"),
            Cause::NoBuffer => formatter.write_str("the kernel or the device had no buffer left"),
            Cause::Forbidden => formatter.write_str("forbidden by a firewall or a missing permission"),
            Cause::Asked => formatter.write_str("closed as asked"),
            Cause::Reset => formatter.write_str("reset by the peer"),
            Cause::TimedOut => formatter.write_str("the peer did not answer in time"),
            Cause::NoDescriptor => {
                formatter.write_str("no descriptor left: raise the limit of open files (ulimit -n)")
            }
            Cause::AddressInUse => formatter.write_str("the local address and port are in use"),
            Cause::NoAddress => {
                formatter.write_str("no device has the local address, or it has no port left")
            }
            Cause::Truncated => formatter.write_str("a file is shorter than was promised"),
            Cause::Other(errno) => io::Error::from_raw_os_error(*errno).fmt(formatter),
        }
    }
}

/// Failures by cause.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FailureCounts {
    /// [`Cause::Refused`].
    pub refused: u64,
    /// [`Cause::Unreachable`].
    pub unreachable: u64,
    /// [`Cause::TooLarge`].
    pub too_large: u64,
    /// [`Cause::NoBuffer`].
    pub no_buffer: u64,
    /// [`Cause::Forbidden`].
    pub forbidden: u64,
    /// The socket was already closed by its owner.
    pub closed: u64,
    /// [`Cause::Reset`].
    pub reset: u64,
    /// [`Cause::TimedOut`].
    pub timed_out: u64,
    /// [`Cause::NoDescriptor`].
    pub no_descriptor: u64,
    /// [`Cause::AddressInUse`].
    pub address_in_use: u64,
    /// [`Cause::NoAddress`].
    pub no_address: u64,
    /// [`Cause::Truncated`].
    pub truncated: u64,
    /// [`Cause::Other`].
    pub other: u64,
}

impl FailureCounts {
    /// How many causes there are.
    pub const CAUSES: usize = 13;

    /// The counts with the names that documents use, in the order of the fields.
    #[must_use]
    pub fn by_cause(&self) -> [(&'static str, u64); Self::CAUSES] {
        [
            ("refused", self.refused),
            ("unreachable", self.unreachable),
            ("too_large", self.too_large),
            ("no_buffer", self.no_buffer),
            ("forbidden", self.forbidden),
            ("closed", self.closed),
            ("reset", self.reset),
            ("timed_out", self.timed_out),
            ("no_descriptor", self.no_descriptor),
            ("address_in_use", self.address_in_use),
            ("no_address", self.no_address),
            ("truncated", self.truncated),
            ("other", self.other),
        ]
    }

    /// Failures of all causes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.by_cause().iter().map(|(_, count)| count).sum()
    }

    pub(crate) fn add(&mut self, cause: Cause, count: u64) {
        *match cause {
            Cause::Refused => &mut self.refused,
            Cause::Unreachable => &mut self.unreachable,
            Cause::TooLarge => &mut self.too_large,
            Cause::NoBuffer => &mut self.no_buffer,
            Cause::Forbidden => &mut self.forbidden,
            Cause::Asked => &mut self.closed,
            Cause::Reset => &mut self.reset,
            Cause::TimedOut => &mut self.timed_out,
            Cause::NoDescriptor => &mut self.no_descriptor,
            Cause::AddressInUse => &mut self.address_in_use,
            Cause::NoAddress => &mut self.no_address,
            Cause::Truncated => &mut self.truncated,
            Cause::Other(_) => &mut self.other,
        } += count;
    }
}

/// What one engine did since it was built. Datagrams are counted as the peer sees them: a merged one counts for all it
/// carries.
///
/// Every accepted [`send_to`](super::Ops::send_to) ends in `sent` or in `send_failed`, or is still queued.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct EngineCounters {
    /// Datagrams that the kernel took.
    pub sent: u64,
    /// Datagrams that it did not.
    pub send_failed: FailureCounts,
    /// Datagrams received and lent to the handler.
    pub received: u64,
    /// Of those, cut to the receive buffer.
    pub truncated: u64,
    /// Complaints of sockets that are not the failure of one known datagram: what ICMP brought back.
    pub errors: FailureCounts,
    /// Sends refused because the arena was full ([`Full`](super::Full)).
    pub full: u64,
    /// System calls made for the above.
    pub calls: Calls,
    /// TCP.
    pub streams: StreamCounters,
}

/// What one engine did with TCP since it was built. `accepted + opened` less `closed` and the total of `broken` are the
/// connections that are open.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StreamCounters {
    /// Connections that came to listeners.
    pub accepted: u64,
    /// Connections that could not be taken from a listener.
    pub accept_failed: FailureCounts,
    /// Connections opened.
    pub opened: u64,
    /// Connections that could not be opened.
    pub open_failed: FailureCounts,
    /// Connections closed as their owner asked.
    pub closed: u64,
    /// Connections that ended otherwise.
    pub broken: FailureCounts,
    /// Bytes received and lent to the handler.
    pub bytes_received: u64,
    /// Bytes that the kernel took.
    pub bytes_sent: u64,
}

impl StreamCounters {
    pub(crate) fn count_end(&mut self, cause: Cause) {
        match cause {
            Cause::Asked => self.closed += 1,
            cause => self.broken.add(cause, 1),
        }
    }
}

/// System calls by purpose. On io_uring one call submits, receives and waits: it counts as a wait.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Calls {
    /// Waits for events (`epoll_pwait2`, `epoll_wait`, `io_uring_enter`).
    pub wait: u64,
    /// Receive calls (`recvmmsg`, `recvfrom`, `recv`, `accept4`).
    pub receive: u64,
    /// Send calls (`sendmmsg`, `sendto`, `sendmsg`, `sendfile`).
    pub send: u64,
}
