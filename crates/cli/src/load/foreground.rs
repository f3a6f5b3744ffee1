//! What the generators of sockets share: the flags that say where they run and what is printed, and the foreground that they
//! run in.

use super::live::{self, Shown};
use crate::interrupt::Interrupt;
use crate::outcome::CannotRun;
use crate::shared::{MemoryArguments, OutputArguments, check_memory};
use crate::steering::{self, Asking};
use clap::Args;
use corelane_host::bed::OwnNamespace;
use corelane_host::limits;
use corelane_load::sources::WorkerRequest;
use std::path::PathBuf;

/// Where a generator runs, and what it prints.
#[derive(Debug, Args)]
pub struct ForegroundArguments {
    /// The server's steering document
    #[arg(long, value_name = "FILE")]
    pub steering: Option<PathBuf>,
    /// Workers, one a CPU; more where descriptors demand it [default: one a CPU that this process may use]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub workers: Option<u32>,
    /// CPUs to use, such as 0-3,6
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    #[command(flatten)]
    pub placing: MemoryArguments,
    /// Set up what the run lacks of this network namespace (addresses of --sources, ports), and put it back at the end: only
    /// in one of its own, as `unshare -n` makes it
    #[arg(long)]
    pub own_namespace: bool,
    /// Print the plan and what it needs of this machine, and end
    #[arg(long)]
    pub dry_run: bool,
    /// One JSON document on standard output, at the end
    #[arg(long)]
    pub json: bool,
}

impl ForegroundArguments {
    /// The workers that these flags ask for.
    pub fn workers(&self) -> anyhow::Result<WorkerRequest> {
        check_memory(&self.placing)?;
        let steering = self.steering.as_deref().map(steering::from_file).transpose()?;
        let workers = self.workers.map(|workers| workers as usize);
        Ok(WorkerRequest {
            steering,
            buckets: None,
            cpus: steering::place(self.cpus.as_deref(), workers, Asking::Workers)?,
            descriptor_limit: limits::open_descriptors()?,
        })
    }

    /// Prints the plan, as `--dry-run` asks; or starts the generator and watches it to its end. What it found
    /// is returned with what was said about the machine.
    pub fn run<G: Shown>(&self, plan: G::Plan) -> anyhow::Result<Option<(G::Loaded, Vec<String>)>> {
        if self.dry_run {
            OutputArguments::document(&serde_json::json!({ "plan": plan, "needs": G::needs(&plan) }))?;
            return Ok(None);
        }
        // Before anything is changed that has to be put back.
        let interrupt = Interrupt::catch()?;
        let mut lacking = G::needs(&plan);
        let (mut own, mut notes) = (None, Vec::new());
        if self.own_namespace {
            let changes = lacking.changes();
            let changed = OwnNamespace::change(&changes);
            own = Some(changed.map_err(|error| CannotRun(format!("--own-namespace: {error}")))?);
            notes.extend(changes.iter().map(|change| format!("for this run: {change}")));
            lacking = G::needs(&plan);
        }
        for need in lacking.lacking() {
            let remedy = need.remedy.as_deref().unwrap_or_default();
            let available = need.available.unwrap_or_default();
            notes.push(format!(
                "{} {} needed, {available} available: {remedy}",
                need.needed, need.what
            ));
        }
        for note in &notes {
            eprintln!("corelane: {note}");
        }
        let mut generator = G::start(plan).map_err(G::refused)?;
        live::attend(&mut generator, &interrupt, !self.json)?;
        let found = generator.finish()?;
        drop(own);
        Ok(Some((found, notes)))
    }

    /// What of it an output with or without `--json` is.
    pub fn output(&self) -> OutputArguments {
        OutputArguments {
            dry_run: self.dry_run,
            json: self.json,
        }
    }
}
