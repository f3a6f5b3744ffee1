//! One step: a shape of server and traffic, and the medians of its valid trials.

use super::{Limit, Memory, MemoryPerConnection, Protocol, Segments, Shape};
use crate::document::CpuShare;
use corelane_measure::histogram::Summary;
use corelane_measure::statistics::{self, Spread};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One step of the experiment. Rates are medians over the valid trials; counts and shares are pooled over them.
///
/// What was not measured, or does not exist, is `None`, never 0; [`Step::unknown`] says why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// What was tried.
    #[serde(flatten)]
    pub shape: Shape,
    /// Buckets that the server was built with; with a subject, CPUs at most.
    pub buckets_configured: usize,
    /// CPUs of the active buckets, in bucket order.
    pub cpus: Vec<u32>,
    /// Requests answered a second; `None` for TCP.
    pub requests_per_s: Option<f64>,
    /// Bytes both ways, in Gb/s (10^9 bits).
    pub gbit_s: Option<f64>,
    /// What the step is judged by, with its range: requests a second, or Gb/s.
    pub rate_spread: Option<Spread>,
    /// Rate at this many buckets over as many times the rate at one, median over the rounds.
    pub linearity: Option<f64>,
    /// The same with its range.
    pub linearity_spread: Option<Spread>,
    /// From when a request was to be sent until it was answered.
    pub latency: Option<Summary>,
    /// How late requests were sent, where a schedule said when.
    pub schedule_lag: Option<Summary>,
    /// CPU microseconds of the server for each request.
    pub server_cpu_us_per_request: Option<f64>,
    /// CPU microseconds of the client for each request.
    pub client_cpu_us_per_request: Option<f64>,
    /// CPU nanoseconds of the server for each KiB, either way.
    pub server_cpu_ns_per_kib: Option<f64>,
    /// CPU nanoseconds of the client for each KiB, either way.
    pub client_cpu_ns_per_kib: Option<f64>,
    /// Bytes, either way, for each second of the server's CPU time.
    #[serde(default)]
    pub server_bytes_per_cpu_s: Option<f64>,
    /// Bytes, either way, for each second of the client's CPU time.
    #[serde(default)]
    pub client_bytes_per_cpu_s: Option<f64>,
    /// Share of the CPUs' time that the server's processes took, receive path run in their name included.
    pub server_cpu_share: Option<f64>,
    /// Share of the CPUs' time that the client's process took.
    pub client_cpu_share: Option<f64>,
    /// How each CPU spent the time, medians.
    #[serde(default)]
    pub cpu_shares: Vec<CpuShare>,
    /// Share of connections that are on the bucket that their hash names.
    pub steering_ok: Option<f64>,
    /// Connections opened, median.
    pub connections_opened: Option<f64>,
    /// Connections held to the end, median.
    pub connections_held: Option<f64>,
    /// Seconds until all were open, median.
    pub opening_s: Option<f64>,
    /// What went wrong with requests and connections, by cause, summed over the valid trials.
    #[serde(default)]
    pub errors: BTreeMap<String, u64>,
    /// What TCP had to mend, and what stood still, summed over the valid trials.
    #[serde(default)]
    pub segments: Option<Segments>,
    /// Counters of the kernel that moved and tell of a limit, summed over the valid trials.
    #[serde(default)]
    pub kernel: BTreeMap<String, u64>,
    /// Memory a connection, medians.
    #[serde(default)]
    pub memory_per_connection: MemoryPerConnection,
    /// Where memory went, in the last valid trial.
    pub memory: Option<Memory>,
    /// Who was the limit in this step.
    pub limit: Option<Limit>,
    /// Valid trials, which alone make the numbers above.
    pub trials: usize,
    /// Trials left out because the generator was the limit.
    #[serde(default)]
    pub generator_limited_trials: usize,
    /// Why a field is null: field name to reason.
    #[serde(default)]
    pub unknown: BTreeMap<String, String>,
}

impl Step {
    /// A step of which nothing has been measured.
    #[must_use]
    pub fn new(shape: Shape, buckets_configured: usize, cpus: Vec<u32>) -> Self {
        Self {
            shape,
            buckets_configured,
            cpus,
            requests_per_s: None,
            gbit_s: None,
            rate_spread: None,
            linearity: None,
            linearity_spread: None,
            latency: None,
            schedule_lag: None,
            server_cpu_us_per_request: None,
            client_cpu_us_per_request: None,
            server_cpu_ns_per_kib: None,
            client_cpu_ns_per_kib: None,
            server_bytes_per_cpu_s: None,
            client_bytes_per_cpu_s: None,
            server_cpu_share: None,
            client_cpu_share: None,
            cpu_shares: Vec::new(),
            steering_ok: None,
            connections_opened: None,
            connections_held: None,
            opening_s: None,
            errors: BTreeMap::new(),
            segments: None,
            kernel: BTreeMap::new(),
            memory_per_connection: MemoryPerConnection::default(),
            memory: None,
            limit: None,
            trials: 0,
            generator_limited_trials: 0,
            unknown: BTreeMap::new(),
        }
    }

    /// What the step is judged by: requests a second, or Gb/s.
    #[must_use]
    pub fn main_rate(&self, protocol: Protocol) -> Option<f64> {
        match protocol {
            Protocol::Http => self.requests_per_s,
            Protocol::Tcp => self.gbit_s,
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

    /// Mean idle share of the CPUs.
    #[must_use]
    pub fn idle_share(&self) -> Option<f64> {
        mean(self.cpu_shares.iter().filter_map(|share| share.idle_share))
    }

    /// Mean share of the CPUs that the kernel's receive path took.
    #[must_use]
    pub fn softirq_share(&self) -> Option<f64> {
        mean(self.cpu_shares.iter().filter_map(|share| share.softirq_share))
    }
}

fn mean(shares: impl Iterator<Item = f64>) -> Option<f64> {
    let shares: Vec<f64> = shares.collect();
    statistics::ratio(shares.iter().sum(), shares.len() as f64)
}
