//! `corelane serve memcached`: the cache in the foreground.

use super::buckets::{self, ServingArguments};
use super::foreground::{self, Foreground, Refused};
use super::tls::{CertificateArguments, handshakes};
use crate::outcome::{Outcome, usage};
use crate::ready;
use crate::rebalanced::rebalanced;
use crate::shared::{ENGINE_OF_STREAMS, EngineArgument, MemoryArguments, check_memory};
use crate::terminal::width;
use crate::values::size;
use clap::{ArgAction, Args};
use corelane_measure::quantity;
use corelane_report::table::Rows;
use corelane_rss::{Protocol, Steering};
use corelane_serve::memcached::metrics::{EVICTED, HANDED_OVER, ITEMS, REQUESTS};
use corelane_serve::memcached::{
    Behaviour, BucketMemcached, MemcachedError, MemcachedPlan, MemcachedServed, MemcachedServer, UnixSocket,
};
use corelane_serve::metrics::{ACCEPTED, RECEIVED, SENT};
use corelane_serve::{Listening, SocketPlan};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// Least memory per worker unless the flag says otherwise, in MiB.
const MEMORY_PER_WORKER: u64 = 8;

/// memcached: a cache of items by key
#[derive(Debug, Args)]
#[command(
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
    /// TCP port; 0 for none
    #[arg(short, long, value_name = "PORT", default_value_t = 11_211)]
    pub port: u16,
    /// UDP port; 0 for none
    #[arg(short = 'U', long, value_name = "PORT", default_value_t = 0)]
    pub udp_port: u16,
    /// Addresses to listen on, separated by commas, each with a port or without [default: 127.0.0.1]
    #[arg(short, long, value_name = "ADDRESS", value_delimiter = ',')]
    pub listen: Vec<String>,
    /// Listen on a Unix socket instead, without TCP and UDP
    #[arg(short = 's', long, value_name = "FILE", conflicts_with_all = ["listen", "tls"])]
    pub unix_socket: Option<PathBuf>,
    /// Permissions of the Unix socket, in octal
    #[arg(short = 'a', long, value_name = "MODE", default_value = "700", value_parser = mode)]
    pub unix_mask: u32,
    /// Memory for items and their index in MiB [default: 64, at least 8 per worker]
    #[arg(short, long, value_name = "MIB")]
    pub memory_limit: Option<u64>,
    /// Maximum number of connections; one more gets an error
    #[arg(short, long, value_name = "N", default_value_t = 1_024)]
    pub conn_limit: u32,
    /// Maximum size of an item
    #[arg(short = 'I', long, value_name = "SIZE", default_value = "1m", value_parser = item_size)]
    pub max_item_size: u32,
    /// Accept backlog of each listener, limited by net.core.somaxconn
    #[arg(short = 'b', long, value_name = "N", default_value_t = 1_024)]
    pub listen_backlog: u16,
    /// Verbosity that `stats settings` reports
    #[arg(short, action = ArgAction::Count)]
    pub verbose: u8,
    #[command(flatten)]
    pub engine: EngineArgument,
    #[command(flatten)]
    pub placing: MemoryArguments,
    #[command(flatten)]
    pub serving: ServingArguments,
    #[command(flatten)]
    pub tls: CertificateArguments,
}

fn mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "give octal digits, 0 to 777".to_owned())
}

/// Bytes, as memcached writes them, or as a size of this program.
fn item_size(text: &str) -> Result<u32, String> {
    let bytes = match text.char_indices().next_back() {
        Some((at, unit @ ('k' | 'm' | 'g'))) => {
            let shift = match unit {
                'k' => 10,
                'm' => 20,
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
    bytes.ok_or_else(|| "give 1k to 1g".to_owned())
}

/// `corelane serve memcached`.
pub fn run(arguments: &ServeMemcachedArguments) -> Outcome {
    let addresses = arguments.addresses()?;
    let is_unix = arguments.unix_socket.is_some();
    let (tcp, udp) = (
        arguments.port != 0 && !is_unix,
        arguments.udp_port != 0 && !is_unix,
    );
    if !tcp && !udp && !is_unix {
        return Err(usage("--port", "there is nothing to listen on: give a port"));
    }
    check_memory(&arguments.placing)?;
    let table = arguments.serving.table(Protocol::Tcp, addresses[0])?;
    let steered = arguments.serving.steered(&table)?;
    let workers = steered.steering.table.buckets() as u64;
    let on_udp = |address: &SocketAddr| SocketAddr::new(address.ip(), arguments.udp_port);
    let memory = arguments.memory_limit;
    let plan = MemcachedPlan {
        listening: Listening {
            socket: SocketPlan {
                ..arguments.serving.socket(addresses[0])?
            },
            steered,
            kernel_hash: false,
            engine: arguments.engine.engine,
            backlog: arguments.listen_backlog,
            own_descriptors: true,
            memory: arguments.placing.memory,
            buffer_memory: arguments.placing.buffer_memory,
        },
        tcp,
        more_addresses: if tcp { addresses[1..].to_vec() } else { Vec::new() },
        udp: addresses.iter().filter(|_| udp).map(on_udp).collect(),
        unix: arguments.unix_socket.clone().map(|path| UnixSocket {
            path,
            mode: arguments.unix_mask,
        }),
        memory_bytes: memory.unwrap_or(64.max(workers * MEMORY_PER_WORKER)) << 20,
        connections: arguments.conn_limit,
        largest_item: arguments.max_item_size,
        seed: None,
        verbosity: arguments.verbose,
        behaviour: Behaviour::default(),
        tls: arguments.tls.certificate(),
        write_certificate: arguments.tls.write_certificate.clone(),
    };
    foreground::serve(arguments, plan, &arguments.serving.run, table)
}

impl ServeMemcachedArguments {
    /// The addresses of TCP; one at least.
    fn addresses(&self) -> anyhow::Result<Vec<SocketAddr>> {
        let address = |text: &String| {
            let alone: Result<IpAddr, _> = text.trim_matches(['[', ']']).parse();
            match alone {
                Ok(address) => Ok(SocketAddr::new(address, self.port)),
                Err(_) if !text.contains(':') => crate::names::address(&format!("{text}:{}", self.port)),
                Err(_) => crate::names::address(text),
            }
            .map_err(|reason| usage("--listen", reason))
        };
        if self.listen.is_empty() {
            return Ok(vec![SocketAddr::from(([127, 0, 0, 1], self.port))]);
        }
        self.listen.iter().map(address).collect()
    }
}

impl Refused for MemcachedError {
    fn refused(self) -> anyhow::Error {
        match self {
            Self::Serve(error) => error.refused(),
            Self::Memory { .. } => usage("--memory-limit", self),
            Self::Item { .. } => usage("--max-item-size", self),
            error => error.into(),
        }
    }
}

impl Foreground for ServeMemcachedArguments {
    type Server = MemcachedServer;

    fn ready(&self, served: &MemcachedServed) -> String {
        let udp = served.own.udp.iter().map(|address| format!("UDP on {address}\n"));
        let udp: String = udp.collect();
        match (&self.unix_socket, served.own.udp.first()) {
            (Some(path), _) => ready::of_streams_on(served, format!("unix:{}", path.display())),
            (None, Some(address)) if self.port == 0 => ready::of_streams_on(served, address) + &udp,
            _ => ready::of_streams(served) + &udp,
        }
    }

    fn steering(served: &MemcachedServed) -> Option<&Steering> {
        Some(&served.steering)
    }

    fn line(&self, served: &MemcachedServed, last: &MemcachedServed) -> String {
        let requests = |served: &MemcachedServed| served.sum(BucketMemcached::requests);
        let rate = requests(served).saturating_sub(requests(last));
        format!(
            "{:>12} requests/s  open {:>9}  items {:>12}  evicted {:>12}",
            quantity::count(rate),
            quantity::count(served.sum(|bucket| bucket.connections.open)),
            quantity::count(served.sum(|bucket| bucket.items)),
            quantity::count(served.sum(|bucket| bucket.evicted)),
        )
    }

    fn summary(served: &MemcachedServed) -> String {
        let table = Rows::of(&served.buckets)
            .right("bucket", |bucket| bucket.connections.bucket.to_string())
            .right("cpu", |bucket| bucket.connections.cpu.to_string())
            .metrics(&[&ACCEPTED, &RECEIVED, &SENT], |bucket| &bucket.connections)
            .metrics(&[&REQUESTS, &ITEMS, &EVICTED, &HANDED_OVER], |bucket| bucket)
            .table();
        let handshakes = handshakes(served.buckets.iter().map(|bucket| bucket.handshakes));
        let errors = buckets::by_cause("error", &served.errors());
        table.render(width().tables) + &handshakes + &errors + &rebalanced(served.rebalanced.as_ref())
    }
}
