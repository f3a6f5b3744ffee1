//! `corelane lab path`: what the stages of a frame's way do to the flows that take it, scenario by scenario.

use crate::lab::shell::{self, RunArguments, TurnArguments};
use crate::outcome::{Outcome, cannot_run};
use crate::values::{Choices, count_to, one_of};
use clap::Args;
use corelane_host::bed::BedError;
use corelane_lab::experiment::Schedule;
use corelane_lab::path::{Path, Request, ScenarioName};
use corelane_link::LinkError;

/// Shown under `--help`.
const EXAMPLES: &str = "Examples:\n  corelane lab path fragments\n  \
    corelane lab path tunnels --buckets 8 --packets 5k --json tunnels.json\n  \
    corelane lab path coalesce --rounds 1 --html coalesce.html";

/// The scenarios, a line each.
const SCENARIOS: &Choices<ScenarioName> = &[
    (
        "fragments",
        ScenarioName::Fragments,
        "Where datagrams in fragments are made whole, and the order that an application sees",
    ),
    (
        "tunnels",
        ScenarioName::Tunnels,
        "Buckets that the flows in one tunnel use, hashed as they come and decapsulated",
    ),
    (
        "coalesce",
        ScenarioName::Coalesce,
        "Packets per aggregation over 1 to 10,000 interleaved flows, by how they are found",
    ),
    (
        "dispatch",
        ScenarioName::Dispatch,
        "Every method and policy of dispatch under overload, with the tables of netstat -Q",
    ),
    (
        "software-rss",
        ScenarioName::SoftwareRss,
        "Locality and rate on a veth with cpumap, with RPS, and without either (needs root)",
    ),
];

/// The most packets of a trial; their numbers have 32 bits.
const MOST_PACKETS: u64 = 1 << 30;

/// The most buckets: each has rings of its own.
const MOST_BUCKETS: u64 = 64;

/// Run frames through the stages of the bridge, and count what that does to their flows
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("seed", |seed| seed.help("Random seed; the same seed produces the same document")))]
pub struct PathArguments {
    /// What to show
    #[arg(value_name = "SCENARIO", value_parser = one_of(SCENARIOS))]
    pub scenario: ScenarioName,
    /// Packets of each trial
    #[arg(long, value_name = "N", default_value = "20k", value_parser = count_to(MOST_PACKETS))]
    pub packets: u64,
    /// Buckets, each with a worker of its own
    #[arg(long, value_name = "N", default_value = "4", value_parser = count_to(MOST_BUCKETS))]
    pub buckets: u64,
    #[command(flatten)]
    pub turns: TurnArguments,
    #[command(flatten)]
    pub run: RunArguments,
}

/// Approximate time per packet.
const SECONDS_PER_PACKET: f64 = 3e-6;

/// `corelane lab path`.
pub fn run(arguments: &PathArguments) -> Outcome {
    let request = Request {
        scenario: arguments.scenario,
        packets: arguments.packets,
        buckets: arguments.buckets as u16,
        rounds: arguments.turns.rounds,
        seed: arguments.turns.seed,
    };
    shell::run(
        Schedule::untimed(request.rounds, request.seed),
        &arguments.run,
        &mut Path::new(request, shell::facts(None)),
        arguments.packets as f64 * SECONDS_PER_PACKET,
        None,
    )
    .map_err(|error| match (error.downcast_ref(), error.downcast_ref()) {
        (Some(LinkError::Unavailable(_)), _) | (_, Some(BedError::Namespace { .. })) => cannot_run(error),
        _ => error,
    })
}
