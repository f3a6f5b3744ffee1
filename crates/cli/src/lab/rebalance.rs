//! `corelane lab rebalance`: a skewed load before, during and after table changes, compared with static RSS.

use crate::lab::bed::{BedArguments, snapshot};
use crate::lab::shell::{self, ShellArguments};
use crate::outcome::{Outcome, usage};
use crate::shared::RuleArguments;
use crate::steering;
use crate::timeline::TimelineArgument;
use crate::values::{duration, rate};
use clap::Args;
use corelane_host::bed::{Bed, BedKind};
use corelane_lab::rebalance::{PAYLOAD_BYTES, Rebalance, Request};
use corelane_rss::HashFields;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// Shown under `--help`.
const EXAMPLES: &str = "Examples:\n  corelane lab rebalance --duration 300ms --rate 5k --rounds 1\n  \
    corelane lab rebalance --buckets 4 --share-cpus --duration 300ms --rate 5k --json rebalance.json";

/// Measure the gain and loss of rebalancing a running server under skewed load, compared with static RSS
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RebalanceArguments {
    #[command(flatten)]
    rule: RuleArguments,
    /// CPUs to use, such as 0-3,6; the last one also generates [default: those allowed for this process]
    #[arg(long, value_name = "LIST")]
    cpus: Option<String>,
    /// Allow more buckets than CPUs: workers then share CPUs
    #[arg(long)]
    share_cpus: bool,
    /// Zipf exponent of the load per table entry: the k-th largest sends in proportion to k to the power of -EXPONENT
    #[arg(long, value_name = "EXPONENT", default_value_t = 1.0)]
    exponent: f64,
    /// Datagrams per second, on a fixed schedule
    #[arg(long, value_name = "RATE", default_value = "20k", value_parser = rate)]
    rate: f64,
    /// Duration of each phase
    #[arg(short, long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    duration: Duration,
    /// Table changes per minute, in the phase with table changes
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    changes_per_minute: u32,
    #[command(flatten)]
    bed: BedArguments,
    #[command(flatten)]
    timeline: TimelineArgument,
    #[command(flatten)]
    shell: ShellArguments,
}

/// `corelane lab rebalance`.
pub fn run(arguments: &RebalanceArguments) -> Outcome {
    arguments.bed.enter();
    let (bed, request) = request(arguments)?;
    corelane_host::limits::open_descriptors()?;
    let facts = shell::facts(snapshot(&bed));
    // The two trials of a round have four phases.
    let trial_seconds = 2.0 * request.duration_s + 0.5;
    let mut experiment = Rebalance {
        request,
        bed,
        program: shell::program()?,
        facts,
    };
    let timeline = Some(&arguments.timeline);
    arguments.shell.run(&mut experiment, trial_seconds, timeline)
}

fn request(arguments: &RebalanceArguments) -> anyhow::Result<(Bed, Request)> {
    let cpus = steering::bucket_cpus(
        arguments.cpus.as_deref(),
        arguments.rule.buckets,
        arguments.share_cpus,
    )?;
    if !(0.0..=10.0).contains(&arguments.exponent) {
        return Err(usage("--exponent", "give 0 to 10"));
    }
    if arguments.rate < 1.0 {
        return Err(usage("--rate", "give 1/s or more"));
    }
    let client_cpu = cpus.last().copied().unwrap_or(0);
    let steering = steering::from_rule(&arguments.rule, HashFields::FourTuple, cpus)?;
    let bed = (arguments.bed).build(steering.table.buckets(), PAYLOAD_BYTES, None)?;
    let request = Request {
        client: client(&bed),
        client_cpu,
        steering,
        exponent: arguments.exponent,
        rate: arguments.rate,
        duration_s: arguments.duration.as_secs_f64(),
        rounds: arguments.shell.turns.rounds,
        changes_a_minute: arguments.changes_per_minute,
        tolerance: corelane_rss::balance::Options::TOLERANCE,
        seed: arguments.shell.turns.seed,
    };
    Ok((bed, request))
}

/// The client address. On IPv4 loopback, which all runs share, it is unique to this process.
fn client(bed: &Bed) -> IpAddr {
    match (bed.kind(), bed.client.address()) {
        (BedKind::Loopback, IpAddr::V4(_)) => {
            let [.., high, low] = std::process::id().to_be_bytes();
            Ipv4Addr::new(127, 77, high, low).into()
        }
        (_, address) => address,
    }
}
