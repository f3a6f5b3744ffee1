//! `corelane lab engines`: which way to hash and which way to move datagrams is best here.

use crate::documents::{command_line, write_whole};
use crate::interrupt::Interrupt;
use crate::lab::bed::{BedArgument, PORT, build_bed};
use crate::lab::progress;
use crate::outcome::{CannotRun, Done, Outcome};
use crate::steering::{self, Asking};
use crate::values::duration;
use anyhow::Context;
use clap::Args;
use corelane_host::bed;
use corelane_host::{conditions, limits};
use corelane_lab::documents::engines::{EnginesReport, render};
use corelane_lab::engines::{Comparison, PAYLOAD_BYTES, Request, WayName};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
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
    /// Write the JSON document to FILE; without FILE to standard output, and nothing else there
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<PathBuf>,
}

/// Compares and tells.
pub fn run(arguments: &EnginesArguments) -> Outcome {
    let (server_cpu, client_cpu) = cpus(arguments.cpus.as_deref())?;
    let (hashes, udp) = Request::ways(&arguments.ways);
    // While there is one thread: namespaces without privilege need a user namespace around them.
    if arguments.bed != BedArgument::Loopback && !udp.is_empty() {
        // A refusal is no error here: the bed says what it could not have, and why.
        let _ = bed::enter_user_namespace();
    }
    let bed = build_bed(arguments.bed, 1, PAYLOAD_BYTES as u32, None)?;
    let snapshot = conditions::snapshot(&[bed.server.device().to_owned()]);
    let comparison = Comparison {
        request: Request {
            hashes,
            udp,
            rounds: arguments.rounds,
            duration_s: arguments.duration.as_secs_f64(),
            server_cpu,
            client_cpu,
            seed: arguments.seed,
        },
        bed,
        port: PORT,
        program: std::env::current_exe().context("finding the program's own file")?,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command_line: command_line(),
        conditions: serde_json::to_value(&snapshot)?,
        descriptor_limit: limits::open_descriptors()?,
    };
    let interrupt = Interrupt::catch()?;
    let progress = progress::bar(0);
    let report = comparison.run(interrupt.flag(), |moment| {
        progress::show_moment(&progress, moment);
        // A run that is killed leaves what it measured; a failure to save is told at the end, when it is tried again.
        let _ = save(arguments, moment.report);
    });
    progress.finish_and_clear();
    let report = report?;
    save(arguments, &report)?;
    let mut out = io::stdout().lock();
    if arguments.json.as_deref() == Some(Path::new("-")) {
        write!(out, "{}", report.to_json()?)?;
    } else {
        write!(out, "{}", render(&report))?;
    }
    Ok(Done)
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

fn save(arguments: &EnginesArguments, report: &EnginesReport) -> anyhow::Result<()> {
    match arguments.json.as_deref() {
        Some(path) if path != Path::new("-") => {
            write_whole(path, &report.to_json()?).with_context(|| format!("--json {}", path.display()))
        }
        _ => Ok(()),
    }
}
