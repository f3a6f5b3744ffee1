//! Flags of `corelane load memcached`, and what they ask for.

use crate::load::foreground::{ForegroundArguments, gates};
use crate::load::sources::{self, SourceArguments};
use crate::load::trust::{TrustArguments, with_tls};
use crate::names::{AddressesArgument, Server, server};
use crate::shared::DatagramIoArguments;
use crate::values::{Choices, MOST_CONNECTIONS, count, count_to, duration, one_of, rate};
use clap::{Arg, Args};
use corelane_load::memcached::{MOST_KEYS, Memcached, Mix, OnMiss, Popularity, Sizes, shapes, shapes::Shape};
use corelane_measure::quantity;
use std::time::Duration;

/// Shown by `--help`. A test runs each of them.
const EXAMPLES: &str = "Examples, with a server such as `memcached -l 127.0.0.1 -U 11211` running:\n  \
    corelane load memcached 127.0.0.1:11211 --keys 100k --prefill --duration 1s\n  \
    corelane load memcached 127.0.0.1:11211 --keys 100k --pipeline 16 --meta --duration 1s\n  \
    corelane load memcached 127.0.0.1:11211 --keys 100k --udp --window 8 --duration 1s\n  \
    corelane load memcached 127.0.0.1:11211 --preset etc --keys 100k --rate 20k --duration 1s --fail-if 'wrong > 0'";

const PRESETS: &Choices<&Shape> = &[
    (
        "etc",
        &shapes::ETC,
        "Facebook's pool ETC (SIGMETRICS 2012): small values, 30 reads per update",
    ),
    (
        "twitter-1",
        &shapes::TWITTER_1,
        "Twitter's cluster 1 (OSDI 2020): reads of few very popular keys",
    ),
    (
        "twitter-12",
        &shapes::TWITTER_12,
        "Cluster 12: four of five requests write, values expire after five minutes",
    ),
    (
        "twitter-14",
        &shapes::TWITTER_14,
        "Cluster 14: values are deleted when they change",
    ),
    ("twitter-23", &shapes::TWITTER_23, "Cluster 23: counters"),
    (
        "twitter-52",
        &shapes::TWITTER_52,
        "Cluster 52: a cache before a store, with compare and swap",
    ),
];

const ON_MISS: &Choices<OnMiss> = &[
    ("set", OnMiss::Set, "The value is stored, by a request of its own"),
    ("nothing", OnMiss::Nothing, "Nothing"),
];

/// Requests to a cache that speaks memcached's protocol; checks every value that it returns
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_args(with_tls))]
#[command(mut_args(only))]
#[command(mut_arg("align", |align| align.value_parser(one_of(sources::WITH_OWNERS))))]
#[command(mut_arg("fail_if", |gate| gate.help(gates("'p99 > 1ms', 'hits < 90%' or 'wrong > 0'"))))]
pub struct LoadMemcachedArguments {
    /// Server to connect to, as ADDRESS:PORT, NAME:PORT, :PORT or unix:PATH
    #[arg(value_parser = server)]
    pub target: Server,
    #[command(flatten)]
    pub addresses: AddressesArgument,
    /// Total number of connections
    #[arg(short, long, value_name = "N", default_value = "64", value_parser = count_to(MOST_CONNECTIONS))]
    pub connections: u64,
    /// Open loop: requests per second over all workers, on a fixed schedule [default: closed loop]
    #[arg(short, long, value_name = "RATE", value_parser = rate)]
    pub rate: Option<f64>,
    /// Closed loop: delay between an answer and the next request on the connection
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "rate")]
    pub think: Option<Duration>,
    /// Send requests for this time [default: 10s, or until --count is reached]
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Stop after this many requests
    #[arg(short = 'n', long = "count", value_name = "N", value_parser = count)]
    pub requests: Option<u64>,
    #[command(flatten)]
    pub shape: ShapeArguments,
    /// Requests in flight on a connection, at most
    #[arg(long, value_name = "N", default_value = "1", value_parser = count_to(MOST_IN_FLIGHT))]
    pub pipeline: u64,
    /// Keys of one request that reads
    #[arg(long, value_name = "N", default_value = "1", value_parser = count_to(MOST_KEYS as u64))]
    pub multi_get: u64,
    /// Send meta commands (mg, ms, md, ma), and check the opaque and the key of each answer
    #[arg(long)]
    pub meta: bool,
    /// What follows a miss
    #[arg(long, default_value = "set", value_parser = one_of(ON_MISS))]
    pub on_miss: OnMiss,
    /// First store every key once, which is not measured
    #[arg(long)]
    pub prefill: bool,
    /// Number of this run in the values that it writes [default: drawn]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub run: Option<u32>,
    /// Timeout for opening a connection, including the TLS handshake
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub connect_timeout: Duration,
    /// Time without an answer on a connection with requests in flight after which they fail
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub timeout: Duration,
    /// Time to wait at the end for the next outstanding answer; ten times as long for all
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    pub drain: Duration,
    /// Use TLS
    #[arg(long)]
    pub tls: bool,
    #[command(flatten)]
    pub trust: TrustArguments,
    #[command(flatten)]
    pub sources: SourceArguments,
    #[command(flatten)]
    pub udp: UdpArguments,
    /// Closed loop: batch answers for an eighth of the mean latency, at most this time, and process them together; 0s
    /// disables batching
    #[arg(long, value_name = "TIME", default_value = "50us", value_parser = duration, conflicts_with = "rate")]
    pub gather: Duration,
    #[command(flatten)]
    pub foreground: ForegroundArguments,
}

/// The most requests in flight on a connection.
const MOST_IN_FLIGHT: u64 = 4_096;

/// The most keys: each needs 20 bytes in the generator, and has a number of 32 bits at its worker.
const MOST_NUMBERED_KEYS: u64 = 2_000_000_000;

/// Keys, values and operations.
#[derive(Debug, Args)]
pub struct ShapeArguments {
    /// Published shape of a cache's requests: sizes, popularity, operations, TTL; explicit flags override it
    #[arg(long, value_parser = one_of(PRESETS))]
    pub preset: Option<&'static Shape>,
    /// Number of keys
    #[arg(long, value_name = "N", default_value = "1M", value_parser = count_to(MOST_NUMBERED_KEYS))]
    pub keys: u64,
    /// What every key begins with; generators that run at the same time need different ones
    #[arg(long, value_name = "TEXT", default_value = "key:", value_parser = prefix)]
    pub prefix: String,
    /// Size of keys, as 32, 20-60, gev:LOCATION,SCALE,SHAPE or pareto:LOCATION,SCALE,SHAPE [default: 32]
    #[arg(long, value_name = "SIZES")]
    pub key_size: Option<Sizes>,
    /// Size of values, likewise, or etc [default: 100]
    #[arg(long, value_name = "SIZES")]
    pub value_size: Option<Sizes>,
    /// How requests are distributed over the keys: uniform or zipf:EXPONENT [default: uniform]
    #[arg(long, value_name = "DISTRIBUTION")]
    pub popularity: Option<Popularity>,
    /// Weights of get, gets, gat, set, add, replace, append, prepend, cas, delete, incr, decr, touch [default: get=90,set=10]
    #[arg(long, value_name = "WEIGHTS")]
    pub mix: Option<Mix>,
    /// Values expire after this time, in whole seconds [default: never]
    #[arg(long, value_name = "TIME", value_parser = ttl)]
    pub ttl: Option<u32>,
}

/// Requests in datagrams.
#[derive(Debug, Args)]
pub struct UdpArguments {
    /// Send each request as one datagram; every connection is a UDP socket
    #[arg(long, conflicts_with_all = NOT_OVER_UDP)]
    pub udp: bool,
    /// Closed loop over UDP: keep this many unanswered requests per socket
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=256), conflicts_with = "rate")]
    pub window: u32,
    /// Time without any answer to a UDP socket after which its unanswered requests count as lost
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = duration)]
    pub loss_timeout: Duration,
    #[command(flatten)]
    pub io: DatagramIoArguments,
}

/// What only connections have.
const NOT_OVER_UDP: [&str; 12] = [
    "pipeline",
    "think",
    "gather",
    "connect_timeout",
    "timeout",
    "addresses",
    "tls",
    "insecure",
    "ca",
    "certificate",
    "private_key",
    "resumption",
];

/// The flag with its condition, if only datagrams have it.
fn only(argument: Arg) -> Arg {
    match argument.get_id().as_str() {
        "window" | "loss_timeout" | "batch" | "gso" | "gro" => argument.requires("udp"),
        _ => argument,
    }
}

impl LoadMemcachedArguments {
    /// Whether keys are stored first.
    pub fn prefills(&self) -> bool {
        self.prefill && !self.foreground.result.dry_run
    }

    /// What is asked for.
    pub fn protocol(&self) -> Memcached {
        let shape = self.shape.protocol();
        Memcached {
            pipeline: self.pipeline as usize,
            multi_get: self.multi_get as usize,
            meta: self.meta,
            on_miss: self.on_miss,
            run: self.run.unwrap_or(shape.run),
            ..shape
        }
    }
}

impl ShapeArguments {
    /// What is asked for, one key at a time, by a run with a number that is drawn.
    pub fn protocol(&self) -> Memcached {
        let preset = |of: fn(&Shape) -> Sizes, default| self.preset.map_or(default, of);
        let popularity = self
            .preset
            .map_or(Popularity::Uniform, |preset| preset.popularity);
        Memcached {
            keys: self.keys,
            prefix: self.prefix.clone(),
            key_size: self
                .key_size
                .unwrap_or_else(|| preset(|preset| preset.key_size, Sizes::Fixed(32))),
            value_size: (self.value_size)
                .unwrap_or_else(|| preset(|preset| preset.value_size, Sizes::Fixed(100))),
            popularity: self.popularity.unwrap_or(popularity),
            mix: (self.mix.clone())
                .or_else(|| Some(self.preset?.mix()))
                .unwrap_or_default(),
            ttl_s: self.ttl.or_else(|| self.preset?.ttl_s),
            pipeline: 1,
            multi_get: 1,
            meta: false,
            on_miss: OnMiss::Set,
            run: fastrand::u32(1..),
            prefill: false,
            owners: None,
        }
    }
}

/// A note on the storing of so many keys, by these stores that succeeded of those that began.
pub fn prefilled(keys: u64, (ok, begun): (u64, u64), seconds: f64, causes: &str) -> String {
    let [keys, succeeded, all] = [keys, ok, begun].map(quantity::count);
    let took = quantity::duration(seconds * 1e9);
    match ok == begun {
        true => format!("prefilled: {keys} keys in {took}"),
        false => format!("prefilled: {succeeded} of {all} stores succeeded in {took}{causes}"),
    }
}

/// Keys have at most 250 bytes, of which a number needs up to 20.
const LONGEST_PREFIX: usize = 200;

fn prefix(text: &str) -> Result<String, String> {
    let is_key = text.bytes().all(|byte| byte.is_ascii_graphic());
    match is_key && text.len() <= LONGEST_PREFIX {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "give up to {LONGEST_PREFIX} ASCII characters without blanks"
        )),
    }
}

/// Larger numbers are times, not durations, in the protocol.
const LONGEST_TTL: Duration = Duration::from_secs(30 * 24 * 60 * 60);

fn ttl(text: &str) -> Result<u32, String> {
    let ttl = duration(text).map_err(|error| error.to_string())?;
    match ttl.subsec_nanos() == 0 && (Duration::from_secs(1)..=LONGEST_TTL).contains(&ttl) {
        true => Ok(ttl.as_secs() as u32),
        false => Err("give whole seconds, from 1s to 30 days (2592000s)".to_owned()),
    }
}
