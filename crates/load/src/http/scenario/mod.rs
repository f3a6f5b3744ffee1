//! Scenarios: pools of clients, servers and URLs, and the phases of a run, in one TOML file.
//!
//! In: the text of the file. Out: an [`HttpRequest`](super::HttpRequest), or an error with the line. The JSON Schema of
//! the file is `docs/load-http.schema.json`.
//!
//! The pools follow Web Polygraph: client pools define the clients, URL pools the requests, server pools the servers.

mod sizes;
mod values;

use super::plan::{PlannedBody, StatusRange};
use super::resolve::{OneRequest, PoolRequest};
use crate::pool::Pool;
use crate::sources::Align;
use crate::streams::{Behaviour, Model, PlannedPhase, Timeouts, TlsSettings, Until};
use corelane_proto::http::url::{Scheme, Url, UrlError};
use serde::Deserialize;
use sizes::Sizes;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use thiserror::Error;

/// A scenario file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Client pools.
    pub client: Vec<ClientPool>,
    /// URL pools.
    pub urls: Vec<UrlPool>,
    /// Server pools.
    pub server: Vec<ServerPool>,
    /// Phases of the run; by default all clients run at once.
    #[serde(default)]
    pub phase: Vec<ScenarioPhase>,
    /// Timeouts.
    #[serde(default)]
    pub timeouts: ScenarioTimeouts,
    /// Limit on requests over all clients.
    #[serde(default, deserialize_with = "values::number")]
    pub requests: Option<u64>,
}

/// A pool of identical clients.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientPool {
    /// Name in reports.
    pub name: String,
    /// Name of its URL pool.
    pub urls: String,
    /// Name of its server pool.
    pub server: String,
    /// Number of connections.
    #[serde(deserialize_with = "values::number")]
    pub connections: u64,
    /// Open loop: requests per second of the whole pool.
    #[serde(default, deserialize_with = "values::rate")]
    pub rate: Option<f64>,
    /// Closed loop: think time between a response and the next request.
    #[serde(default, deserialize_with = "values::seconds")]
    pub think: Option<f64>,
    /// Requests per connection before it is closed.
    pub requests_a_connection: Option<u32>,
    /// Bytes per second at which a connection reads a response.
    #[serde(default, deserialize_with = "values::bytes")]
    pub read_rate: Option<u64>,
    /// Bytes per second at which a connection writes a request.
    #[serde(default, deserialize_with = "values::bytes")]
    pub write_rate: Option<u64>,
    /// Share of requests aborted when their response begins.
    #[serde(default, deserialize_with = "values::share")]
    pub abort: Option<f64>,
    /// Delay before the first request of a connection.
    #[serde(default, deserialize_with = "values::seconds")]
    pub first_pause: Option<f64>,
    /// Source addresses: prefixes, ranges, lists.
    pub sources: Option<Pool>,
    /// How sources are aligned with the server's steering.
    #[serde(default)]
    pub align: Align,
    /// Status codes that count as success; 200-399 by default.
    #[serde(default = "successes", deserialize_with = "values::statuses")]
    pub status: Vec<StatusRange>,
    /// TLS: accepts any certificate.
    pub insecure: Option<bool>,
    /// TLS: file of trusted certificates (PEM), instead of the system's.
    pub ca: Option<PathBuf>,
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
}

/// One request, or several that differ by size.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UrlEntry {
    /// Path and query. `{size}` is replaced by sizes drawn from `sizes`.
    pub path: String,
    /// Weight relative to the other entries; 1 by default.
    #[serde(default = "one")]
    pub weight: f64,
    /// Method; by default `GET`, or `POST` with a body.
    pub method: Option<String>,
    /// Additional header fields.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Body: this text.
    pub body: Option<String>,
    /// Body: the content of this file.
    pub body_file: Option<PathBuf>,
    /// Body: this many bytes of the pattern.
    #[serde(default, deserialize_with = "values::bytes")]
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
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerPool {
    /// Its name.
    pub name: String,
    /// Listen addresses; connections are spread evenly.
    pub addresses: Vec<SocketAddr>,
    /// Value of `Host` and, with TLS, the name that is verified; the first address by default.
    pub host: Option<String>,
    /// Whether the servers use TLS.
    #[serde(default)]
    pub tls: bool,
}

/// A phase of the run.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioPhase {
    /// Name in reports.
    pub name: String,
    /// Share of clients or of their rate at its beginning; all by default.
    #[serde(default, deserialize_with = "values::share")]
    pub from: Option<f64>,
    /// Share at its end; by default the share at its beginning.
    #[serde(default, deserialize_with = "values::share")]
    pub to: Option<f64>,
    /// Ends after this time.
    #[serde(default, deserialize_with = "values::seconds")]
    pub duration: Option<f64>,
    /// Ends after this many successful requests.
    #[serde(default, deserialize_with = "values::number")]
    pub requests: Option<u64>,
    /// Ends after this many failed requests.
    #[serde(default, deserialize_with = "values::number")]
    pub failures: Option<u64>,
}

/// Timeouts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioTimeouts {
    /// To open a connection, including the TLS handshake.
    #[serde(default, deserialize_with = "values::seconds")]
    pub connect: Option<f64>,
    /// From the head of a request to sending its body without 100 Continue.
    #[serde(default, deserialize_with = "values::seconds")]
    pub r#continue: Option<f64>,
    /// From a request to the first byte of its response.
    #[serde(default, deserialize_with = "values::seconds")]
    pub first_byte: Option<f64>,
    /// From a request to the end of its response.
    #[serde(default, deserialize_with = "values::seconds")]
    pub request: Option<f64>,
    /// For pending responses at the end of the run.
    #[serde(default, deserialize_with = "values::seconds")]
    pub drain: Option<f64>,
}

/// Why a scenario is invalid.
#[derive(Debug, Error)]
pub enum ScenarioError {
    /// Invalid TOML or schema; the message shows the line.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// Invalid or inconsistent pools, paths or phases; the message names them.
    #[error("{0}")]
    Wrong(String),
}

impl Scenario {
    /// Parses the text of a scenario file.
    ///
    /// # Errors
    /// If the scenario is invalid, see [`ScenarioError`].
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        Ok(toml::from_str(text)?)
    }

    /// Client pools as settings of the generator.
    ///
    /// # Errors
    /// If pools are inconsistent, see [`ScenarioError`].
    pub fn pools(&self) -> Result<Vec<PoolRequest>, ScenarioError> {
        self.client.iter().map(|client| self.pool(client)).collect()
    }

    /// Phases as settings of the generator.
    ///
    /// # Errors
    /// If a phase other than the last has no end.
    pub fn phases(&self) -> Result<Vec<PlannedPhase>, ScenarioError> {
        for phase in self.phase.iter().rev().skip(1) {
            if phase.duration.is_none() && phase.requests.is_none() && phase.failures.is_none() {
                let ends = "only the last phase may have no end: set duration, requests or failures";
                return Err(ScenarioError::Wrong(format!("phase '{}': {ends}", phase.name)));
            }
        }
        Ok(self.phase.iter().map(ScenarioPhase::plan).collect())
    }

    /// The timeouts of the file; defaults for the others.
    #[must_use]
    pub fn timeouts(&self, others: Timeouts) -> Timeouts {
        let own = &self.timeouts;
        Timeouts {
            connect_s: own.connect.unwrap_or(others.connect_s),
            continue_s: own.r#continue.unwrap_or(others.continue_s),
            first_byte_s: own.first_byte.unwrap_or(others.first_byte_s),
            request_s: own.request.unwrap_or(others.request_s),
            drain_s: own.drain.unwrap_or(others.drain_s),
        }
    }

    fn pool(&self, client: &ClientPool) -> Result<PoolRequest, ScenarioError> {
        let wrong = |reason: String| ScenarioError::Wrong(format!("client pool '{}'{reason}", client.name));
        let unknown = |kind, name| wrong(format!(" names the {kind} pool '{name}', which there is not"));
        let server = self.server.iter().find(|server| server.name == client.server);
        let server = server.ok_or_else(|| unknown("server", &client.server))?;
        let urls = self.urls.iter().find(|urls| urls.name == client.urls);
        let urls = urls.ok_or_else(|| unknown("urls", &client.urls))?;
        let host = server.host()?;
        let mut requests = Vec::new();
        for entry in &urls.entry {
            if entry.chunked && client.write_rate.is_some() {
                let both = "chunked and write_rate exclude each other";
                return Err(wrong(format!(", path '{}': {both}", entry.path)));
            }
            requests.extend(entry.requests(&host)?);
        }
        if requests.is_empty() {
            return Err(ScenarioError::Wrong(format!(
                "URL pool '{}': it has no entry",
                urls.name
            )));
        }
        let own = |reason: String| wrong(format!(": {reason}"));
        Ok(PoolRequest {
            name: client.name.clone(),
            servers: server.addresses.clone(),
            requests,
            connections: client.connections as usize,
            model: client.model().map_err(own)?,
            requests_a_connection: client.requests_a_connection,
            behaviour: Behaviour {
                read_bytes_per_second: client.read_rate,
                write_bytes_per_second: client.write_rate,
                abort_share: client.abort.unwrap_or(0.0),
                first_pause_s: client.first_pause.unwrap_or(0.0),
            },
            statuses: client.status.clone(),
            sources: client.sources.clone(),
            align: client.align,
            tls: client.tls(server).map_err(own)?,
        })
    }
}

impl ServerPool {
    /// Scheme, host and port of its URLs.
    fn host(&self) -> Result<Url, ScenarioError> {
        let wrong = |reason: &str| ScenarioError::Wrong(format!("server pool '{}': {reason}", self.name));
        let first = self.addresses.first().ok_or_else(|| wrong("it has no address"))?;
        let scheme = if self.tls { "https" } else { "http" };
        match &self.host {
            Some(host) => format!("{scheme}://{host}/")
                .parse()
                .map_err(|error: UrlError| wrong(&error.to_string())),
            None => Ok(Url {
                scheme: if self.tls { Scheme::Https } else { Scheme::Http },
                host: first.ip().to_string(),
                port: first.port(),
                target: "/".to_owned(),
            }),
        }
    }
}

impl ClientPool {
    fn tls(&self, server: &ServerPool) -> Result<TlsSettings, String> {
        let given = self.insecure.is_some() || self.ca.is_some() || self.resumption.is_some();
        if given && !server.tls {
            let name = &server.name;
            return Err(format!(
                "insecure, ca and resumption need tls = true of server pool '{name}'"
            ));
        }
        let insecure = self.insecure.unwrap_or(false);
        if insecure && self.ca.is_some() {
            return Err("insecure and ca exclude each other".to_owned());
        }
        Ok(TlsSettings {
            insecure,
            ca: self.ca.clone(),
            resumption: self.resumption.unwrap_or(true),
        })
    }

    fn model(&self) -> Result<Model, String> {
        match (self.rate, self.think) {
            (Some(_), Some(_)) => {
                Err("rate (open loop) and think (closed loop) exclude each other".to_owned())
            }
            (Some(per_second), None) => Ok(Model::Open { per_second }),
            (None, think) => Ok(Model::Closed {
                think_s: think.unwrap_or(0.0),
            }),
        }
    }
}

impl UrlEntry {
    /// The requests of an entry: one, or one per size class.
    fn requests(&self, host: &Url) -> Result<Vec<OneRequest>, ScenarioError> {
        let body = self.planned_body()?;
        let usual = if body == PlannedBody::Nothing {
            "GET"
        } else {
            "POST"
        };
        let request = |path: &str, weight: f64| {
            let url: Url = format!("http://h{}{path}", if path.starts_with('/') { "" } else { "/" })
                .parse()
                .map_err(|error: UrlError| self.wrong(&error.to_string()))?;
            Ok(OneRequest {
                weight,
                url: Url {
                    target: url.target,
                    ..host.clone()
                },
                method: self.method.clone().unwrap_or_else(|| usual.to_owned()),
                fields: self.headers.clone().into_iter().collect(),
                body: body.clone(),
                chunked: self.chunked,
                expect_continue: self.expect_continue,
                check: self.check,
            })
        };
        if self.expect_continue && body == PlannedBody::Nothing {
            return Err(self.wrong("expect_continue needs a body"));
        }
        if self.weight <= 0.0 || !self.weight.is_finite() {
            return Err(self.wrong("a weight must be more than 0"));
        }
        match (&self.sizes, self.path.contains("{size}")) {
            (None, false) => Ok(vec![request(&self.path, self.weight)?]),
            (Some(sizes), true) => {
                let classes = sizes.classes().map_err(|reason| self.wrong(&reason))?;
                let weight = self.weight / classes.len() as f64;
                let path = |size: &u64| self.path.replace("{size}", &size.to_string());
                classes.iter().map(|size| request(&path(size), weight)).collect()
            }
            _ => Err(self.wrong("sizes and {size} in the path go together")),
        }
    }

    fn planned_body(&self) -> Result<PlannedBody, ScenarioError> {
        match (&self.body, &self.body_file, self.body_size) {
            (None, None, None) => Ok(PlannedBody::Nothing),
            (Some(text), None, None) => Ok(PlannedBody::Text(text.clone())),
            (None, Some(path), None) => {
                let found = std::fs::metadata(path);
                let wrong = |error| ScenarioError::Wrong(format!("{}: {error}", path.display()));
                Ok(PlannedBody::File {
                    path: path.clone(),
                    bytes: found.map_err(wrong)?.len(),
                })
            }
            (None, None, Some(bytes)) => Ok(PlannedBody::Generated { bytes }),
            _ => Err(self.wrong("body, body_file and body_size exclude each other")),
        }
    }

    fn wrong(&self, reason: &str) -> ScenarioError {
        ScenarioError::Wrong(format!("path '{}': {reason}", self.path))
    }
}

impl ScenarioPhase {
    fn plan(&self) -> PlannedPhase {
        let from = self.from.unwrap_or(1.0);
        PlannedPhase {
            name: self.name.clone(),
            from,
            to: self.to.unwrap_or(from),
            until: Until {
                duration_s: self.duration,
                requests: self.requests,
                failures: self.failures,
            },
        }
    }
}

fn successes() -> Vec<StatusRange> {
    vec![StatusRange {
        first: 200,
        last: 399,
    }]
}

const fn one() -> f64 {
    1.0
}

#[cfg(test)]
mod tests;
