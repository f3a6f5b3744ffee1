//! `corelane lab engines`: compares hash implementations and datagram I/O methods on this machine.

use crate::lab::bed::{BedArgument, BedArguments, PORT, snapshot};
use crate::lab::shell::{self, ShellArguments};
use crate::outcome::{Outcome, cannot_run, usage};
use crate::steering;
use crate::timeline::TimelineArgument;
use crate::values::duration;
use clap::Args;
use corelane_host::limits;
use corelane_lab::engines::{Comparison, OUTSTANDING, PAYLOAD_BYTES, Plan};
use std::time::Duration;

/// Shown under `--help`.
const EXAMPLES: &str = "Examples:\n  corelane lab engines --ways toeplitz\n  \
    corelane lab engines --ways batch,gro_gso_64 --rounds 3 --json engines.json";

/// Compare hash implementations and datagram I/O methods on this machine, each with its reference
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("rounds", |rounds| rounds.default_value("5")))]
pub struct EnginesArguments {
    /// Methods to compare: toeplitz, udp, or names such as gfni,batch,gro_gso_64; references are added [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub ways: Vec<String>,
    /// Duration of one datagram measurement
    #[arg(short, long, value_name = "TIME", default_value = "500ms", value_parser = duration)]
    pub duration: Duration,
    /// CPUs to use, such as 0,1: the first for hashing and the server, the last for the client [default: one CPU for
    /// all, as in `lab scale`]
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// Where the datagrams are sent
    #[arg(long, value_enum, default_value = "auto")]
    pub bed: BedArgument,
    #[command(flatten)]
    pub timeline: TimelineArgument,
    #[command(flatten)]
    pub shell: ShellArguments,
}

/// `corelane lab engines`.
pub fn run(arguments: &EnginesArguments) -> Outcome {
    let (server_cpu, client_cpu) = cpus(arguments.cpus.as_deref())?;
    let (toeplitz, udp) = Plan::ways(&arguments.ways).map_err(|refusal| usage(refusal.flags, &refusal))?;
    // The hashes are of IPv4 packets too.
    let bed = BedArguments {
        bed: arguments.bed,
        ipv6: false,
    };
    if !udp.is_empty() {
        bed.enter();
    }
    let bed = bed.build(1, PAYLOAD_BYTES as u32, None)?;
    let facts = shell::facts(snapshot(&bed));
    let duration_s = arguments.duration.as_secs_f64();
    let mut plan = Plan {
        toeplitz,
        udp,
        rounds: arguments.shell.turns.rounds,
        duration_s,
        payload_bytes: PAYLOAD_BYTES,
        outstanding: OUTSTANDING,
        server_cpu,
        client_cpu,
        seed: arguments.shell.turns.seed,
    };
    let mut comparison = Comparison {
        left_out: plan.leave_out(),
        plan,
        bed,
        port: PORT,
        program: shell::program()?,
        facts,
        descriptor_limit: limits::open_descriptors()?,
    };
    let timeline = Some(&arguments.timeline);
    arguments.shell.run(&mut comparison, duration_s + 0.5, timeline)
}

/// The CPUs of the server and of the client.
fn cpus(list: Option<&str>) -> anyhow::Result<(u32, u32)> {
    let usable = steering::worker_cpus(list, None)?;
    let first = usable.first().copied();
    let last = list.map_or(first, |_| usable.last().copied());
    first
        .zip(last)
        .ok_or_else(|| cannot_run("there is no CPU to run on"))
}
