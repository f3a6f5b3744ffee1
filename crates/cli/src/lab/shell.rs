//! The one shell of all experiments: their common flags, progress, saving after every trial, interrupts, gates and exit codes.

use crate::documents::command_line;
use crate::interrupt::Interrupt;
use crate::lab::progress;
use crate::outcome::{Done, Outcome};
use crate::outputs::OutputArguments;
use crate::values::share;
use clap::Args;
use corelane_host::conditions::Snapshot;
use corelane_lab::document::{Document, RunFacts};
use corelane_lab::experiment::{self, Experiment, Schedule};
use corelane_report::page::Rendered;
use std::io::{self, Write};

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
    /// Print the plan and end
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub outputs: OutputArguments,
}

/// What a run's document says of the run.
///
/// # Errors
/// When the conditions cannot be written, which none that is read here causes.
pub fn facts(snapshot: &Snapshot) -> anyhow::Result<RunFacts> {
    Ok(RunFacts {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command_line: command_line(),
        conditions: serde_json::to_value(snapshot)?,
    })
}

/// Runs an experiment. `trial_seconds` is about how long one trial takes; `snapshot` is what may spoil it; `name_flag` turns
/// an error into one that names the flag at fault.
pub fn run<E: Experiment>(
    arguments: &ShellArguments,
    experiment: &mut E,
    (snapshot, trial_seconds): (&Snapshot, f64),
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
    let schedule = Schedule {
        rounds: arguments.rounds as usize,
        seed: arguments.seed,
        max_steal: arguments.max_steal,
    };
    let interrupt = Interrupt::catch()?;
    let trials = experiment.steps() * schedule.rounds;
    let bed = document.head().bed.as_ref().map(|bed| bed.describe.clone());
    let bar = progress::announce(bed.as_deref(), snapshot, trials, trials as f64 * trial_seconds);
    let outcome = experiment::run(experiment, document, schedule, interrupt.flag(), |progress| {
        progress::show(&bar, progress);
        // A run that is killed leaves what it measured; a failure to save is reported at the end, when it is tried again.
        let _ = save(arguments, progress.document);
    });
    bar.finish_and_clear();
    let document = outcome.map_err(name_flag)?;
    arguments.outputs.finish(&document, &document.to_json()?, &gates)
}

fn save<D: Document>(arguments: &ShellArguments, document: &D) -> anyhow::Result<()> {
    arguments.outputs.save(document, &document.to_json()?)
}
