//! A certificate and its key in PEM files, of a server or of a client.

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error as ThisError;

/// PEM files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateFiles {
    /// The certificate, followed by its chain.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Why a server or a client has no certificate.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum CertificateError {
    /// A file that cannot be read or is invalid.
    #[error("{path}: {reason}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error.
        reason: String,
    },
    /// Certificate and key that do not match.
    #[error("the certificate cannot be used: {0}")]
    Certificate(String),
    /// The generated certificate cannot be written.
    #[error("{path}: {error}", path = path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
}

/// A certificate with its chain, and its key.
pub(super) type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

impl CertificateFiles {
    pub(super) fn read(&self) -> Result<Identity, CertificateError> {
        let wrong = |path: &Path, reason: &str| CertificateError::File {
            path: path.to_owned(),
            reason: reason.to_owned(),
        };
        let chain = CertificateDer::pem_file_iter(&self.certificate).and_then(Iterator::collect);
        let chain: Vec<_> = chain.map_err(|error| wrong(&self.certificate, &error.to_string()))?;
        if chain.is_empty() {
            return Err(wrong(&self.certificate, "there is no certificate in it (PEM)"));
        }
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| match error {
            pem::Error::NoItemsFound => wrong(&self.key, "there is no private key in it (PEM)"),
            error => wrong(&self.key, &error.to_string()),
        })?;
        Ok((chain, key))
    }
}
