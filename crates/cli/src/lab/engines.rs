//! `corelane lab engines`: which way to hash and which way to move datagrams is best here.

use crate::lab::bed::{BedArgument, PORT, build_bed, snapshot};
use crate::lab::shell::{self, RunArguments};
use crate::outcome::{CannotRun, Outcome};
use crate::steering::{self, Asking};
use crate::values::duration;
use anyhow::Context;
use clap::Args;
use corelane_host::{bed, limits};
use corelane_lab::engines::{Comparison, PAYLOAD_BYTES, Request, WayName};
use corelane_lab::experiment::Schedule;
use std::time::Duration;

/// Shown under `--help`.
pub const EXAMPLES: &str = "Examples:\n  corelane lab engines --ways toeplitz\n  \
    corelane lab engines --ways batch,gro_gso_64 --duration 200ms --rounds 3 --json engines.json";

#[derive(Debug, Args)]
pub struct EnginesArguments {
    /// Ways to compare: toeplitz, udp, or names such as gfni,batch,gro_gso_64; references come along [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub ways: Vec<WayName>,
    /// Length of one measurement of datagrams
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = duration)]
    pub duration: Duration,
    /// Rounds; every way is measured once in each, in an order drawn anew
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// CPUs to use, such as 0,1: the first hashes and serves, the last is the client's [default: one CPU for all, as
    /// `lab scale` places a bucket's client]
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// Where datagrams are moved
    #[arg(long, value_enum, default_value = "auto")]
    pub bed: BedArgument,
    /// Seed of the order within each round
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub run: RunArguments,
}

/// `corelane lab engines`.
pub fn run(arguments: &EnginesArguments) -> Outcome {
    let (server_cpu, client_cpu) = cpus(arguments.cpus.as_deref())?;
    let (hashes, udp) = Request::ways(&arguments.ways);
    // While there is one thread: namespaces without privilege need a user namespace around them.
    if arguments.bed != BedArgument::Loopback && !udp.is_empty() {
        // A refusal is no error here: the bed says what it could not have, and why.
        let _ = bed::enter_user_namespace();
    }
    let bed = build_bed(arguments.bed, 1, PAYLOAD_BYTES as u32, None)?;
    let snapshot = snapshot(&bed);
    let duration_s = arguments.duration.as_secs_f64();
    let mut comparison = Comparison::new(
        Request {
            hashes,
            udp,
            rounds: arguments.rounds,
            duration_s,
            server_cpu,
            client_cpu,
            seed: arguments.seed,
        },
        (bed, PORT),
        std::env::current_exe().context("finding the program's own file")?,
        shell::facts(&snapshot),
        limits::open_descriptors()?,
    );
    shell::run_scheduled(
        Schedule::unguarded(arguments.rounds, arguments.seed),
        &arguments.run,
        &mut comparison,
        (Some(&snapshot), duration_s + 0.5),
        Into::into,
    )
}

/// The CPU of the server and that of the client.
fn cpus(list: Option<&str>) -> anyhow::Result<(u32, u32)> {
    let usable = steering::place(list, None, Asking::Workers)?;
    let first = usable.first().copied();
    let last = if list.is_some() {
        usable.last().copied()
    } else {
        first
    };
    first
        .zip(last)
        .ok_or_else(|| CannotRun("there is no CPU to run on".to_owned()).into())
}
