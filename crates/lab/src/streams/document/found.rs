//! The results of a step besides its metrics: errors, kernel counters, memory, and the limit.

use super::{Memory, MemoryPerConnection, Segments, Trial};
use crate::limit::Limit;
use crate::steps::summed;
use corelane_measure::statistics;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The fields specific to steps of requests and bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Found {
    /// Errors of requests and connections by cause, summed over the valid trials.
    pub errors: BTreeMap<String, u64>,
    /// Segments that TCP sent again or received out of order, and stalls, summed over the valid trials.
    pub segments: Option<Segments>,
    /// Kernel counters that indicate a limit and increased, summed over the valid trials.
    pub kernel: BTreeMap<String, u64>,
    /// Memory per connection, medians.
    pub memory_per_connection: MemoryPerConnection,
    /// Memory use in the last valid trial.
    pub memory: Option<Memory>,
    /// The limit of this step.
    pub limit: Option<Limit>,
}

impl Found {
    pub(super) fn fill(&mut self, valid: &[&Trial]) {
        let errors = valid
            .iter()
            .flat_map(|trial| trial.errors.iter().chain(&trial.connections.failed));
        self.errors = summed(errors);
        self.segments = valid
            .iter()
            .filter_map(|trial| trial.segments)
            .reduce(Segments::plus);
        self.kernel = summed(valid.iter().flat_map(|trial| &trial.kernel));
        let memories = || valid.iter().filter_map(|trial| trial.memory.as_ref());
        let each: Vec<_> = memories().map(Memory::per_connection).collect();
        let median = |part: fn(&MemoryPerConnection) -> Option<f64>| {
            statistics::median(&each.iter().filter_map(part).collect::<Vec<_>>())
        };
        self.memory_per_connection = MemoryPerConnection {
            client_user_bytes: median(|each| each.client_user_bytes),
            server_user_bytes: median(|each| each.server_user_bytes),
            kernel_bytes: median(|each| each.kernel_bytes),
        };
        self.memory = memories().next_back().cloned();
    }

    /// What went wrong and what the kernel counted, with how often, where it was. Segments sent again are left out
    /// where they have a number of their own.
    pub fn counted_errors(&self) -> impl Iterator<Item = (&str, u64)> {
        let reported = |name: &str| self.segments.is_some() && name.ends_with(".segments_sent_again");
        let counted = self.errors.iter().chain(&self.kernel);
        counted
            .map(|(what, times)| (what.as_str(), *times))
            .filter(move |(what, times)| *times > 0 && !reported(what))
    }
}
