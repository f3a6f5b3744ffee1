//! Errors of generators over streams.

use crate::sources::SourceError;
use corelane_proto::http::outgoing::OutgoingError;
use corelane_worker::crew::CrewError;
use corelane_worker::tls::TrustError;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why a generator could not be planned, started or finished.
#[derive(Debug, Error)]
pub enum StreamLoadError {
    /// Invalid or inconsistent pools, paths or phases; the message names them.
    #[error("{0}")]
    Scenario(String),
    /// An invalid request.
    #[error(transparent)]
    Request(#[from] OutgoingError),
    /// A body that cannot be read.
    #[error("{}: {error}", .path.display())]
    Body {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TrustError),
    /// The sources do not suffice.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// No connections are planned.
    #[error("no client pool has a connection: set at least one per pool")]
    NoConnections,
    /// A worker could not start, or ended early.
    #[error(transparent)]
    Crew(#[from] CrewError),
}
