//! Shared by the generators: flags for placement and output, and the foreground run.

use super::live::{self, Shown};
use crate::interrupt::Interrupt;
use crate::lab::facts;
use crate::outcome::{Outcome, cannot_run};
use crate::outputs::OutputArguments;
use crate::shared::{MemoryArguments, check_memory, print_json};
use crate::steering;
use clap::Args;
use corelane_host::bed::OwnNamespace;
use corelane_host::limits;
use corelane_lab::document::Head;
use corelane_lab::saved::Recorded;
use corelane_load::Need;
use corelane_load::sources::WorkerRequest;
use corelane_report::measurement::Measurement;
use serde::Serialize;
use std::path::PathBuf;

/// The outputs of a generator, or only its plan.
#[derive(Debug, Args)]
pub struct ResultArguments {
    /// Print the plan and exit
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    outputs: OutputArguments,
}

impl ResultArguments {
    /// Runs the generator to completion and reports. `prepare` returns notes on the machine, which go into the report,
    /// and a value that is dropped after the generator ends.
    pub fn run<G: Shown<Loaded: Measurement + Serialize>, Held>(
        &self,
        plan: G::Plan,
        prepare: impl FnOnce(&G::Plan) -> anyhow::Result<(Vec<String>, Held)>,
    ) -> Outcome {
        let gates = self.outputs.forms.gates(&G::Loaded::gated())?;
        self.outputs.check()?;
        // Installed before `prepare`, which may change settings that must be restored on interrupt.
        let interrupt = Interrupt::catch()?;
        let (notes, held) = prepare(&plan)?;
        let head = Head::new("", &facts(None), None);
        let mut generator = G::start(plan).map_err(G::refused)?;
        let interrupted = live::attend(&mut generator, &interrupt, !self.outputs.json.on_stdout())?;
        let mut loaded = generator.finish()?;
        drop(held);
        G::note(&mut loaded, notes, interrupted);
        let recorded = Recorded::new(loaded, head);
        let json = serde_json::to_string_pretty(&recorded)? + "\n";
        self.outputs.finish(&recorded, &json, &gates)?;
        match G::failed_because(&recorded.loaded) {
            Some(why) => anyhow::bail!("{why}"),
            None => Ok(()),
        }
    }
}

/// The help of `--fail-if`.
pub fn gates(examples: &str) -> String {
    format!("Fail with exit code 3 if this condition holds, such as {examples}; may be repeated")
}

/// Placement and output of a generator that uses sockets.
#[derive(Debug, Args)]
#[command(mut_arg("dry_run", |dry_run| dry_run.help("Print the plan and its requirements on this machine, then exit")))]
pub struct ForegroundArguments {
    /// The server's steering document
    #[arg(long, value_name = "FILE")]
    pub steering: Option<PathBuf>,
    /// Workers, one per CPU; more if the descriptor limit requires it [default: one per CPU allowed for this process]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub workers: Option<u32>,
    /// CPUs to use, such as 0-3,6
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    #[command(flatten)]
    pub placing: MemoryArguments,
    /// Configure this network namespace for the run (addresses of --sources, port range) and restore it at the end.
    /// Allowed only in a private namespace, such as one made by `unshare -n`
    #[arg(long)]
    pub own_namespace: bool,
    #[command(flatten)]
    pub result: ResultArguments,
}

impl ForegroundArguments {
    /// The workers that these flags request.
    pub fn workers(&self) -> anyhow::Result<WorkerRequest> {
        check_memory(&self.placing)?;
        let workers = self.workers.map(|workers| workers as usize);
        Ok(WorkerRequest {
            steering: self.steering.as_deref().map(steering::from_file).transpose()?,
            buckets: None,
            cpus: steering::worker_cpus(self.cpus.as_deref(), workers)?,
            descriptor_limit: limits::open_descriptors()?,
        })
    }

    /// With `--dry-run`, prints the plan; otherwise runs the generator to completion.
    pub fn run<G: Shown<Loaded: Measurement + Serialize>>(&self, plan: G::Plan) -> Outcome {
        if self.result.dry_run {
            return print_json(&serde_json::json!({ "plan": plan, "needs": G::needs(&plan) }));
        }
        self.result.run::<G, _>(plan, |plan| self.prepare::<G>(plan))
    }

    /// With `--own-namespace`, configures what the run needs; reports every need that remains unmet.
    fn prepare<G: Shown>(&self, plan: &G::Plan) -> anyhow::Result<(Vec<String>, Option<OwnNamespace>)> {
        let mut needs = G::needs(plan);
        let (mut own, mut notes) = (None, Vec::new());
        if self.own_namespace {
            let changes = needs.changes();
            let refused = |error| cannot_run(format!("--own-namespace: {error}"));
            own = Some(OwnNamespace::change(&changes).map_err(refused)?);
            notes.extend(changes.iter().map(|change| format!("for this run: {change}")));
            needs = G::needs(plan);
        }
        if let Some(memory) = needs.lacking_memory() {
            return Err(cannot_run(memory.text()));
        }
        notes.extend(needs.lacking().map(Need::text));
        for note in &notes {
            eprintln!("corelane: {note}");
        }
        Ok((notes, own))
    }
}
