//! `corelane lab nic`: checks computed queues against emulated NICs with hardware RSS.

use crate::lab::shell::{self, RunArguments};
use crate::outcome::{Outcome, cannot_run};
use clap::Args;
use corelane_guest::GuestError;
use corelane_host::bed::BedError;
use corelane_lab::experiment::Schedule;
use corelane_lab::nic::{NicPlan, NicProof};

/// Shown under `--help`.
const EXAMPLES: &str = "Examples:\n  corelane lab nic\n  corelane lab nic --flows 240 --json\n\n\
Boots a guest in software emulation (QEMU, busybox and a Debian kernel, installed by\n\
tests/prepare.sh); takes ten seconds or more. Exit code 1 if any frame is not on its computed queue.";

/// Check the computed queue of every frame against emulated NICs with hardware RSS
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct NicArguments {
    /// Flows per packet class and round; ten classes (TCP, UDP, ICMP, two kinds of fragments; IPv4 and IPv6), two
    /// rounds
    #[arg(long, value_name = "N", default_value_t = 120, value_parser = clap::value_parser!(u32).range(4..=10_000))]
    pub flows: u32,
    /// Seed of keys and flows
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub run: RunArguments,
}

/// Approximate time to boot a guest and send it all frames.
const GUEST_SECONDS: f64 = 10.0;

/// `corelane lab nic`.
pub fn run(arguments: &NicArguments) -> Outcome {
    let mut proof = NicProof {
        plan: NicPlan::new(arguments.flows as usize, arguments.seed)?,
        program: shell::program()?,
        facts: shell::facts(None),
    };
    // The device is emulated, so no time is measured.
    shell::run(
        Schedule::untimed(1, arguments.seed),
        &arguments.run,
        &mut proof,
        GUEST_SECONDS,
        None,
    )
    .map_err(|error| match (error.downcast_ref(), error.downcast_ref()) {
        (Some(GuestError::Missing(_)), _) | (_, Some(BedError::Namespace { .. })) => cannot_run(error),
        _ => error,
    })
}
