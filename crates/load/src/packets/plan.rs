//! What a generator of packets is to do.

use super::sizes::Sizes;
use crate::pace::Pace;
use crate::pool::Pool;
use corelane_link::{Direction, LinkError, LinkSpec, SpecError};
use corelane_rss::Steering;
use corelane_worker::crew::CrewError;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use thiserror::Error;

/// What a generator of packets is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PacketsPlan {
    /// The link's specification, such as `xdp:eth0`.
    pub link: String,
    /// What is sent.
    pub traffic: Traffic,
    /// End after so many seconds; none: when the count is reached, or the capture ends.
    pub duration_s: Option<f64>,
    /// End after so many frames over all queues.
    pub count: Option<u64>,
    /// Frames handed to the link at once.
    pub burst: usize,
    /// CPUs of the workers, one each, no more than the link has queues.
    pub cpus: Vec<u32>,
}

/// What is sent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Traffic {
    /// Frames made here, with marks that a receiver accounts for.
    Generated(Box<GeneratedPlan>),
    /// The frames of a capture.
    Replayed(ReplayPlan),
}

/// Which frames are made, and when they are sent.
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
    /// Which flow each packet is of.
    pub flows: FlowChoice,
    /// What flows are planned for: all its buckets alike.
    pub steering: Option<Steering>,
    /// Bytes of frames.
    pub sizes: Sizes,
    /// When to send: a flood or a rate over all queues; packets are not answered, so there is no window.
    pub pace: Pace,
    /// Link address that frames go to.
    pub destination_link: [u8; 6],
    /// Link address that frames come from.
    pub source_link: [u8; 6],
    /// Seed of all draws.
    pub seed: u64,
}

/// Which flow each packet is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowChoice {
    /// Addresses and ports drawn anew for each packet.
    Random,
    /// So many flows, in turn.
    Fixed {
        /// How many, of each stream.
        flows: usize,
    },
}

/// How a capture is sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplayPlan {
    /// The file.
    pub file: PathBuf,
    /// How fast.
    pub pace: ReplayPace,
    /// How often.
    pub times: u64,
}

/// How fast a capture is sent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayPace {
    /// So many times as fast as it was captured; 1: at its own pace.
    Times {
        /// The factor, above 0.
        factor: f64,
    },
    /// As fast as the link takes it.
    Flood,
}

/// Why packets cannot be sent.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PacketsError {
    /// The link's specification is wrong.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The link cannot be opened, or failed.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The capture that is to be sent cannot be opened.
    #[error(transparent)]
    Replay(LinkError),
    /// A capture that would be lost before it is sent.
    #[error("{} is the capture to send, and the link would write over it: give another file to one of them", .file.display())]
    Overwritten {
        /// The file.
        file: PathBuf,
    },
    /// Faults that would befall nothing.
    #[error("nothing is received here, so faults would befall nothing: add faults=sent")]
    NothingReceived,
    /// Addresses of two families.
    #[error("addresses of IPv4 and IPv6: give sources and destinations of one family")]
    MixedFamilies,
    /// A pool without an address.
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
    /// Frames too short for what they must hold.
    #[error("frames of {bytes} bytes are too short here: {shortest} hold the headers and the mark")]
    Short {
        /// Bytes asked for.
        bytes: usize,
        /// Bytes of the shortest.
        shortest: usize,
    },
    /// Frames too long for the link.
    #[error("frames of {bytes} bytes are too long for {link}, which takes {longest} (its MTU or its stride)")]
    Long {
        /// Bytes asked for.
        bytes: usize,
        /// The link.
        link: String,
        /// Bytes of the longest that it takes.
        longest: usize,
    },
    /// A window, where nothing is answered.
    #[error("packets are not answered: send them at a rate or as a flood")]
    Window,
    /// A worker could not start or go on.
    #[error(transparent)]
    Crew(CrewError),
}

impl From<CrewError> for PacketsError {
    fn from(error: CrewError) -> Self {
        error.downcast().map_or_else(Self::Crew, Self::Link)
    }
}

impl PacketsPlan {
    /// The link, as it is to be opened.
    pub(super) fn spec(&self) -> Result<LinkSpec, PacketsError> {
        let spec: LinkSpec = self.link.parse()?;
        match spec.faults {
            Some(faults) if faults.direction == Direction::Received => Err(PacketsError::NothingReceived),
            _ => Ok(spec),
        }
    }
}
