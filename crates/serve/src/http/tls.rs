//! TLS: a certificate and a key in, or none; what every connection's session is made from out.

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

/// With which certificate connections are encrypted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TlsPlan {
    /// One made for this run, signed by itself, for `localhost` and the address.
    SelfSigned,
    /// From files in PEM.
    Files {
        /// The certificate and those that lead to its root, in this order.
        certificate: PathBuf,
        /// Its private key.
        key: PathBuf,
    },
}

/// Why there is no TLS.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file that cannot be read, or holds something else.
    #[error("{path}: {reason}", path = path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Certificate and key that do not go together.
    #[error("the certificate cannot be used: {0}")]
    Certificate(String),
    /// The certificate cannot be written where it is asked for.
    #[error("{path}: {error}", path = path.display())]
    Write {
        /// Where to.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

/// What sessions are made from. The certificate made for this run goes to `write` in PEM, for clients to verify it by.
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
    configuration.alpn_protocols = vec![b"http/1.1".to_vec()];
    // Tickets that hold the session: buckets share no table of sessions, and none is ever full.
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
