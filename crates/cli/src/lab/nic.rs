//! `corelane lab nic`: the proof on NICs that really do RSS, emulated.

use crate::outcome::{CannotRun, Done, Outcome};
use clap::Args;
use corelane_guest::{GuestError, GuestParts, kernel_directories};
use corelane_host::bed::BedError;
use corelane_lab::nic::{self, NicError, NicPlan, NicReport, RoundReport};
use corelane_report::table::{Column, Table};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;

/// Shown under `--help`.
pub const EXAMPLES: &str = "Examples:\n  corelane lab nic\n  corelane lab nic --flows 240 --json\n\n\
It boots a guest in software emulation (QEMU, busybox and a Debian kernel; tests/prepare.sh brings\n\
them) and takes ten seconds or more. Exit code 1 when any frame is not where it was computed to be.";

#[derive(Debug, Args)]
pub struct NicArguments {
    /// Flows of each of ten classes of packets (TCP, UDP, ICMP, two kinds of fragments; IPv4 and IPv6), in each of two rounds
    #[arg(long, value_name = "N", default_value_t = 120, value_parser = clap::value_parser!(u32).range(4..=10_000))]
    pub flows: u32,
    /// Seed of keys and flows
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print the plan and end
    #[arg(long)]
    pub dry_run: bool,
    /// One JSON document on standard output
    #[arg(long)]
    pub json: bool,
}

/// Runs the experiment, prints what was found, and fails when anything is not as computed.
pub fn run(arguments: &NicArguments) -> Outcome {
    let plan = NicPlan::new(arguments.flows as usize, arguments.seed)?;
    let mut out = std::io::stdout().lock();
    if arguments.dry_run {
        writeln!(out, "{}", serde_json::to_string_pretty(&plan)?)?;
        return Ok(Done);
    }
    let cannot = |error: &dyn std::fmt::Display| CannotRun(error.to_string());
    let parts = GuestParts::find(&kernel_directories(cache().as_deref())).map_err(|error| cannot(&error))?;
    let program = std::env::current_exe()?;
    let mut tell = |words: &str| {
        if std::io::stderr().is_terminal() {
            eprintln!("{words}");
        }
    };
    let report = nic::run(&plan, &parts, &program, &mut tell).map_err(|error| match error {
        NicError::Guest(GuestError::Missing { .. }) | NicError::Bed(BedError::Namespace { .. }) => {
            cannot(&error).into()
        }
        error => anyhow::Error::from(error),
    })?;
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        write!(out, "{}", text(&report))?;
    }
    match report.verdict.passed {
        true => Ok(Done),
        false => anyhow::bail!("the device does not do as computed: see the counts"),
    }
}

/// Where the user's programs keep what they can make anew.
fn cache() -> Option<PathBuf> {
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(home)
}

fn text(report: &NicReport) -> String {
    let mut text = String::new();
    for model in &report.models {
        if let Some(reason) = &model.skipped {
            text.push_str(&format!("{}: skipped: {reason}\n", model.model));
        }
        let Some(probed) = &model.probed else { continue };
        text.push_str(&format!(
            "{}: driver {}, Linux {}, {} queues\n",
            model.model, probed.driver, probed.kernel, probed.queues
        ));
        for (number, round) in probed.rounds.iter().enumerate() {
            text.push_str(&self::round(number, round));
        }
    }
    let verdict = &report.verdict;
    text.push_str(&format!(
        "{} frames of {} sent: {} with the hash, {} by the queue, {} on the CPU that was computed: {}\n",
        verdict.frames,
        verdict.sent,
        verdict.right_hash,
        verdict.right_queue,
        verdict.right_cpu,
        if verdict.passed { "passed" } else { "FAILED" }
    ));
    text
}

fn round(number: usize, round: &RoundReport) -> String {
    let mut text = format!(
        "round {number}: key {}…, entries by queue {:?}, reads back: {}\n",
        round.key.get(..16).unwrap_or(&round.key),
        round.entries_by_queue,
        if round.reads_back { "yes" } else { "NO" }
    );
    let headers = ["frames", "right hash", "right queue"];
    let columns = headers.into_iter().map(Column::right);
    let mut table = Table::new(
        std::iter::once(Column::left("hash type"))
            .chain(columns)
            .collect(),
    );
    for (name, of_type) in &round.types {
        table.row([
            name.clone(),
            of_type.frames.to_string(),
            of_type.right_hash.to_string(),
            of_type.right_queue.to_string(),
        ]);
    }
    text.push_str(&table.render(100));
    let queues: Vec<String> = round
        .frames_by_queue
        .iter()
        .map(|(queue, frames)| format!("{frames} by queue {queue}"))
        .collect();
    text.push_str(&format!(
        "{}; {} on the CPU that explain names\n",
        queues.join(", "),
        round.right_cpu
    ));
    text.push_str(&format!(
        "held to a wrong key: {} misplaced; to a wrong table: {} misplaced\n",
        round.wrong_key.misplaced, round.wrong_table.misplaced
    ));
    text
}
