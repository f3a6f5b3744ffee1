//! What an encapsulation counts.

use corelane_measure::counter::Counter;

/// The counts of a stage, on cache lines of their own: the stage writes them, any thread reads them.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counts {
    /// Put into the tunnel.
    pub encapsulated: Counter,
    /// Passed: GRE and IP in IP take IP only, and a VXLAN no frame without a whole Ethernet header.
    pub not_ip: Counter,
    /// Dropped: too long for the length field of the outer header.
    pub too_long: Counter,
}
