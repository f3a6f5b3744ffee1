//! One step: a shape of server and traffic, and the medians of its valid trials.

use super::{Placement, Unexplained, Variation};
use crate::documents::observed::Observed;
use corelane_measure::histogram::Summary;
use corelane_measure::statistics::Spread;
use corelane_serve::udp::{Mode, Model};
use corelane_worker::worker_memory::WorkerMemory;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// One step of the experiment. Rates are medians over the valid trials; counts and shares are pooled over them.
///
/// What was not measured, or does not exist (answers of a sink), is `None`, never 0; [`Step::unknown`] says why.
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
    /// Frames a second that the clients sent.
    pub generated_pps: Option<f64>,
    /// Frames a second that the server host's device counted.
    pub received_pps: Option<f64>,
    /// Frames a second that the server's workers read.
    pub seen_pps: Option<f64>,
    /// Frames a second that they answered.
    pub answered_pps: Option<f64>,
    /// Frames a second that came back to the clients.
    pub returned_pps: Option<f64>,
    /// Payload that the workers read, in Gb/s (10^9 bits).
    pub gbit_s: Option<f64>,
    /// Share of sampled frames whose receive path ran on their worker's CPU.
    pub locality: Option<f64>,
    /// Share of sampled frames whose hash names the bucket that got them.
    pub steering_ok: Option<f64>,
    /// Share of sampled answers that left on their bucket's CPU and queue.
    #[serde(default)]
    pub tx_locality: Option<f64>,
    /// Share of sampled answers that left on their bucket's CPU.
    #[serde(default)]
    pub tx_on_cpu: Option<f64>,
    /// Share of sampled answers that left on their bucket's queue.
    #[serde(default)]
    pub tx_on_queue: Option<f64>,
    /// CPU microseconds of the server, workers and receive path, for each frame seen.
    pub cpu_us_per_frame: Option<f64>,
    /// Rate at this many buckets over as many times the rate at one, median over the rounds.
    pub linearity: Option<f64>,
    /// The same with its range.
    pub linearity_spread: Option<Spread>,
    /// The main rate as a share of that of the same step without its variation, from the medians; `None` for a plain step.
    #[serde(default)]
    pub rate_of_plain: Option<f64>,
    /// The CPU time a frame as a share of that of the same step without its variation, likewise.
    #[serde(default)]
    pub cost_of_plain: Option<f64>,
    /// Frames sent to the fullest active bucket over the mean of all active ones, median.
    #[serde(default)]
    pub imbalance: Option<f64>,
    /// Share of the answers that an earlier-sent one's answer overtook.
    #[serde(default)]
    pub reordered_share: Option<f64>,
    /// How each CPU spent the time, medians.
    #[serde(default)]
    pub cpu_shares: Vec<CpuShare>,
    /// Context switches of the server a second.
    pub context_switches_per_s: Option<f64>,
    /// Clock at which the server's CPUs really ran, in MHz.
    pub effective_mhz: Option<f64>,
    /// Round trips from the intended send time.
    pub round_trip: Option<Summary>,
    /// Frames dropped, by the keys of [`corelane_measure::drops::Cause`], summed over the valid trials.
    #[serde(default)]
    pub drops: BTreeMap<String, u64>,
    /// Frames missing without a cause, by gap, summed over the valid trials.
    #[serde(default)]
    pub unexplained: Unexplained,
    /// What each bucket did.
    #[serde(default)]
    pub per_bucket: Vec<PerBucket>,
    /// Valid trials, which alone make the numbers above.
    pub trials: usize,
    /// Trials left out because the generator was the limit.
    #[serde(default)]
    pub generator_limited_trials: usize,
    /// The main rate with its range: answered for echo, seen for sink.
    pub rate_spread: Option<Spread>,
    /// What was observed in the last valid trial; `None` where nothing was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Observed>,
    /// Why a field is null: field name to reason.
    #[serde(default)]
    pub unknown: BTreeMap<String, String>,
}

/// How one CPU spent its time, in shares of 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CpuShare {
    /// The CPU.
    pub cpu: u32,
    /// Doing nothing.
    pub idle_share: Option<f64>,
    /// In the kernel's receive and transmit path.
    pub softirq_share: Option<f64>,
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
            generated_pps: None,
            received_pps: None,
            seen_pps: None,
            answered_pps: None,
            returned_pps: None,
            gbit_s: None,
            locality: None,
            steering_ok: None,
            tx_locality: None,
            tx_on_cpu: None,
            tx_on_queue: None,
            cpu_us_per_frame: None,
            linearity: None,
            linearity_spread: None,
            rate_of_plain: None,
            cost_of_plain: None,
            imbalance: None,
            reordered_share: None,
            cpu_shares: Vec::new(),
            context_switches_per_s: None,
            effective_mhz: None,
            round_trip: None,
            drops: BTreeMap::new(),
            unexplained: Unexplained::default(),
            per_bucket: Vec::new(),
            trials: 0,
            generator_limited_trials: 0,
            rate_spread: None,
            observed: None,
            unknown: BTreeMap::new(),
        }
    }

    /// The rate that the step is judged by: answered for echo, seen for sink.
    #[must_use]
    pub fn main_rate(&self) -> Option<f64> {
        match self.mode {
            Mode::Echo => self.answered_pps,
            Mode::Sink => self.seen_pps,
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
        let shape = |step: &Self| {
            (
                step.mode,
                step.model,
                step.placement,
                step.buckets_configured,
                step.buckets_active,
            )
        };
        shape(self) == shape(other)
    }

    /// How many different CPUs the active buckets' workers ran on.
    #[must_use]
    pub fn cpu_count(&self) -> usize {
        self.cpus.iter().collect::<BTreeSet<_>>().len()
    }

    /// The memory of each bucket's worker, as far as it was told.
    pub fn memory(&self) -> impl Iterator<Item = &WorkerMemory> {
        self.per_bucket.iter().filter_map(|bucket| bucket.memory.as_ref())
    }

    /// The names of the numbers that are `None`.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        let varied = !self.variation.is_plain();
        let fields = [
            ("generated_pps", self.generated_pps.is_none()),
            ("received_pps", self.received_pps.is_none()),
            ("seen_pps", self.seen_pps.is_none()),
            ("answered_pps", self.answered_pps.is_none()),
            ("returned_pps", self.returned_pps.is_none()),
            ("gbit_s", self.gbit_s.is_none()),
            ("locality", self.locality.is_none()),
            ("steering_ok", self.steering_ok.is_none()),
            ("tx_locality", self.tx_locality.is_none()),
            ("tx_on_cpu", self.tx_on_cpu.is_none()),
            ("tx_on_queue", self.tx_on_queue.is_none()),
            ("cpu_us_per_frame", self.cpu_us_per_frame.is_none()),
            ("linearity", self.linearity.is_none()),
            ("rate_of_plain", varied && self.rate_of_plain.is_none()),
            ("cost_of_plain", varied && self.cost_of_plain.is_none()),
            ("imbalance", self.imbalance.is_none()),
            ("reordered_share", self.reordered_share.is_none()),
            ("context_switches_per_s", self.context_switches_per_s.is_none()),
            ("effective_mhz", self.effective_mhz.is_none()),
            ("round_trip", self.round_trip.is_none()),
        ];
        fields
            .into_iter()
            .filter_map(|(name, missing)| missing.then_some(name))
            .collect()
    }

    /// The mean idle share of the active buckets' CPUs.
    #[must_use]
    pub fn idle_share(&self) -> Option<f64> {
        self.mean_share(|share| share.idle_share)
    }

    /// The mean softirq share of the active buckets' CPUs.
    #[must_use]
    pub fn softirq_share(&self) -> Option<f64> {
        self.mean_share(|share| share.softirq_share)
    }

    fn mean_share(&self, of: impl Fn(&CpuShare) -> Option<f64>) -> Option<f64> {
        let shares: Vec<f64> = self
            .cpu_shares
            .iter()
            .filter(|share| self.cpus.contains(&share.cpu))
            .filter_map(of)
            .collect();
        (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
    }
}
