//! TLS: takes a certificate and a key, or none; returns the configuration of all sessions.

use rustls::ServerConfig;
use rustls::crypto::ring::Ticketer;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::UnbufferedServerConnection;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// Certificate for TLS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TlsPlan {
    /// Generated for this run, self-signed, for `localhost` and the address.
    SelfSigned,
    /// PEM files.
    Files {
        /// The certificate, followed by its chain.
        certificate: PathBuf,
        /// Its private key.
        key: PathBuf,
    },
}

/// Why TLS cannot be set up.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
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

/// The configuration of sessions. A generated certificate is written to `write` in PEM, for verification by clients.
pub(super) fn configuration(
    plan: &TlsPlan,
    address: IpAddr,
    write: Option<&Path>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let (certificates, key) = match plan {
        TlsPlan::SelfSigned => self_signed(address, write)?,
        TlsPlan::Files { certificate, key } => {
            let wrong = |path: &PathBuf, reason: String| TlsError::File {
                path: path.clone(),
                reason,
            };
            let certificates = CertificateDer::pem_file_iter(certificate)
                .and_then(Iterator::collect)
                .map_err(|error| wrong(certificate, error.to_string()))?;
            let private = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, error.to_string()))?;
            (certificates, private)
        }
    };
    let refused = |error: rustls::Error| TlsError::Certificate(error.to_string());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut configuration = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(refused)?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .map_err(refused)?;
    configuration.alpn_protocols = vec![b"http/1.1".to_vec(), b"http/1.0".to_vec()];
    // Stateless tickets: buckets share no session table, and none can be full.
    configuration.ticketer = Ticketer::new().map_err(refused)?;
    Ok(Arc::new(configuration))
}

fn self_signed(
    address: IpAddr,
    write: Option<&Path>,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let names = vec!["localhost".to_owned(), address.to_string()];
    let made = rcgen::generate_simple_self_signed(names)
        .map_err(|error| TlsError::Certificate(error.to_string()))?;
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der())
        .map_err(|error| TlsError::Certificate(error.to_owned()))?;
    if let Some(path) = write {
        std::fs::write(path, made.cert.pem()).map_err(|error| TlsError::Write {
            path: path.to_owned(),
            error,
        })?;
    }
    Ok((vec![made.cert.der().clone()], key))
}

/// A server's session.
pub(super) type Session = corelane_worker::tls::Session<UnbufferedServerConnection>;

/// A session before its handshake.
pub(super) fn session(configuration: &Arc<ServerConfig>) -> Result<Box<Session>, rustls::Error> {
    let connection = UnbufferedServerConnection::new(Arc::clone(configuration))?;
    Ok(Box::new(Session::new(connection)))
}
