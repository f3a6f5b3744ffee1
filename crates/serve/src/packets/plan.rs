//! The plan of a packet receiver.

use serde::{Deserialize, Serialize};

/// The plan of a packet receiver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceivePlan {
    /// The link's specification, such as `xdp:eth0`.
    pub link: String,
    /// Frames per receive call.
    pub burst: usize,
    /// CPUs of the workers, one per worker; no more than the link has queues.
    pub cpus: Vec<u32>,
}
