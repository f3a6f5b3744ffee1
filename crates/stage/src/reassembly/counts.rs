//! What a reassembly counts.

use corelane_measure::counter::Counter;

/// The counts of a reassembly. Those of what was dropped count fragments: the one that arrived, and those of its datagram
/// that had waited if they were dropped with it.
///
/// Every fragment is counted once: `fragments` is the sum of `made_whole`, of what was dropped, and of what is `waiting`.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counts {
    /// Fragments that arrived.
    pub fragments: Counter,
    /// Datagrams that were made whole.
    pub datagrams: Counter,
    /// Fragments that whole datagrams were made of.
    pub made_whole: Counter,
    /// Fragments dropped since others had given their data.
    pub duplicate: Counter,
    /// Fragments dropped with a datagram whose fragments overlap.
    pub overlap: Counter,
    /// Fragments dropped since their datagram has two ends, or data behind its end.
    pub contradicts_end: Counter,
    /// Fragments dropped since one has no data.
    pub empty: Counter,
    /// Fragments of IPv6 dropped since others follow, and their length is no multiple of 8.
    pub unaligned: Counter,
    /// Fragments dropped since the frame has only a part of them.
    pub truncated: Counter,
    /// Fragments of IPv4 dropped since the checksum of their header is wrong.
    pub checksum: Counter,
    /// First fragments of IPv6 dropped since they lack a part of the headers.
    pub tiny_first: Counter,
    /// Fragments dropped since their datagram would be longer than 65,535 bytes.
    pub too_long: Counter,
    /// Fragments of IPv6 dropped since their datagram is a fragment.
    pub nested: Counter,
    /// Fragments dropped since some of their datagram are of ECN's capable transports and some are not.
    pub ecn: Counter,
    /// Fragments dropped since others did not arrive in time.
    pub timeout: Counter,
    /// Fragments of the oldest datagrams, dropped since memory was needed for others.
    pub no_memory: Counter,
    /// Fragments of the oldest datagrams, dropped since as many as permitted were waiting.
    pub too_many_datagrams: Counter,
    /// Fragments of datagrams in more parts than permitted.
    pub too_many_fragments: Counter,
    /// Fragments that were waiting at the end.
    pub ended: Counter,
    /// Fragments that are waiting.
    pub waiting: Counter,
    /// Datagrams that they are of.
    pub datagrams_waiting: Counter,
    /// Bytes of memory that they take.
    pub memory: Counter,
}

/// The count of what was dropped for one reason.
pub(super) type Cause = fn(&Counts) -> &Counter;
