//! What the forwarder does with a frame.

use crate::dispatch::Protocol;
use corelane_rss::Bucket;

/// What the forwarder does with a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fate {
    /// It goes on, to all links but the one that it came from.
    #[default]
    Flood,
    /// It is put into the queue of this bucket and protocol.
    HandOver(Bucket, Protocol),
    /// Nothing: it was dropped, or used for a frame that left or will leave.
    Gone,
}
