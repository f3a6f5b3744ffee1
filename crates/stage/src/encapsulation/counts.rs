//! What an encapsulation counts.

use crate::stage_counts;

stage_counts! {
    /// The counts of a stage, on cache lines of their own: the stage writes them, any thread reads them.
    pub struct Counts {
        /// Put into the tunnel.
        Counted encapsulated,
        /// Passed: GRE and IP in IP take IP only, and a VXLAN no frame without a whole Ethernet header.
        Counted not_ip,
        /// Passed: GRE and IP in IP take whole packets, and the frame has only a part of one.
        Counted truncated,
        /// Dropped: too long for the length field of the outer header.
        Dropped too_long,
    }
}
