//! Measures what rebalancing gains on a running server, and whether it loses datagrams.
//!
//! In: a [`Request`]: key, buckets and CPUs, a Zipf load over the entries of the table, a rate. Out: the document of
//! `lab rebalance`. One server keeps its table (static RSS, the control). A second server is measured under the same
//! load three times: before any change, while its table changes continuously, and after its table was rebalanced from
//! its own counted loads. Server and generator are processes on the two sides of a bed. The load is an open loop that
//! both can carry, so any loss is caused by the table changes.

mod document;
mod page;
mod phase;
mod plan;
mod run;

pub use document::{Decision, Phase, PhaseName, Rebalancing, SCHEMA, Verdict};
pub use phase::PAYLOAD_BYTES;
pub use plan::Request;
pub use run::Rebalance;
