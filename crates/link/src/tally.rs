//! The counters of a link.

use crate::burst::Extent;
use corelane_measure::counters;
use serde::{Deserialize, Serialize};

counters! {
    /// Counters of one queue since it was opened. A counter that a kind of link does not support stays 0.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Tally {
        /// Frames lent in bursts.
        pub received: u64,
        /// Bytes of those.
        pub received_bytes: u64,
        /// Frames accepted for sending.
        pub sent: u64,
        /// Bytes of those.
        pub sent_bytes: u64,
        /// Frames that arrived without room: the ring or the list of free buffers was exhausted.
        pub receive_dropped: u64,
        /// Frames that arrived but were invalid: longer than a buffer, or inconsistent with their descriptor; in a capture,
        /// of a link layer that cannot be read, or cut off at the end of the file.
        pub receive_invalid: u64,
        /// Frames that were accepted and then rejected by the kernel: longer than the device's MTU, or the device had no
        /// room. Documents have it among the reasons for frames that were not sent.
        #[serde(skip)]
        pub send_failed: u64,
    }
}

impl Tally {
    /// Counts a received burst.
    #[inline(always)]
    pub(crate) fn count_received(&mut self, burst: &[Extent]) {
        self.received += burst.len() as u64;
        let bytes = burst.iter().map(|extent| u64::from(extent.length));
        self.received_bytes += bytes.sum::<u64>();
    }

    /// Counts frames accepted for sending, and their bytes; returns their number.
    #[inline(always)]
    pub(crate) fn count_sent(&mut self, (frames, bytes): (usize, u64)) -> usize {
        self.sent += frames as u64;
        self.sent_bytes += bytes;
        frames
    }
}
