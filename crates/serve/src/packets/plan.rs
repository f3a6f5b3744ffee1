//! What a receiver of packets is to do.

use serde::{Deserialize, Serialize};

/// What a receiver of packets is to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceivePlan {
    /// The link's specification, such as `xdp:eth0`.
    pub link: String,
    /// Frames taken at once.
    pub burst: usize,
    /// CPUs of the workers, one each, no more than the link has queues.
    pub cpus: Vec<u32>,
}
