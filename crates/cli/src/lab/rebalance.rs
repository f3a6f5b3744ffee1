//! `corelane lab rebalance`: a skewed load before, while and after the table is changed, against static RSS.

use crate::documents::{command_line, write_whole};
use crate::interrupt::Interrupt;
use crate::lab::bed::{BedArgument, build_bed};
use crate::outcome::{Done, Outcome, usage};
use crate::shared::RuleArguments;
use crate::steering::{self, Asking};
use crate::values::{duration, rate};
use anyhow::Context;
use clap::Args;
use corelane_host::bed::{self, Bed, BedKind};
use corelane_lab::rebalance::{PAYLOAD_BYTES, Phase, Rebalance, RebalanceError, Rebalancing, Request};
use corelane_measure::quantity::{self, count, fixed, or_missing};
use corelane_report::table::{Column, Table, wrap};
use corelane_rss::HashFields;
use std::io::{self, IsTerminal, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Shown under `--help`.
pub const EXAMPLES: &str = "Examples:\n  corelane lab rebalance --duration 300ms --rate 5k --rounds 1\n  \
    corelane lab rebalance --buckets 4 --share-cpus --duration 300ms --rate 5k --json rebalance.json";

#[derive(Debug, Args)]
pub struct RebalanceArguments {
    #[command(flatten)]
    rule: RuleArguments,
    /// CPUs to use, such as 0-3,6; the last one also generates [default: those this process may use]
    #[arg(long, value_name = "LIST")]
    cpus: Option<String>,
    /// Allow more buckets than CPUs: workers then share CPUs
    #[arg(long)]
    share_cpus: bool,
    /// The k-th largest of the table's entries sends in proportion to k to the power of minus this
    #[arg(long, value_name = "EXPONENT", default_value_t = 1.0)]
    exponent: f64,
    /// Datagrams a second, at times fixed in advance
    #[arg(long, value_name = "RATE", default_value = "20k", value_parser = rate)]
    rate: f64,
    /// Length of each phase
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    duration: Duration,
    /// Rounds, each with other entries loaded
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Table changes a minute in the phase that has them
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    changes_per_minute: u32,
    /// Seed of the ranks of entries
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Where the experiment runs
    #[arg(long, value_enum, default_value = "auto")]
    bed: BedArgument,
    /// Write the JSON document to FILE; without FILE to standard output, and nothing else there
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
}

/// Measures, tells, and fails when changes lost what static RSS does not, or the decision is far from the best.
pub fn run(arguments: &RebalanceArguments) -> Outcome {
    if arguments.bed != BedArgument::Loopback {
        // Unprivileged processes may make namespaces in one of their own; where not, the bed says why.
        let _ = bed::enter_user_namespace();
    }
    let experiment = experiment(arguments)?;
    corelane_host::limits::open_descriptors()?;
    let interrupt = Interrupt::catch()?;
    let progress = |phase: &Phase| {
        if io::stderr().is_terminal() {
            eprintln!("round {}: {}", phase.round + 1, phase.name.name());
        }
    };
    let told = experiment.run(interrupt.flag(), progress).map_err(name_flag)?;
    let text = serde_json::to_string_pretty(&told)?;
    let mut out = io::stdout().lock();
    match &arguments.json {
        Some(path) if path == Path::new("-") => writeln!(out, "{text}")?,
        Some(path) => {
            write_whole(path, &format!("{text}\n")).with_context(|| format!("--json {}", path.display()))?;
            print(&mut out, &told)?;
        }
        None => print(&mut out, &told)?,
    }
    match &told.verdict {
        Some(verdict) if !verdict.nothing_lost => {
            anyhow::bail!("datagrams were lost while the table changed")
        }
        Some(verdict) if verdict.decided_over_best > MOST_OVER_BEST => {
            anyhow::bail!("the fullest bucket stays more than 5 % above the best possible")
        }
        _ => Ok(Done),
    }
}

/// How far above the best possible assignment the fullest bucket may be decided to stay.
const MOST_OVER_BEST: f64 = 1.05;

fn experiment(arguments: &RebalanceArguments) -> anyhow::Result<Rebalance> {
    let asking = Asking::Buckets {
        share: arguments.share_cpus,
    };
    let cpus = steering::place(arguments.cpus.as_deref(), arguments.rule.buckets, asking)?;
    if !(0.0..=10.0).contains(&arguments.exponent) {
        return Err(usage("--exponent", "give 0 to 10"));
    }
    if arguments.rate < 1.0 {
        return Err(usage("--rate", "give 1 a second or more"));
    }
    let client_cpu = cpus.last().copied().unwrap_or(0);
    let steering = steering::from_rule(&arguments.rule, HashFields::FourTuple, cpus)?;
    let bed = build_bed(arguments.bed, steering.table.buckets(), PAYLOAD_BYTES, None)?;
    Ok(Rebalance {
        request: Request {
            client: client(&bed),
            client_cpu,
            steering,
            exponent: arguments.exponent,
            rate: arguments.rate,
            duration_s: arguments.duration.as_secs_f64(),
            rounds: arguments.rounds,
            changes_a_minute: arguments.changes_per_minute,
            tolerance: corelane_rss::balance::Options::TOLERANCE,
            seed: arguments.seed,
        },
        bed,
        program: std::env::current_exe().context("this program's own path")?,
        command_line: command_line(),
    })
}

/// The client: in namespaces one of the posts' pool; of loopback, which all runs share, an address that no other run has.
fn client(bed: &Bed) -> Ipv4Addr {
    match bed.kind() {
        BedKind::Loopback => {
            let [.., high, low] = std::process::id().to_be_bytes();
            Ipv4Addr::new(127, 77, high, low)
        }
        BedKind::Namespaces | BedKind::UserNamespace => Ipv4Addr::new(10, 11, 2, 2),
    }
}

fn name_flag(error: RebalanceError) -> anyhow::Error {
    match error {
        error @ RebalanceError::OneBucket => usage("--buckets", error),
        error @ RebalanceError::Entry { .. } => usage("--key", error),
        error => error.into(),
    }
}

fn print(out: &mut impl Write, told: &Rebalancing) -> io::Result<()> {
    let mut table = Table::new(vec![
        Column::right("round"),
        Column::left("phase"),
        Column::right("sent"),
        Column::right("lost"),
        Column::right("fullest").unit("of mean"),
        Column::right("p99").unit("µs"),
        Column::right("changes").unit("/min"),
        Column::right("moved"),
        Column::left("buckets").unit("%").may_shrink(),
    ]);
    for phase in &told.phases {
        let total: u64 = phase.bucket_datagrams.iter().sum();
        let share = |seen: &u64| fixed(100.0 * *seen as f64 / total.max(1) as f64, 0);
        let shares: Vec<String> = phase.bucket_datagrams.iter().map(share).collect();
        table.row([
            (phase.round + 1).to_string(),
            phase.name.name().to_owned(),
            count(phase.sent),
            count(phase.lost),
            or_missing(phase.fullest_over_mean, |value| fixed(value, 3)),
            or_missing(phase.round_trip_p99_us, |value| fixed(value, 0)),
            if phase.table_changes > 0 {
                count(phase.changes_a_minute as u64)
            } else {
                quantity::MISSING.to_owned()
            },
            count(phase.entries_moved),
            shares.join(" "),
        ]);
    }
    writeln!(
        out,
        "Zipf {} over {} entries, {} buckets, {}",
        told.request.exponent,
        told.request.steering.table.size(),
        told.request.steering.table.buckets(),
        quantity::rate(told.request.rate)
    )?;
    write!(out, "{}", table.render(100))?;
    conclusion(out, told)
}

/// Where it ran, what was decided, and what it comes to.
fn conclusion(out: &mut impl Write, told: &Rebalancing) -> io::Result<()> {
    if let Some(bed) = &told.bed {
        for line in wrap(&bed.describe, 100) {
            writeln!(out, "{line}")?;
        }
    }
    for (round, decided) in told.decisions.iter().enumerate() {
        let over = |load: u64| fixed(load as f64 / decided.bound.max(1) as f64, 3);
        writeln!(
            out,
            "round {}: {} of {} entries moved; fullest bucket {} of the best possible, {} before",
            round + 1,
            decided.moves.len(),
            decided.table.size(),
            over(decided.fullest_after),
            over(decided.fullest_before)
        )?;
    }
    let Some(verdict) = &told.verdict else {
        return writeln!(out, "ended early: no verdict");
    };
    writeln!(
        out,
        "fullest bucket {} of the mean after rebalancing, {} without",
        fixed(verdict.after_fullest_over_mean, 3),
        fixed(verdict.static_fullest_over_mean, 3)
    )?;
    writeln!(
        out,
        "{} lost a million under {} changes a minute, {} without",
        fixed(verdict.during_lost_per_million, 1),
        count(verdict.changes_a_minute as u64),
        fixed(verdict.static_lost_per_million, 1)
    )
}
