//! The flags for source addresses, and the mapping from source errors to flags.

use crate::outcome::usage;
use crate::values::{Choices, one_of};
use clap::Args;
use corelane_load::pool::Pool;
use corelane_load::sources::{Align, SourceError, SourceRequest};
use std::net::SocketAddr;

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
}

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

impl SourceArguments {
    /// A request for `sockets` sources to a target.
    pub fn request(&self, target: SocketAddr, sockets: usize) -> SourceRequest {
        SourceRequest {
            target,
            pool: self.sources.clone(),
            align: self.align.unwrap_or_default(),
            sockets,
        }
    }
}

/// Converts an error to a usage error that names the flag at fault.
pub fn refuse(error: &SourceError) -> anyhow::Error {
    let flag = match error {
        SourceError::EmptyPool { .. }
        | SourceError::Ports { .. }
        | SourceError::Unreached { .. }
        | SourceError::Route { .. } => "--sources",
        SourceError::NoSteering | SourceError::Plan(_) => "--steering",
        SourceError::NoBucketOnCpu { .. } => "--cpus",
    };
    usage(flag, error)
}
