//! One step: a shape of server and traffic, and what its valid trials come to.

use super::{Limit, Memory, MemoryPerConnection, Segments, Shape};
use crate::document::CpuShare;
use crate::steps::{self, Summed, mean_share};
use corelane_measure::metric::{Measured, Values};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// One step of the experiment. Its metrics are those of [`metrics`](crate::streams::metrics).
///
/// What was not measured, or does not exist, is `None`, never 0; [`Summed::unknown`] says why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// What was tried.
    #[serde(flatten)]
    pub shape: Shape,
    /// Buckets that the server was built with; with a subject, CPUs at most.
    pub buckets_configured: usize,
    /// CPUs of the active buckets, in bucket order.
    pub cpus: Vec<u32>,
    /// How each CPU spent the time, medians.
    #[serde(default)]
    pub cpu_shares: Vec<CpuShare>,
    /// What went wrong with requests and connections, by cause, summed over the valid trials.
    #[serde(default)]
    pub errors: BTreeMap<String, u64>,
    /// Segments that TCP sent again or received out of order, and stalls, summed over the valid trials.
    #[serde(default)]
    pub segments: Option<Segments>,
    /// Counters of the kernel that moved and point to a limit, summed over the valid trials.
    #[serde(default)]
    pub kernel: BTreeMap<String, u64>,
    /// Memory a connection, medians.
    #[serde(default)]
    pub memory_per_connection: MemoryPerConnection,
    /// Where memory went, in the last valid trial.
    pub memory: Option<Memory>,
    /// Who was the limit in this step.
    pub limit: Option<Limit>,
    /// Its metrics.
    #[serde(flatten)]
    pub summed: Summed,
}

impl Measured for Step {
    fn values(&self) -> &Values {
        &self.summed.values
    }
}

impl steps::Step for Step {
    fn summed_mut(&mut self) -> &mut Summed {
        &mut self.summed
    }
}

impl Step {
    /// A step of which nothing has been measured.
    #[must_use]
    pub fn new(shape: Shape, buckets_configured: usize, cpus: Vec<u32>) -> Self {
        Self {
            shape,
            buckets_configured,
            cpus,
            cpu_shares: Vec::new(),
            errors: BTreeMap::new(),
            segments: None,
            kernel: BTreeMap::new(),
            memory_per_connection: MemoryPerConnection::default(),
            memory: None,
            limit: None,
            summed: Summed::default(),
        }
    }

    /// What went wrong and what the kernel counted, with how often, where it was. Segments sent again are left out where they
    /// have a number of their own.
    pub fn counted_errors(&self) -> impl Iterator<Item = (&str, u64)> {
        let told = |name: &str| self.segments.is_some() && name.ends_with(".segments_sent_again");
        let counted = self.errors.iter().chain(&self.kernel);
        counted
            .map(|(what, times)| (what.as_str(), *times))
            .filter(move |(what, times)| *times > 0 && !told(what))
    }

    /// How many different CPUs the active buckets' workers ran on.
    #[must_use]
    pub fn cpu_count(&self) -> usize {
        self.cpus.iter().collect::<BTreeSet<_>>().len()
    }

    /// Mean idle share of the CPUs of both sides.
    #[must_use]
    pub fn idle_share(&self) -> Option<f64> {
        mean_share(&self.cpu_shares, |_| true, |share| share.idle_share)
    }

    /// Mean share of these CPUs that the kernel's receive path took.
    #[must_use]
    pub fn softirq_share(&self) -> Option<f64> {
        mean_share(&self.cpu_shares, |_| true, |share| share.softirq_share)
    }
}
