//! What the scaling experiments observe while they measure.

use clap::Args;
use corelane_lab::observe::Observe;

/// Observations during each trial.
#[derive(Debug, Args)]
pub struct ObserveArguments {
    /// Profile CPU time: functions and callers, of workers and of softirq (needs root or CAP_PERFMON)
    #[arg(long)]
    pub profile: bool,
    /// Report waits for kernel locks (needs root, Linux 5.19)
    #[arg(long)]
    pub locks: bool,
    /// Report receive path statistics of each CPU, with the high-water marks of its backlog
    #[arg(long)]
    pub softnet: bool,
}

impl ObserveArguments {
    /// What is to be observed.
    pub fn requested(&self) -> Observe {
        Observe {
            profile: self.profile,
            locks: self.locks,
            softnet: self.softnet,
        }
    }
}
