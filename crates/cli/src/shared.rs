//! Flags shared by several verbs, and their evaluation.

use crate::documents::{check_output, write_whole};
use crate::metrics::MetricsArgument;
use crate::outcome::{Outcome, usage};
use crate::standard::write_out;
use crate::values::{duration, key};
use anyhow::Context;
use clap::Args;
use corelane_host::memory::{self, MemoryPolicy};
use corelane_load::pool::Pool;
use corelane_report::json;
use corelane_rss::Key;
use corelane_worker::engine::{EngineKind, EngineSettings};
use serde::Serialize;
use std::convert::Infallible;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

/// Key, table and buckets: how a hash is mapped to a bucket.
#[derive(Debug, Clone, Args)]
pub struct RuleArguments {
    /// The RSS key: 40 to 64 bytes in hexadecimal, colons allowed, or intel, mlx, i40e, ena [default: the verification
    /// suite's]
    #[arg(long, value_name = "KEY", value_parser = key)]
    pub key: Option<Key>,
    /// Entries of the indirection table, up to 4096; sockets need a power of two [default: 128]
    #[arg(long, value_name = "ENTRIES")]
    pub table_size: Option<usize>,
    /// Buckets that the table maps to, round robin [default: one per CPU]
    #[arg(long, value_name = "N")]
    pub buckets: Option<usize>,
}

impl RuleArguments {
    /// Entries of the indirection table: those given, or the usual number.
    pub fn entries(&self) -> usize {
        self.table_size.unwrap_or(128)
    }
}

/// Duration and output of a server.
#[derive(Debug, Args)]
pub struct ServerRunArguments {
    /// Stop after this time [default: on SIGINT]
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Print the plan and exit
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub metrics: MetricsArgument,
    #[command(flatten)]
    pub json: JsonArgument,
}

/// Standard output, as the file of `--json` and `--timeline`.
pub const STANDARD_OUTPUT: &str = "-";

/// `--json[=FILE]`. It needs the equals sign, so that it takes no other argument. The name of the file lives as long as
/// the program, so that the flag can be passed around.
#[derive(Debug, Clone, Copy, Args)]
pub struct JsonArgument {
    /// Write the JSON document to FILE; without FILE, to standard output instead of text
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = STANDARD_OUTPUT, value_parser = leaked)]
    json: Option<&'static Path>,
}

fn leaked(text: &str) -> Result<&'static Path, Infallible> {
    Ok(Path::new(text.to_owned().leak()))
}

impl JsonArgument {
    /// The document goes to standard output, which is reserved for it.
    pub fn on_stdout(self) -> bool {
        self.is_wanted() && self.file().is_none()
    }

    /// Whether a document is wanted.
    pub fn is_wanted(self) -> bool {
        self.json.is_some()
    }

    /// Checks before a run that the file can be written.
    pub fn check(self) -> Outcome {
        self.file().map_or(Ok(()), |file| check_output("--json", file))
    }

    /// Writes the document to its file or to standard output.
    pub fn write(self, text: &str) -> Outcome {
        match self.file() {
            Some(file) => write_whole(file, text).with_context(|| format!("--json {}", file.display())),
            None => {
                write_out(text);
                Ok(())
            }
        }
    }

    /// Writes the document to its file, if one is named. Returns what goes to standard output: the document or its text.
    pub fn save_or_text<D: Serialize>(
        self,
        document: &D,
        text: impl FnOnce(&D) -> String,
    ) -> anyhow::Result<String> {
        if !self.is_wanted() {
            return Ok(text(document));
        }
        let json = json::pretty(document)?;
        if self.on_stdout() {
            return Ok(json);
        }
        self.write(&json)?;
        Ok(text(document))
    }

    /// The file, if one is named.
    pub fn file(self) -> Option<&'static Path> {
        self.json.filter(|file| *file != Path::new(STANDARD_OUTPUT))
    }
}

/// Prints a document as JSON or as text; as both if the JSON document goes to a file.
pub fn print<D: Serialize>(json: JsonArgument, document: &D, text: impl FnOnce(&D) -> String) -> Outcome {
    let text = json.save_or_text(document, text)?;
    write_out(&text);
    Ok(())
}

/// Prints a document as JSON.
pub fn print_json(document: &impl Serialize) -> Outcome {
    write_out(&json::pretty(document)?);
    Ok(())
}

/// Returns a usage error if clients have no address of the family of their server.
pub fn check_clients(clients: &Pool, server: IpAddr) -> Outcome {
    if clients.addresses_like(server).next().is_some() {
        return Ok(());
    }
    let what =
        format!("{clients} has no address of the family of {server}: give clients of the server's family");
    Err(usage("--clients", what))
}

/// `--engine`.
#[derive(Debug, Args)]
pub struct EngineArgument {
    /// System interface: epoll or io_uring [default: epoll]
    #[arg(long, value_name = "epoll|io_uring")]
    pub engine: Option<EngineKind>,
}

/// The help of `--engine` of servers of connections.
pub const ENGINE_OF_STREAMS: &str = "System interface: epoll or io_uring [default: io_uring for http if the kernel fully supports it, otherwise epoll]";

/// How datagrams are sent and received.
#[derive(Debug, Args)]
pub struct DatagramIoArguments {
    #[command(flatten)]
    pub engine: EngineArgument,
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

impl DatagramIoArguments {
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
    /// NUMA policy for the buffers that each worker receives into and sends from [default: as --memory]
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
