//! The causes of lost frames and their names.
//!
//! In: nothing; this is vocabulary. Out: the names that documents use as keys (`full_buffers`), the words that people
//! read (`dropped due to full socket buffers`), and between which two of the five places of counting each cause lies.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The two of the five counting places between which a frame was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gap {
    /// From the generator to the server's device.
    GeneratedToReceived,
    /// From the server's device to the server's worker.
    ReceivedToSeen,
    /// Within the server's worker.
    SeenToAnswered,
    /// From the server's worker back to the generator.
    AnsweredToReturned,
}

impl Gap {
    /// All gaps, in the order in which a frame meets them.
    pub const ALL: [Self; 4] = [
        Self::GeneratedToReceived,
        Self::ReceivedToSeen,
        Self::SeenToAnswered,
        Self::AnsweredToReturned,
    ];
}

impl fmt::Display for Gap {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::GeneratedToReceived => "generated to received",
            Self::ReceivedToSeen => "received to seen",
            Self::SeenToAnswered => "seen to answered",
            Self::AnsweredToReturned => "answered to returned",
        })
    }
}

/// Whose kernel dropped the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The server's, on the way there.
    Server,
    /// The client's, on the way back.
    Client,
}

/// Starts the names of what the client's side dropped.
const CLIENT_PREFIX: &str = "client_";

crate::words!(Cause);

/// The cause of a lost frame, in the order in which a frame meets them. The name is the key in a document.
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
    /// Still in a socket's buffer when counting ended.
    StillQueued,
    /// The server never answers such a frame: port 0, 7, 17, 19 or its own.
    Refused,
    /// The server's buffers for answers were full.
    AnswerBuffersFull,
    /// The kernel refused the answer.
    SendFailed,
    /// The payload's check failed.
    Corrupted,
}

impl Cause {
    /// The key in a document: `full_buffers`, or `client_full_buffers` for a drop on the way back.
    #[must_use]
    pub fn key(self, side: Side) -> String {
        match side {
            Side::Server => self.to_string(),
            Side::Client => format!("{CLIENT_PREFIX}{self}"),
        }
    }

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
            Self::StillQueued => "still in socket buffers at the end",
            Self::Refused => "from a port that is never answered",
            Self::AnswerBuffersFull => "no room in the server's buffers for answers",
            Self::SendFailed => "answer refused by the kernel",
            Self::Corrupted => "with a payload that fails its check",
        }
    }

    /// Where the cause lies for a drop on this side.
    #[must_use]
    pub const fn gap(self, side: Side) -> Gap {
        match (side, self) {
            (Side::Client, _) => Gap::AnsweredToReturned,
            (Side::Server, Self::TransmitQueue | Self::Device | Self::Backlog) => Gap::GeneratedToReceived,
            (Side::Server, Self::Refused | Self::AnswerBuffersFull | Self::SendFailed | Self::Corrupted) => {
                Gap::SeenToAnswered
            }
            (Side::Server, _) => Gap::ReceivedToSeen,
        }
    }

    /// The cause and side of a document's key; `None` for an unknown key.
    #[must_use]
    pub fn of_key(key: &str) -> Option<(Self, Side)> {
        let (name, side) = match key.strip_prefix(CLIENT_PREFIX) {
            Some(name) => (name, Side::Client),
            None => (key, Side::Server),
        };
        Some((name.parse().ok()?, side))
    }
}

/// The text for a document's key; for an unknown key, the key itself with spaces.
#[must_use]
pub fn label(key: &str) -> String {
    match Cause::of_key(key) {
        Some((cause, Side::Server)) => cause.words().to_owned(),
        Some((cause, Side::Client)) => format!("client: {}", cause.words()),
        None => key.replace('_', " "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words;

    #[test]
    fn every_cause_is_found_by_its_key() {
        let all = words::all::<Cause>();
        assert_eq!((all.len(), all[9]), (18, Cause::FullBuffers));
        assert_eq!(Cause::FullBuffers.key(Side::Client), "client_full_buffers");
        for cause in all {
            for side in [Side::Server, Side::Client] {
                assert_eq!(Cause::of_key(&cause.key(side)), Some((cause, side)));
            }
        }
        assert_eq!(Cause::of_key("gremlins"), None);
    }

    #[test]
    fn a_label_reads_as_netstat_does() {
        assert_eq!(label("full_buffers"), "dropped due to full socket buffers");
        assert_eq!(label("client_no_socket"), "client: dropped due to no socket");
        assert_eq!(label("flow_limit"), "flow limit");
    }
}
