//! TLS of the client: certificate verification, session resumption, and each session as a state machine.
//!
//! In: the TLS settings of each pool ([`PlannedTls`]). Out: sessions ([`Session`]), and their statistics
//! ([`TlsCounts`]).

mod tickets;
mod trust;

use crate::failure::Failure;
use corelane_measure::counters::Counters;
use corelane_worker::tls;
use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig, Error, HandshakeKind, RootCertStore};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use thiserror::Error as ThisError;
use tickets::Tickets;

/// A client's session.
pub(super) type Session = tls::Session<UnbufferedClientConnection>;

/// Maximum number of tickets kept per worker and pool: some hundred bytes each, so 2 MiB.
const MOST_TICKETS: usize = 4_096;

/// Maximum number of distinct errors in a report; a server can send hundreds of different alerts.
const MOST_ERRORS: usize = 16;

/// TLS settings of a pool: certificate verification and session resumption.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedTls {
    /// The name that the certificate must be for, sent as SNI unless it is an address.
    pub server_name: String,
    /// Accepts any certificate.
    pub insecure: bool,
    /// File of trusted certificates (PEM), instead of the system's.
    pub ca: Option<PathBuf>,
    /// Whether new connections resume earlier sessions.
    pub resumption: bool,
}

/// TLS statistics of one pool, or of all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsCounts {
    /// Whether every certificate was verified; `false` with `--insecure`.
    pub verified: bool,
    /// Full handshakes, with a certificate.
    pub handshakes_full: u64,
    /// Handshakes that resumed an earlier session.
    pub handshakes_resumed: u64,
    /// Connections by version and cipher suite.
    pub suites: BTreeMap<String, u64>,
    /// Error messages, each with its count.
    pub errors: BTreeMap<String, u64>,
    /// Bytes sent, encrypted, including handshakes.
    pub bytes_sent: u64,
    /// Bytes received, encrypted, including handshakes.
    pub bytes_received: u64,
}

/// Why TLS cannot be set up.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum TlsLoadError {
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
    /// Incompatible cryptographic settings.
    #[error(transparent)]
    Configuration(#[from] Error),
}

impl TlsCounts {
    /// Adds what `other` counted; `verified` only if both are.
    pub fn add(&mut self, other: &Self) {
        self.verified &= other.verified;
        self.handshakes_full += other.handshakes_full;
        self.handshakes_resumed += other.handshakes_resumed;
        self.suites.add(&other.suites);
        self.errors.add(&other.errors);
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
    }

    /// Resumed handshakes as a share of all; `None` without any.
    #[must_use]
    pub fn resumed(&self) -> Option<f64> {
        let all = self.handshakes_full + self.handshakes_resumed;
        (all > 0).then(|| self.handshakes_resumed as f64 / all as f64)
    }

    /// Counts a completed handshake.
    pub(super) fn count_handshake(&mut self, kind: HandshakeKind, session: &Session) {
        match kind {
            HandshakeKind::Resumed => self.handshakes_resumed += 1,
            _ => self.handshakes_full += 1,
        }
        if let Some(suite) = session.suite() {
            *self.suites.entry(suite).or_default() += 1;
        }
    }

    /// Counts an error, and returns its failure class.
    pub(super) fn count_error(&mut self, error: &Error) -> Failure {
        let text = match is_authority(error) {
            true => AUTHORITY.to_owned(),
            false => error.to_string(),
        };
        let known = self.errors.len() < MOST_ERRORS || self.errors.contains_key(&text);
        let text = if known { text } else { "others".to_owned() };
        *self.errors.entry(text).or_default() += 1;
        match error {
            Error::InvalidCertificate(_) | Error::NoCertificatesPresented => Failure::CertificateRefused,
            _ => Failure::Tls,
        }
    }
}

/// What to do about a server that presents an authority's certificate as its own, as `openssl req -x509` makes them.
pub(crate) const AUTHORITY: &str = "the server's certificate is that of an authority (CA:TRUE), which TLS does not accept \
    for a server: make it with `openssl req -x509 -addext basicConstraints=critical,CA:FALSE`, or verify nothing with \
    --insecure";

/// Whether the server's own certificate is an authority's; the error's type is that of a private dependency.
fn is_authority(error: &Error) -> bool {
    matches!(error, Error::InvalidCertificate(CertificateError::Other(other))
        if other.to_string() == "CaUsedAsEndEntity")
}

/// TLS state of a pool, or of one worker's part of it.
#[derive(Debug, Clone)]
pub(crate) struct Encryption {
    pub(super) configuration: Arc<ClientConfig>,
    pub(super) server_name: ServerName<'static>,
    pub(super) counts: TlsCounts,
    resumption: bool,
}

impl Encryption {
    /// The sessions of a pool. The system's authorities are read once, into `system`.
    pub(super) fn new(
        tls: &PlannedTls,
        system: &mut Option<Arc<RootCertStore>>,
    ) -> Result<Self, TlsLoadError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let believing = if tls.insecure {
            let everybody = Arc::new(trust::Everybody(provider));
            builder.dangerous().with_custom_certificate_verifier(everybody)
        } else {
            let roots = match (&tls.ca, &system) {
                (Some(path), _) => Arc::new(trust::of_file(path)?),
                (None, Some(roots)) => Arc::clone(roots),
                (None, None) => Arc::clone(system.insert(Arc::new(trust::of_system()?))),
            };
            builder.with_root_certificates(roots)
        };
        let mut configuration = believing.with_no_client_auth();
        configuration.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            configuration: Arc::new(configuration),
            server_name: server_name(&tls.server_name)?,
            counts: TlsCounts {
                verified: !tls.insecure,
                ..TlsCounts::default()
            },
            resumption: tls.resumption,
        })
    }

    /// A worker's part with this many connections, which has its own session store.
    pub(super) fn part(&self, connections: usize) -> Self {
        let mut part = self.clone();
        Arc::make_mut(&mut part.configuration).resumption = if self.resumption {
            Resumption::store(Arc::new(Tickets::new(connections.clamp(1, MOST_TICKETS))))
        } else {
            Resumption::disabled()
        };
        part
    }

    /// A session before its handshake.
    pub(super) fn session(&self) -> Result<Session, Error> {
        let (configuration, name) = (Arc::clone(&self.configuration), self.server_name.clone());
        UnbufferedClientConnection::new(configuration, name).map(Session::new)
    }
}

/// The server name for verification.
pub(crate) fn server_name(host: &str) -> Result<ServerName<'static>, TlsLoadError> {
    ServerName::try_from(host.to_owned()).map_err(|_| TlsLoadError::Name(host.to_owned()))
}

#[cfg(test)]
pub(crate) use tests::{certificate, server_configuration};

#[cfg(test)]
mod tests;
