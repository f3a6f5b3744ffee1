//! The joined documents: what each part did with frames, and what nothing explains.

use corelane_measure::quantity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The documents, joined. All counts are frames.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "schema", rename = "corelane/joined/1")]
pub struct Joined {
    /// The generator, the bridges and the receiver, in the order in which frames pass.
    pub parts: Vec<Part>,
    /// The generator's streams; none of a replayed capture.
    pub streams: Vec<StreamJoined>,
}

/// What one document says: entered and added frames ended here, or left.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The command and its links.
    pub part: String,
    /// Frames that left the part before and did not enter this one; negative if more entered. 0 of the first part.
    pub unexplained_before: i64,
    /// Frames that entered; of the generator, those on its schedule.
    pub entered: u64,
    /// Of these, frames that another sender may have sent, as they have no mark of the generator or are not IP.
    pub may_be_foreign: u64,
    /// Frames that came into being here, by cause.
    pub added: BTreeMap<String, u64>,
    /// Frames that ended here, by cause; at the receiver also those that it received.
    pub ended: BTreeMap<String, u64>,
    /// Frames that went on to the next part.
    pub left: u64,
    /// Frames that entered or were added, and neither ended nor left; negative if more did.
    pub unexplained: i64,
}

/// One stream of the generator at both ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamJoined {
    /// Its number in the marks of frames.
    pub stream: u16,
    /// Frames that the generator sent.
    pub sent: u64,
    /// Frames that arrived, without duplicates.
    pub received: u64,
    /// Frames that did not arrive, those behind the last that did included; negative if more arrived than were sent.
    pub lost: i64,
    /// Frames that arrived again.
    pub duplicated: u64,
    /// Frames that a later one overtook.
    pub reordered: u64,
    /// Frames that are too late to be distinguished from duplicates.
    pub too_late: u64,
}

impl Joined {
    /// Frames that nothing explains, at all places.
    #[must_use]
    pub fn unexplained(&self) -> u64 {
        let places = self
            .parts
            .iter()
            .flat_map(|part| [part.unexplained_before, part.unexplained]);
        places.map(i64::unsigned_abs).sum()
    }

    /// What cannot be, if these are documents of one run: more frames than there were.
    pub(super) fn impossible(&self) -> Vec<String> {
        let mut found = Vec::new();
        for part in &self.parts {
            let more = part.unexplained_before.min(0).unsigned_abs();
            if more > part.may_be_foreign {
                let more = quantity::count(more);
                found.push(format!(
                    "{more} more frames entered {} than left the part before",
                    part.part
                ));
            }
            if part.unexplained < 0 {
                let more = quantity::count(part.unexplained.unsigned_abs());
                found.push(format!(
                    "{more} more frames ended in or left {} than entered",
                    part.part
                ));
            }
        }
        for stream in self.streams.iter().filter(|stream| stream.lost < 0) {
            let more = quantity::count(stream.lost.unsigned_abs());
            found.push(format!(
                "{more} more frames of stream {} arrived than were sent",
                stream.stream
            ));
        }
        found
    }
}

pub(super) fn difference(one: u64, other: u64) -> i64 {
    one.wrapping_sub(other) as i64
}
