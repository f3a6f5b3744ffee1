//! `corelane lab simulate`: simulates how evenly RSS spreads flows over more buckets than this machine has CPUs.

use crate::lab::shell::{self, RunArguments, TurnArguments};
use crate::names::address_in_packets;
use crate::outcome::Outcome;
use crate::values::{count, key, share};
use clap::Args;
use corelane_lab::experiment::Schedule;
use corelane_lab::simulate::{Request, Simulation};
use corelane_load::pool::Pool;
use corelane_load::udp::Skew;
use corelane_rss::{HashFields, Key};
use std::net::SocketAddr;

/// Shown under `--help`.
const EXAMPLES: &str = "Examples:\n  corelane lab simulate --buckets 2,8,32 --rounds 5\n  \
    corelane lab simulate --buckets 8,64 --table-size 128 --sizes zipf:1.1 --flows 100k\n  \
    corelane lab simulate --buckets 16 --sizes elephants:4:50% --hash 2tuple --clients 10.11.0.0/16 --json";

/// Simulate how evenly RSS spreads flows over buckets, and the gain of rebalancing; sends no packets
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("rounds", |rounds| rounds
    .default_value("11")
    .value_parser(clap::value_parser!(u32).range(1..=10_000))
    .help("Rounds, each with different flows")))]
#[command(mut_arg("seed", |seed| seed.help("Random seed; the same seed produces the same document")))]
pub struct SimulateArguments {
    /// Numbers of buckets, up to 1024
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "2,4,8,16,32,64,128,256,512,1024"
    )]
    pub buckets: Vec<usize>,
    /// Sizes of the indirection table, up to 4096
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "128,512,4096"
    )]
    pub table_size: Vec<usize>,
    /// Flows of each round
    #[arg(long, value_name = "N", default_value = "10k", value_parser = count)]
    pub flows: u64,
    /// Total datagrams of all flows
    #[arg(long, value_name = "N", default_value = "1G", value_parser = count)]
    pub datagrams: u64,
    /// How flows share the datagrams: uniform, zipf:EXPONENT, or elephants:FLOWS:SHARE%
    #[arg(long, value_name = "SIZES", default_value = "uniform")]
    pub sizes: Skew,
    /// Fields to hash
    #[arg(long, value_name = "2tuple|4tuple", default_value = "4tuple")]
    pub hash: HashFields,
    /// The RSS key: 40 to 64 bytes in hexadecimal, colons allowed, or intel, mlx, i40e, ena [default: the verification
    /// suite's]
    #[arg(long, value_name = "KEY", value_parser = key)]
    pub key: Option<Key>,
    /// Source addresses: prefixes, ranges, lists
    #[arg(long, value_name = "POOL", default_value = "172.16.0.0/12")]
    pub clients: Pool,
    /// Destination, as ADDRESS:PORT
    #[arg(long, value_name = "SERVER", default_value = "10.11.2.1:8080", value_parser = address_in_packets)]
    pub server: SocketAddr,
    #[command(flatten)]
    pub turns: TurnArguments,
    /// Load above the lowest level found that rebalancing may leave on a bucket; a higher value needs fewer moves
    #[arg(long, value_name = "PERCENT", default_value = "2%", value_parser = share)]
    pub tolerance: f64,
    /// List the flows of the first round in the JSON document
    #[arg(long, requires = "json")]
    pub list_flows: bool,
    #[command(flatten)]
    pub run: RunArguments,
}

/// Approximate time per flow and table.
const SECONDS_PER_FLOW: f64 = 1e-7;

/// `corelane lab simulate`.
pub fn run(arguments: &SimulateArguments) -> Outcome {
    let mut simulation = Simulation::new(request(arguments), shell::facts(None));
    let trial_seconds = arguments.flows as f64 * SECONDS_PER_FLOW;
    shell::run(
        Schedule::untimed(arguments.turns.rounds, arguments.turns.seed),
        &arguments.run,
        &mut simulation,
        trial_seconds,
        None,
    )
}

fn request(arguments: &SimulateArguments) -> Request {
    Request {
        buckets: arguments.buckets.clone(),
        table_sizes: arguments.table_size.clone(),
        // On a machine with shorter words, the simulation rejects the saturated value.
        flows: usize::try_from(arguments.flows).unwrap_or(usize::MAX),
        datagrams: arguments.datagrams,
        sizes: arguments.sizes,
        hash_fields: arguments.hash,
        key: arguments.key.clone().unwrap_or(Key::VERIFICATION),
        clients: arguments.clients.clone(),
        server: arguments.server,
        seed: arguments.turns.seed,
        rounds: arguments.turns.rounds,
        tolerance: arguments.tolerance,
        list_flows: arguments.list_flows,
    }
}
