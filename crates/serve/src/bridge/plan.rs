//! The plan of a bridge: links, tables in order, and the default verdict.

use super::mail::BucketsPlan;
use corelane_stage::{OnMatch, Sides, StagePlans, Verdict};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// Default frames per receive call: the post's burst ("Intel DDIO, LLC cache, buffer alignment, prefetching, shared
/// locks and packet rates": up to 1024 entries of the receive ring).
pub const BURST: usize = 1024;

/// Frames per receive call, at most: one batch.
pub const LONGEST_BURST: usize = 4096;

/// The plan of a bridge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BridgePlan {
    /// Specifications of two links or more, such as `xdp:eth0`.
    pub links: Vec<String>,
    /// Tables, in the order of lookup.
    pub tables: Vec<TablePlan>,
    /// The verdict for frames with addresses that no table decided on.
    pub otherwise: Verdict,
    /// The verdict for frames without a valid IP header, such as ARP.
    pub not_ip: Verdict,
    /// CPUs of the workers, one per worker; worker `w` has the queues `q` of every link with `q` modulo workers = `w`.
    /// `None`: as many workers as the smallest number of queues of a link, on the CPUs given.
    pub workers: Option<usize>,
    /// CPUs for workers, at least as many as workers.
    pub cpus: Vec<u32>,
    /// Frames per receive call, 1 to 4096.
    pub burst: usize,
    /// Skip and count invalid lines of lists, instead of rejecting the list.
    pub skip_bad: bool,
    /// How frames are spread over buckets, and dispatched to them; `None`: each worker handles what its queues receive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buckets: Option<BucketsPlan>,
    /// The other stages that run.
    #[serde(default, skip_serializing_if = "StagePlans::is_empty")]
    pub stages: StagePlans,
    /// Interval between checks of the files for changes; `None`: never, only on request.
    pub reload_every: Option<Duration>,
}

impl BridgePlan {
    /// A plan without tables: all frames pass.
    #[must_use]
    pub fn new(links: Vec<String>, cpus: Vec<u32>) -> BridgePlan {
        BridgePlan {
            links,
            tables: Vec::new(),
            otherwise: Verdict::Pass,
            not_ip: Verdict::Pass,
            workers: None,
            cpus,
            burst: BURST,
            skip_bad: false,
            buckets: None,
            stages: StagePlans::default(),
            reload_every: Some(Duration::from_millis(500)),
        }
    }
}

/// One table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TablePlan {
    /// Its file: a list of addresses and prefixes, an ipset or nftables dump, or a snapshot.
    pub file: PathBuf,
    /// The set or map of the dump; `None` if it has one only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<String>,
    /// The addresses of a frame to look up.
    #[serde(rename = "match", default)]
    pub sides: Sides,
    /// The verdict for a frame whose address is in the table.
    #[serde(default)]
    pub on_match: OnMatch,
}

impl TablePlan {
    /// Whether another table has the same entries, whatever is done with them.
    pub(super) fn has_entries_of(&self, other: &TablePlan) -> bool {
        (&self.file, &self.set) == (&other.file, &other.set)
    }
}
