//! What a user may type: verbs, flags and their help. Nothing here decides anything.

use clap::{Args, Parser, Subcommand, ValueEnum};
use corelane_host::memory::MemoryPolicy;
use corelane_load::pool::Pool;
use corelane_report::quantity;
use corelane_report::scale::{Mode, Model, Placement, UnknownModel};
use corelane_rss::{HashFields, Key};
use corelane_worker::engine::EngineKind;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Put every packet on the right CPU, prove it, and push it until it breaks.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, disable_help_subcommand = true)]
#[command(after_help = "Exit codes: 0 done, 1 failed, 2 usage, 3 a gate was not met, 77 cannot run here.")]
pub struct Corelane {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Where a flow goes: its Toeplitz hashes, table entry and bucket
    #[command(after_help = "Example:\n  corelane hash 66.9.149.187:2794 161.142.100.80:1766")]
    Hash(HashArguments),
    /// Which client addresses or ports land on which bucket
    #[command(
        after_help = "Examples:\n  corelane plan --server 10.11.2.1 --clients 10.11.2.0/24 --buckets 4\n  \
        corelane plan --server 10.11.2.1:8080 --client 10.11.2.3 --hash 4tuple --buckets 4"
    )]
    Plan(PlanArguments),
    /// A server with one pinned worker a bucket
    Serve {
        #[command(subcommand)]
        what: ServeWhat,
    },
    /// A traffic generator that reports what it could not send
    Load {
        #[command(subcommand)]
        what: LoadWhat,
    },
    /// Experiments
    Lab {
        #[command(subcommand)]
        what: LabWhat,
    },
    /// Saved reports, told again or compared
    Report {
        #[command(subcommand)]
        what: ReportWhat,
    },
}

#[derive(Debug, Subcommand)]
pub enum ReportWhat {
    /// Tell a saved report again, as text or as a page
    Show {
        /// A document that `lab scale udp --json FILE` wrote
        file: PathBuf,
        /// Write the report as one HTML page instead
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
    },
    /// Compare two saved reports, with their spread in mind
    Diff {
        /// The earlier document
        before: PathBuf,
        /// The later document
        after: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
pub enum ServeWhat {
    /// UDP echo, or sink
    #[command(after_help = "Example:\n  corelane serve udp 127.0.0.1:8080 --duration 1s")]
    Udp(ServeUdpArguments),
}

#[derive(Debug, Subcommand)]
pub enum LoadWhat {
    /// UDP datagrams, each one accounted for
    #[command(
        after_help = "Examples:\n  corelane load udp 127.0.0.1:8080 --rate 10k --duration 1s\n  \
        corelane load udp 127.0.0.1:8080 --window 32 --sockets 8 --duration 1s"
    )]
    Udp(LoadUdpArguments),
}

#[derive(Debug, Subcommand)]
pub enum LabWhat {
    /// Does it grow with the CPUs, and if not, why?
    Scale {
        #[command(subcommand)]
        what: ScaleWhat,
    },
    /// Over how many buckets RSS spreads flows evenly, and what rebalancing gains; no packet is sent
    #[command(after_help = crate::simulate::EXAMPLES)]
    Simulate(crate::simulate::SimulateArguments),
    /// Which way to hash and which way to move datagrams is best here, each against its reference
    #[command(after_help = crate::engines::EXAMPLES)]
    Engines(crate::engines::EnginesArguments),
}

#[derive(Debug, Subcommand)]
pub enum ScaleWhat {
    /// UDP: 1 to N buckets active, frames counted at five places
    #[command(
        after_help = "Examples:\n  corelane lab scale udp --duration 200ms --rounds 1 --json scale.json\n  \
        corelane lab scale udp --models all --placements aligned,crossed --duration 100ms --rounds 1"
    )]
    Udp(ScaleUdpArguments),
}

#[derive(Debug, Args)]
pub struct HashArguments {
    /// Source, as ADDRESS:PORT or [ADDRESS]:PORT; without a port only the 2-tuple hash is told
    #[arg(value_parser = endpoint)]
    pub source: Endpoint,
    /// Destination, written as the source is
    #[arg(value_parser = endpoint)]
    pub destination: Endpoint,
    #[command(flatten)]
    pub rule: RuleArguments,
    /// One JSON document on standard output
    #[arg(long)]
    pub json: bool,
}

/// Key, table and buckets: how a hash becomes a bucket.
#[derive(Debug, Args)]
pub struct RuleArguments {
    /// The RSS key: 40 to 64 bytes in hexadecimal, colons allowed [default: the verification suite's]
    #[arg(long, value_name = "HEX")]
    pub key: Option<Key>,
    /// Entries of the indirection table, a power of two up to 4096
    #[arg(long, value_name = "ENTRIES", default_value_t = 128)]
    pub table_size: usize,
    /// Buckets that the table maps to, round robin [default: one a CPU]
    #[arg(long, value_name = "N")]
    pub buckets: Option<usize>,
}

#[derive(Debug, Args)]
pub struct PlanArguments {
    /// The server, as ADDRESS or ADDRESS:PORT
    #[arg(long, value_parser = endpoint)]
    pub server: Endpoint,
    /// A pool of client addresses to choose from: prefixes, ranges, lists
    #[arg(
        long,
        value_name = "POOL",
        conflicts_with = "client",
        required_unless_present = "client"
    )]
    pub clients: Option<Pool>,
    /// One client address, whose source ports are to be chosen
    #[arg(long, value_name = "ADDRESS")]
    pub client: Option<IpAddr>,
    /// Source ports to choose from
    #[arg(long, value_name = "FIRST-LAST", default_value = "1024-65535", value_parser = port_range)]
    pub ports: (u16, u16),
    /// What the server hashes [default: 2tuple for --clients, 4tuple for --client]
    #[arg(long, value_name = "2tuple|4tuple")]
    pub hash: Option<HashFields>,
    #[command(flatten)]
    pub rule: RuleArguments,
    /// The server's steering document, instead of key, table and buckets
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key", "table_size", "buckets", "hash"])]
    pub steering: Option<PathBuf>,
    /// Every source found, not only the first of each bucket
    #[arg(long)]
    pub all: bool,
    /// One JSON document on standard output
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ServeUdpArguments {
    /// Where to listen; all addresses (0.0.0.0) answer loopback and private networks only
    #[arg(default_value = "127.0.0.1:8080")]
    pub address: SocketAddr,
    /// Take datagrams and answer none
    #[arg(long)]
    pub sink: bool,
    /// How a datagram finds its worker: single, shared, farm, reuseport, incoming_cpu or exact
    #[arg(long, value_name = "NAME", default_value = "exact")]
    pub model: Model,
    /// What is hashed
    #[arg(long, value_name = "2tuple|4tuple", default_value = "4tuple")]
    pub hash: HashFields,
    #[command(flatten)]
    pub rule: RuleArguments,
    /// CPUs to use, such as 0-3,6 [default: those this process may use, one of each core]
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// Allow more buckets than CPUs: workers then share CPUs
    #[arg(long)]
    pub share_cpus: bool,
    /// A steering document to serve by, instead of key, table, buckets and CPUs
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key", "table_size", "buckets", "hash", "cpus"])]
    pub steering: Option<PathBuf>,
    /// Socket receive buffer of each bucket; without privilege the kernel gives net.core.rmem_max at most
    #[arg(long, value_name = "SIZE", default_value = "4MiB", value_parser = size)]
    pub receive_buffer: u64,
    /// Device on which to watch which CPU the receive path runs on (needs CAP_NET_RAW)
    #[arg(long, value_name = "DEVICE")]
    pub watch: Option<String>,
    #[command(flatten)]
    pub moving: MovingArguments,
    #[command(flatten)]
    pub placing: MemoryArguments,
    /// End after so long [default: on SIGINT]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Print the plan and end
    #[arg(long)]
    pub dry_run: bool,
    /// One JSON document on standard output, at the end
    #[arg(long)]
    pub json: bool,
}

/// How datagrams are moved.
#[derive(Debug, Args)]
pub struct MovingArguments {
    /// System interface: epoll or io_uring [default: what a probe finds best]
    #[arg(long, value_name = "epoll|io_uring")]
    pub engine: Option<EngineKind>,
    /// Datagrams moved by one system call; 1 is one recvfrom and one sendto a datagram
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub batch: u16,
    /// Send runs of datagrams to one peer as one UDP_SEGMENT send
    #[arg(long)]
    pub gso: bool,
    /// Receive runs of datagrams of one flow as one (UDP_GRO)
    #[arg(long)]
    pub gro: bool,
}

/// Where the workers' memory comes from.
#[derive(Debug, Args)]
pub struct MemoryArguments {
    /// Node of all memory of each worker: first-touch, local, interleave, node:N
    #[arg(long, value_name = "POLICY", default_value = "first-touch")]
    pub memory: MemoryPolicy,
    /// Node of each worker's datagram buffers alone [default: as --memory]
    #[arg(long, value_name = "POLICY")]
    pub buffer_memory: Option<MemoryPolicy>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SpreadArgument {
    /// Sources evenly over the workers
    Even,
    /// One worker a bucket of the server, its sources chosen to land there
    Buckets,
}

#[derive(Debug, Args)]
pub struct LoadUdpArguments {
    /// Where to send, as ADDRESS:PORT
    pub target: SocketAddr,
    /// Source addresses: prefixes, ranges, lists [default: the routing table's choice]
    #[arg(long, value_name = "POOL")]
    pub sources: Option<Pool>,
    /// The server's steering document
    #[arg(long, value_name = "FILE")]
    pub steering: Option<PathBuf>,
    /// Over what the sources are spread
    #[arg(long, value_enum, default_value = "even")]
    pub spread: SpreadArgument,
    /// Sockets in all [default: one a worker]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub sockets: Option<u32>,
    /// Workers, one a CPU [default: one a CPU that this process may use]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub workers: Option<u32>,
    /// CPUs to use, such as 0-3,6
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// Payload of each datagram, 16 to 65507 bytes
    #[arg(long, value_name = "SIZE", default_value = "510", value_parser = size)]
    pub size: u64,
    /// Open loop: datagrams a second over all workers, at times fixed in advance
    #[arg(long, value_name = "RATE", value_parser = rate, conflicts_with = "window")]
    pub rate: Option<f64>,
    /// Keep so many datagrams of each socket unanswered [default: flood]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub window: Option<u32>,
    /// End after so long [default: 10s, or when --count is reached]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// End after so many datagrams
    #[arg(long, value_name = "N", value_parser = count)]
    pub count: Option<u64>,
    /// The server does not answer: wait for nothing
    #[arg(long, conflicts_with = "window")]
    pub no_answers: bool,
    #[command(flatten)]
    pub moving: MovingArguments,
    #[command(flatten)]
    pub placing: MemoryArguments,
    /// Print the plan and end
    #[arg(long)]
    pub dry_run: bool,
    /// One JSON document on standard output, at the end
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BedArgument {
    /// Network namespaces where allowed, else loopback
    Auto,
    /// Two network namespaces joined by veth, or not at all
    Namespaces,
    /// Loopback
    Loopback,
}

/// Models to compare: a list, or all there are.
#[derive(Debug, Clone)]
pub struct Models(pub Vec<Model>);

impl FromStr for Models {
    type Err = UnknownModel;

    fn from_str(text: &str) -> Result<Self, UnknownModel> {
        if text == "all" {
            return Ok(Self(Model::ALL.to_vec()));
        }
        let mut models: Vec<Model> = Vec::new();
        for name in text.split(',') {
            let model = name.trim().parse()?;
            if !models.contains(&model) {
                models.push(model);
            }
        }
        Ok(Self(models))
    }
}

#[derive(Debug, Args)]
pub struct ScaleUdpArguments {
    /// Buckets of the server; 1 to N of them are active [default: one a CPU]
    #[arg(long, value_name = "N")]
    pub buckets: Option<usize>,
    /// Models to compare, of single, shared, farm, reuseport, incoming_cpu and exact
    #[arg(long, value_name = "all|LIST", default_value = "exact,reuseport")]
    pub models: Models,
    /// Where each bucket's client runs, on its worker's CPU or on another: aligned, crossed or both, for every model
    /// [default: aligned, and exact crossed too]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub placements: Option<Vec<Placement>>,
    /// What the server does, for every model: echo, sink or both [default: echo, and exact as a sink too]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub modes: Option<Vec<Mode>>,
    /// Length of one trial
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    pub duration: Duration,
    /// Trials of each step, interleaved
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Payload of each datagram, 16 to 65507 bytes
    #[arg(long, value_name = "SIZE", default_value = "510", value_parser = size)]
    pub size: u64,
    /// Client sockets a bucket, each with an address of its own
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=128))]
    pub flows: u32,
    /// Unanswered datagrams a socket in echo; the sink is flooded
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub window: u32,
    /// The RSS key [default: the verification suite's]
    #[arg(long, value_name = "HEX")]
    pub key: Option<Key>,
    /// Entries of the indirection table
    #[arg(long, value_name = "ENTRIES", default_value_t = 128)]
    pub table_size: usize,
    /// CPUs to use, such as 0-3,6
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// Allow more buckets than CPUs
    #[arg(long)]
    pub share_cpus: bool,
    /// Where the experiment runs
    #[arg(long, value_enum, default_value = "auto")]
    pub bed: BedArgument,
    #[command(flatten)]
    pub moving: MovingArguments,
    #[command(flatten)]
    pub observe: ObserveArguments,
    #[command(flatten)]
    pub placing: MemoryArguments,
    /// Seed of the order of trials
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print the plan and end
    #[arg(long)]
    pub dry_run: bool,
    /// Write the JSON document to FILE; without FILE to standard output, and nothing else there
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<PathBuf>,
    /// Write the report as one HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// What is observed while each trial is measured.
#[derive(Debug, Args)]
pub struct ObserveArguments {
    /// Tell where the CPUs' time went: functions and callers, of workers and of softirq (needs root or CAP_PERFMON)
    #[arg(long)]
    pub profile: bool,
    /// Tell which kernel locks were waited for, echo beside sink (needs root, Linux 5.19)
    #[arg(long)]
    pub locks: bool,
    /// Tell what each CPU's receive path did, with the high-water marks of its backlog
    #[arg(long)]
    pub softnet: bool,
}

/// An address with or without a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    pub address: IpAddr,
    pub port: Option<u16>,
}

impl Endpoint {
    /// The socket address, with port 0 where none was given.
    pub fn socket_address(self) -> SocketAddr {
        SocketAddr::new(self.address, self.port.unwrap_or(0))
    }
}

fn endpoint(text: &str) -> Result<Endpoint, String> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(Endpoint {
            address: address.ip(),
            port: Some(address.port()),
        });
    }
    match text.trim_matches(['[', ']']).parse() {
        Ok(address) => Ok(Endpoint { address, port: None }),
        Err(_) => Err("write 10.11.2.1:8080, [2001:db8::1]:8080, or an address without a port".to_owned()),
    }
}

fn port_range(text: &str) -> Result<(u16, u16), String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok((first, last)),
        _ => Err("write FIRST-LAST, such as 1024-65535".to_owned()),
    }
}

fn duration(text: &str) -> Result<Duration, quantity::QuantityError> {
    quantity::parse_duration(text)
}

fn size(text: &str) -> Result<u64, quantity::QuantityError> {
    quantity::parse_size(text)
}

fn rate(text: &str) -> Result<f64, quantity::QuantityError> {
    quantity::parse_rate(text)
}

fn count(text: &str) -> Result<u64, quantity::QuantityError> {
    quantity::parse_count(text)
}
