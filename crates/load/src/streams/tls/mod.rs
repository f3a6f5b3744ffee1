//! TLS of the connections of a pool: their sessions, and their statistics.

use crate::failure::Failure;
use corelane_measure::counters::Counters;
use corelane_measure::quantity;
use corelane_worker::tls::{ClientSession, ClientSettings, Driver, HandshakeKind, SessionError};
use rustls::{CertificateError, Error};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maximum number of distinct errors in a report; a server can send hundreds of different alerts.
const MOST_ERRORS: usize = 16;

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

impl TlsCounts {
    /// The sum of the parts that use TLS, `verified` only if all are; `None` if none does.
    pub(crate) fn sum<'a>(parts: impl IntoIterator<Item = &'a Option<Self>>) -> Option<Self> {
        let parts = parts.into_iter().flatten().cloned();
        parts.reduce(|mut sum, other| {
            sum.verified &= other.verified;
            sum.handshakes_full += other.handshakes_full;
            sum.handshakes_resumed += other.handshakes_resumed;
            sum.suites.add(&other.suites);
            sum.errors.add(&other.errors);
            sum.bytes_sent += other.bytes_sent;
            sum.bytes_received += other.bytes_received;
            sum
        })
    }

    /// Resumed handshakes as a share of all; `None` without any.
    #[must_use]
    pub fn resumed(&self) -> Option<f64> {
        let all = self.handshakes_full + self.handshakes_resumed;
        (all > 0).then(|| self.handshakes_resumed as f64 / all as f64)
    }

    /// What a reader must know before any figure: that no certificate was verified.
    pub(crate) fn caveat(&self) -> Option<String> {
        (!self.verified).then(|| "TLS certificates were not verified (insecure)".to_owned())
    }

    /// Handshakes, ciphers and errors.
    pub(crate) fn notes(&self) -> Vec<String> {
        let suites: Vec<&str> = self.suites.keys().map(String::as_str).collect();
        let agreed = if suites.is_empty() {
            "none agreed on a cipher".to_owned()
        } else {
            suites.join(", ")
        };
        let [full, resumed] = [self.handshakes_full, self.handshakes_resumed].map(quantity::count);
        let mut lines = vec![format!(
            "TLS: {full} full and {resumed} resumed handshakes, {agreed}"
        )];
        if !self.verified {
            lines.push("TLS: certificates were NOT verified (insecure)".to_owned());
        }
        let errors = self.errors.iter();
        lines.extend(errors.map(|(error, count)| format!("TLS, {} times: {error}", quantity::count(*count))));
        lines
    }

    /// Counts a completed handshake.
    pub(super) fn count_handshake(&mut self, kind: HandshakeKind, session: &ClientSession) {
        match kind {
            HandshakeKind::Resumed => self.handshakes_resumed += 1,
            _ => self.handshakes_full += 1,
        }
        if let Some(suite) = session.suite() {
            *self.suites.entry(suite).or_default() += 1;
        }
    }

    /// Counts the failure of a session, and returns its class.
    pub(super) fn count_failed(&mut self, error: &SessionError) -> Failure {
        match error {
            SessionError::Tls(error) => self.count_error(error),
            _ => Failure::NoMemory,
        }
    }

    fn count_error(&mut self, error: &Error) -> Failure {
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

/// TLS of one worker's part of a pool.
#[derive(Debug)]
pub(crate) struct Encryption {
    pub(super) driver: Driver<ClientSettings>,
    pub(super) counts: TlsCounts,
}

impl Encryption {
    /// TLS of this many connections.
    pub(super) fn new(settings: &ClientSettings, connections: usize, verified: bool) -> Self {
        Self {
            driver: Driver::new(settings.part(connections)),
            counts: TlsCounts {
                verified,
                ..TlsCounts::default()
            },
        }
    }

    /// The statistics so far.
    pub(super) fn counted(self) -> TlsCounts {
        let [bytes_sent, bytes_received] = self.driver.bytes();
        TlsCounts {
            bytes_sent,
            bytes_received,
            ..self.counts
        }
    }
}

#[cfg(test)]
pub(crate) use tests::{certificate, server_configuration};

#[cfg(test)]
mod tests;
