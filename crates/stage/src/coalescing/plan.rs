//! What is merged, and the counts of it.

use crate::stage_counts;
use corelane_measure::words;
use serde::{Deserialize, Serialize};

words!(Push, Acknowledgments, Grouping);

/// What is merged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plan {
    /// What a segment with the PSH flag does.
    pub push: Push,
    /// What is done with segments without payload.
    pub acks: Acknowledgments,
    /// How the segments of a flow are found.
    pub grouping: Grouping,
}

/// What a segment with the PSH flag does: its sender has no more to send.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Push {
    /// It is the last of a merged frame, as in Linux.
    #[default]
    End,
    /// Others may follow, as in FreeBSD; the merged frame has the flag. Cutting gives it to the last segment only.
    Merge,
}

/// What is done with segments without payload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Acknowledgments {
    /// They pass, as in Linux.
    #[default]
    Keep,
    /// One that acknowledges more than the one before it replaces it, as in FreeBSD: the receiver sees fewer numbers.
    Merge,
}

/// How the segments of a flow are found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grouping {
    /// The batch is sorted.
    #[default]
    Sorted,
    /// In a list of the eight flows that began last, in the order of arrival: to compare with.
    List,
}

stage_counts! {
    /// The counts of a stage, on cache lines of their own: the stage writes them, any thread reads them.
    pub struct Counts {
        /// TCP segments that may be merged.
        Used segments,
        /// Frames in which they left: segments divided by these are the packets per aggregation.
        Made aggregations,
        /// Passed: fragments of TCP, over IPv6 also whole datagrams with a fragment header.
        Counted fragments,
        /// Passed: TCP without payload.
        Counted empty,
        /// Passed: flags other than ACK and PSH, reserved bits, or an urgent pointer.
        Counted flags,
        /// Passed: IP options, extension headers (an authentication header, too), a frame that was cut short, bytes behind the
        /// packet, or a packet made of fragments.
        Counted headers,
        /// Not merged onto the segment before: it is of another flow, whose hash is the same.
        Counted other_flow,
        /// Not merged onto the segment before: a fragment between the same addresses was between them.
        Counted behind_fragment,
        /// Not merged onto the segment before: it is not the next one by its sequence number.
        Counted not_next,
        /// Not merged: another acknowledgment number; of acknowledgments without payload, one that acknowledges no more.
        Counted acknowledgment,
        /// Not merged: another window.
        Counted window,
        /// Not merged: one of two has payload.
        Counted one_empty,
        /// Not merged: other TCP options.
        Counted options,
        /// Not merged: another type of service, traffic class or flow label. This includes the marks of congestion.
        Counted tos,
        /// Not merged: another time to live, or hop limit.
        Counted ttl,
        /// Not merged: identifications that are neither consecutive nor, with "don't fragment" set, equal; or another such flag.
        Counted identification,
        /// Not merged: other Ethernet addresses or tags, another link that it came from or goes to.
        Counted link,
        /// Not merged: another tunnel that it came out of.
        Counted tunnel,
        /// Not merged: a wrong checksum, or ones where zero is computed.
        Counted checksum,
        /// Not merged: the segment before was shorter than the first, it is longer, or the packet would be too long.
        Counted size,
    }
}
