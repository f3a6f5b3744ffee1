//! `load http`: HTTP/1.1 requests over any number of connections, closed loop or on a schedule, each request's fate counted
//! by cause.
//!
//! In: an [`HttpPlan`], made from what a user asked for by [`HttpRequest::resolve`]. Out: a running [`HttpLoad`], and at its
//! end an [`HttpLoaded`]. Connections are those of all protocols over streams (`streams`); `exchange` is one request.

mod body;
mod exchange;
mod plan;
mod prepared;
mod report;
mod resolve;
pub mod scenario;

pub use crate::failure::{Failure, Failures};
pub use crate::streams::{
    Behaviour, ClientCost, ConnectionCounts, Counts, GATHER, Histograms, Model, PhaseLoaded, PlannedPhase,
    PlannedPool, PlannedTls, PlannedWorker, PoolLoaded, RequestCounts, Share, StreamBytes, Tally, Timeouts,
    TlsLoadError, TlsLoaded, TlsSettings, Until, WorkerLoaded,
};
pub use plan::{Http, PlannedBody, PlannedRequest, Promise, StatusRange};
pub use resolve::{HttpRequest, OneRequest, PoolRequest};

use crate::streams::{StreamLoad, StreamLoadError, StreamLoaded, StreamPlan, StreamsMerged};

/// A generator of requests.
pub type HttpLoad = StreamLoad<Http>;
/// What it is to do.
pub type HttpPlan = StreamPlan<Http>;
/// What it asked and got.
pub type HttpLoaded = StreamLoaded<Http>;
/// What several of them asked and got.
pub type HttpMerged = StreamsMerged;
/// Why it could not be planned, started or finished.
pub type HttpLoadError = StreamLoadError;

impl HttpLoaded {
    /// Name and version of the document.
    pub const SCHEMA: &'static str = "corelane/loaded-http/1";
}

#[cfg(test)]
mod tests;
