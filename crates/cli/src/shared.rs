//! Flags shared by several verbs, and their evaluation.

use crate::outcome::{Outcome, usage};
use clap::Args;
use corelane_host::memory::{self, MemoryPolicy};
use corelane_rss::Key;
use corelane_worker::engine::{EngineKind, EngineSettings};
use serde::Serialize;
use std::io::{self, Write};

/// Key, table and buckets: how a hash is mapped to a bucket.
#[derive(Debug, Args)]
pub struct RuleArguments {
    /// The RSS key: 40 to 64 bytes in hexadecimal, colons allowed [default: the verification suite's]
    #[arg(long, value_name = "HEX")]
    pub key: Option<Key>,
    /// Entries of the indirection table, a power of two up to 4096
    #[arg(long, value_name = "ENTRIES", default_value_t = 128)]
    pub table_size: usize,
    /// Buckets that the table maps to, round robin [default: one per CPU]
    #[arg(long, value_name = "N")]
    pub buckets: Option<usize>,
}

/// Output flags.
#[derive(Debug, Args)]
pub struct OutputArguments {
    /// Print the plan and exit
    #[arg(long)]
    pub dry_run: bool,
    /// One JSON document on standard output, at the end
    #[arg(long)]
    pub json: bool,
}

/// Prints a document as JSON or as text.
pub fn print<D: Serialize>(json: bool, document: &D, text: impl FnOnce(&D) -> String) -> Outcome {
    let text = match json {
        true => serde_json::to_string_pretty(document)? + "\n",
        false => text(document),
    };
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Prints a document as JSON.
pub fn print_json(document: &impl Serialize) -> Outcome {
    print(true, document, |_| String::new())
}

/// How datagrams are sent and received.
#[derive(Debug, Args)]
pub struct MovingArguments {
    /// System interface: epoll or io_uring [default: epoll]
    #[arg(long, value_name = "epoll|io_uring")]
    pub engine: Option<EngineKind>,
    /// Datagrams per system call; 1 means one recvfrom and one sendto per datagram
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub batch: u16,
    /// Send consecutive datagrams to the same peer as one UDP_SEGMENT send
    #[arg(long)]
    pub gso: bool,
    /// Receive consecutive datagrams of a flow as one (UDP_GRO)
    #[arg(long)]
    pub gro: bool,
}

impl MovingArguments {
    /// The engine settings, with the buffers placed as requested.
    pub fn settings(&self, placing: &MemoryArguments) -> EngineSettings {
        EngineSettings {
            datagram_batch: usize::from(self.batch),
            coalesce: self.gso,
            gro: self.gro,
            memory: placing.buffer_memory,
            ..EngineSettings::default()
        }
    }
}

/// NUMA policy of the workers' memory.
#[derive(Debug, Args)]
pub struct MemoryArguments {
    /// NUMA policy for all memory of each worker: first-touch, local, interleave, node:N
    #[arg(long, value_name = "POLICY", default_value = "first-touch")]
    pub memory: MemoryPolicy,
    /// NUMA policy for each worker's datagram buffers only [default: as --memory]
    #[arg(long, value_name = "POLICY")]
    pub buffer_memory: Option<MemoryPolicy>,
}

/// Returns a usage error for nodes that this machine does not have.
pub fn check_memory(arguments: &MemoryArguments) -> Outcome {
    let nodes = memory::nodes()?;
    let check = |flag, policy: MemoryPolicy| policy.check(&nodes).map_err(|error| usage(flag, error));
    check("--memory", arguments.memory)?;
    arguments
        .buffer_memory
        .map_or(Ok(()), |policy| check("--buffer-memory", policy))
}
