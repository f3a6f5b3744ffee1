//! The one shell of all experiments: their common flags, progress, saving after every trial, interrupts, gates and exit codes.

use crate::documents::command_line;
use crate::interrupt::Interrupt;
use crate::lab::progress;
use crate::outcome::{Done, Outcome, usage};
use crate::outputs::OutputArguments;
use crate::values::share;
use clap::Args;
use corelane_host::conditions::Snapshot;
use corelane_lab::document::{Document, RunFacts};
use corelane_lab::error::LabError;
use corelane_lab::experiment::{self, Experiment, Schedule};
use corelane_report::page::Rendered;
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// What every experiment takes.
#[derive(Debug, Args)]
pub struct ShellArguments {
    /// Trials of each step, interleaved
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Seed of the order of trials, and of all that is drawn
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// CPU time that other machines on the same hardware may have in a trial; with more it is spoilt, and run again
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "10%")]
    pub max_steal: f64,
    #[command(flatten)]
    pub run: RunArguments,
}

/// What every experiment takes that has a schedule of its own.
#[derive(Debug, Args)]
pub struct RunArguments {
    /// Print the plan and end
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub outputs: OutputArguments,
}

/// What a run's document says of the run; without a snapshot where the machine has no part in the result.
pub fn facts<'a>(snapshot: impl Into<Option<&'a Snapshot>>) -> RunFacts {
    RunFacts {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command_line: command_line(),
        conditions: snapshot.into().cloned(),
    }
}

/// Runs an experiment. `trial_seconds` is about how long one trial takes; `snapshot` is what may spoil it; `name_flag` turns
/// an error into one that names the flag at fault.
pub fn run<E: Experiment>(
    arguments: &ShellArguments,
    experiment: &mut E,
    (snapshot, trial_seconds): (&Snapshot, f64),
    name_flag: impl Fn(E::Error) -> anyhow::Error,
) -> Outcome {
    let schedule = Schedule {
        rounds: arguments.rounds as usize,
        seed: arguments.seed,
        max_steal: arguments.max_steal,
    };
    run_scheduled(
        schedule,
        &arguments.run,
        experiment,
        (Some(snapshot), trial_seconds),
        name_flag,
    )
}

/// The same with a schedule of the experiment's own, and without a snapshot where nothing can spoil the result.
pub fn run_scheduled<E: Experiment>(
    schedule: Schedule,
    arguments: &RunArguments,
    experiment: &mut E,
    (snapshot, trial_seconds): (Option<&Snapshot>, f64),
    name_flag: impl Fn(E::Error) -> anyhow::Error,
) -> Outcome {
    if arguments.dry_run {
        let plan = experiment.plan().map_err(name_flag)?;
        writeln!(io::stdout(), "{}", serde_json::to_string_pretty(&plan)?)?;
        return Ok(Done);
    }
    let document = experiment.begin().map_err(&name_flag)?;
    let figures: Vec<_> = document.figures().into_iter().map(|(figure, _)| figure).collect();
    let gates = arguments.outputs.gates(&figures)?;
    let interrupt = Interrupt::catch()?;
    let trials = experiment.steps() * schedule.rounds;
    let bed = document.head().bed.as_ref().map(|bed| bed.describe.clone());
    let bar = progress::announce(bed.as_deref(), snapshot, trials, trials as f64 * trial_seconds);
    let (mut saved, mut saving) = (Instant::now(), Duration::ZERO);
    let outcome = experiment::run(experiment, document, schedule, interrupt.flag(), |progress| {
        progress::show(&bar, progress);
        // A run that is killed leaves what it measured, and saving takes no more than a tenth of the time. A failure to
        // save is reported at the end, when it is tried again.
        if saved.elapsed() >= saving * 9 {
            let begun = Instant::now();
            let _ = save(arguments, progress.document);
            (saved, saving) = (Instant::now(), begun.elapsed());
        }
    });
    bar.finish_and_clear();
    let document = outcome.map_err(name_flag)?;
    arguments.outputs.finish(&document, &document.to_json()?, &gates)
}

/// Turns a refusal into one that names the flags at fault.
pub fn name_flags(error: LabError) -> anyhow::Error {
    match &error {
        LabError::Refused(refusal) => usage(refusal.flags, error),
        _ => error.into(),
    }
}

fn save<D: Document>(arguments: &RunArguments, document: &D) -> anyhow::Result<()> {
    arguments.outputs.save(document, &document.to_json()?)
}
