//! `lab scale udp`: measures how the rate scales with active buckets, and finds the limit.
//!
//! In: a [`ScalePlan`]. Out: a `corelane/scale/1` report. The server's configuration is fixed while 1, 2, … N of its
//! buckets are loaded. Steps are repeated and interleaved. Controls: the models that exact steering replaces, and every
//! client on the wrong CPU.

mod account;
pub mod document;
pub mod gap;
pub mod metrics;
mod page;
mod places;
mod plan;
mod trial;
mod verdict;

pub use crate::placing::Placement;
pub use document::{ScaleReport, Selection, Step};
pub use metrics::METRICS;
pub use plan::{ScalePlan, ScaleRequest};
pub use trial::Scale;
