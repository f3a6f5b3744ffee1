//! Flags of the TLS of a server of connections, and its summary.

use clap::Args;
use corelane_measure::counters::Counters;
use corelane_measure::quantity;
use corelane_serve::HandshakeCounts;
use corelane_worker::tls::{Certificate, CertificateFiles};
use std::path::PathBuf;

/// TLS and its certificate.
#[derive(Debug, Args)]
pub struct CertificateArguments {
    /// Use TLS, with a certificate generated for this run unless --certificate is given
    #[arg(long)]
    pub tls: bool,
    /// Certificate chain, PEM
    #[arg(long, value_name = "FILE", requires_all = ["tls", "private_key"])]
    pub certificate: Option<PathBuf>,
    /// Private key of the certificate, PEM
    #[arg(long, value_name = "FILE", requires_all = ["tls", "certificate"])]
    pub private_key: Option<PathBuf>,
    /// Write the generated certificate to this PEM file, for clients to verify against (--ca, curl --cacert)
    #[arg(long, value_name = "FILE", requires = "tls", conflicts_with = "certificate")]
    pub write_certificate: Option<PathBuf>,
}

impl CertificateArguments {
    /// The certificate; `None` without TLS.
    pub fn certificate(&self) -> Option<Certificate> {
        let certificate = match (&self.certificate, &self.private_key) {
            (Some(certificate), Some(key)) => Certificate::Files(CertificateFiles {
                certificate: certificate.clone(),
                key: key.clone(),
            }),
            _ => Certificate::SelfSigned,
        };
        self.tls.then_some(certificate)
    }
}

/// A line about the handshakes, if there were any.
pub fn handshakes(buckets: impl Iterator<Item = HandshakeCounts>) -> String {
    let sum = HandshakeCounts::sum(buckets);
    if sum.is_empty() {
        return String::new();
    }
    let [full, resumed] = [sum.full, sum.resumed].map(quantity::count);
    format!("TLS handshakes: {full} full, {resumed} resumed\n")
}
