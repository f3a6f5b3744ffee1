//! Shared by the scaling experiments: flags of the steering, the bed, the workers and the run.

use super::bed::BedArguments;
use super::shell::ShellArguments;
use crate::outcome::Outcome;
use crate::shared::{MemoryArguments, check_memory};
use crate::steering;
use crate::timeline::TimelineArgument;
use crate::values::key;
use clap::Args;
use corelane_lab::experiment::Experiment;
use corelane_lab::observe::Observe;
use corelane_lab::scale::datagrams::Placement;
use corelane_lab::scale::plan::{Selection, Settings};
use corelane_rss::{HashFields, Key};
use corelane_worker::engine::EngineKind;
use std::time::Duration;

/// Flags from the key on; `Clients` are those of the clients' CPUs, `Engine` those of the engine.
#[derive(Debug, Args)]
pub struct ScaleArguments<Clients: Args, Engine: Args> {
    /// The RSS key: 40 to 64 bytes in hexadecimal, colons allowed, or intel, mlx, i40e, ena [default: the verification
    /// suite's]
    #[arg(long, value_name = "KEY", value_parser = key)]
    pub key: Option<Key>,
    /// Fields to hash
    #[arg(long, value_name = "2tuple|4tuple", default_value = "4tuple")]
    pub hash: HashFields,
    /// Entries of the indirection table
    #[arg(long, value_name = "ENTRIES", default_value_t = 128)]
    pub table_size: usize,
    /// CPUs to use, such as 0-3,6
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    #[command(flatten)]
    pub clients: Clients,
    /// Allow more buckets than CPUs
    #[arg(long)]
    pub share_cpus: bool,
    /// Get a first result in seconds: one short trial per step, with one and with all buckets active; the report says that
    /// it is indicative
    // With it, `--rounds` and `--duration` have other defaults.
    #[arg(long, conflicts_with_all = ["duration", "rounds"])]
    pub quick: bool,
    #[command(flatten)]
    pub bed: BedArguments,
    #[command(flatten)]
    pub engine: Engine,
    /// Profile CPU time: functions and callers, of workers and of softirq (needs root or CAP_PERFMON)
    #[arg(long)]
    pub profile: bool,
    /// Report waits for kernel locks (needs root, Linux 5.19)
    #[arg(long)]
    pub locks: bool,
    /// Report receive path statistics of each CPU, with the high-water marks of its backlog
    #[arg(long)]
    pub softnet: bool,
    #[command(flatten)]
    pub placing: MemoryArguments,
    #[command(flatten)]
    pub timeline: TimelineArgument,
    #[command(flatten)]
    pub shell: ShellArguments,
}

impl<Clients: Args, Engine: Args> ScaleArguments<Clients, Engine> {
    /// The CPU of each bucket.
    pub fn cpus(&self, buckets: Option<usize>) -> anyhow::Result<Vec<u32>> {
        steering::bucket_cpus(self.cpus.as_deref(), buckets, self.share_cpus)
    }

    /// The settings of every step, with one bucket per element of `cpus`.
    pub fn settings(
        &self,
        cpus: Vec<u32>,
        engine: Option<EngineKind>,
        duration: Duration,
    ) -> anyhow::Result<Settings> {
        check_memory(&self.placing)?;
        Ok(Settings {
            steering: steering::round_robin(self.key.as_ref(), self.table_size, self.hash, cpus)?,
            duration_s: duration.as_secs_f64(),
            engine,
            memory: self.placing.memory,
            buffer_memory: self.placing.buffer_memory,
            observe: Observe {
                profile: self.profile,
                locks: self.locks,
                softnet: self.softnet,
            },
        })
    }

    /// The steps that are measured, as far as these flags select them.
    pub fn selection(&self, placements: Option<&Vec<Placement>>) -> Selection {
        Selection {
            placements: placements.cloned(),
            quick: self.quick,
            rounds: self.shell.turns.rounds,
            seed: self.shell.turns.seed,
            max_steal: self.shell.max_steal,
        }
    }

    /// Runs the experiment, whose trials have this duration.
    pub fn run(&self, experiment: &mut impl Experiment, duration: Duration) -> Outcome {
        let trial_seconds = duration.as_secs_f64() + 0.5;
        self.shell.run(experiment, trial_seconds, Some(&self.timeline))
    }
}
