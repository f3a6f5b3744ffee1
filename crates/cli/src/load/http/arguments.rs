//! The flags of `corelane load http`, and the request that they make.

use crate::documents::wrong_file;
use crate::load::foreground::{ForegroundArguments, gates};
use crate::load::sources::SourceArguments;
use crate::outcome::{Outcome, usage};
use crate::values::{byte_rate, count, duration, rate, share, size};
use clap::{Args, ValueEnum};
use corelane_load::http::scenario::Scenario;
use corelane_load::http::{
    Behaviour, HttpRequest, Model, OneRequest, PlannedBody, PlannedPhase, PoolRequest, StatusRange, Timeouts,
    TlsSettings, Until,
};
use corelane_proto::http::url::{Scheme, Url};
use corelane_worker::engine::EngineKind;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Shown by `--help`; each of them works as written.
pub const EXAMPLES: &str = "Examples:\n  corelane load http http://127.0.0.1:8080/ --connections 64 --workers 1 --duration 1s\n  \
    corelane load http http://127.0.0.1:8080/size/1024 --rate 5k --duration 1s --fail-if 'failed > 1%'";

/// Without `--duration` and `--requests`.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// What may be had or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// It is
    On,
    /// It is not
    Off,
}

#[derive(Debug, Args)]
#[command(mut_arg("fail_if", |gate| gate.help(gates("'p99 > 5ms' or 'failed > 0.1%'"))))]
pub struct LoadHttpArguments {
    /// What to ask for, such as http://127.0.0.1:8080/ or https://127.0.0.1:8443/
    #[arg(required_unless_present = "scenario")]
    pub url: Option<Url>,
    /// Pools of clients, servers and URLs, and phases, in a TOML file (docs/load-http.schema.json), instead of a URL and its
    /// flags
    #[arg(long, value_name = "FILE", conflicts_with_all = ["url", "connections", "rate", "think", "duration",
        "requests_a_connection", "method", "headers", "sends", "chunked", "expect_continue", "check", "read_rate", "write_rate", "abort",
        "status", "sources", "align", "insecure", "ca", "resumption"])]
    pub scenario: Option<PathBuf>,
    /// Connections in all
    #[arg(short, long, value_name = "N", default_value = "64", value_parser = count)]
    pub connections: u64,
    /// Open loop: requests a second over all workers, at times fixed in advance [default: closed loop]
    #[arg(short, long, value_name = "RATE", value_parser = rate)]
    pub rate: Option<f64>,
    /// Closed loop: time from an answer to the next request of a connection
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "rate")]
    pub think: Option<Duration>,
    /// Make requests for so long [default: 10s, or until --requests is reached]
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Make so many requests
    #[arg(short = 'n', long, value_name = "N", value_parser = count)]
    pub requests: Option<u64>,
    /// Close a connection after so many requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub requests_a_connection: Option<u32>,
    /// HEAD, DELETE and the like [default: GET, or POST with a body]
    #[arg(long, value_name = "METHOD")]
    pub method: Option<String>,
    /// A header, as 'Name: value'; may be given again. Host replaces the URL's
    #[arg(short = 'H', long = "header", value_name = "HEADER")]
    pub headers: Vec<String>,
    /// A body of these bytes; the method is then POST unless given
    #[arg(long, value_name = "TEXT", group = "sends")]
    pub body: Option<String>,
    /// A body of what this file holds
    #[arg(long, value_name = "FILE", group = "sends")]
    pub body_file: Option<PathBuf>,
    /// A body of so many bytes of a pattern
    #[arg(long, value_name = "SIZE", value_parser = size, group = "sends")]
    pub body_size: Option<u64>,
    /// Send the body in chunks instead of with its length
    #[arg(long, requires = "sends", conflicts_with = "write_rate")]
    pub chunked: bool,
    /// Send the body only when the server asks for it (Expect: 100-continue); after an answer that comes first it is not sent
    #[arg(long, requires = "sends")]
    pub expect_continue: bool,
    /// Check bodies of /size, /chunks and /echo against what `serve http` promises of them
    #[arg(long)]
    pub check: bool,
    /// Slow readers: bytes of an answer that a connection takes a second
    #[arg(long, value_name = "SIZE", value_parser = byte_rate)]
    pub read_rate: Option<u64>,
    /// Slow writers: bytes of a request that a connection gives a second
    #[arg(long, value_name = "SIZE", value_parser = byte_rate)]
    pub write_rate: Option<u64>,
    /// Share of requests given up as soon as their answer begins, such as 1%
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "0%")]
    pub abort: f64,
    /// Statuses that count as success, such as 200,204,300-399
    #[arg(long, value_name = "LIST", default_value = "200-399")]
    pub status: String,
    /// https: take any certificate, unverified; the report says so
    #[arg(long)]
    pub insecure: bool,
    /// https: trust the certificates of this file, PEM, instead of the system's
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub ca: Option<PathBuf>,
    /// https: whether new connections resume the sessions of earlier ones
    #[arg(long, value_enum, default_value = "on")]
    pub resumption: Switch,
    #[command(flatten)]
    pub sources: SourceArguments,
    /// For opening a connection, its TLS handshake included
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub connect_timeout: Duration,
    /// With --expect-continue: from the head to sending the body though the server has not asked for it
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    pub continue_timeout: Duration,
    /// From a request to the first byte of its answer
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub first_byte_timeout: Duration,
    /// From a request to the end of its answer
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub timeout: Duration,
    /// At the end, wait for answers under way
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    pub drain: Duration,
    /// System interface: epoll or io_uring [default: what a probe finds best]
    #[arg(long, value_name = "epoll|io_uring")]
    pub engine: Option<EngineKind>,
    /// Closed loop: let answers gather for an eighth of the mean latency, at most so long, to take several at a time; 0s to
    /// take each as it comes
    #[arg(long, value_name = "TIME", default_value = "50us", value_parser = duration, conflicts_with = "rate")]
    pub gather: Duration,
    #[command(flatten)]
    pub foreground: ForegroundArguments,
}

/// What these flags, or the scenario that they name, ask for.
pub fn request(arguments: &LoadHttpArguments) -> anyhow::Result<HttpRequest> {
    let mut request = HttpRequest {
        pools: Vec::new(),
        phases: Vec::new(),
        requests: arguments.requests,
        workers: arguments.foreground.workers()?,
        timeouts: Timeouts {
            connect_s: arguments.connect_timeout.as_secs_f64(),
            continue_s: arguments.continue_timeout.as_secs_f64(),
            first_byte_s: arguments.first_byte_timeout.as_secs_f64(),
            request_s: arguments.timeout.as_secs_f64(),
            drain_s: arguments.drain.as_secs_f64(),
        },
        engine: arguments.engine,
        memory: arguments.foreground.placing.memory,
        gather: arguments.gather,
    };
    match (&arguments.scenario, &arguments.url) {
        (Some(path), _) => take_scenario(&mut request, path)?,
        (None, Some(url)) => {
            request.pools = vec![one_pool(arguments, url)?];
            request.phases = vec![hold(arguments)];
        }
        (None, None) => return Err(usage("URL", "give one, or --scenario")),
    }
    let connections: usize = request.pools.iter().map(|pool| pool.connections).sum();
    if !(1..=MOST_CONNECTIONS).contains(&connections) {
        return Err(usage("--connections", format!("give 1 to {MOST_CONNECTIONS}")));
    }
    Ok(request)
}

/// Takes what a scenario asks for; a number of requests that was typed goes before its own.
fn take_scenario(request: &mut HttpRequest, path: &Path) -> Outcome {
    let wrong = |error: &dyn Display| wrong_file("--scenario", path, error);
    let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
    let scenario = Scenario::parse(&text).map_err(|error| wrong(&error))?;
    request.pools = scenario.pools().map_err(|error| wrong(&error))?;
    request.phases = scenario.phases().map_err(|error| wrong(&error))?;
    request.requests = request.requests.or(scenario.requests);
    if request.phases.is_empty() && request.requests.is_none() {
        request.phases = vec![PlannedPhase::hold(lasting(DEFAULT_DURATION))];
    }
    request.timeouts = scenario.timeouts(request.timeouts);
    Ok(())
}

/// All connections at once, for as long as asked.
fn hold(arguments: &LoadHttpArguments) -> PlannedPhase {
    let ends = arguments
        .duration
        .or_else(|| arguments.requests.is_none().then_some(DEFAULT_DURATION));
    PlannedPhase::hold(ends.map(lasting).unwrap_or_default())
}

fn lasting(duration: Duration) -> Until {
    Until {
        duration_s: Some(duration.as_secs_f64()),
        ..Until::default()
    }
}

/// The one pool that flags describe.
fn one_pool(arguments: &LoadHttpArguments, url: &Url) -> anyhow::Result<PoolRequest> {
    let model = match arguments.rate {
        Some(per_second) => Model::Open { per_second },
        None => Model::Closed {
            think_s: arguments.think.unwrap_or_default().as_secs_f64(),
        },
    };
    Ok(PoolRequest {
        name: "main".to_owned(),
        servers: Vec::new(),
        requests: vec![one_request(arguments, url)?],
        connections: usize::try_from(arguments.connections).unwrap_or(usize::MAX),
        model,
        requests_a_connection: arguments.requests_a_connection,
        behaviour: Behaviour {
            read_bytes_per_second: arguments.read_rate,
            write_bytes_per_second: arguments.write_rate,
            abort_share: arguments.abort,
            first_pause_s: 0.0,
        },
        statuses: statuses(&arguments.status)?,
        sources: arguments.sources.sources.clone(),
        align: arguments.sources.align(),
        tls: tls(arguments, url)?,
    })
}

/// How far the server is believed, where its URL is https.
fn tls(arguments: &LoadHttpArguments, url: &Url) -> anyhow::Result<TlsSettings> {
    let given = [
        ("--insecure", arguments.insecure),
        ("--ca", arguments.ca.is_some()),
        ("--resumption", arguments.resumption == Switch::Off),
    ];
    if let Some((flag, _)) = given
        .iter()
        .find(|(_, given)| *given && url.scheme == Scheme::Http)
    {
        return Err(usage(flag, "this is for TLS: give an https:// URL"));
    }
    Ok(TlsSettings {
        insecure: arguments.insecure,
        ca: arguments.ca.clone(),
        resumption: arguments.resumption == Switch::On,
    })
}

fn one_request(arguments: &LoadHttpArguments, url: &Url) -> anyhow::Result<OneRequest> {
    let body = match (&arguments.body, &arguments.body_file, arguments.body_size) {
        (Some(text), ..) => PlannedBody::Text(text.clone()),
        (_, Some(path), _) => {
            let found = std::fs::metadata(path);
            let found = found.map_err(|error| wrong_file("--body-file", path, error))?;
            PlannedBody::File {
                path: path.clone(),
                bytes: found.len(),
            }
        }
        (.., Some(bytes)) => PlannedBody::Generated { bytes },
        _ => PlannedBody::Nothing,
    };
    let usual = if body == PlannedBody::Nothing {
        "GET"
    } else {
        "POST"
    };
    Ok(OneRequest {
        weight: 1.0,
        url: url.clone(),
        method: arguments.method.clone().unwrap_or_else(|| usual.to_owned()),
        fields: fields(&arguments.headers)?,
        body,
        chunked: arguments.chunked,
        expect_continue: arguments.expect_continue,
        check: arguments.check,
    })
}

/// Connections that one run may ask for: beyond this no machine has the memory.
const MOST_CONNECTIONS: usize = 100_000_000;

fn fields(headers: &[String]) -> anyhow::Result<Vec<(String, String)>> {
    let split = |header: &String| match header.split_once(':') {
        Some((name, value)) => Ok((name.to_owned(), value.trim().to_owned())),
        None => Err(usage(
            "--header",
            format!("'{header}' has no colon: write 'Name: value'"),
        )),
    };
    headers.iter().map(split).collect()
}

fn statuses(text: &str) -> anyhow::Result<Vec<StatusRange>> {
    let wrong = || {
        usage(
            "--status",
            format!("'{text}' is no list of statuses: write 200,204,300-399"),
        )
    };
    StatusRange::parse_list(text).ok_or_else(wrong)
}
