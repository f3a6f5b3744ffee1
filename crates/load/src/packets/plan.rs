//! Plan of a packet generator.

use super::sizes::Sizes;
use crate::pace::Pace;
use crate::pool::Pool;
use corelane_link::{FrameDirection, LinkError, LinkSpec, SpecError};
use corelane_rss::Steering;
use corelane_worker::crew::CrewError;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use thiserror::Error;

/// The plan of a packet generator.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PacketsPlan {
    /// The link's specification, such as `xdp:eth0`.
    pub link: String,
    /// What is sent.
    pub traffic: Traffic,
    /// Stop after this many seconds; `None`: when the count is reached, or the capture ends.
    pub duration_s: Option<f64>,
    /// Stop after this many frames over all queues.
    pub count: Option<u64>,
    /// Frames passed to the link per call.
    pub burst: usize,
    /// CPUs of the workers, one per worker; no more than the link has queues.
    pub cpus: Vec<u32>,
}

/// The frames to send.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Traffic {
    /// Generated frames, with marks for the receiver.
    Generated(Box<GeneratedPlan>),
    /// The frames of a capture.
    Replayed(ReplayPlan),
}

/// The frames to generate, and when to send them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GeneratedPlan {
    /// Source addresses.
    pub sources: Pool,
    /// Destination addresses.
    pub destinations: Pool,
    /// First and last source port.
    pub source_ports: (u16, u16),
    /// First and last destination port.
    pub destination_ports: (u16, u16),
    /// The flow of each packet.
    pub flows: FlowChoice,
    /// Steering document whose buckets the flows are spread over evenly.
    pub steering: Option<Steering>,
    /// Frame sizes in bytes.
    pub sizes: Sizes,
    /// When to send: a flood or a rate over all queues. Packets are not answered, so a window is invalid.
    pub pace: Pace,
    /// Destination link address.
    pub destination_link: [u8; 6],
    /// Source link address.
    pub source_link: [u8; 6],
    /// Seed of the random generator.
    pub seed: u64,
}

/// How the flow of each packet is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowChoice {
    /// Random addresses and ports for each packet.
    Random,
    /// A fixed number of flows, in turn.
    Fixed {
        /// Number of flows per stream.
        flows: usize,
    },
}

/// How to replay a capture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplayPlan {
    /// The capture file.
    pub file: PathBuf,
    /// Replay speed.
    pub pace: ReplayPace,
    /// Number of passes.
    pub times: u64,
}

/// Replay speed of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayPace {
    /// A multiple of the captured speed; 1: as captured.
    Times {
        /// The factor, above 0.
        factor: f64,
    },
    /// As fast as the link accepts frames.
    Flood,
}

/// Why packets cannot be sent.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PacketsError {
    /// Invalid link specification.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The link cannot be opened.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The capture to send cannot be opened.
    #[error(transparent)]
    Replay(LinkError),
    /// The link would overwrite the capture to send.
    #[error("{} is the capture to send, and the link would write over it: give another file to one of them", .file.display())]
    Overwritten {
        /// The file.
        file: PathBuf,
    },
    /// Receive faults on a link that does not receive.
    #[error("nothing is received here, so faults have no effect: add faults=sent")]
    NothingReceived,
    /// Addresses of both families.
    #[error("addresses of IPv4 and IPv6: give sources and destinations of one family")]
    MixedFamilies,
    /// A pool without addresses.
    #[error("a pool has no address")]
    EmptyPool,
    /// A bucket that no flow reaches.
    #[error(
        "no flow of these addresses and ports hits bucket {bucket}: give more of them (hashes of 2-tuples need many addresses)"
    )]
    Bucket {
        /// The bucket.
        bucket: usize,
    },
    /// Frames too short for their content.
    #[error("frames of {bytes} bytes are too short here: {shortest} hold the headers and the mark")]
    Short {
        /// Requested bytes.
        bytes: usize,
        /// Bytes of the shortest valid frame.
        shortest: usize,
    },
    /// Frames too long for the link.
    #[error("frames of {bytes} bytes are too long for {link}, which takes {longest} (its MTU or its stride)")]
    Long {
        /// Requested bytes.
        bytes: usize,
        /// The link.
        link: String,
        /// Bytes of the longest frame that it accepts.
        longest: usize,
    },
    /// A window, although packets are not answered.
    #[error("packets are not answered: send them at a rate or as a flood")]
    Window,
    /// A worker could not start or continue.
    #[error(transparent)]
    Crew(#[from] CrewError),
}

impl PacketsPlan {
    /// The link to open.
    pub(super) fn spec(&self) -> Result<LinkSpec, PacketsError> {
        let spec: LinkSpec = self.link.parse()?;
        match spec.faults {
            Some(faults) if faults.direction == FrameDirection::Received => {
                Err(PacketsError::NothingReceived)
            }
            _ => Ok(spec),
        }
    }
}
