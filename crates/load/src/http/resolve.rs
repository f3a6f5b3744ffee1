//! Resolves the user's settings into a plan: the source addresses of each worker, and the requests as bytes.

use super::plan::{Http, PlannedBody, PlannedRequest, Promise, StatusRange};
use crate::pool::Pool;
use crate::sources::{Align, WorkerRequest, shares};
use crate::streams::{
    self, Behaviour, Model, PlannedPhase, PlannedPool, PlannedTls, StreamLoadError, StreamPlan, Timeouts,
    TlsSettings, Until, tls,
};
use corelane_host::memory::MemoryPolicy;
use corelane_measure::quantity;
use corelane_proto::http::outgoing::Request;
use corelane_proto::http::request::Framing;
use corelane_proto::http::url::{Scheme, Url};
use corelane_worker::engine::EngineKind;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

/// The user's settings of an HTTP load.
#[derive(Debug, Clone)]
pub struct HttpRequest {
    /// Client pools.
    pub pools: Vec<PoolRequest>,
    /// Phases of the run; if empty, all clients run until stopped.
    pub phases: Vec<PlannedPhase>,
    /// Limit on requests over all pools.
    pub requests: Option<u64>,
    /// How workers are placed.
    pub workers: WorkerRequest,
    /// Timeouts.
    pub timeouts: Timeouts,
    /// The requested engine.
    pub engine: Option<EngineKind>,
    /// NUMA node of each worker's memory.
    pub memory: MemoryPolicy,
    /// Longest time that responses of a closed loop are batched, see [`GATHER`](streams::GATHER).
    pub gather: Duration,
}

/// The user's settings of a pool of identical clients.
#[derive(Debug, Clone)]
pub struct PoolRequest {
    /// Name in reports.
    pub name: String,
    /// Server addresses; if empty, the address of the first URL. Connections are spread over them.
    pub servers: Vec<SocketAddr>,
    /// Requests.
    pub requests: Vec<OneRequest>,
    /// Number of connections.
    pub connections: usize,
    /// When requests are made.
    pub model: Model,
    /// Requests per connection before it is closed.
    pub requests_a_connection: Option<u32>,
    /// How slow or impatient the clients are.
    pub behaviour: Behaviour,
    /// The statuses that count as success.
    pub statuses: Vec<StatusRange>,
    /// Source addresses; `None` leaves the choice to the routing table.
    pub sources: Option<Pool>,
    /// How sources are aligned with the server's steering.
    pub align: Align,
    /// How the certificates of https servers are verified.
    pub tls: TlsSettings,
}

/// The user's settings of one request.
#[derive(Debug, Clone)]
pub struct OneRequest {
    /// Weight relative to the other requests.
    pub weight: f64,
    /// The URL.
    pub url: Url,
    /// Method, such as `GET`.
    pub method: String,
    /// Additional header fields.
    pub fields: Vec<(String, String)>,
    /// The body.
    pub body: PlannedBody,
    /// Whether the body is sent chunked.
    pub chunked: bool,
    /// Whether the body waits for 100 Continue (`Expect: 100-continue`).
    pub expect_continue: bool,
    /// Whether the response body is checked against what `serve http` returns for the target.
    pub check: bool,
}

impl HttpRequest {
    /// Resolves the settings into a plan.
    ///
    /// # Errors
    /// If a request is invalid, a host has no address, or the sources do not suffice; see [`StreamLoadError`].
    pub fn resolve(&self) -> Result<StreamPlan<Http>, StreamLoadError> {
        let mut pools = Vec::new();
        let mut asked = Vec::new();
        for pool in &self.pools {
            for planned in pool.resolve()? {
                pools.push(planned);
                asked.push(pool);
            }
        }
        let sources: Vec<_> = asked.iter().map(|pool| (&pool.sources, pool.align)).collect();
        let workers = streams::lease(&pools, &sources, &self.workers)?;
        let phases = if self.phases.is_empty() {
            vec![PlannedPhase::hold(Until::default())]
        } else {
            self.phases.clone()
        };
        Ok(StreamPlan {
            pools,
            phases,
            requests: self.requests,
            timeouts: self.timeouts,
            engine: self.engine,
            memory: self.memory,
            gather_us: u32::try_from(self.gather.as_micros()).unwrap_or(u32::MAX),
            workers,
        })
    }
}

impl PoolRequest {
    /// The pool, once per server address.
    fn resolve(&self) -> Result<Vec<PlannedPool<Http>>, StreamLoadError> {
        let mut servers = self.servers.clone();
        if servers.is_empty()
            && let Some(first) = self.requests.first()
        {
            servers.push(address_of(&first.url)?);
        }
        let requests: Result<Vec<PlannedRequest>, StreamLoadError> =
            self.requests.iter().map(OneRequest::plan).collect();
        let (requests, count) = (requests?, servers.len());
        let tls = self.tls()?;
        let shares = shares(self.connections, count);
        let planned = servers.into_iter().zip(shares).map(|(target, connections)| {
            let part = connections as f64 / self.connections as f64;
            PlannedPool {
                name: self.name.clone(),
                target,
                tls: tls.clone(),
                model: match self.model {
                    Model::Open { per_second } => Model::Open {
                        per_second: per_second * part,
                    },
                    closed => closed,
                },
                connections,
                requests_a_connection: self.requests_a_connection,
                behaviour: self.behaviour,
                protocol: Http {
                    requests: requests.clone(),
                    statuses: self.statuses.clone(),
                },
            }
        });
        Ok(planned.filter(|pool| pool.connections > 0).collect())
    }

    /// TLS settings of an https pool; the name to verify comes from its first request.
    fn tls(&self) -> Result<Option<PlannedTls>, StreamLoadError> {
        let first = self.requests.first();
        let Some(first) = first.filter(|first| first.url.scheme == Scheme::Https) else {
            return Ok(None);
        };
        let server_name = first.host_name();
        tls::server_name(&server_name)?;
        Ok(Some(PlannedTls {
            server_name,
            settings: self.tls.clone(),
        }))
    }
}

impl OneRequest {
    /// The requested host: the `Host` field without its port, or the host of the URL.
    fn host_name(&self) -> String {
        let field = self
            .fields
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case("host"));
        let given = field.and_then(|(_, host)| format!("https://{}/", host.trim()).parse::<Url>().ok());
        given.map_or_else(|| self.url.host.clone(), |url| url.host)
    }

    fn plan(&self) -> Result<PlannedRequest, StreamLoadError> {
        let host = self.url.authority();
        let mut fields = self.fields.clone();
        if self.expect_continue {
            fields.push(("Expect".to_owned(), "100-continue".to_owned()));
        }
        let head = |keep_alive| -> Result<String, StreamLoadError> {
            let request = Request {
                method: &self.method,
                target: &self.url.target,
                host: &host,
                fields: &fields,
                body: match self.body.bytes() {
                    None => Framing::None,
                    Some(_) if self.chunked => Framing::Chunked,
                    Some(bytes) => Framing::Length(bytes),
                },
                keep_alive,
            };
            Ok(String::from_utf8_lossy(&request.head()?).into_owned())
        };
        Ok(PlannedRequest {
            weight: self.weight,
            method: self.method.clone(),
            target: self.url.target.clone(),
            head: head(true)?,
            last_head: head(false)?,
            body: self.body.clone(),
            chunked: self.chunked,
            expect_continue: self.expect_continue,
            promise: if self.check {
                Promise::of(&self.url.target)
            } else {
                Promise::Anything
            },
        })
    }
}

impl Promise {
    /// The body that `serve http` returns for a target: `/size/64KiB`, `/chunks/10/1KiB`, `/echo`. With query settings,
    /// which may change it, any body.
    #[must_use]
    pub fn of(target: &str) -> Self {
        let Some((_, path)) = target.split_once('/').filter(|_| !target.contains('?')) else {
            return Self::Anything;
        };
        let pattern = |bytes: Option<u64>| bytes.map_or(Self::Anything, |bytes| Self::Pattern { bytes });
        match path.split('/').collect::<Vec<_>>()[..] {
            ["size", size] => pattern(quantity::parse_size(size).ok()),
            ["chunks", count, size] => pattern(
                quantity::parse_size(size)
                    .ok()
                    .zip(count.parse::<u64>().ok())
                    .and_then(|(size, count)| size.checked_mul(count)),
            ),
            ["echo"] => Self::Echo,
            _ => Self::Anything,
        }
    }
}

/// The first address of a URL's host.
fn address_of(url: &Url) -> Result<SocketAddr, StreamLoadError> {
    let host = url.host.clone();
    if let Some(address) = url.address() {
        return Ok(SocketAddr::new(address, url.port));
    }
    let none = || io::Error::other("the name has no address");
    let found = (host.as_str(), url.port).to_socket_addrs();
    let first = found.and_then(|mut found| found.next().ok_or_else(none));
    first.map_err(|error| StreamLoadError::Host { host, error })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::OTHER_DESCRIPTORS;

    fn request(url: &str, connections: usize) -> HttpRequest {
        HttpRequest {
            pools: vec![PoolRequest {
                name: "main".to_owned(),
                servers: Vec::new(),
                requests: vec![OneRequest {
                    weight: 1.0,
                    url: url.parse().unwrap(),
                    method: "GET".to_owned(),
                    fields: Vec::new(),
                    body: PlannedBody::Nothing,
                    chunked: false,
                    expect_continue: false,
                    check: true,
                }],
                connections,
                model: Model::Closed { think_s: 0.0 },
                requests_a_connection: None,
                behaviour: Behaviour::default(),
                statuses: vec![StatusRange {
                    first: 200,
                    last: 399,
                }],
                sources: None,
                align: Align::Kernel,
                tls: TlsSettings::default(),
            }],
            phases: Vec::new(),
            requests: None,
            workers: WorkerRequest {
                steering: None,
                buckets: None,
                cpus: vec![0, 1],
                descriptor_limit: 20_000,
            },
            timeouts: Timeouts {
                connect_s: 1.0,
                continue_s: 1.0,
                first_byte_s: 1.0,
                request_s: 1.0,
                drain_s: 1.0,
            },
            engine: None,
            memory: MemoryPolicy::FirstTouch,
            gather: Duration::ZERO,
        }
    }

    #[test]
    fn a_million_connections_take_as_many_descriptor_tables_as_they_need() {
        let plan = request("http://127.0.0.1:8080/", 1_000_000).resolve().unwrap();
        assert_eq!((plan.workers.len(), plan.connections()), (52, 1_000_000));
        for worker in &plan.workers {
            assert!(worker.own_descriptors && worker.connections() <= 20_000 - OTHER_DESCRIPTORS);
        }
        let few = request("http://127.0.0.1:8080/", 1).resolve().unwrap();
        assert_eq!((few.workers.len(), few.workers[0].own_descriptors), (1, false));
    }

    #[test]
    fn a_plan_reads_back_as_it_was_written() {
        let plan = request("http://[::1]:8080/size/1KiB", 100).resolve().unwrap();
        let text = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<StreamPlan<Http>>(&text).unwrap(), plan);
        let planned = &plan.pools[0].protocol.requests[0];
        assert!(
            planned
                .head
                .starts_with("GET /size/1KiB HTTP/1.1\r\nHost: [::1]:8080\r\n")
        );
        assert!(planned.last_head.contains("Connection: close"));
        assert_eq!(planned.promise, Promise::Pattern { bytes: 1_024 });
    }

    #[test]
    fn several_servers_share_connections_and_rate() {
        let mut request = request("http://example.org/", 9);
        request.pools[0].servers = vec!["127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap()];
        request.pools[0].model = Model::Open { per_second: 90.0 };
        let plan = request.resolve().unwrap();
        let parts: Vec<(usize, Model)> = plan
            .pools
            .iter()
            .map(|pool| (pool.connections, pool.model))
            .collect();
        assert_eq!(
            parts,
            [
                (5, Model::Open { per_second: 50.0 }),
                (4, Model::Open { per_second: 40.0 })
            ]
        );
        assert!(
            plan.pools[1].protocol.requests[0]
                .head
                .contains("Host: example.org\r\n")
        );
    }

    #[test]
    fn the_name_that_is_verified_is_the_hosts_wherever_it_listens() {
        for (url, field, name) in [
            ("https://example.org/", None, "example.org"),
            ("https://127.0.0.1:8443/", None, "127.0.0.1"),
            ("https://127.0.0.1/", Some("example.org:8443"), "example.org"),
            ("https://[::1]:8443/", Some("[2001:db8::1]:443"), "2001:db8::1"),
        ] {
            let mut request = request(url, 1);
            request.pools[0].servers = vec!["127.0.0.1:1".parse().unwrap()];
            let field = field.map(|host| ("host".to_owned(), host.to_owned()));
            request.pools[0].requests[0].fields.extend(field);
            let planned = request.resolve().unwrap().pools[0].tls.clone().unwrap();
            assert_eq!(planned.server_name, name, "{url}");
            assert!(planned.settings.resumption && !planned.settings.insecure);
        }
        assert_eq!(
            request("http://127.0.0.1/", 1).resolve().unwrap().pools[0].tls,
            None
        );
    }

    #[test]
    fn only_what_is_known_to_be_promised_is_checked() {
        let pattern = |bytes| Promise::Pattern { bytes };
        for (target, promise) in [
            ("/size/100", pattern(100)),
            ("/chunks/4/1KiB", pattern(4_096)),
            ("/echo", Promise::Echo),
            ("/size/100?status=404", Promise::Anything),
            ("/size/many", Promise::Anything),
            ("/chunks/9999999999/9999999999GB", Promise::Anything),
            ("/index.html", Promise::Anything),
        ] {
            assert_eq!(Promise::of(target), promise, "{target}");
        }
    }
}
