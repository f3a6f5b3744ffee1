//! Resolves a scenario into a plan: the source addresses of each worker, and the requests as bytes.

use super::error::{HttpError, HttpLoadError};
use super::plan::{Http, PlannedBody, PlannedRequest, PlannedTargets, Promise, StatusRange, Turns};
use super::scenario::{ClientPool, Scenario, ServerPool, UrlEntry, UrlPool, WITHOUT_PATH};
use crate::sources::{Align, WorkerRequest, shares};
use crate::streams::{self, Behaviour, Model, PlannedPhase, PlannedPool, StreamPlan, Timeouts, Until};
use corelane_host::memory::MemoryPolicy;
use corelane_host::zones;
use corelane_measure::quantity;
use corelane_proto::http::outgoing::Request;
use corelane_proto::http::request::Framing;
use corelane_proto::http::url::{Scheme, Url, UrlError};
use corelane_worker::engine::Remote;
use corelane_worker::tls::{self, CertificateFiles, Trust};
use std::fmt::Display;
use std::net::SocketAddr;

impl Scenario {
    /// Resolves the scenario into a plan for these workers, with these timeouts where the scenario sets none; engine, memory
    /// and batching are those of [`StreamPlan::new`], which batches nothing: see [`StreamPlan::gathering`].
    ///
    /// # Errors
    /// If pools are inconsistent, a request is invalid, a server pool has no address, or the sources do not suffice; see
    /// [`HttpLoadError`].
    pub fn plan(
        &self,
        workers: &WorkerRequest,
        timeouts: Timeouts,
    ) -> Result<StreamPlan<Http>, HttpLoadError> {
        let (mut pools, mut sources) = (Vec::new(), Vec::new());
        for client in &self.client {
            for pool in self.pools(client)? {
                pools.push(pool);
                sources.push((&client.sources, client.align, client.align_by));
            }
        }
        let leased = streams::lease(&pools, &sources, workers)?;
        let aligned = sources.iter().find(|(_, align, _)| *align != Align::Kernel);
        let align = aligned.map_or(Align::Kernel, |(_, align, _)| *align);
        let mut phases = self.phase.clone();
        if phases.is_empty() {
            phases.push(PlannedPhase::hold(Until::default()));
        }
        let own = &self.timeouts;
        Ok(StreamPlan {
            pools,
            phases,
            requests: self.requests,
            timeouts: Timeouts {
                connect_s: own.connect.unwrap_or(timeouts.connect_s),
                continue_s: own.r#continue.unwrap_or(timeouts.continue_s),
                first_byte_s: own.first_byte.unwrap_or(timeouts.first_byte_s),
                request_s: own.request.unwrap_or(timeouts.request_s),
                drain_s: own.drain.unwrap_or(timeouts.drain_s),
            },
            engine: None,
            memory: MemoryPolicy::default(),
            buffer_memory: None,
            gather_us: 0,
            steering: workers.steering.of_plan(align),
            workers: leased,
        })
    }

    /// The pool of these clients, once per server address.
    pub(super) fn pools(&self, client: &ClientPool) -> Result<Vec<PlannedPool<Http>>, HttpLoadError> {
        let unknown =
            |kind, name| client.wrong(format!(" names the {kind} pool '{name}', which there is not"));
        let server = self.server.iter().find(|server| server.name == client.server);
        let server = server.ok_or_else(|| unknown("server", &client.server))?;
        let urls = self.urls.iter().find(|urls| urls.name == client.urls);
        let urls = urls.ok_or_else(|| unknown("urls", &client.urls))?;
        let url = server.url()?;
        let targets = server.targets(&url)?;
        let mut requests = client.requests(urls, &url)?;
        let Some(first) = urls.entry.first() else {
            let reason = format!("URL pool '{}': it has no entry", urls.name);
            return Err(HttpError::Scenario(reason).into());
        };
        let tls = client.tls(server, &first.host_name(&url))?;
        let model = client.model()?;
        let usual = StatusRange {
            first: 200,
            last: 399,
        };
        let files = urls.targets.as_ref().map(|files| PlannedTargets {
            files: files.files.clone(),
            requests: requests.len() as u64,
            order: files.order,
            all: std::mem::take(&mut requests).into(),
            turns: Turns::default(),
        });
        let protocol = Http {
            requests,
            targets: files,
            statuses: client.status.clone().unwrap_or_else(|| vec![usual]),
            follow: client.follow.unwrap_or(0),
            strict: client.strict,
        };
        let all = client.connections as usize;
        let pool = |(target, connections)| PlannedPool {
            name: client.name.clone(),
            target,
            tls: tls.clone(),
            model: match model {
                Model::Open { per_second } => Model::Open {
                    per_second: per_second * (connections as f64 / all as f64),
                },
                closed => closed,
            },
            connections,
            requests_a_connection: client.requests_a_connection,
            behaviour: Behaviour {
                read_bytes_per_second: client.read_rate,
                write_bytes_per_second: client.write_rate,
                abort_share: client.abort.unwrap_or(0.0),
                first_pause_s: client.first_pause.unwrap_or(0.0),
            },
            protocol: protocol.clone(),
        };
        let shares = shares(all, targets.len()).filter(|connections| *connections > 0);
        Ok(targets.into_iter().zip(shares).map(pool).collect())
    }
}

impl ServerPool {
    /// The URL of its root: scheme, host and port.
    ///
    /// # Errors
    /// If there is neither a host nor an address, or the host is invalid.
    pub fn url(&self) -> Result<Url, HttpError> {
        let scheme = if self.tls { Scheme::Https } else { Scheme::Http };
        // Without the scope of a link-local address, which is no part of a URL.
        let name = |first: &Remote| match first.address() {
            Some(first) => SocketAddr::new(first.ip(), first.port()).to_string(),
            None => "localhost".to_owned(),
        };
        let host = self.host.clone().or_else(|| self.addresses.first().map(name));
        let host = host.ok_or_else(|| self.wrong("it has no address"))?;
        let url = format!("{scheme}://{host}/").parse();
        url.map_err(|error: UrlError| self.wrong(error))
    }

    /// Its addresses; without any, the address that its URL has as a host.
    fn targets(&self, url: &Url) -> Result<Vec<Remote>, HttpError> {
        if !self.addresses.is_empty() {
            return Ok(self.addresses.clone());
        }
        let address = url.address().ok_or_else(|| self.wrong("it has no address"))?;
        let address = zones::in_zone(address, url.zone.as_deref(), url.port);
        let address = address.map_err(|error| self.wrong(error))?;
        Ok(vec![address.into()])
    }

    fn wrong(&self, reason: impl Display) -> HttpError {
        HttpError::Scenario(format!("server pool '{}': {reason}", self.name))
    }
}

impl ClientPool {
    fn wrong(&self, reason: impl Display) -> HttpError {
        HttpError::Scenario(format!("client pool '{}'{reason}", self.name))
    }

    /// The requests of all entries.
    fn requests(&self, urls: &UrlPool, url: &Url) -> Result<Vec<PlannedRequest>, HttpError> {
        let mut requests = Vec::new();
        for entry in &urls.entry {
            if entry.chunked && self.write_rate.is_some() {
                let both = "chunked and write_rate exclude each other";
                return Err(self.wrong(format!(", path '{}': {both}", entry.path)));
            }
            requests.extend(entry.requests(url)?);
        }
        Ok(requests)
    }

    fn tls(&self, server: &ServerPool, host: &str) -> Result<Option<Trust>, HttpLoadError> {
        let files = [&self.ca, &self.certificate, &self.key];
        let given = self.insecure.is_some() || self.resumption.is_some();
        let given = given || files.into_iter().any(Option::is_some);
        let insecure = self.insecure.unwrap_or(false);
        if given && !server.tls {
            let needs = "insecure, ca, certificate, key and resumption need tls = true of server pool";
            return Err(self.wrong(format!(": {needs} '{}'", server.name)).into());
        }
        if insecure && self.ca.is_some() {
            return Err(self.wrong(": insecure and ca exclude each other").into());
        }
        if self.certificate.is_some() != self.key.is_some() {
            return Err(self.wrong(": certificate and key go together").into());
        }
        if !server.tls {
            return Ok(None);
        }
        tls::server_name(host)?;
        Ok(Some(Trust {
            server_name: host.to_owned(),
            insecure,
            ca: self.ca.clone(),
            resumption: self.resumption.unwrap_or(true),
            certificate: (self.certificate.clone().zip(self.key.clone()))
                .map(|(certificate, key)| CertificateFiles { certificate, key }),
        }))
    }

    fn model(&self) -> Result<Model, HttpError> {
        match (self.rate, self.think) {
            (Some(_), Some(_)) => {
                Err(self.wrong(": rate (open loop) and think (closed loop) exclude each other"))
            }
            (Some(per_second), None) => Ok(Model::Open { per_second }),
            (None, think) => Ok(Model::Closed {
                think_s: think.unwrap_or(0.0),
            }),
        }
    }
}

impl UrlEntry {
    /// The requested host: the `Host` field without its port, or the host of the URL.
    fn host_name(&self, url: &Url) -> String {
        let mut fields = self.headers.iter();
        let field = fields.find(|(name, _)| name.eq_ignore_ascii_case("host"));
        let given = field.and_then(|(_, host)| format!("https://{}/", host.trim()).parse::<Url>().ok());
        given.map_or_else(|| url.host.clone(), |url| url.host)
    }

    /// The requests of an entry: one, or one per size class.
    fn requests(&self, url: &Url) -> Result<Vec<PlannedRequest>, HttpError> {
        let body = self.planned_body()?;
        if self.expect_continue && body == PlannedBody::Nothing {
            return Err(self.wrong("expect_continue needs a body"));
        }
        let weight = self.weight.unwrap_or(1.0);
        if weight <= 0.0 || !weight.is_finite() {
            return Err(self.wrong("a weight must be more than 0"));
        }
        let Some(sizes) = &self.sizes else {
            return Ok(vec![self.request(url, &self.path, weight, &body)?]);
        };
        if !self.path.contains("{size}") {
            return Err(self.wrong(WITHOUT_PATH));
        }
        let classes = sizes.classes().map_err(|reason| self.wrong(&reason))?;
        let weight = weight / classes.len() as f64;
        let path = |size: &u64| self.path.replace("{size}", &size.to_string());
        let request = |size| self.request(url, &path(size), weight, &body);
        classes.iter().map(request).collect()
    }

    fn request(
        &self,
        server: &Url,
        path: &str,
        weight: f64,
        body: &PlannedBody,
    ) -> Result<PlannedRequest, HttpError> {
        let slash = if path.starts_with('/') { "" } else { "/" };
        let url = format!("http://h{slash}{path}").parse::<Url>();
        let target = url.map_err(|error| self.wrong(&error.to_string()))?.target;
        let usual = if body.bytes().is_some() { "POST" } else { "GET" };
        let method = self.method.as_deref().unwrap_or(usual);
        let mut fields = self.headers.clone();
        if self.expect_continue {
            fields.push(("Expect".to_owned(), "100-continue".to_owned()));
        }
        let head = |keep_alive| -> Result<String, HttpError> {
            let request = Request {
                method,
                target: &target,
                host: &server.authority(),
                fields: &fields,
                body: match body.bytes() {
                    // RFC 9110 8.6: a length, too, where the method anticipates content.
                    None if matches!(method, "POST" | "PUT" | "PATCH") => Framing::Length(0),
                    None => Framing::None,
                    Some(_) if self.chunked => Framing::Chunked,
                    Some(bytes) => Framing::Length(bytes),
                },
                keep_alive,
            };
            Ok(String::from_utf8_lossy(&request.head()?).into_owned())
        };
        Ok(PlannedRequest {
            weight,
            method: method.to_owned(),
            head: head(true)?,
            last_head: head(false)?,
            body: body.clone(),
            chunked: self.chunked,
            expect_continue: self.expect_continue,
            promise: if self.check {
                Promise::of(&target)
            } else {
                Promise::Anything
            },
            target,
        })
    }

    fn planned_body(&self) -> Result<PlannedBody, HttpError> {
        match (&self.body, &self.body_file, self.body_size) {
            (None, None, None) => Ok(PlannedBody::Nothing),
            (Some(text), None, None) => Ok(PlannedBody::Text(text.clone())),
            (None, Some(path), None) => {
                let found = std::fs::metadata(path).map_err(|error| HttpError::body(path, error))?;
                let (path, bytes) = (path.clone(), found.len());
                Ok(PlannedBody::File { path, bytes })
            }
            (None, None, Some(bytes)) => Ok(PlannedBody::Generated { bytes }),
            _ => Err(self.wrong("body, body_file and body_size exclude each other")),
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::{OTHER_DESCRIPTORS, Steerings};

    fn scenario(url: &str, connections: u64) -> Scenario {
        let client = ClientPool {
            connections,
            ..ClientPool::default()
        };
        let entry = UrlEntry {
            check: true,
            ..UrlEntry::default()
        };
        Scenario::of_url(&url.parse().unwrap(), client, entry)
    }

    fn plan(scenario: &Scenario) -> StreamPlan<Http> {
        let workers = WorkerRequest {
            steering: Steerings::default(),
            buckets: None,
            cpus: vec![0, 1],
            descriptor_limit: 20_000,
        };
        scenario.plan(&workers, Timeouts::default()).unwrap()
    }

    #[test]
    fn a_million_connections_take_as_many_descriptor_tables_as_they_need() {
        let many = plan(&scenario("http://127.0.0.1:8080/", 1_000_000));
        assert_eq!((many.workers.len(), many.connections()), (52, 1_000_000));
        for worker in &many.workers {
            assert!(worker.own_descriptors && worker.connections() <= 20_000 - OTHER_DESCRIPTORS);
        }
        let few = plan(&scenario("http://127.0.0.1:8080/", 1));
        assert_eq!((few.workers.len(), few.workers[0].own_descriptors), (1, false));
    }

    #[test]
    fn a_plan_reads_back_as_it_was_written() {
        let plan = plan(&scenario("http://[::1]:8080/size/1KiB", 100));
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
    fn a_method_that_anticipates_content_has_a_length_without_a_body() {
        for (method, expected) in [
            ("POST", true),
            ("PUT", true),
            ("PATCH", true),
            ("GET", false),
            ("DELETE", false),
            ("HEAD", false),
        ] {
            let mut scenario = scenario("http://127.0.0.1:8080/", 1);
            scenario.urls[0].entry[0].method = Some(method.to_owned());
            let planned = &plan(&scenario).pools[0].protocol.requests[0];
            for head in [&planned.head, &planned.last_head] {
                assert_eq!(head.contains("\r\nContent-Length: 0\r\n"), expected, "{head}");
            }
        }
    }

    #[test]
    fn several_servers_share_connections_and_rate() {
        let mut scenario = scenario("http://example.org/", 9);
        scenario.server[0].addresses = vec!["127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap()];
        scenario.client[0].rate = Some(90.0);
        let plan = plan(&scenario);
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
            let mut scenario = scenario(url, 1);
            scenario.server[0].addresses = vec!["127.0.0.1:1".parse().unwrap()];
            let field = field.map(|host| ("host".to_owned(), host.to_owned()));
            scenario.urls[0].entry[0].headers.extend(field);
            let planned = plan(&scenario).pools[0].tls.clone().unwrap();
            assert_eq!(planned.server_name, name, "{url}");
            assert!(planned.resumption && !planned.insecure);
        }
        assert_eq!(plan(&scenario("http://127.0.0.1/", 1)).pools[0].tls, None);
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
