//! What a bridge is planned by, whether it is written as flags or in a file.

use super::buckets::BucketArguments;
use crate::steering;
use corelane_serve::bridge::{BURST, BridgePlan, LONGEST_BURST, TablePlan, Verdict};
use corelane_stage::StagePlans;
use std::time::Duration;

/// What a bridge is planned by, whether it is written as flags or in a file.
pub struct Settings {
    pub links: Vec<String>,
    pub tables: Vec<TablePlan>,
    pub otherwise: Verdict,
    pub not_ip: Verdict,
    pub skip_bad: bool,
    pub reload_every: Option<Duration>,
    pub workers: Option<usize>,
    pub cpus: Option<String>,
    pub burst: Option<usize>,
    pub buckets: BucketArguments,
    pub stages: StagePlans,
}

impl Settings {
    /// The plan, with CPUs of this machine. Errors name the flag.
    pub fn plan(self) -> anyhow::Result<BridgePlan> {
        let cpus = steering::worker_cpus(self.cpus.as_deref(), self.workers)?;
        let usual = match self.stages.coalesce {
            Some(_) => LONGEST_BURST,
            None => BURST,
        };
        Ok(BridgePlan {
            links: self.links,
            tables: self.tables,
            otherwise: self.otherwise,
            not_ip: self.not_ip,
            workers: self.workers,
            buckets: self.buckets.plan(cpus.len())?,
            cpus,
            burst: self.burst.unwrap_or(usual),
            skip_bad: self.skip_bad,
            stages: self.stages,
            reload_every: self.reload_every,
        })
    }
}
