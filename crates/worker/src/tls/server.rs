//! Settings of a server's sessions. Input: a certificate and a key, or none.

use super::pem::{CertificateError, CertificateFiles, Identity};
use super::session::Settings;
use arc_swap::ArcSwap;
use rustls::crypto::ring::Ticketer;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::UnbufferedServerConnection;
use rustls::{Error, ServerConfig};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

/// The certificate of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Certificate {
    /// Generated for this run, self-signed, for `localhost` and the address.
    SelfSigned,
    /// PEM files.
    Files(CertificateFiles),
}

/// The settings of a server, which all of its workers use.
#[derive(Debug, Clone)]
pub struct ServerSettings(Arc<ArcSwap<ServerConfig>>);

impl ServerSettings {
    /// The settings of a server on `address` that speaks one of these protocols (ALPN; none: any). A generated
    /// certificate is written to `write` in PEM, for verification by clients.
    ///
    /// # Errors
    /// If the certificate cannot be used or written.
    pub fn new(
        certificate: &Certificate,
        address: IpAddr,
        write: Option<&Path>,
        protocols: &[&[u8]],
    ) -> Result<Self, CertificateError> {
        let identity = match certificate {
            Certificate::SelfSigned => self_signed(address, write)?,
            Certificate::Files(files) => files.read()?,
        };
        let protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let configuration = configuration(identity, protocols)?;
        Ok(Self(Arc::new(ArcSwap::from_pointee(configuration))))
    }

    /// Reads these files again, for connections that begin after it.
    ///
    /// # Errors
    /// If they cannot be used: the settings stay as they are.
    pub fn reload(&self, files: &CertificateFiles) -> Result<(), CertificateError> {
        let protocols = self.0.load().alpn_protocols.clone();
        self.0.store(Arc::new(configuration(files.read()?, protocols)?));
        Ok(())
    }
}

fn configuration(
    (certificates, key): Identity,
    protocols: Vec<Vec<u8>>,
) -> Result<ServerConfig, CertificateError> {
    let refused = |error: Error| CertificateError::Certificate(error.to_string());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut configuration = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(refused)?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .map_err(refused)?;
    configuration.alpn_protocols = protocols;
    // Stateless tickets: buckets share no session table, and none can be full.
    configuration.ticketer = Ticketer::new().map_err(refused)?;
    Ok(configuration)
}

impl Settings for ServerSettings {
    type Side = UnbufferedServerConnection;

    fn connection(&self) -> Result<UnbufferedServerConnection, Error> {
        UnbufferedServerConnection::new(self.0.load_full())
    }
}

fn self_signed(address: IpAddr, write: Option<&Path>) -> Result<Identity, CertificateError> {
    let names = vec!["localhost".to_owned(), address.to_string()];
    let made = rcgen::generate_simple_self_signed(names)
        .map_err(|error| CertificateError::Certificate(error.to_string()))?;
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der())
        .map_err(|error| CertificateError::Certificate(error.to_owned()))?;
    if let Some(path) = write {
        std::fs::write(path, format!("corelane, for this run\n{}", made.cert.pem())).map_err(|error| {
            CertificateError::Write {
                path: path.to_owned(),
                error,
            }
        })?;
    }
    Ok((vec![made.cert.der().clone()], key))
}
