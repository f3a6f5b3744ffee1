//! Between which two of the five counting places a frame was lost, by its cause and the side that dropped it; and the keys
//! of causes in documents.

use corelane_measure::drops::Cause;
use serde::{Deserialize, Serialize};

corelane_measure::words!(Gap);

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

/// The key of a cause in a document: `full_buffers`, or `client_full_buffers` for a drop on the way back.
#[must_use]
pub fn key(cause: Cause, side: Side) -> String {
    match side {
        Side::Server => cause.to_string(),
        Side::Client => format!("{CLIENT_PREFIX}{cause}"),
    }
}

/// The cause and side of a document's key; `None` for an unknown key.
#[must_use]
pub fn of_key(key: &str) -> Option<(Cause, Side)> {
    let (name, side) = match key.strip_prefix(CLIENT_PREFIX) {
        Some(name) => (name, Side::Client),
        None => (key, Side::Server),
    };
    Some((name.parse().ok()?, side))
}

/// Where a drop on this side lies.
#[must_use]
pub const fn gap(cause: Cause, side: Side) -> Gap {
    use Cause as C;
    match (side, cause) {
        (Side::Client, _) => Gap::AnsweredToReturned,
        (_, C::TransmitQueue | C::Device | C::Backlog) => Gap::GeneratedToReceived,
        (_, C::Ip | C::BadHeader | C::BadLength | C::BadChecksum) => Gap::ReceivedToSeen,
        (_, C::NoSocket | C::Broadcast | C::FullBuffers | C::MailboxFull) => Gap::ReceivedToSeen,
        (_, C::Memory | C::OtherErrors | C::StillQueued) => Gap::ReceivedToSeen,
        (_, C::Listener | C::TcpBacklog | C::TcpReceiveQueue) => Gap::ReceivedToSeen,
        (_, C::Refused | C::AnswerBuffersFull | C::SendFailed | C::Corrupted) => Gap::SeenToAnswered,
    }
}

/// The text for a document's key; for an unknown key, the key itself with spaces.
#[must_use]
pub fn label(key: &str) -> String {
    match of_key(key) {
        Some((cause, Side::Server)) => cause.words().to_owned(),
        Some((cause, Side::Client)) => format!("client: {}", cause.words()),
        None => key.replace('_', " "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_measure::words;

    #[test]
    fn every_cause_is_found_by_its_key() {
        let all = words::all::<Cause>();
        assert_eq!((all.len(), all[9]), (21, Cause::FullBuffers));
        assert_eq!(key(Cause::FullBuffers, Side::Client), "client_full_buffers");
        for cause in all {
            for side in [Side::Server, Side::Client] {
                assert_eq!(of_key(&key(cause, side)), Some((cause, side)));
            }
        }
        assert_eq!(of_key("gremlins"), None);
    }

    #[test]
    fn a_label_reads_as_netstat_does() {
        assert_eq!(label("full_buffers"), "dropped due to full socket buffers");
        assert_eq!(label("client_no_socket"), "client: dropped due to no socket");
        assert_eq!(label("flow_limit"), "flow limit");
    }
}
