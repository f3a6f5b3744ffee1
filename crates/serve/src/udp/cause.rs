//! Why datagrams were lost at a server: each cause has one name, in documents, tables and metrics.

use corelane_worker::engine::Cause;
use serde::{Deserialize, Serialize};

corelane_measure::words!(DropCause);

/// Why a datagram was not received, or received and not answered; in the order of their names, which is that of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropCause {
    /// The answer: the local address and port are in use.
    AddressInUse,
    /// Its checksum does not match.
    BadChecksum,
    /// The answer: its socket was closed by the server.
    Closed,
    /// The answer: a firewall or a missing permission forbids it.
    Forbidden,
    /// The worker's own socket had no room.
    FullBuffers,
    /// The mailbox from a reader to the worker was full.
    MailboxFull,
    /// The answer: no device has the local address.
    NoAddress,
    /// The answer: the kernel or the device had no buffer.
    NoBuffer,
    /// The answer: no descriptor was left.
    NoDescriptor,
    /// On a wildcard address, the kernel did not report the address that the datagram was sent to.
    NoDestination,
    /// The answer: any other error of the kernel.
    Other,
    /// The worker's queue of answers was full.
    QueueFull,
    /// The answer: the peer's port is closed.
    Refused,
    /// Sent to a broadcast or multicast address, whose members would all answer.
    RefusedBroadcast,
    /// Sent by another echo of this machine.
    RefusedEcho,
    /// Came back unchanged thousands of times.
    RefusedLoop,
    /// Sent by a peer that is never answered.
    RefusedPeer,
    /// Sent from a port that is never answered.
    RefusedPort,
    /// The answer: the peer reset the connection.
    Reset,
    /// The answer: the peer did not acknowledge in time.
    TimedOut,
    /// The answer is larger than the protocol or the path allows.
    TooLarge,
    /// Cut to the receive buffer.
    Truncated,
    /// The answer: no route to the peer.
    Unreachable,
}

impl DropCause {
    /// The number of causes.
    pub(super) const COUNT: usize = Self::Unreachable as usize + 1;
}

impl From<Cause> for DropCause {
    /// The cause of an answer that the kernel did not send.
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Refused => Self::Refused,
            Cause::Unreachable => Self::Unreachable,
            Cause::TooLarge => Self::TooLarge,
            Cause::NoBuffer => Self::NoBuffer,
            Cause::Forbidden => Self::Forbidden,
            Cause::Asked => Self::Closed,
            Cause::Reset => Self::Reset,
            Cause::TimedOut => Self::TimedOut,
            Cause::NoDescriptor => Self::NoDescriptor,
            Cause::AddressInUse => Self::AddressInUse,
            Cause::NoAddress => Self::NoAddress,
            Cause::Truncated => Self::Truncated,
            Cause::Other(_) => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_measure::words;
    use corelane_worker::engine::FailureCounts;

    #[test]
    fn causes_are_in_the_order_of_their_names_and_those_of_sends_have_the_names_of_the_engine() {
        let names: Vec<String> = words::all::<DropCause>()
            .iter()
            .map(DropCause::to_string)
            .collect();
        assert!(names.is_sorted(), "{names:?}");
        for (cause, _) in FailureCounts::default().by_cause() {
            assert_eq!(DropCause::from(cause).to_string(), cause.name());
        }
    }
}
