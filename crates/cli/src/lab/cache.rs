//! `corelane lab cache`: how many reads a bounded cache answers, by what it evicts.

use crate::lab::shell::{self, RunArguments, TurnArguments};
use crate::outcome::Outcome;
use crate::values::count_to;
use clap::Args;
use corelane_lab::cache::{Cache, Request};
use corelane_lab::experiment::Schedule;

/// Shown under `--help`.
const EXAMPLES: &str = "Examples:\n  corelane lab cache --requests 50k --keys 20k\n  \
    corelane lab cache --sizes 5,50 --requests 50k --keys 20k --json cache.json";

/// The most requests of a trial: each takes 20 bytes.
const MOST_REQUESTS: u64 = 100_000_000;

/// The most keys.
const MOST_KEYS: u64 = 10_000_000;

/// Compare what caches evict: hit ratios of the store, of memcached's policy and of others over the same requests
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("rounds", |rounds| rounds.default_value("1")))]
#[command(mut_arg("seed", |seed| seed.help("Random seed; the same seed produces the same document")))]
pub struct CacheArguments {
    /// Requests of each trial
    #[arg(long, value_name = "N", default_value = "300k", value_parser = count_to(MOST_REQUESTS))]
    pub requests: u64,
    /// Keys, apart from those that come once
    #[arg(long, value_name = "N", default_value = "100k", value_parser = count_to(MOST_KEYS))]
    pub keys: u64,
    /// Sizes of the caches, in percent of the bytes of all items that are requested
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,10,25",
        value_parser = clap::value_parser!(u32).range(1..=100))]
    pub sizes: Vec<u32>,
    #[command(flatten)]
    pub turns: TurnArguments,
    #[command(flatten)]
    pub run: RunArguments,
}

/// Approximate time per request: of drawing it, and of all policies.
const SECONDS_PER_REQUEST: f64 = 6e-7;

/// `corelane lab cache`.
pub fn run(arguments: &CacheArguments) -> Outcome {
    let request = Request {
        requests: arguments.requests,
        keys: arguments.keys as u32,
        percents: arguments.sizes.clone(),
        rounds: arguments.turns.rounds,
        seed: arguments.turns.seed,
    };
    shell::run(
        Schedule::untimed(request.rounds, request.seed),
        &arguments.run,
        &mut Cache::new(request, shell::facts(None)),
        arguments.requests as f64 * SECONDS_PER_REQUEST,
        None,
    )
}
