//! The metrics of `lab engines`, each declared once.

#![allow(missing_docs, reason = "each declaration says what it is")]

use super::document::{ToeplitzTrial, UdpTrial};
use crate::steps::number;
use corelane_measure::metric::{Better, Metric, Show};

/// Of a way to hash.
pub static HASH_METRICS: [&Metric<ToeplitzTrial>; 2] = [&NS_PER_HASH, &RATIO_TO_ORACLE];

/// Of a way to move datagrams.
pub static UDP_METRICS: [&Metric<UdpTrial>; 2] = [&PER_CPU_SECOND, &RATIO_TO_BASIC];

pub static NS_PER_HASH: Metric<ToeplitzTrial> = Metric::<ToeplitzTrial>::lower(
    "ns_per_hash",
    "one at a time",
    Show::Fixed(2),
    "Nanoseconds per hash, as throughput: many independent inputs.",
    |trial| number(Some(trial.ns_per_hash)),
)
.unit("ns/hash")
.spread("ns_per_hash_spread");

pub static RATIO_TO_ORACLE: Metric<ToeplitzTrial> = Metric::concluded(
    "ratio_to_oracle",
    "time",
    Show::Ratio,
    Better::Lower,
    "Nanoseconds per hash, divided by the oracle's for the same tuple.",
)
.unit("of oracle")
.spread("ratio_to_oracle_spread");

pub static PER_CPU_SECOND: Metric<UdpTrial> = Metric::<UdpTrial>::higher(
    "datagrams_per_cpu_second",
    "datagrams",
    Show::Prefixed,
    "Datagrams answered per second of the server's CPU time.",
    |trial| number(trial.datagrams_per_cpu_second()),
)
.unit("/CPU s")
.spread("datagrams_per_cpu_second_spread");

pub static RATIO_TO_BASIC: Metric<UdpTrial> = Metric::concluded(
    "ratio_to_basic",
    "rate",
    Show::Ratio,
    Better::Higher,
    "Datagrams answered per second of CPU time, divided by those of one at a time.",
)
.unit("x basic")
.spread("ratio_to_basic_spread");
