//! Scenarios: pools of clients, servers and URLs, and the phases of a run, built from flags or read from a TOML file.
//!
//! In: the text of a file, or one URL. Out: a [`Scenario`], or an error with the line; `resolve.rs` plans it. The JSON
//! Schema of the file is `docs/load-http.schema.json`.
//!
//! The pools follow Web Polygraph: client pools define the clients, URL pools the requests, server pools the servers.

mod sizes;
mod values;

use super::error::HttpError;
use super::plan::{Order, StatusRange};
use crate::pool::Pool;
use crate::sources::{Align, AlignBy};
use crate::streams::PlannedPhase;
use corelane_measure::quantity::read;
use corelane_proto::http::url::{Scheme, Url};
use corelane_worker::engine::Remote;
use serde::Deserialize;
use sizes::Sizes;
pub(super) use sizes::WITHOUT_PATH;
use std::path::PathBuf;

/// A scenario.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Client pools.
    pub client: Vec<ClientPool>,
    /// URL pools.
    pub urls: Vec<UrlPool>,
    /// Server pools.
    pub server: Vec<ServerPool>,
    /// Phases of the run; by default all clients run at once.
    #[serde(default, deserialize_with = "values::phases")]
    pub phase: Vec<PlannedPhase>,
    /// Timeouts.
    #[serde(default)]
    pub timeouts: ScenarioTimeouts,
    /// Limit on requests over all clients.
    #[serde(default, deserialize_with = "read::number")]
    pub requests: Option<u64>,
}

/// A pool of identical clients.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientPool {
    /// Name in reports.
    pub name: String,
    /// Name of its URL pool.
    pub urls: String,
    /// Name of its server pool.
    pub server: String,
    /// Number of connections.
    #[serde(deserialize_with = "read::number")]
    pub connections: u64,
    /// Open loop: requests per second of the whole pool.
    #[serde(default, deserialize_with = "read::rate")]
    pub rate: Option<f64>,
    /// Closed loop: think time between a response and the next request.
    #[serde(default, deserialize_with = "read::seconds")]
    pub think: Option<f64>,
    /// Requests per connection before it is closed.
    pub requests_a_connection: Option<u32>,
    /// Bytes per second at which a connection reads a response.
    #[serde(default, deserialize_with = "read::bytes")]
    pub read_rate: Option<u64>,
    /// Bytes per second at which a connection writes a request.
    #[serde(default, deserialize_with = "read::bytes")]
    pub write_rate: Option<u64>,
    /// Share of requests aborted when their response begins.
    #[serde(default, deserialize_with = "read::share")]
    pub abort: Option<f64>,
    /// Delay before the first request of a connection.
    #[serde(default, deserialize_with = "read::seconds")]
    pub first_pause: Option<f64>,
    /// Source addresses: prefixes, ranges, lists.
    pub sources: Option<Pool>,
    /// How sources are aligned with the server's steering.
    #[serde(default)]
    pub align: Align,
    /// In which direction.
    #[serde(default)]
    pub align_by: AlignBy,
    /// Status codes that count as success; 200-399 by default.
    #[serde(default, deserialize_with = "values::statuses")]
    pub status: Option<Vec<StatusRange>>,
    /// How many redirects of a request are followed, on the same server and connection; 0 by default.
    pub follow: Option<u8>,
    /// Whether answers fail that deviate from RFC 9112 in ways that other clients take.
    #[serde(default)]
    pub strict: bool,
    /// TLS: accepts any certificate.
    pub insecure: Option<bool>,
    /// TLS: file of trusted certificates (PEM), instead of the system's.
    pub ca: Option<PathBuf>,
    /// TLS: file of the client's certificate and its chain (PEM), for servers that ask for one.
    pub certificate: Option<PathBuf>,
    /// TLS: file of the certificate's private key (PEM).
    pub key: Option<PathBuf>,
    /// TLS: whether new connections resume earlier sessions; true by default.
    pub resumption: Option<bool>,
}

/// A pool of URLs.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UrlPool {
    /// Its name.
    pub name: String,
    /// Its entries.
    pub entry: Vec<UrlEntry>,
    /// The files that they are from, if they are from files.
    #[serde(skip)]
    pub targets: Option<TargetFiles>,
}

/// The files of the requests of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetFiles {
    /// Of targets and values; `-` for standard input.
    pub files: Vec<PathBuf>,
    /// The order of the requests.
    pub order: Order,
}

/// One request, or several that differ by size.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UrlEntry {
    /// Path and query. `{size}` is replaced by sizes drawn from `sizes`.
    pub path: String,
    /// Weight relative to the other entries; 1 by default.
    pub weight: Option<f64>,
    /// Method; by default `GET`, or `POST` with a body.
    pub method: Option<String>,
    /// Additional header fields.
    #[serde(default, deserialize_with = "values::fields")]
    pub headers: Vec<(String, String)>,
    /// Body: this text.
    pub body: Option<String>,
    /// Body: the content of this file.
    pub body_file: Option<PathBuf>,
    /// Body: this many bytes of the pattern.
    #[serde(default, deserialize_with = "read::bytes")]
    pub body_size: Option<u64>,
    /// Whether the body is sent chunked.
    #[serde(default)]
    pub chunked: bool,
    /// Whether the body waits for 100 Continue.
    #[serde(default)]
    pub expect_continue: bool,
    /// Whether responses are checked against what `serve http` returns for the path.
    #[serde(default)]
    pub check: bool,
    /// Distribution of the values of `{size}`.
    pub sizes: Option<Sizes>,
}

/// A pool of equivalent servers.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerPool {
    /// Its name.
    pub name: String,
    /// Listen addresses; connections are spread evenly. If empty, the host, which must be an address then: names are
    /// resolved by the caller.
    #[serde(default, deserialize_with = "values::addresses")]
    pub addresses: Vec<Remote>,
    /// Value of `Host`, without the zone of an address, and, with TLS, the name that is verified; the first address by default.
    pub host: Option<String>,
    /// Whether the servers use TLS.
    #[serde(default)]
    pub tls: bool,
}

/// Timeouts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioTimeouts {
    /// To open a connection, including the TLS handshake.
    #[serde(default, deserialize_with = "read::seconds")]
    pub connect: Option<f64>,
    /// From the head of a request to sending its body without 100 Continue.
    #[serde(default, deserialize_with = "read::seconds")]
    pub r#continue: Option<f64>,
    /// From a request to the first byte of its response.
    #[serde(default, deserialize_with = "read::seconds")]
    pub first_byte: Option<f64>,
    /// From a request to the end of its response.
    #[serde(default, deserialize_with = "read::seconds")]
    pub request: Option<f64>,
    /// For pending responses at the end of the run.
    #[serde(default, deserialize_with = "read::seconds")]
    pub drain: Option<f64>,
}

impl Scenario {
    /// Parses the text of a scenario file.
    ///
    /// # Errors
    /// If the text is no TOML or does not match the schema (with the line), or the pools are inconsistent.
    pub fn parse(text: &str) -> Result<Self, HttpError> {
        let scenario: Self = toml::from_str(text).map_err(|error| HttpError::Scenario(error.to_string()))?;
        let unsized_path = |entry: &&UrlEntry| entry.sizes.is_none() && entry.path.contains("{size}");
        let mut entries = scenario.urls.iter().flat_map(|urls| &urls.entry);
        match entries.find(unsized_path) {
            Some(entry) => Err(entry.wrong(WITHOUT_PATH)),
            None => Ok(scenario),
        }
    }

    /// The files that its pools name: bodies and certificates.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let entries = self.urls.iter().flat_map(|urls| &urls.entry);
        let clients = self.client.iter();
        let certificates = clients.flat_map(|client| [&client.ca, &client.certificate, &client.key]);
        let bodies = entries.map(|entry| &entry.body_file);
        certificates.chain(bodies).flatten()
    }

    /// One pool of clients that request one URL: `entry`, with the URL's path.
    #[must_use]
    pub fn of_url(url: &Url, client: ClientPool, entry: UrlEntry) -> Self {
        let path = url.target.clone();
        Self {
            urls: vec![UrlPool {
                name: client.urls.clone(),
                entry: vec![UrlEntry { path, ..entry }],
                targets: None,
            }],
            server: vec![ServerPool {
                name: client.server.clone(),
                host: Some(url.zoned_authority()),
                tls: url.scheme == Scheme::Https,
                addresses: Vec::new(),
            }],
            client: vec![client],
            ..Self::default()
        }
    }
}

impl UrlEntry {
    pub(super) fn wrong(&self, reason: &str) -> HttpError {
        HttpError::Scenario(format!("path '{}': {reason}", self.path))
    }
}

#[cfg(test)]
mod tests;
