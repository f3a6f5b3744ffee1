//! Errors of the HTTP generator.

use crate::streams::StreamLoadError;
use corelane_proto::http::outgoing::OutgoingError;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why HTTP requests could not be planned or prepared.
#[derive(Debug, Error)]
pub enum HttpError {
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
}

impl HttpError {
    pub(super) fn body(path: &Path, error: io::Error) -> Self {
        let path = path.to_owned();
        Self::Body { path, error }
    }
}

/// Why an HTTP load could not be planned, started or finished.
pub type HttpLoadError = StreamLoadError<HttpError>;

impl From<HttpError> for HttpLoadError {
    fn from(error: HttpError) -> Self {
        Self::Protocol(error)
    }
}
