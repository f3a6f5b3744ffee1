//! `lab scale udp`: does it grow with the buckets that are active, and what stops it?
//!
//! In: a [`ScalePlan`]. Out: a `corelane/scale/1` report. A server with all its buckets configured stands still while
//! 1, 2, … N of them are loaded; every step is repeated, interleaved with the others; and controls run beside: the
//! models that exact steering replaces, and every client on the wrong CPU.

mod account;
mod collect;
pub mod document;
pub mod metrics;
mod observe;
mod page;
mod places;
mod plan;
mod trial;
mod verdict;

pub use crate::placing::Placement;
pub use crate::trials::ScaleError;
pub use document::{ScaleReport, Step};
pub use metrics::METRICS;
pub use observe::Observe;
pub use plan::{ScalePlan, ScaleRequest};
pub use trial::Scale;
