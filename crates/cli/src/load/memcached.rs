//! `corelane load memcached`: its flags, the plan that they describe, and the generator for caches in the foreground.

use crate::load::foreground::{ForegroundArguments, duration_s, gates};
use crate::load::live::ForegroundLoad as _;
use crate::load::memcached_udp::{self, UdpArguments};
use crate::load::sources::{self, SourceArguments};
use crate::load::trust::{TrustArguments, with_tls};
use crate::names::{AddressesArgument, Server, server};
use crate::outcome::{Outcome, cannot_run};
use crate::values::{Choices, MOST_CONNECTIONS, count, count_to, duration, one_of, rate};
use clap::Args;
use corelane_load::Generator;
use corelane_load::memcached::{
    MOST_KEYS, Memcached, MemcachedLoad, MemcachedPlan, Mix, Model, OnMiss, PlannedPhase, PlannedPool,
    Popularity, Sizes, Timeouts, Until, shapes, shapes::Shape,
};
use corelane_load::sources::Transport;
use corelane_measure::quantity;
use corelane_rss::Protocol;
use corelane_worker::engine::Remote;
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
#[command(mut_args(memcached_udp::only))]
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
    /// Weights of get, gets, gat, set, add, replace, cas, delete, incr, touch [default: get=90,set=10]
    #[arg(long, value_name = "WEIGHTS")]
    pub mix: Option<Mix>,
    /// Values expire after this time, in whole seconds [default: never]
    #[arg(long, value_name = "TIME", value_parser = ttl)]
    pub ttl: Option<u32>,
}

/// `corelane load memcached`.
pub fn run(arguments: &LoadMemcachedArguments) -> Outcome {
    if arguments.udp.udp {
        return memcached_udp::run(arguments);
    }
    let plan = plan(arguments)?;
    let prefills = arguments.prefills();
    let note = prefills.then(|| prefill(plan.clone())).transpose()?;
    arguments
        .foreground
        .run::<MemcachedLoad>(plan, note.into_iter().collect())
}

impl LoadMemcachedArguments {
    /// Whether keys are stored first.
    pub fn prefills(&self) -> bool {
        self.prefill && !self.foreground.result.dry_run
    }
}

/// Stores every key of every server once; returns a note on that.
fn prefill(mut plan: MemcachedPlan) -> anyhow::Result<String> {
    let (all, keys) = (plan.connections() as u64, plan.pools[0].protocol.keys);
    let fewest = plan.pools.iter().map(|pool| pool.connections as u64).min();
    for pool in &mut plan.pools {
        pool.model = Model::Closed { think_s: 0.0 };
        pool.protocol.prefill = true;
    }
    // Requests are shared among the connections; the pool with the fewest stores all keys, too.
    plan.requests = Some(keys.div_ceil(fewest.unwrap_or(1)) * all);
    plan.phases = vec![PlannedPhase::hold(Until::default())];
    let load = MemcachedLoad::start(plan).map_err(MemcachedLoad::refused)?;
    let report = load.finish()?;
    if let Some(why) = report.outcome.failed_because {
        return Err(cannot_run(format!("--prefill: {why}")));
    }
    let requests = &report.counts.requests;
    let causes = format!(": {}", requests.by_cause.causes());
    Ok(prefilled(
        keys,
        (requests.ok, requests.begun),
        report.running_s,
        &causes,
    ))
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

fn plan(arguments: &LoadMemcachedArguments) -> anyhow::Result<MemcachedPlan> {
    let most = (arguments.connections, arguments.foreground.result.dry_run);
    let (target, others) = (arguments.addresses).remotes(&arguments.target, arguments.tls, most)?;
    let sources = arguments
        .sources
        .request(target.clone(), arguments.connections as usize)?;
    let address = target.address().map(|address| address.ip());
    let request = arguments.foreground.workers(address, Protocol::Tcp)?;
    let workers = sources
        .plan_all(&others, &request, Transport::Tcp)
        .map_err(|error| sources::refuse(&error))?;
    let protocol = protocol(arguments);
    let all = std::iter::once(target).chain(others.into_iter().map(Remote::from));
    let tls = arguments.trust.in_server(&arguments.target, arguments.tls);
    let pools = PlannedPool::of_targets(all, &workers, |target, connections| PlannedPool {
        tls: tls.clone(),
        model: model(arguments, connections),
        ..PlannedPool::new(target, protocol.clone(), connections)
    });
    let plan = MemcachedPlan::new(pools, 0.0, &workers);
    Ok(MemcachedPlan {
        phases: vec![PlannedPhase::hold(Until {
            duration_s: duration_s(arguments.duration, arguments.requests.is_some()),
            ..Until::default()
        })],
        requests: arguments.requests,
        timeouts: Timeouts {
            connect_s: arguments.connect_timeout.as_secs_f64(),
            first_byte_s: arguments.timeout.as_secs_f64(),
            request_s: arguments.timeout.as_secs_f64(),
            drain_s: arguments.drain.as_secs_f64(),
            ..Timeouts::default()
        },
        engine: arguments.udp.io.engine.engine,
        memory: arguments.foreground.placing.memory,
        buffer_memory: arguments.foreground.placing.buffer_memory,
        steering: request.steering.of_plan(sources.align),
        ..plan.gathering(arguments.gather)
    })
}

/// The pace of a pool with so many of the connections.
fn model(arguments: &LoadMemcachedArguments, connections: usize) -> Model {
    match arguments.rate {
        Some(per_second) => Model::Open {
            per_second: per_second * connections as f64 / arguments.connections as f64,
        },
        None => Model::Closed {
            think_s: arguments.think.unwrap_or_default().as_secs_f64(),
        },
    }
}

/// What is asked for.
pub fn protocol(arguments: &LoadMemcachedArguments) -> Memcached {
    let shape = &arguments.shape;
    let preset = |of: fn(&Shape) -> Sizes, default| shape.preset.map_or(default, of);
    let popularity = shape
        .preset
        .map_or(Popularity::Uniform, |preset| preset.popularity);
    Memcached {
        keys: shape.keys,
        prefix: shape.prefix.clone(),
        key_size: shape
            .key_size
            .unwrap_or_else(|| preset(|preset| preset.key_size, Sizes::Fixed(32))),
        value_size: (shape.value_size)
            .unwrap_or_else(|| preset(|preset| preset.value_size, Sizes::Fixed(100))),
        popularity: shape.popularity.unwrap_or(popularity),
        mix: (shape.mix.clone())
            .or_else(|| Some(shape.preset?.mix()))
            .unwrap_or_default(),
        ttl_s: shape.ttl.or_else(|| shape.preset?.ttl_s),
        pipeline: arguments.pipeline as usize,
        multi_get: arguments.multi_get as usize,
        meta: arguments.meta,
        on_miss: arguments.on_miss,
        run: arguments.run.unwrap_or_else(|| fastrand::u32(1..)),
        prefill: false,
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
