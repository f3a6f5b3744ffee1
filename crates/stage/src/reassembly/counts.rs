//! What a reassembly counts.

use crate::stage_counts;
use corelane_measure::counter::Counter;

stage_counts! {
    /// The counts of a reassembly. Those of what was dropped count fragments: the one that arrived, and those of its datagram
    /// that had waited if they were dropped with it.
    ///
    /// Every fragment is counted once: `fragments` is the sum of `made_whole`, of what was dropped, and of what is `waiting`.
    pub struct Counts {
        /// Fragments that arrived.
        Counted fragments,
        /// Datagrams that were made whole.
        Made datagrams,
        /// Fragments that whole datagrams were made of.
        Used made_whole,
        /// Fragments dropped since others had given their data.
        Dropped duplicate,
        /// Fragments dropped with a datagram whose fragments overlap.
        Dropped overlap,
        /// Fragments dropped since their datagram has two ends, or data behind its end.
        Dropped contradicts_end,
        /// Fragments dropped since one has no data.
        Dropped empty,
        /// Fragments of IPv6 dropped since others follow, and their length is no multiple of 8.
        Dropped unaligned,
        /// Fragments dropped since the frame has only a part of them.
        Dropped truncated,
        /// First fragments of IPv6 dropped since they lack a part of the headers.
        Dropped tiny_first,
        /// Fragments of IPv4 dropped since the checksum of their header is wrong.
        Dropped checksum,
        /// Fragments dropped since their datagram would be longer than 65,535 bytes.
        Dropped too_long,
        /// Fragments of IPv6 dropped since their datagram is a fragment.
        Dropped nested,
        /// Fragments dropped since some of their datagram are of ECN's capable transports and some are not.
        Dropped ecn,
        /// Fragments dropped since others did not arrive in time.
        Dropped timeout,
        /// Fragments of the oldest datagrams, dropped since memory was needed for others.
        Dropped no_memory,
        /// Fragments of the oldest datagrams, dropped since as many as permitted were waiting.
        Dropped too_many_datagrams,
        /// Fragments of datagrams in more parts than permitted.
        Dropped too_many_fragments,
        /// Fragments that were waiting at the end.
        Dropped ended,
        /// Fragments that are waiting.
        Held waiting,
        /// Datagrams that they are of.
        Level datagrams_waiting,
        /// Bytes of memory that they take.
        Level memory,
    }
}

/// The count of what was dropped for one reason.
pub(super) type Cause = fn(&Counts) -> &Counter;
