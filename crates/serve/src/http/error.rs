//! Why an HTTP server could not start or continue.

use super::access::AccessLogError;
use crate::server::ServeError;
use thiserror::Error;

/// Why an HTTP server could not start or continue.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HttpError {
    /// A cause that all servers share.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The access log cannot be opened.
    #[error(transparent)]
    AccessLog(#[from] AccessLogError),
}
