//! Causes of send failures, connection ends and socket errors; and the counters of one engine.

use std::io;

/// Why an operation failed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum Cause {
    /// The peer's port is closed (`ECONNREFUSED`): reported by ICMP to a connected datagram socket, by a reset to a
    /// connection being opened.
    #[error("the peer's port is closed")]
    Refused,
    /// No route to the peer, as reported by this host or by a router (`ENETUNREACH`, `EHOSTUNREACH`, `ENETDOWN`).
    #[error("no route to the peer")]
    Unreachable,
    /// The datagram is larger than the protocol or the path allows (`EMSGSIZE`).
    #[error("larger than the protocol or the path allows")]
    TooLarge,
    /// The kernel or the device is out of buffers (`ENOBUFS`, `ENOMEM`).
    #[error("the kernel or the device is out of buffers")]
    NoBuffer,
    /// Denied by a firewall or for lack of permission (`EPERM`, `EACCES`).
    #[error("forbidden by a firewall or a missing permission")]
    Forbidden,
    /// Closed by its owner.
    #[error("closed by request")]
    Asked,
    /// The peer reset the connection (`ECONNRESET`, `EPIPE`, `ECONNABORTED`).
    #[error("reset by the peer")]
    Reset,
    /// The connection was not opened in time, or the peer no longer acknowledges (`ETIMEDOUT`).
    #[error("the peer did not answer in time")]
    TimedOut,
    /// No descriptor is left (`EMFILE`, `ENFILE`).
    #[error("no descriptor left: raise the limit of open files (ulimit -n)")]
    NoDescriptor,
    /// The local address and port are in use (`EADDRINUSE`).
    #[error("the local address and port are in use")]
    AddressInUse,
    /// No device has the local address, or no port is left for it (`EADDRNOTAVAIL`).
    #[error("no device has the local address, or it has no port left")]
    NoAddress,
    /// A file was shorter than the queued length.
    #[error("a file is shorter than the queued length")]
    Truncated,
    /// Any other error number of `errno(3)`.
    #[error("{}", io::Error::from_raw_os_error(*.0))]
    Other(i32),
}

/// Every cause in the order of documents.
const CAUSES: [Cause; FailureCounts::CAUSES] = [
    Cause::Refused,
    Cause::Unreachable,
    Cause::TooLarge,
    Cause::NoBuffer,
    Cause::Forbidden,
    Cause::Asked,
    Cause::Reset,
    Cause::TimedOut,
    Cause::NoDescriptor,
    Cause::AddressInUse,
    Cause::NoAddress,
    Cause::Truncated,
    Cause::Other(0),
];

impl Cause {
    /// The cause of an error number (`errno(3)`).
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

    /// Whether a receive that failed with it can never succeed: the descriptor is not a socket that receives messages.
    pub(crate) fn is_final(self) -> bool {
        matches!(
            self,
            Cause::Other(libc::ENOTSOCK | libc::EBADF | libc::EOPNOTSUPP | libc::EINVAL | libc::ENOTCONN)
        )
    }

    /// Its name in documents. [`Cause::Asked`] is named `closed`, because the owner closed the socket.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Refused => "refused",
            Cause::Unreachable => "unreachable",
            Cause::TooLarge => "too_large",
            Cause::NoBuffer => "no_buffer",
            Cause::Forbidden => "forbidden",
            Cause::Asked => "closed",
            Cause::Reset => "reset",
            Cause::TimedOut => "timed_out",
            Cause::NoDescriptor => "no_descriptor",
            Cause::AddressInUse => "address_in_use",
            Cause::NoAddress => "no_address",
            Cause::Truncated => "truncated",
            Cause::Other(_) => "other",
        }
    }

    /// Its place in the order of documents.
    fn place(self) -> usize {
        let known = CAUSES.iter().position(|cause| *cause == self);
        known.unwrap_or(CAUSES.len() - 1)
    }
}

/// Failures by cause.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FailureCounts([u64; Self::CAUSES]);

impl FailureCounts {
    /// The number of causes; all [`Cause::Other`] count as one.
    pub const CAUSES: usize = 13;

    /// The counts by cause; those of every [`Cause::Other`] are one.
    #[must_use]
    pub fn by_cause(&self) -> [(Cause, u64); Self::CAUSES] {
        std::array::from_fn(|place| (CAUSES[place], self.0[place]))
    }

    /// Failures of one cause.
    #[must_use]
    pub fn of(&self, cause: Cause) -> u64 {
        self.0[cause.place()]
    }

    /// Failures of all causes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    pub(crate) fn add(&mut self, cause: Cause, count: u64) {
        self.0[cause.place()] += count;
    }
}

/// Counters of one engine since it was built. Datagrams are counted as the peer sees them: a merged message counts as
/// the number of its datagrams.
///
/// Every accepted [`send_to`](super::Ops::send_to) is counted in `sent` or `send_failed`, or is still queued.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct EngineCounters {
    /// Datagrams that the kernel accepted.
    pub sent: u64,
    /// Datagrams that the kernel rejected.
    pub send_failed: FailureCounts,
    /// Datagrams received and lent to the handler.
    pub received: u64,
    /// Of those, truncated to the receive buffer.
    pub truncated: u64,
    /// Socket errors that do not belong to one known datagram, such as those from ICMP.
    pub errors: FailureCounts,
    /// Sends rejected because the arena was full ([`Full`](super::Full)).
    pub full: u64,
    /// Receives of io_uring that found no free buffer; they start again when there is one.
    pub starved: u64,
    /// System calls made for the above.
    pub calls: Calls,
    /// TCP.
    pub streams: StreamCounters,
}

/// TCP counters of one engine since it was built.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StreamCounters {
    /// Connections accepted by listeners.
    pub accepted: OriginCounters,
    /// Connections of [`Ops::connect`](super::Ops::connect).
    pub connected: OriginCounters,
    /// Bytes received and lent to the handler.
    pub bytes_received: u64,
    /// Bytes that the kernel accepted.
    pub bytes_sent: u64,
}

impl StreamCounters {
    pub(crate) fn count_end(&mut self, origin: Origin, cause: Cause) {
        let counters = match origin {
            Origin::Accepted => &mut self.accepted,
            Origin::Connected => &mut self.connected,
        };
        match cause {
            Cause::Asked => counters.closed += 1,
            cause => counters.broken.add(cause, 1),
        }
    }
}

/// What opened a connection: a listener, or [`Ops::connect`](super::Ops::connect).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    Accepted,
    Connected,
}

/// The connections of one origin.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct OriginCounters {
    /// Connections opened.
    pub opened: u64,
    /// Connections that could not be opened.
    pub failed: FailureCounts,
    /// Connections closed by their owner.
    pub closed: u64,
    /// Connections that ended for another cause.
    pub broken: FailureCounts,
}

impl OriginCounters {
    /// Connections open now.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.opened.saturating_sub(self.closed + self.broken.total())
    }
}

/// System calls by purpose. On io_uring, one call submits, receives and waits; it counts as a wait.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Calls {
    /// Waits for events (`epoll_pwait2`, `epoll_wait`, `io_uring_enter`).
    pub wait: u64,
    /// Receive calls (`recvmmsg`, `recvfrom`, `recv`, `accept4`).
    pub receive: u64,
    /// Send calls (`sendmmsg`, `sendto`, `sendmsg`, `sendfile`).
    pub send: u64,
}
