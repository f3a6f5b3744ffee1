//! The flags that say where a generator sends from, and which of them an error is about.

use crate::outcome::usage;
use clap::{Args, ValueEnum};
use corelane_load::pool::Pool;
use corelane_load::sources::{Align, SourceError, SourceRequest};
use std::net::SocketAddr;

/// Where a generator sends from.
#[derive(Debug, Args)]
pub struct SourceArguments {
    /// Source addresses: prefixes, ranges, lists [default: the routing table's choice, or as many of 127.0.0.0/8 as needed]
    #[arg(long, value_name = "POOL")]
    pub sources: Option<Pool>,
    /// Which buckets of the server the sources are chosen for
    #[arg(long, value_enum, default_value = "kernel")]
    pub align: AlignArgument,
}

/// How sources are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AlignArgument {
    /// Each worker's sources land on the buckets of its own CPU; load udp runs one worker per bucket
    Bucket,
    /// Every bucket gets the same number of sockets or connections
    Even,
    /// Without regard to the hash
    Kernel,
}

impl SourceArguments {
    pub fn align(&self) -> Align {
        match self.align {
            AlignArgument::Bucket => Align::Bucket,
            AlignArgument::Even => Align::Even,
            AlignArgument::Kernel => Align::Kernel,
        }
    }

    /// So many sockets to a target.
    pub fn request(&self, target: SocketAddr, sockets: usize) -> SourceRequest {
        SourceRequest {
            target,
            pool: self.sources.clone(),
            align: self.align(),
            sockets,
        }
    }
}

/// Names the flag that an error is about.
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
