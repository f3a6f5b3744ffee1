//! The request and the document of `corelane lab path`.

use crate::cases::Report;
use corelane_measure::words;
use serde::{Deserialize, Serialize};

/// The scenarios.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScenarioName {
    /// Datagrams in fragments, and where they are made whole.
    Fragments,
    /// Methods and policies of dispatch, under overload.
    Dispatch,
    /// Software RSS, RPS and no steering.
    SoftwareRss,
    /// Many flows in one tunnel.
    Tunnels,
    /// Segments of interleaved flows, merged.
    Coalesce,
}

words!(ScenarioName);

/// What to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The scenario.
    pub scenario: ScenarioName,
    /// Packets of each trial.
    pub packets: u64,
    /// Buckets, each with a worker of its own.
    pub buckets: u16,
    /// Trials of each case.
    pub rounds: u32,
    /// The seed of all draws.
    pub seed: u64,
}

/// The whole document.
pub type PathReport = Report<Request>;
