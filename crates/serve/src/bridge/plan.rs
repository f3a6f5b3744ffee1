//! What a bridge is to do: links, tables in order, and what becomes of frames that no table decided.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Frames taken from a link at once: the post's burst ("Intel DDIO, LLC cache, buffer alignment, prefetching, shared locks
/// and packet rates": up to 1024 entries of the receive ring).
pub const BURST: usize = 1024;

/// What a bridge is to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BridgePlan {
    /// Specifications of two links or more, such as `xdp:eth0`.
    pub links: Vec<String>,
    /// Tables, in the order in which they are asked.
    pub tables: Vec<TablePlan>,
    /// What becomes of frames with addresses that no table decided.
    pub otherwise: Verdict,
    /// What becomes of frames without a readable IP header, such as ARP.
    pub not_ip: Verdict,
    /// CPUs of the workers, one each; worker `w` has the queues `q` of every link with `q` modulo workers = `w`. None: as
    /// many workers as the link with the fewest queues has, on the CPUs given.
    pub workers: Option<usize>,
    /// CPUs to place workers on, at least as many as there are workers.
    pub cpus: Vec<u32>,
    /// Frames taken from a link at once, 1 to 4096.
    pub burst: usize,
    /// Skip wrong lines of lists and count them, instead of refusing the list.
    pub skip_bad: bool,
    /// How often files are looked at for changes; none: never, only when asked.
    pub reload_every: Option<Duration>,
}

impl BridgePlan {
    /// A plan without tables: everything passes.
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
            reload_every: Some(Duration::from_millis(500)),
        }
    }
}

/// One table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TablePlan {
    /// Its file: a list of addresses and prefixes, an ipset or nftables dump, or a snapshot.
    pub file: PathBuf,
    /// Which addresses of a frame are looked up.
    #[serde(rename = "match")]
    pub sides: Sides,
    /// What becomes of a frame whose address is there.
    pub on_match: OnMatch,
}

/// Which addresses of a frame are looked up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sides {
    /// The source.
    Src,
    /// The destination.
    Dst,
    /// Both: it matches if either is in the table.
    #[default]
    Both,
}

/// What becomes of a frame that matches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnMatch {
    /// It goes nowhere; later tables are not asked.
    #[default]
    Drop,
    /// It goes out; later tables are not asked.
    Pass,
    /// It is counted, and later tables are asked.
    Count,
}

/// What becomes of a frame that nothing else decided.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It goes out.
    #[default]
    Pass,
    /// It goes nowhere.
    Drop,
}

impl fmt::Display for Sides {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(formatter)
    }
}

impl fmt::Display for OnMatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(formatter)
    }
}
