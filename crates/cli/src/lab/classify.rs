//! `corelane lab classify`: measures table lookups under different cache and batching parameters.

use crate::lab::shell::{self, ShellArguments};
use crate::outcome::{Outcome, cannot_run};
use crate::steering;
use crate::values::{count, duration};
use clap::Args;
use corelane_host::conditions;
use corelane_host::cpus::{self, CacheInfo, CacheKind};
use corelane_lab::classify::document::{LockKind, Plan, PrefetchKind, TableKind};
use corelane_lab::classify::{Classification, Lists, Request};
use std::time::Duration;

/// Shown under `--help`.
const EXAMPLES: &str = "Examples:\n  corelane lab classify --dry-run\n  \
    corelane lab classify --entries 100k --batches 1,4 --strides 1920,2048 --duration 5ms --rounds 1 --json run.json\n  \
    corelane lab classify --every-combination --tables exact --batches 4,32 --duration 5ms --rounds 1";

/// Measure the rate of classifying frames by address, by batch, prefetch, stride, lock and table
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("rounds", |rounds| rounds.default_value("5")))]
pub struct ClassifyArguments {
    /// Addresses in the full tables
    #[arg(long, value_name = "N", default_value = "6M", value_parser = count)]
    pub entries: u64,
    /// Tables to test: none, post, exact
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub tables: Option<Vec<TableKind>>,
    /// Buckets of the post's table [default: 524288,2097152]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub buckets: Option<Vec<u64>>,
    /// Test only the post's table without entries
    #[arg(long, conflicts_with = "full")]
    pub empty: bool,
    /// Test only tables with entries
    #[arg(long)]
    pub full: bool,
    /// Frames processed together in each stage [default: 1,2,4,8,16,32,64]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub batches: Option<Vec<usize>>,
    /// Prefetch methods to test: none, header, bucket, both, bucket-and-array
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub prefetch: Option<Vec<PrefetchKind>>,
    /// Prefetch distances in lookups within the burst [default: 8,16,32,64]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub distances: Option<Vec<usize>>,
    /// Distances between frame buffers in bytes [default: 2048,1920,1984,2112,1536,4096]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub strides: Option<Vec<usize>>,
    /// Numbers of threads [default: 1, 2, 4, ... and one per CPU]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub threads: Option<Vec<usize>>,
    /// Locks to test: none, read, read-per-batch
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub locks: Option<Vec<LockKind>>,
    /// Test every combination of the lists, instead of the post's rows and their neighbours
    #[arg(long)]
    pub every_combination: bool,
    /// Frames per burst
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub burst: usize,
    /// Frame buffers of each ring, rounded to a multiple of the burst
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub ring: usize,
    /// Duration of one trial
    #[arg(short, long, value_name = "TIME", default_value = "50ms", value_parser = duration)]
    pub duration: Duration,
    /// CPUs to use, such as 0-3 [default: one hardware thread of each core of the home node, then of the others]
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    #[command(flatten)]
    pub shell: ShellArguments,
}

pub fn run(arguments: &ClassifyArguments) -> Outcome {
    let cpus = steering::worker_cpus(arguments.cpus.as_deref(), None)?;
    let first = *cpus
        .first()
        .ok_or_else(|| cannot_run("there is no CPU to run on"))?;
    let facts = shell::facts(conditions::snapshot(&[]));
    let mut experiment = Classification::new(request(arguments, cpus), data_caches(first)?, facts);
    let trial_seconds = arguments.duration.as_secs_f64();
    arguments.shell.run(&mut experiment, trial_seconds, None)
}

fn request(arguments: &ClassifyArguments, cpus: Vec<u32>) -> Request {
    let all = Lists::all(cpus.len());
    let filled = match (arguments.empty, arguments.full) {
        (true, _) => vec![false],
        (_, true) => vec![true],
        _ => all.filled,
    };
    Request {
        lists: Lists {
            tables: arguments.tables.clone().unwrap_or(all.tables),
            buckets: arguments.buckets.clone().unwrap_or(all.buckets),
            filled,
            batches: arguments.batches.clone().unwrap_or(all.batches),
            prefetch: arguments.prefetch.clone().unwrap_or(all.prefetch),
            distances: arguments.distances.clone().unwrap_or(all.distances),
            strides: arguments.strides.clone().unwrap_or(all.strides),
            threads: arguments.threads.clone().unwrap_or(all.threads),
            locks: arguments.locks.clone().unwrap_or(all.locks),
        },
        every_combination: arguments.every_combination,
        plan: Plan {
            entries: arguments.entries,
            burst: arguments.burst,
            ring: arguments.ring,
            duration_s: arguments.duration.as_secs_f64(),
            rounds: arguments.shell.turns.rounds,
            cpus,
            seed: arguments.shell.turns.seed,
            ..Plan::default()
        },
    }
}

/// The caches that hold data of this CPU, from the core outwards.
fn data_caches(cpu: u32) -> anyhow::Result<Vec<CacheInfo>> {
    let mut caches = cpus::topology()?.caches;
    caches.retain(|cache| cache.kind != CacheKind::Instruction && cache.shared_by.contains(&cpu));
    Ok(caches)
}
