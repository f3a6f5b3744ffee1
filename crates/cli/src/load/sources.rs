//! The flags for source addresses, and the mapping from source errors to flags.

use crate::outcome::usage;
use crate::values::{Choices, one_of};
use clap::Args;
use corelane_load::pool::Pool;
use corelane_load::sources::{Align, AlignBy, SourceError, SourceRequest};
use corelane_worker::engine::Remote;

/// Source addresses of a generator.
#[derive(Debug, Args)]
pub struct SourceArguments {
    /// Source addresses: prefixes, ranges, lists [default: chosen by the routing table, or as many of 127.0.0.0/8 as
    /// needed]
    #[arg(long, value_name = "POOL")]
    pub sources: Option<Pool>,
    /// How to map sources to the server's buckets [default: kernel; load udp with --steering: even]
    #[arg(long, value_parser = one_of(ALIGNMENTS))]
    pub align: Option<Align>,
    /// Direction of the packets whose hash --align maps [default: forward]; without --align, implies --align bucket
    #[arg(long, value_parser = one_of(DIRECTIONS))]
    pub align_by: Option<AlignBy>,
}

/// Those of servers that say who owns a key.
pub const WITH_OWNERS: &Choices<Align> = &[
    ALIGNMENTS[0],
    ALIGNMENTS[1],
    ALIGNMENTS[2],
    (
        "owner",
        Align::Owner,
        "One worker per bucket, whose requests are about keys that the bucket owns; the server is asked (stats corelane)",
    ),
];

const ALIGNMENTS: &Choices<Align> = &[
    (
        "bucket",
        Align::Bucket,
        "Each worker's sources map to the buckets of its own CPU; load udp runs one worker per bucket",
    ),
    (
        "even",
        Align::Even,
        "Every bucket gets the same number of sockets or connections",
    ),
    ("kernel", Align::Kernel, "Ignore the hash"),
];

const DIRECTIONS: &Choices<AlignBy> = &[
    (
        "forward",
        AlignBy::Forward,
        "What the server receives, by its --steering: buckets of the server",
    ),
    (
        "reply",
        AlignBy::Reply,
        "What the server sends, by --dev or --steering: buckets of this machine",
    ),
    (
        "both",
        AlignBy::Both,
        "Each source satisfies both; --steering is that of both ends, except with --dev",
    ),
];

impl SourceArguments {
    /// How sources are aligned, if that is requested: a direction alone requests the buckets of each worker's own CPU.
    pub fn align(&self) -> anyhow::Result<Option<Align>> {
        match (self.align, self.align_by) {
            (Some(Align::Kernel), Some(_)) => Err(usage(
                "--align-by",
                "--align kernel ignores the hash: give --align bucket or even",
            )),
            (align, by) => Ok(align.or(by.map(|_| Align::Bucket))),
        }
    }

    /// A request for `sockets` sources to a target.
    pub fn request(&self, target: Remote, sockets: usize) -> anyhow::Result<SourceRequest> {
        Ok(SourceRequest {
            target,
            pool: self.sources.clone(),
            align: self.align()?.unwrap_or_default(),
            by: self.align_by.unwrap_or_default(),
            sockets,
        })
    }
}

/// Converts an error to a usage error that names the flag at fault.
pub fn refuse(error: &SourceError) -> anyhow::Error {
    let flag = match error {
        SourceError::EmptyPool { .. }
        | SourceError::OnlyTarget { .. }
        | SourceError::Ports { .. }
        | SourceError::Unreached { .. } => "--sources",
        SourceError::TargetPort | SourceError::Broadcast { .. } | SourceError::Route { .. } => "TARGET",
        SourceError::NoSteering => "--steering",
        SourceError::Unix { .. } => "--sources, --align",
        SourceError::Fields => "--align-by",
        SourceError::NoBucketOnCpu { .. } => "--cpus",
    };
    usage(flag, error)
}
