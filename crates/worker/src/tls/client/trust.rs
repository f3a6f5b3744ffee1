//! Trust of a client: the system's certificate authorities, those of a file, or any certificate.

use crate::tls::pem::CertificateError;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error as ThisError;

/// Why a client cannot verify certificates.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum TrustError {
    /// A certificate file that cannot be read or is invalid.
    #[error("{path}: {reason}", path = path.display())]
    Authorities {
        /// The file.
        path: PathBuf,
        /// The error.
        reason: String,
    },
    /// The system has no certificate authorities.
    #[error(
        "this system has no certificate authorities (Debian: ca-certificates): name a file of those to trust, or verify \
         nothing with --insecure ({0})"
    )]
    System(String),
    /// A host name that no certificate can be valid for.
    #[error("'{0}' is no name that a certificate can be for: give a host name or an address")]
    Name(String),
    /// The client's own certificate or its key.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// Incompatible cryptographic settings.
    #[error(transparent)]
    Configuration(#[from] Error),
}

/// The certificates of a PEM file, all of them trusted.
pub(super) fn of_file(path: &Path) -> Result<RootCertStore, TrustError> {
    let wrong = |reason: String| TrustError::Authorities {
        path: path.to_owned(),
        reason,
    };
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(wrong("there is no certificate in it (PEM)".to_owned()));
    }
    Ok(roots)
}

/// The system's certificate authorities, from the system or `SSL_CERT_FILE`.
pub(super) fn of_system() -> Result<RootCertStore, TrustError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let reason = found.errors.first().map(ToString::to_string);
        return Err(TrustError::System(reason.unwrap_or_default()));
    }
    Ok(roots)
}

/// Accepts any certificate if the peer proves possession of its key.
#[derive(Debug)]
pub(super) struct Everybody(pub(super) Arc<CryptoProvider>);

impl ServerCertVerifier for Everybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
