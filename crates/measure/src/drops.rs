//! Causes of lost packets: the names that documents use as keys (`full_buffers`), and the words that people read (`dropped
//! due to full socket buffers`), for UDP those of FreeBSD's `netstat -sp udp`, which the posts use.

use serde::{Deserialize, Serialize};

crate::words!(Cause);

/// The cause of a lost packet, in the order in which a packet meets them. The name is the key in a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A sender's device had no room to transmit it.
    TransmitQueue,
    /// The receiving device dropped it.
    Device,
    /// The CPU's input queue was full (`net.core.netdev_max_backlog`).
    Backlog,
    /// IP discarded it or found its header wrong.
    Ip,
    /// Shorter than a UDP header.
    BadHeader,
    /// Its length field does not fit.
    BadLength,
    /// Its checksum does not match.
    BadChecksum,
    /// No socket on the port.
    NoSocket,
    /// Broadcast or multicast without a subscriber.
    Broadcast,
    /// The socket's receive buffer was full.
    FullBuffers,
    /// The mailbox from the server's reader to its worker was full.
    MailboxFull,
    /// UDP's share of memory was used up.
    Memory,
    /// Another error.
    OtherErrors,
    /// A listener had no room for the connection, or dropped a packet for another reason.
    Listener,
    /// The backlog of a TCP socket in use was full.
    TcpBacklog,
    /// A TCP socket's receive buffer was full.
    TcpReceiveQueue,
    /// Still in a socket's buffer when counting ended.
    StillQueued,
    /// The server never answers such a datagram: for its port, its peer, a broadcast, another echo, or a loop.
    Refused,
    /// The server's buffers for answers were full.
    AnswerBuffersFull,
    /// The kernel refused the answer.
    SendFailed,
    /// The payload's check failed.
    Corrupted,
}

impl Cause {
    /// The text in reports; for UDP's own causes, that of `netstat -sp udp`.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::TransmitQueue => "no room in the sender's transmit queue",
            Self::Device => "dropped by the receiving device",
            Self::Backlog => "dropped due to a full CPU backlog",
            Self::Ip => "discarded by IP",
            Self::BadHeader => "with incomplete header",
            Self::BadLength => "with bad data length field",
            Self::BadChecksum => "with bad checksum",
            Self::NoSocket => "dropped due to no socket",
            Self::Broadcast => "broadcast/multicast datagrams undelivered",
            Self::FullBuffers => "dropped due to full socket buffers",
            Self::MailboxFull => "dropped due to a full mailbox of the worker",
            Self::Memory => "dropped due to the limit of UDP memory",
            Self::OtherErrors => "dropped due to other errors",
            Self::Listener => "dropped by a listener",
            Self::TcpBacklog => "dropped due to a full backlog of a TCP socket",
            Self::TcpReceiveQueue => "dropped due to a full receive buffer of a TCP socket",
            Self::StillQueued => "still in socket buffers at the end",
            Self::Refused => "that the server never answers",
            Self::AnswerBuffersFull => "no room in the server's buffers for answers",
            Self::SendFailed => "answer refused by the kernel",
            Self::Corrupted => "with a payload that fails its check",
        }
    }
}
