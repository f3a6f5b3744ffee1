//! Scenarios: pools of clients, servers and URLs, and the phases of a run, in one TOML file.
//!
//! In: the text of the file. Out: what it asks for, as an [`HttpRequest`](super::HttpRequest) takes it; or the line that is
//! wrong. The file's JSON Schema is `docs/load-http.schema.json`.
//!
//! The pools are those of Web Polygraph: client pools say who asks and how, URL pools what for, server pools whom.

mod sizes;
mod values;

pub use sizes::{Distribution, Sizes};
pub use values::{Bytes, Number, Period, Rate, Share, Statuses};

use super::plan::{PlannedBody, StatusRange};
use super::resolve::{OneRequest, PoolRequest};
use crate::pool::Pool;
use crate::sources::Align;
use crate::streams::{Behaviour, Model, PlannedPhase, Timeouts, TlsSettings, Until};
use corelane_proto::http::url::{Scheme, Url};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use thiserror::Error;

/// A whole file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Who asks.
    pub client: Vec<ClientPool>,
    /// What for.
    pub urls: Vec<UrlPool>,
    /// Whom.
    pub server: Vec<ServerPool>,
    /// What the clients do when; all of them at once by default.
    #[serde(default)]
    pub phase: Vec<ScenarioPhase>,
    /// How long anything may take.
    #[serde(default)]
    pub timeouts: ScenarioTimeouts,
    /// Requests over all clients.
    pub requests: Option<Number>,
}

/// Clients that behave alike.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientPool {
    /// Its name in reports.
    pub name: String,
    /// The URL pool that it asks for.
    pub urls: String,
    /// The server pool that it asks.
    pub server: String,
    /// Its connections.
    pub connections: Number,
    /// Open loop: requests a second of the whole pool.
    pub rate: Option<Rate>,
    /// Closed loop: from an answer to the next request.
    pub think: Option<Period>,
    /// Requests a connection serves before it is closed.
    pub requests_a_connection: Option<u32>,
    /// Bytes a second that a connection takes of an answer.
    pub read_rate: Option<Bytes>,
    /// Bytes a second that a connection gives of a request.
    pub write_rate: Option<Bytes>,
    /// The share of requests given up as their answer begins.
    pub abort: Option<Share>,
    /// Before the first request of a connection.
    pub first_pause: Option<Period>,
    /// Source addresses: prefixes, ranges, lists.
    pub sources: Option<Pool>,
    /// How sources are chosen, with the server's steering in mind.
    #[serde(default)]
    pub align: Align,
    /// The statuses that count as success; 200-399 by default.
    #[serde(default)]
    pub status: Statuses,
    /// Over TLS: takes any certificate.
    pub insecure: Option<bool>,
    /// Over TLS: the certificates that are trusted instead of the system's, PEM.
    pub ca: Option<PathBuf>,
    /// Over TLS: whether new connections resume the sessions of earlier ones; they do by default.
    pub resumption: Option<bool>,
}

/// Things to ask for.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UrlPool {
    /// Its name.
    pub name: String,
    /// What is in it.
    pub entry: Vec<UrlEntry>,
}

/// One thing to ask for, or many that differ by size.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UrlEntry {
    /// Path and query. `{size}` in it stands for sizes that are drawn.
    pub path: String,
    /// How often, beside the others; 1 by default.
    #[serde(default = "one")]
    pub weight: f64,
    /// `GET`, or `POST` where there is a body, by default.
    pub method: Option<String>,
    /// Further headers.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// A body of this text.
    pub body: Option<String>,
    /// A body of what this file holds.
    pub body_file: Option<PathBuf>,
    /// A body of so many bytes of a pattern.
    pub body_size: Option<Bytes>,
    /// Whether the body goes in chunks.
    #[serde(default)]
    pub chunked: bool,
    /// Whether the body waits until the server has asked for it.
    #[serde(default)]
    pub expect_continue: bool,
    /// Whether answers are checked against what `serve http` promises of the path.
    #[serde(default)]
    pub check: bool,
    /// What `{size}` stands for.
    pub sizes: Option<Sizes>,
}

/// Servers that serve the same.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerPool {
    /// Its name.
    pub name: String,
    /// Where they listen; connections are shared evenly.
    pub addresses: Vec<SocketAddr>,
    /// The value of `Host`, and with TLS the name that is verified; the first address by default.
    pub host: Option<String>,
    /// Whether they are spoken to over TLS.
    #[serde(default)]
    pub tls: bool,
}

/// A part of the run.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioPhase {
    /// Its name in reports.
    pub name: String,
    /// The share of clients, or of their rate, at its beginning; all by default.
    pub from: Option<Share>,
    /// The same at its end; as at its beginning by default.
    pub to: Option<Share>,
    /// It ends after so long.
    pub duration: Option<Period>,
    /// It ends after so many successful requests.
    pub requests: Option<Number>,
    /// It ends after so many failed ones.
    pub failures: Option<Number>,
}

/// How long anything may take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioTimeouts {
    /// For opening a connection, its TLS handshake included.
    pub connect: Option<Period>,
    /// From the head of a request to sending its body though the server has not asked for it.
    pub r#continue: Option<Period>,
    /// From a request to the first byte of its answer.
    pub first_byte: Option<Period>,
    /// From a request to the end of its answer.
    pub request: Option<Period>,
    /// At the end, for answers under way.
    pub drain: Option<Period>,
}

/// Why text is no scenario.
#[derive(Debug, Error)]
pub enum ScenarioError {
    /// Not the TOML that is expected; the message shows the line.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// A name that no pool has.
    #[error("client pool '{client}' names the {kind} pool '{name}', which there is not")]
    Unknown {
        /// Who names it.
        client: String,
        /// `server` or `urls`.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// Two answers to one question.
    #[error("{of}: {what} exclude each other")]
    Both {
        /// Which pool or path.
        of: String,
        /// The fields.
        what: &'static str,
    },
    /// A value that cannot be.
    #[error("{of}: {reason}")]
    Value {
        /// Which pool, path or phase.
        of: String,
        /// What would be one.
        reason: String,
    },
    /// A file whose length is not known.
    #[error("{}: {error}", .path.display())]
    Body {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
}

impl Scenario {
    /// Reads a file's text.
    ///
    /// # Errors
    /// When it is no scenario, see [`ScenarioError`].
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        Ok(toml::from_str(text)?)
    }

    /// The clients as the generator takes them.
    ///
    /// # Errors
    /// When pools do not fit together, see [`ScenarioError`].
    pub fn pools(&self) -> Result<Vec<PoolRequest>, ScenarioError> {
        self.client.iter().map(|client| self.pool(client)).collect()
    }

    /// The phases as the generator takes them.
    ///
    /// # Errors
    /// When one but the last has no end.
    pub fn phases(&self) -> Result<Vec<PlannedPhase>, ScenarioError> {
        for phase in self.phase.iter().rev().skip(1) {
            if phase.duration.is_none() && phase.requests.is_none() && phase.failures.is_none() {
                return Err(ScenarioError::Value {
                    of: format!("phase '{}'", phase.name),
                    reason: "only the last phase may have no end: give duration, requests or failures"
                        .to_owned(),
                });
            }
        }
        Ok(self.phase.iter().map(ScenarioPhase::plan).collect())
    }

    /// The timeouts, where the file gives them; the others as they are.
    #[must_use]
    pub fn timeouts(&self, others: Timeouts) -> Timeouts {
        let own = &self.timeouts;
        let or = |own: Option<Period>, other| own.map_or(other, Period::seconds);
        Timeouts {
            connect_s: or(own.connect, others.connect_s),
            continue_s: or(own.r#continue, others.continue_s),
            first_byte_s: or(own.first_byte, others.first_byte_s),
            request_s: or(own.request, others.request_s),
            drain_s: or(own.drain, others.drain_s),
        }
    }

    fn pool(&self, client: &ClientPool) -> Result<PoolRequest, ScenarioError> {
        let unknown = |kind, name: &str| ScenarioError::Unknown {
            client: client.name.clone(),
            kind,
            name: name.to_owned(),
        };
        let server = self.server.iter().find(|server| server.name == client.server);
        let server = server.ok_or_else(|| unknown("server", &client.server))?;
        let urls = self.urls.iter().find(|urls| urls.name == client.urls);
        let urls = urls.ok_or_else(|| unknown("urls", &client.urls))?;
        let host = server.host()?;
        let mut requests = Vec::new();
        for entry in &urls.entry {
            if entry.chunked && client.write_rate.is_some() {
                return Err(ScenarioError::Both {
                    of: format!("client pool '{}', path '{}'", client.name, entry.path),
                    what: "chunked and write_rate",
                });
            }
            requests.extend(entry.requests(&host)?);
        }
        if requests.is_empty() {
            return Err(ScenarioError::Value {
                of: format!("URL pool '{}'", urls.name),
                reason: "it has no entry".to_owned(),
            });
        }
        Ok(PoolRequest {
            name: client.name.clone(),
            servers: server.addresses.clone(),
            requests,
            connections: client.connections.get() as usize,
            model: client.model()?,
            requests_a_connection: client.requests_a_connection,
            behaviour: Behaviour {
                read_bytes_per_second: client.read_rate.map(Bytes::get),
                write_bytes_per_second: client.write_rate.map(Bytes::get),
                abort_share: client.abort.map_or(0.0, Share::get),
                first_pause_s: client.first_pause.map_or(0.0, Period::seconds),
            },
            statuses: client.status.ranges(),
            sources: client.sources.clone(),
            align: client.align,
            tls: client.tls(server)?,
        })
    }
}

impl ServerPool {
    /// Scheme, host and port of its URLs.
    fn host(&self) -> Result<Url, ScenarioError> {
        let wrong = |reason: String| ScenarioError::Value {
            of: format!("server pool '{}'", self.name),
            reason,
        };
        let first = self
            .addresses
            .first()
            .ok_or_else(|| wrong("it has no address".to_owned()))?;
        let scheme = if self.tls { "https" } else { "http" };
        match &self.host {
            Some(host) => format!("{scheme}://{host}/")
                .parse()
                .map_err(|error| wrong(format!("{error}"))),
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
    fn tls(&self, server: &ServerPool) -> Result<TlsSettings, ScenarioError> {
        let of = || format!("client pool '{}'", self.name);
        let given = self.insecure.is_some() || self.ca.is_some() || self.resumption.is_some();
        if given && !server.tls {
            return Err(ScenarioError::Value {
                of: of(),
                reason: format!(
                    "insecure, ca and resumption need tls = true of server pool '{}'",
                    server.name
                ),
            });
        }
        let insecure = self.insecure.unwrap_or(false);
        if insecure && self.ca.is_some() {
            return Err(ScenarioError::Both {
                of: of(),
                what: "insecure and ca",
            });
        }
        Ok(TlsSettings {
            insecure,
            ca: self.ca.clone(),
            resumption: self.resumption.unwrap_or(true),
        })
    }

    fn model(&self) -> Result<Model, ScenarioError> {
        match (self.rate, self.think) {
            (Some(_), Some(_)) => Err(ScenarioError::Both {
                of: format!("client pool '{}'", self.name),
                what: "rate (open loop) and think (closed loop)",
            }),
            (Some(rate), None) => Ok(Model::Open {
                per_second: rate.per_second(),
            }),
            (None, think) => Ok(Model::Closed {
                think_s: think.map_or(0.0, Period::seconds),
            }),
        }
    }
}

impl UrlEntry {
    /// The requests that this stands for: one, or one a class of sizes.
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
                .map_err(|error| self.wrong(format!("{error}")))?;
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
            return Err(self.wrong("expect_continue needs a body".to_owned()));
        }
        if self.weight <= 0.0 || !self.weight.is_finite() {
            return Err(self.wrong("a weight is more than 0".to_owned()));
        }
        match (&self.sizes, self.path.contains("{size}")) {
            (None, false) => Ok(vec![request(&self.path, self.weight)?]),
            (Some(sizes), true) => {
                let classes = sizes.classes().map_err(|reason| self.wrong(reason))?;
                let weight = self.weight / classes.len() as f64;
                let path = |size: &u64| self.path.replace("{size}", &size.to_string());
                classes.iter().map(|size| request(&path(size), weight)).collect()
            }
            _ => Err(self.wrong("sizes and {size} in the path go together".to_owned())),
        }
    }

    fn planned_body(&self) -> Result<PlannedBody, ScenarioError> {
        match (&self.body, &self.body_file, self.body_size) {
            (None, None, None) => Ok(PlannedBody::Nothing),
            (Some(text), None, None) => Ok(PlannedBody::Text(text.clone())),
            (None, Some(path), None) => {
                let found = std::fs::metadata(path).map_err(|error| ScenarioError::Body {
                    path: path.clone(),
                    error,
                })?;
                Ok(PlannedBody::File {
                    path: path.clone(),
                    bytes: found.len(),
                })
            }
            (None, None, Some(bytes)) => Ok(PlannedBody::Generated { bytes: bytes.get() }),
            _ => Err(ScenarioError::Both {
                of: format!("path '{}'", self.path),
                what: "body, body_file and body_size",
            }),
        }
    }

    fn wrong(&self, reason: String) -> ScenarioError {
        ScenarioError::Value {
            of: format!("path '{}'", self.path),
            reason,
        }
    }
}

impl ScenarioPhase {
    fn plan(&self) -> PlannedPhase {
        let from = self.from.map_or(1.0, Share::get);
        PlannedPhase {
            name: self.name.clone(),
            from,
            to: self.to.map_or(from, Share::get),
            until: Until {
                duration_s: self.duration.map(Period::seconds),
                requests: self.requests.map(Number::get),
                failures: self.failures.map(Number::get),
            },
        }
    }
}

impl Statuses {
    /// As the plan has them.
    #[must_use]
    pub fn ranges(&self) -> Vec<StatusRange> {
        let range = |(first, last): &(u16, u16)| StatusRange {
            first: *first,
            last: *last,
        };
        self.0.iter().map(range).collect()
    }
}

const fn one() -> f64 {
    1.0
}

#[cfg(test)]
mod tests;
