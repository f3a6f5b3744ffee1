//! One pinned thread a bucket: engines, per-bucket socket groups, counters.
