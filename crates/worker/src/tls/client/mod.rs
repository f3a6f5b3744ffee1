//! Settings of a client's sessions: which certificates it trusts, and whether it resumes earlier sessions.

mod tickets;
mod trust;

pub use trust::TrustError;

use super::pem::{CertificateError, CertificateFiles};
use super::session::Settings;
use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, Error, RootCertStore};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use tickets::Tickets;

/// Maximum number of tickets kept per worker and pool: some hundred bytes each, so 2 MiB.
const MOST_TICKETS: usize = 4_096;

/// Certificate verification and session resumption of a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trust {
    /// The name that the certificate must be for, sent as SNI unless it is an address.
    pub server_name: String,
    /// Accepts any certificate.
    pub insecure: bool,
    /// File of trusted certificates (PEM), instead of the system's.
    pub ca: Option<PathBuf>,
    /// Whether new connections resume earlier sessions.
    pub resumption: bool,
    /// The certificate that it presents to a server that asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<CertificateFiles>,
}

/// The system's certificate authorities, which are read once, when they are needed.
#[derive(Debug, Default)]
pub struct SystemAuthorities(Option<Arc<RootCertStore>>);

/// The settings of clients of one server.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    configuration: Arc<ClientConfig>,
    server_name: ServerName<'static>,
    resumption: bool,
}

impl ClientSettings {
    /// The settings of clients that speak one of these protocols (ALPN; none: any).
    ///
    /// # Errors
    /// If a file of certificates or keys, or the name of the server, is not valid.
    pub fn new(
        trust: &Trust,
        protocols: &[&[u8]],
        system: &mut SystemAuthorities,
    ) -> Result<Self, TrustError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let believing = if trust.insecure {
            let everybody = Arc::new(trust::Everybody(provider));
            builder.dangerous().with_custom_certificate_verifier(everybody)
        } else {
            let roots = match (&trust.ca, &system.0) {
                (Some(path), _) => Arc::new(trust::of_file(path)?),
                (None, Some(roots)) => Arc::clone(roots),
                (None, None) => Arc::clone(system.0.insert(Arc::new(trust::of_system()?))),
            };
            builder.with_root_certificates(roots)
        };
        let mut configuration = match &trust.certificate {
            None => believing.with_no_client_auth(),
            Some(files) => {
                let (chain, key) = files.read()?;
                let refused = |error: Error| CertificateError::Certificate(error.to_string());
                believing.with_client_auth_cert(chain, key).map_err(refused)?
            }
        };
        configuration.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Ok(Self {
            configuration: Arc::new(configuration),
            server_name: server_name(&trust.server_name)?,
            resumption: trust.resumption,
        })
    }

    /// A worker's part with this many connections, which has its own session store.
    #[must_use]
    pub fn part(&self, connections: usize) -> Self {
        let mut part = self.clone();
        Arc::make_mut(&mut part.configuration).resumption = if self.resumption {
            Resumption::store(Arc::new(Tickets::new(connections.clamp(1, MOST_TICKETS))))
        } else {
            Resumption::disabled()
        };
        part
    }
}

impl Settings for ClientSettings {
    type Side = UnbufferedClientConnection;

    fn connection(&self) -> Result<UnbufferedClientConnection, Error> {
        UnbufferedClientConnection::new(Arc::clone(&self.configuration), self.server_name.clone())
    }
}

/// The name of a server, for verification.
///
/// # Errors
/// If no certificate can be for it.
pub fn server_name(host: &str) -> Result<ServerName<'static>, TrustError> {
    ServerName::try_from(host.to_owned()).map_err(|_| TrustError::Name(host.to_owned()))
}
