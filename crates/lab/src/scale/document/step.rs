//! One step: a shape of server and traffic, and what its valid trials come to.

use super::{Placement, Unexplained, Variation};
use crate::document::CpuShare;
use crate::documents::observed::Observed;
use crate::steps::{self, Summed, mean_share};
use corelane_measure::metric::{Measured, Values};
use corelane_serve::udp::{Mode, Model};
use corelane_worker::worker_memory::WorkerMemory;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// One step of the experiment. Its metrics are those of [`METRICS`](crate::scale::METRICS).
///
/// What was not measured, or does not exist (answers of a sink), is `None`, never 0; [`Summed::unknown`] says why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// How sockets were chosen.
    pub model: Model,
    /// Where clients ran.
    pub placement: Placement,
    /// Echo or sink.
    pub mode: Mode,
    /// What was done otherwise than in the plain experiment.
    #[serde(flatten)]
    pub variation: Variation,
    /// Buckets that the server was built with.
    pub buckets_configured: usize,
    /// Buckets that the traffic was aimed at.
    pub buckets_active: usize,
    /// CPUs of the active buckets, in bucket order.
    pub cpus: Vec<u32>,
    /// How each CPU spent the time, medians.
    #[serde(default)]
    pub cpu_shares: Vec<CpuShare>,
    /// Frames dropped, by the keys of [`Cause`](corelane_measure::drops::Cause), summed over the valid trials.
    #[serde(default)]
    pub drops: BTreeMap<String, u64>,
    /// Frames missing without a cause, by gap, summed over the valid trials.
    #[serde(default)]
    pub unexplained: Unexplained,
    /// What each bucket did.
    #[serde(default)]
    pub per_bucket: Vec<PerBucket>,
    /// What was observed in the last valid trial; `None` where nothing was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Observed>,
    /// Its metrics.
    #[serde(flatten)]
    pub summed: Summed,
}

/// What one bucket did in a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PerBucket {
    /// The bucket.
    pub bucket: u16,
    /// Its worker's CPU.
    pub cpu: u32,
    /// Frames its worker read, summed over the valid trials.
    pub seen: u64,
    /// Frames it answered; `None` for a sink.
    pub answered: Option<u64>,
    /// Frames that its socket dropped.
    pub dropped: u64,
    /// Frames it read a second, median.
    pub seen_pps: Option<f64>,
    /// Share of its sampled frames that arrived on its CPU.
    pub locality: Option<f64>,
    /// Share of its sampled frames whose hash names it.
    pub steering_ok: Option<f64>,
    /// Where its worker's memory lay at the end of the last valid trial; `None` in documents of versions that did not
    /// ask.
    #[serde(default)]
    pub memory: Option<WorkerMemory>,
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
    pub fn new(
        (mode, model, placement): (Mode, Model, Placement),
        buckets_configured: usize,
        cpus: Vec<u32>,
    ) -> Self {
        Self {
            model,
            placement,
            mode,
            variation: Variation::default(),
            buckets_configured,
            buckets_active: cpus.len(),
            cpus,
            cpu_shares: Vec::new(),
            drops: BTreeMap::new(),
            unexplained: Unexplained::default(),
            per_bucket: Vec::new(),
            observed: None,
            summed: Summed::default(),
        }
    }

    /// `echo, exact steering, aligned`, and what was done otherwise.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{}, {}, {}", self.mode, self.model.words(), self.clients())
    }

    /// Where the clients ran, and what was done otherwise: `crossed`, `aligned, zipf:1`.
    #[must_use]
    pub fn clients(&self) -> String {
        if self.variation.is_plain() {
            self.placement.to_string()
        } else {
            format!("{}, {}", self.placement, self.variation)
        }
    }

    /// Whether the other step is the same but for what was done otherwise.
    #[must_use]
    pub fn varies(&self, other: &Self) -> bool {
        let shape = |step: &Self| (step.series(), step.buckets_configured, step.buckets_active);
        shape(self) == shape(other)
    }

    /// What the steps of one series have in common.
    #[must_use]
    pub fn series(&self) -> (Mode, Model, Placement) {
        (self.mode, self.model, self.placement)
    }

    /// How many different CPUs the active buckets' workers ran on.
    #[must_use]
    pub fn cpu_count(&self) -> usize {
        self.cpus.iter().collect::<BTreeSet<_>>().len()
    }

    /// The memory of each bucket's worker, as far as it is known.
    pub fn memory(&self) -> impl Iterator<Item = &WorkerMemory> {
        self.per_bucket.iter().filter_map(|bucket| bucket.memory.as_ref())
    }

    /// The mean idle share of the active buckets' CPUs.
    #[must_use]
    pub fn idle_share(&self) -> Option<f64> {
        mean_share(
            &self.cpu_shares,
            |cpu| self.cpus.contains(&cpu),
            |share| share.idle_share,
        )
    }

    /// The mean softirq share of the active buckets' CPUs.
    #[must_use]
    pub fn softirq_share(&self) -> Option<f64> {
        mean_share(
            &self.cpu_shares,
            |cpu| self.cpus.contains(&cpu),
            |share| share.softirq_share,
        )
    }
}
