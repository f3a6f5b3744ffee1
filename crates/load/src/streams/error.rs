//! Why a generator could not be planned, started or finished.

use super::tls::TlsLoadError;
use crate::sources::SourceError;
use corelane_proto::http::outgoing::OutgoingError;
use corelane_worker::crew::CrewError;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why a generator could not be planned, started or finished.
#[derive(Debug, Error)]
pub enum StreamLoadError {
    /// A request that cannot be written.
    #[error(transparent)]
    Request(#[from] OutgoingError),
    /// A body that cannot be read.
    #[error("{}: {error}", .path.display())]
    Body {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A host without an address.
    #[error("{host}: {error}")]
    Host {
        /// The name.
        host: String,
        /// What the resolver said.
        error: io::Error,
    },
    /// There is no TLS.
    #[error(transparent)]
    Tls(#[from] TlsLoadError),
    /// The sources do not suffice.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Nothing to do.
    #[error("no client pool has a connection: give each at least one")]
    NoConnections,
    /// A worker could not be started, or ended early.
    #[error(transparent)]
    Crew(#[from] CrewError),
}
