//! Shared by all experiments: common flags, progress, saving during the run, interrupts, gates and exit codes.

use crate::documents::command_line;
use crate::interrupt::Interrupt;
use crate::lab::progress;
use crate::outcome::{Outcome, usage};
use crate::outputs::OutputArguments;
use crate::shared::print_json;
use crate::timeline::TimelineArgument;
use crate::values::share;
use anyhow::{Context, bail};
use clap::Args;
use corelane_host::conditions::Snapshot;
use corelane_lab::document::{Document, Head, Tool};
use corelane_lab::error::Refusal;
use corelane_lab::experiment::{self, Experiment, Schedule};
use corelane_report::page::Rendered;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Flags of every experiment that measures time.
#[derive(Debug, Args)]
pub struct ShellArguments {
    #[command(flatten)]
    pub turns: TurnArguments,
    /// Maximum share of steal time in a trial; a trial with more is discarded and repeated
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "10%")]
    pub max_steal: f64,
    #[command(flatten)]
    pub run: RunArguments,
}

/// Flags of every experiment with rounds.
#[derive(Debug, Args)]
pub struct TurnArguments {
    /// Trials per step, interleaved
    #[arg(long, value_name = "N", default_value_t = 3, default_value_if("quick", "true", "1"), value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Random seed, for the order of trials and all other draws
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// Flags of every experiment.
#[derive(Debug, Args)]
// No experiment has positional arguments, so `--json FILE` is unambiguous.
#[command(mut_arg("json", |json| json.require_equals(false)))]
pub struct RunArguments {
    /// Print the plan and exit
    #[arg(long)]
    pub dry_run: bool,
    /// Exit with 0 although a trial failed, such as one whose server was killed
    #[arg(long)]
    pub tolerate: bool,
    #[command(flatten)]
    pub outputs: OutputArguments,
}

/// The facts of a run for its document; without conditions if the machine does not affect the result.
pub fn facts(conditions: impl Into<Option<Snapshot>>) -> Head {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Head {
        tool: Tool {
            version,
            ..Tool::default()
        },
        command_line: command_line(),
        conditions: conditions.into(),
        ..Head::default()
    }
}

/// Path of this executable, which child processes of an experiment run.
pub fn program() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("cannot determine the path of this executable")
}

impl ShellArguments {
    /// Runs an experiment whose trials measure time.
    pub fn run<E: Experiment>(
        &self,
        experiment: &mut E,
        trial_seconds: f64,
        timeline: Option<&TimelineArgument>,
    ) -> Outcome {
        let schedule = Schedule {
            rounds: self.turns.rounds as usize,
            seed: self.turns.seed,
            max_steal: self.max_steal,
        };
        run(schedule, &self.run, experiment, trial_seconds, timeline)
    }
}

/// Runs an experiment. `trial_seconds` is the approximate duration of a trial.
pub fn run<E: Experiment>(
    schedule: Schedule,
    arguments: &RunArguments,
    experiment: &mut E,
    trial_seconds: f64,
    timeline: Option<&TimelineArgument>,
) -> Outcome {
    if arguments.dry_run {
        return print_json(&experiment.plan().map_err(name_flags)?);
    }
    arguments.outputs.check()?;
    let no_timeline = TimelineArgument::default();
    let timeline = timeline.unwrap_or(&no_timeline);
    let print = timeline.printer(arguments.outputs.json)?;
    let document = experiment.begin().map_err(name_flags)?;
    let figures: Vec<_> = document.figures().into_iter().map(|(figure, _)| figure).collect();
    let gates = arguments.outputs.gates(&figures)?;
    let interrupt = Interrupt::catch()?;
    let lines = timeline.create(document.head(), &experiment.plan()?, false)?;
    let trials = experiment.steps() * schedule.rounds;
    let mut steps = progress::announce(document.head(), trials, trials as f64 * trial_seconds);
    let (mut saved, mut saving) = (Instant::now(), Duration::ZERO);
    let outcome = experiment::run(
        experiment,
        document,
        schedule,
        (interrupt.flag(), lines.as_ref()),
        |progress| {
            progress::show(&mut steps, progress);
            // Saved during the run, so that a killed run leaves its results; at most a tenth of the time is spent on it. An
            // error is ignored here: the final save reports it.
            if saved.elapsed() >= saving * 9 {
                let begun = Instant::now();
                let _ = progress
                    .document
                    .to_json()
                    .map(|json| arguments.outputs.save(progress.document, &json));
                (saved, saving) = (Instant::now(), begun.elapsed());
            }
        },
    );
    drop(steps);
    let document = outcome.map_err(name_flags)?;
    let reported = (arguments.outputs).finish(&document, &document.to_json()?, &gates, print);
    timeline.finish(lines, reported)?;
    match document.head().failed_trials {
        0 => Ok(()),
        _ if arguments.tolerate => Ok(()),
        failed => bail!(
            "{failed} of {trials} trials failed; --tolerate accepts this as long as others gave a result"
        ),
    }
}

/// Converts a refusal to a usage error that names the flags at fault.
fn name_flags(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<Refusal>() {
        Some(refusal) => usage(refusal.flags, refusal),
        None => error,
    }
}
