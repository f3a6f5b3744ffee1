//! How the XDP program of `corelane rss` steers the frames of a device. The kernel reports only the number of the program; the
//! process that attached it publishes the rest.

use corelane_rss::Steering;
use serde::{Deserialize, Serialize};

use crate::published::{OF_DEVICE, published};
use crate::tree::Tree;

/// Receive side scaling in software, by one program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SoftwareRss {
    /// The process that keeps the program attached.
    pub process: u32,
    /// The kernel's number of the program.
    pub program: u32,
    /// The kernel's number of the link between program and device.
    pub link: u32,
    /// Whether frames of tunnels are hashed by the packet inside.
    pub inner: bool,
    /// Key, fields and table; frames go to the CPU of their bucket.
    pub steering: Steering,
}

impl SoftwareRss {
    /// That of one of these programs, if a process that may be read publishes it.
    pub(super) fn of(tree: &Tree, programs: &[u32]) -> Option<SoftwareRss> {
        let processes = tree.numbers("/proc", "").ok()?;
        let mut known = processes
            .into_iter()
            .filter_map(|process| serde_json::from_str(&published(process, OF_DEVICE)?).ok());
        known.find(|known: &SoftwareRss| programs.contains(&known.program))
    }
}
