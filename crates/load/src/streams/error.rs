//! Errors of generators over streams.

use crate::sources::SourceError;
use corelane_worker::crew::CrewError;
use corelane_worker::engine::NoEngine;
use corelane_worker::tls::TrustError;
use std::convert::Infallible;
use thiserror::Error;

/// Why a generator could not be planned, started or finished; `E`: for reasons of its protocol.
#[derive(Debug, Error)]
pub enum StreamLoadError<E = Infallible> {
    /// Its requests cannot be planned or prepared.
    #[error(transparent)]
    Protocol(E),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TrustError),
    /// The sources do not suffice.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// No connections are planned.
    #[error("no client pool has a connection: set at least one per pool")]
    NoConnections,
    /// The requested engine cannot be used.
    #[error(transparent)]
    Engine(#[from] NoEngine),
    /// A worker could not start, or ended early.
    #[error(transparent)]
    Crew(#[from] CrewError),
}
