//! `load http`: HTTP/1.1 requests over any number of connections, closed loop or on a schedule; the outcome of each
//! request is counted by cause.
//!
//! In: an [`HttpPlan`], resolved from a scenario by [`Scenario::plan`](scenario::Scenario::plan). Out: a running [`HttpLoad`], and
//! at its end an [`HttpLoadReport`]. Connections are those of all stream protocols (`streams`); `exchange` is one request.

mod body;
mod counts;
mod error;
mod exchange;
mod plan;
mod prepared;
mod resolve;
pub mod scenario;
pub mod targets;

pub use crate::failure::{Failure, Failures};
pub use crate::streams::{
    Behaviour, ClientCost, ConnectionCounts, Counts, GATHER, Histograms, Model, PhaseReport, PlannedPhase,
    PlannedPool, PlannedWorker, PoolCounts, RequestCounts, Share, StreamBytes, Tally, Timeouts, TlsCounts,
    Until, WorkerCounts,
};
pub use counts::{HttpCounts, Tolerated};
pub use error::{HttpError, HttpLoadError};
pub use plan::{Http, Order, PlannedBody, PlannedRequest, PlannedTargets, Promise, StatusRange};

use crate::streams::{StreamLoad, StreamLoadReport, StreamPlan, StreamSum};

/// An HTTP load generator.
pub type HttpLoad = StreamLoad<Http>;
/// The plan of an HTTP load generator.
pub type HttpPlan = StreamPlan<Http>;
/// The results of one generator.
pub type HttpLoadReport = StreamLoadReport<Http>;
/// What several generators amount to.
pub type HttpSum = StreamSum<HttpCounts>;

#[cfg(test)]
mod tests;
