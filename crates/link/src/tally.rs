//! What a link counts, each thing under its own name.

use std::ops::AddAssign;

/// Counts of one queue since it was opened. A count that a kind of link cannot have stays 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Frames lent in bursts.
    pub received: u64,
    /// Bytes of those.
    pub received_bytes: u64,
    /// Frames taken to be sent.
    pub sent: u64,
    /// Bytes of those.
    pub sent_bytes: u64,
    /// Frames that arrived and found no room: the ring or the list of free buffers was exhausted.
    pub receive_dropped: u64,
    /// Frames that arrived and were no use: longer than a buffer, or contradicting their own descriptor.
    pub receive_invalid: u64,
    /// Frames that were taken and then refused by the kernel: longer than the device's MTU, or the device had no room.
    pub send_failed: u64,
}

impl Tally {
    /// The counts by name, in the order of the fields.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 7] {
        [
            ("received", self.received),
            ("received_bytes", self.received_bytes),
            ("sent", self.sent),
            ("sent_bytes", self.sent_bytes),
            ("receive_dropped", self.receive_dropped),
            ("receive_invalid", self.receive_invalid),
            ("send_failed", self.send_failed),
        ]
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.received += other.received;
        self.received_bytes += other.received_bytes;
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.receive_dropped += other.receive_dropped;
        self.receive_invalid += other.receive_invalid;
        self.send_failed += other.send_failed;
    }
}
