//! The flags of `corelane serve memcached`: those of memcached, and those of the servers here.

use crate::serve::buckets::ServingArguments;
use crate::serve::tls::CertificateArguments;
use crate::shared::{ENGINE_OF_STREAMS, EngineArgument, MemoryArguments};
use crate::values::size;
use clap::{ArgAction, Args};
use corelane_serve::memcached::RemoteReads;
use std::path::PathBuf;

/// memcached: a cache of items by key
#[derive(Debug, Args)]
#[command(
    version,
    args_override_self = true,
    mut_arg("engine", |engine| engine.help(ENGINE_OF_STREAMS)),
    mut_arg("buckets", |buckets| buckets.short('t').visible_alias("threads")),
    // memcached's threads share CPUs, too.
    mut_arg("share_cpus", |share| share.default_value("true").hide(true)),
    mut_arg("duration", |duration| duration.short(None)),
    after_help = "Examples:\n  corelane serve memcached --duration 1s\n  \
    corelane serve memcached -l 127.0.0.1:11311 -m 100 -t 1 --duration 1s\n  \
    corelane serve memcached -s /tmp/memcached.sock --duration 1s"
)]
pub struct ServeMemcachedArguments {
    /// TCP port; 0 for none [default: 11211, or that of -U]
    #[arg(short, long, value_name = "PORT")]
    pub port: Option<u16>,
    /// UDP port; 0 for none
    #[arg(short = 'U', long, value_name = "PORT", default_value_t = 0)]
    pub udp_port: u16,
    /// Steer datagrams to the worker that owns their first key, by an eBPF program that reads it, which needs CAP_BPF. Merged
    /// datagrams (UDP_GRO) have several keys, and are not received then
    #[arg(long)]
    pub steer_keys: bool,
    /// Addresses to listen on, separated by commas, each with a port or without; * for all [default: 127.0.0.1]
    #[arg(short, long, value_name = "ADDRESS")]
    pub listen: Vec<String>,
    /// Listen on a Unix socket instead, without TCP, UDP and TLS
    #[arg(short = 's', long, value_name = "FILE")]
    pub unix_socket: Option<PathBuf>,
    /// Permissions of the Unix socket, in octal
    #[arg(short = 'a', long, value_name = "MODE", default_value = "700", value_parser = mode)]
    pub unix_mask: u32,
    /// Memory for items and their index in MiB [default: 64, at least 8 per worker]
    #[arg(short, long, value_name = "MIB")]
    pub memory_limit: Option<u64>,
    /// Maximum number of connections; one more gets an error
    #[arg(short, long, value_name = "N", default_value_t = 1_024, value_parser = clap::value_parser!(u32).range(1..))]
    pub conn_limit: u32,
    /// Maximum size of an item
    #[arg(short = 'I', long, value_name = "SIZE", default_value = "1m", value_parser = item_size)]
    pub max_item_size: u32,
    /// Accept backlog of each listener, limited by net.core.somaxconn
    #[arg(short = 'b', long, value_name = "N", default_value = "1024", value_parser = backlog)]
    pub listen_backlog: u16,
    /// How to get keys of another worker: direct, from its memory where it would change nothing, or handoff
    #[arg(long, value_name = "WAY", default_value_t = RemoteReads::Direct)]
    pub remote_reads: RemoteReads,
    /// Load nothing from memory ahead of the requests that need it: the control of a measurement
    #[arg(long)]
    pub no_prefetch: bool,
    /// Name flags without effect; `stats settings` shows how often it is given
    #[arg(short, long, action = ArgAction::Count)]
    pub verbose: u8,
    #[command(flatten)]
    pub requests: RequestArguments,
    #[command(flatten)]
    pub process: ProcessArguments,
    #[command(flatten)]
    pub tuning: TuningArguments,
    /// Read flags from a file as Debian's start script for memcached does: one per line, without -d and logfile; flags that
    /// follow win
    #[arg(long, value_name = "FILE")]
    pub memcached_conf: Option<PathBuf>,
    #[command(flatten)]
    pub refused: RefusedArguments,
    #[command(flatten)]
    pub engine: EngineArgument,
    #[command(flatten)]
    pub placing: MemoryArguments,
    #[command(flatten)]
    pub serving: ServingArguments,
    #[command(flatten)]
    pub tls: CertificateArguments,
}

/// What requests may do.
#[derive(Debug, Args)]
pub struct RequestArguments {
    /// Refuse items when memory is full, instead of evicting others
    #[arg(short = 'M', long)]
    pub disable_evictions: bool,
    /// Items have no CAS numbers: they are 0
    #[arg(short = 'C', long)]
    pub disable_cas: bool,
    /// Refuse flush_all
    #[arg(short = 'F', long)]
    pub disable_flush_all: bool,
    /// Refuse what shows keys: stats cachedump, stats detail, lru_crawler metadump and mgdump
    #[arg(short = 'X', long)]
    pub disable_dumping: bool,
    /// Refuse watch
    #[arg(short = 'W', long)]
    pub disable_watch: bool,
    /// Accept shutdown, which ends the server
    #[arg(short = 'A', long)]
    pub enable_shutdown: bool,
    /// Count requests by prefix of key from the start (stats detail): what is before this character
    #[arg(short = 'D', long, value_name = "CHARACTER", value_parser = delimiter)]
    pub prefix_delimiter: Option<char>,
}

/// The process.
#[derive(Debug, Args)]
pub struct ProcessArguments {
    /// Run in the background: ends with 0 once the server is ready
    #[arg(short, long)]
    pub daemon: bool,
    /// The process in the background.
    #[arg(long, hide = true)]
    pub in_background: bool,
    /// Write the process number to FILE, which is removed at the end
    #[arg(short = 'P', long, value_name = "FILE")]
    pub pidfile: Option<PathBuf>,
    /// Become this user once all sockets are open; only root can
    #[arg(short, long, value_name = "USER")]
    pub user: Option<String>,
    /// Keep all memory from being swapped out
    #[arg(short = 'k', long)]
    pub lock_memory: bool,
    /// Remove the limit of the size of core files
    #[arg(short = 'r', long)]
    pub enable_coredumps: bool,
}

/// Flags that are accepted, and most of which have no effect: docs/MEMCACHED.md.
#[derive(Debug, Args)]
pub struct TuningArguments {
    /// Options: idle_timeout=SECONDS, no_lru_crawler; docs/MEMCACHED.md lists all
    #[arg(short = 'o', long, value_name = "OPTIONS")]
    pub extended: Vec<String>,
    /// Requests per event: what one event brings is bounded by the receive buffer
    #[arg(short = 'R', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_reqs_per_event: Option<u32>,
    /// Growth of slab classes: there are no slabs
    #[arg(short = 'f', long, value_name = "FACTOR", value_parser = factor)]
    pub slab_growth_factor: Option<f64>,
    /// Smallest slab: there are no slabs
    #[arg(short = 'n', long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..))]
    pub slab_min_size: Option<u32>,
    /// Huge pages: they are used whenever there are some
    #[arg(short = 'L', long)]
    pub enable_largepages: bool,
    /// Protocol: ascii or auto, which are the same; the binary protocol does not exist here
    #[arg(short = 'B', long, value_name = "ascii|auto", value_parser = protocol)]
    pub protocol: Option<String>,
}

/// Flags of memcached that are refused.
#[derive(Debug, Args)]
pub struct RefusedArguments {
    #[arg(short = 'S', long, hide = true)]
    enable_sasl: bool,
    #[arg(short = 'Y', long, hide = true, value_name = "FILE")]
    auth_file: Option<String>,
    #[arg(short = 'Z', long, hide = true)]
    enable_ssl: bool,
    #[arg(short = 'e', long, hide = true, value_name = "FILE")]
    memory_file: Option<String>,
    #[arg(short = 'N', long, hide = true, value_name = "N")]
    napi_ids: Option<String>,
    #[arg(short = 'i', long, hide = true)]
    license: bool,
}

const NO_SASL: &str =
    "SASL needs the binary protocol, which does not exist here: use --tls, or a network of your own";
const NO_PASSWORDS: &str = "there are no passwords: use a Unix socket (-s, -a) or a network of your own";
const TLS: &str = "use --tls, with --certificate FILE and --private-key FILE";
const NO_FILE: &str = "items do not outlive the process: leave it out";
const BY_HASH: &str = "connections are steered to workers by the hash of the device: use --dev DEVICE";
const LICENSES: &str = "the licenses are in LICENSE-MIT and LICENSE-APACHE of the installed documents";

impl RefusedArguments {
    /// The first that is given, and what to use instead.
    pub fn given(&self) -> Option<(&'static str, &'static str)> {
        let flags = [
            (self.enable_sasl, "--enable-sasl", NO_SASL),
            (self.auth_file.is_some(), "--auth-file", NO_PASSWORDS),
            (self.enable_ssl, "--enable-ssl", TLS),
            (self.memory_file.is_some(), "--memory-file", NO_FILE),
            (self.napi_ids.is_some(), "--napi-ids", BY_HASH),
            (self.license, "--license", LICENSES),
        ];
        let given = flags.into_iter().find(|(given, ..)| *given)?;
        Some((given.1, given.2))
    }
}

const NO_EVENTS: &str = "the receive buffer bounds what one event brings";
const NO_SLABS: &str = "there are no slabs";
const HUGE_PAGES: &str = "huge pages are used whenever there are some";

impl TuningArguments {
    /// A line for each flag that is given and has no effect.
    pub fn without_effect(&self) -> Vec<String> {
        let flags = [
            (self.max_reqs_per_event.is_some(), "-R", NO_EVENTS),
            (self.slab_growth_factor.is_some(), "-f", NO_SLABS),
            (self.slab_min_size.is_some(), "-n", NO_SLABS),
            (self.enable_largepages, "-L", HUGE_PAGES),
        ];
        let given = flags.into_iter().filter(|(given, ..)| *given);
        given
            .map(|(_, flag, reason)| format!("{flag} has no effect: {reason}"))
            .collect()
    }
}

fn delimiter(text: &str) -> Result<char, String> {
    match text.as_bytes() {
        [byte] if byte.is_ascii_graphic() => Ok(char::from(*byte)),
        _ => Err("give one character of ASCII".to_owned()),
    }
}

fn mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "give octal digits, 0 to 777".to_owned())
}

/// Bytes, as memcached writes them, or as a size of this program.
fn item_size(text: &str) -> Result<u32, String> {
    let bytes = match text.char_indices().next_back() {
        Some((at, unit @ ('k' | 'K' | 'm' | 'M' | 'g'))) => {
            let shift = match unit {
                'k' | 'K' => 10,
                'm' | 'M' => 20,
                _ => 30,
            };
            let number: u64 = text[..at].parse().map_err(|_| "give a number, such as 2m")?;
            number.checked_mul(1 << shift).ok_or("too large")?
        }
        _ => size(text).map_err(|error| error.to_string())?,
    };
    let bytes = u32::try_from(bytes)
        .ok()
        .filter(|bytes| (1_024..=1 << 30).contains(bytes));
    bytes.ok_or_else(|| "give 1k to 1024m".to_owned())
}

/// A backlog; the kernel has no larger one than 65,535 by default.
fn backlog(text: &str) -> Result<u16, String> {
    let backlog: u32 = text.parse().map_err(|_| "give a whole number")?;
    Ok(u16::try_from(backlog).unwrap_or(u16::MAX))
}

fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor: &f64| *factor > 1.0);
    factor.ok_or_else(|| "give a number greater than 1".to_owned())
}

fn protocol(text: &str) -> Result<String, String> {
    match text {
        "ascii" | "auto" => Ok(text.to_owned()),
        "binary" => Err(
            "the binary protocol does not exist here: clients have to use the text or the meta protocol"
                .into(),
        ),
        _ => Err("give ascii or auto".into()),
    }
}
