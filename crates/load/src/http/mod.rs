//! `load http`: HTTP/1.1 requests over any number of connections, closed loop or on a schedule, each request's fate counted
//! by cause.
//!
//! In: an [`HttpPlan`], made from what a user asked for by [`HttpRequest::resolve`]. Out: a running [`HttpLoad`], and at its
//! end an [`HttpLoaded`].

mod body;
mod client;
mod connection;
mod error;
mod generator;
mod group;
mod loaded;
mod merged;
mod phases;
mod plan;
mod report;
mod resolve;
mod run;
pub mod scenario;
mod sum;
mod terms;
mod tls;

pub use crate::failure::{Failure, Failures};
pub use error::HttpLoadError;
pub use loaded::{
    ClientCost, ConnectionCounts, HttpBytes, HttpLoaded, PhaseLoaded, PoolLoaded, RequestCounts, WorkerLoaded,
};
pub use merged::HttpMerged;
pub use plan::{
    Behaviour, GATHER, HttpPlan, Model, PlannedBody, PlannedPhase, PlannedPool, PlannedRequest,
    PlannedWorker, Promise, Share, StatusRange, Timeouts, Until,
};
pub use resolve::{HttpRequest, OneRequest, PoolRequest};
pub use run::{HttpLoad, HttpProgress};
pub use tls::{PlannedTls, TlsLoadError, TlsLoaded, TlsSettings};

#[cfg(test)]
mod tests;
