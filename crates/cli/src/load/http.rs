//! `corelane load http`: its flags, the scenario that they describe, and the HTTP request generator in the foreground.

use crate::documents::{read_with, wrong_file};
use crate::load::foreground::{ForegroundArguments, duration_s, gates};
use crate::load::live::ForegroundLoad;
use crate::load::proxy;
use crate::load::sources::SourceArguments;
use crate::load::streams::Flagged;
use crate::load::targets::TargetArguments;
use crate::load::trust::TrustArguments;
use crate::names::{AddressesArgument, Target};
use crate::outcome::{Outcome, usage};
use crate::overwriting::check_named;
use crate::shared::EngineArgument;
use crate::values::{MOST_CONNECTIONS, byte_rate, count, duration, rate, share, size};
use clap::Args;
use corelane_load::http::scenario::{ClientPool, Scenario, ServerPool, UrlEntry, UrlPool};
use corelane_load::http::{
    HttpError, HttpLoad, HttpLoadError, HttpPlan, PlannedPhase, StatusRange, Timeouts, Until,
};
use corelane_proto::http::url::{Scheme, Url, UrlError};
use corelane_rss::Protocol;
use corelane_worker::engine::{NoRemote, Remote};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

/// Shown by `--help`. A test runs each of them.
const EXAMPLES: &str = "Examples:\n  corelane load http http://127.0.0.1:8080/ --connections 64 --workers 1 --duration 1s\n  \
    corelane load http http://127.0.0.1:8080/size/1024 --rate 5k --duration 1s --fail-if 'failed > 1%'\n  \
    corelane load http http://127.0.0.1:8080/ --steering steering.json --align bucket --align-by both --duration 1s";

/// The help of `--engine`.
const ENGINE: &str = "System interface: epoll or io_uring [default: io_uring if the kernel fully supports it, otherwise epoll]";

/// HTTP requests over any number of connections; records the outcome of each request
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("fail_if", |gate| gate.help(gates("'p99 > 5ms' or 'failed > 0.1%'"))))]
#[command(mut_arg("engine", |engine| engine.help(ENGINE)))]
pub struct LoadHttpArguments {
    /// URL to request, such as http://127.0.0.1:8080/ or https://127.0.0.1:8443/
    #[arg(required_unless_present_any = ["scenario", "targets"], value_parser = url)]
    pub url: Option<Url>,
    /// TOML file with pools of clients, servers and URLs, and with phases (docs/load-http.schema.json); replaces URL
    /// and its flags
    #[arg(long, value_name = "FILE", conflicts_with_all = ["url", "connections", "rate", "think", "duration",
        "requests_a_connection", "method", "headers", "sends", "targets", "data", "order", "chunked", "expect_continue", "check", "read_rate", "write_rate", "abort",
        "status", "follow", "strict", "unix_socket", "sources", "align", "align_by", "insecure", "ca", "certificate", "private_key", "resumption"])]
    pub scenario: Option<PathBuf>,
    /// Total number of connections
    #[arg(short, long, value_name = "N", default_value = "64", value_parser = count)]
    pub connections: u64,
    /// Open loop: requests per second over all workers, on a fixed schedule [default: closed loop]
    #[arg(short, long, value_name = "RATE", value_parser = rate)]
    pub rate: Option<f64>,
    /// Closed loop: delay between a response and the next request on the connection
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "rate")]
    pub think: Option<Duration>,
    /// Send requests for this time [default: 10s, or until --count is reached]
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Stop after this many requests
    #[arg(short = 'n', long = "count", alias = "requests", value_name = "N", value_parser = count)]
    pub requests: Option<u64>,
    /// Close each connection after this many requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub requests_a_connection: Option<u32>,
    /// Request method, such as HEAD or DELETE [default: GET, or POST with a body]
    #[arg(long, value_name = "METHOD")]
    pub method: Option<String>,
    /// Header field, as 'Name: value'; may be repeated. Host overrides the URL's host
    #[arg(short = 'H', long = "header", value_name = "HEADER", value_parser = header)]
    pub headers: Vec<(String, String)>,
    #[command(flatten)]
    pub targets: TargetArguments,
    /// Request body; the default method becomes POST
    #[arg(long, value_name = "TEXT", group = "sends")]
    pub body: Option<String>,
    /// Request body, read from a file
    #[arg(long, value_name = "FILE", group = "sends")]
    pub body_file: Option<PathBuf>,
    /// Request body of this size, filled with a pattern
    #[arg(long, value_name = "SIZE", value_parser = size, group = "sends")]
    pub body_size: Option<u64>,
    /// Send the body with chunked transfer coding instead of Content-Length
    #[arg(long, requires = "sends", conflicts_with = "write_rate")]
    pub chunked: bool,
    /// Send Expect: 100-continue and wait for the interim response before the body; a final response cancels the body
    #[arg(long, requires = "sends")]
    pub expect_continue: bool,
    /// Check response bodies of /size, /chunks and /echo against the content that `serve http` defines
    #[arg(long)]
    pub check: bool,
    /// Slow readers: bytes per second that each connection reads of a response
    #[arg(long, value_name = "RATE", value_parser = byte_rate)]
    pub read_rate: Option<u64>,
    /// Slow writers: bytes per second that each connection writes of a request
    #[arg(long, value_name = "RATE", value_parser = byte_rate)]
    pub write_rate: Option<u64>,
    /// Share of requests aborted at the first byte of the response, such as 1%
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "0%")]
    pub abort: f64,
    /// Statuses that count as success, such as 200,204,3xx,400-404
    #[arg(
        long = "expect-status",
        alias = "status",
        value_name = "LIST",
        default_value = "200-399"
    )]
    pub status: String,
    /// Follow up to N redirects of a request, on the same server and connection; each is counted
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub follow: u8,
    /// Refuse responses that deviate from RFC 9112, which are taken and counted otherwise: bare LF, folded fields, blanks
    /// after a chunk size, repeated Content-Length
    #[arg(long)]
    pub strict: bool,
    #[command(flatten)]
    pub addresses: AddressesArgument,
    /// Connect to this Unix socket, not to the host of URL, which the request and TLS still name
    #[arg(long, value_name = "PATH", conflicts_with = "addresses", value_parser = unix_socket)]
    pub unix_socket: Option<Remote>,
    #[command(flatten)]
    pub trust: TrustArguments,
    #[command(flatten)]
    pub sources: SourceArguments,
    /// Timeout for opening a connection, including the TLS handshake
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub connect_timeout: Duration,
    /// With --expect-continue: time to wait for the interim response before sending the body anyway
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    pub continue_timeout: Duration,
    /// Timeout from a request to the first byte of the response
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub first_byte_timeout: Duration,
    /// Timeout from a request to the end of the response
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub timeout: Duration,
    /// Time to wait at the end for the next outstanding response; ten times as long for all
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    pub drain: Duration,
    #[command(flatten)]
    pub engine: EngineArgument,
    /// Closed loop: batch responses for an eighth of the mean latency, at most this time, and process them together; 0s
    /// disables batching
    #[arg(long, value_name = "TIME", default_value = "50us", value_parser = duration, conflicts_with = "rate")]
    pub gather: Duration,
    #[command(flatten)]
    pub foreground: ForegroundArguments,
}

/// `corelane load http`.
pub fn run(arguments: &LoadHttpArguments) -> Outcome {
    let (plan, notes) = plan(arguments)?;
    arguments.foreground.run::<HttpLoad>(plan, notes)
}

/// The plan that these flags, or the scenario file, describe, and notes on it.
fn plan(arguments: &LoadHttpArguments) -> anyhow::Result<(HttpPlan, Vec<String>)> {
    let scenario = scenario(arguments)?;
    let connections = scenario.client.iter().map(|client| client.connections);
    if !(1..=MOST_CONNECTIONS).contains(&connections.sum()) {
        return Err(usage("--connections", format!("give 1 to {MOST_CONNECTIONS}")));
    }
    let address = |server: &ServerPool| Some(server.addresses.first()?.address()?.ip());
    let target = scenario.server.first().and_then(address);
    let workers = arguments.foreground.workers(target, Protocol::Tcp)?;
    let timeouts = Timeouts {
        connect_s: arguments.connect_timeout.as_secs_f64(),
        continue_s: arguments.continue_timeout.as_secs_f64(),
        first_byte_s: arguments.first_byte_timeout.as_secs_f64(),
        request_s: arguments.timeout.as_secs_f64(),
        drain_s: arguments.drain.as_secs_f64(),
    };
    let plan = scenario.plan(&workers, timeouts);
    let plan = plan.map_err(|error| refused(arguments, error))?;
    let plan = HttpPlan {
        engine: arguments.engine.engine,
        memory: arguments.foreground.placing.memory,
        buffer_memory: arguments.foreground.placing.buffer_memory,
        ..plan.gathering(arguments.gather)
    };
    let over_network = |server: &&ServerPool| server.addresses.iter().any(|to| to.address().is_some());
    let servers = scenario.server.iter().filter(over_network);
    let urls = servers.filter_map(|server| server.url().ok());
    let proxies = urls.filter_map(|url| proxy::note(&url, |name| std::env::var(name).ok()));
    let once: BTreeSet<String> = proxies.collect();
    Ok((plan, once.into_iter().collect()))
}

impl Flagged for HttpError {
    fn flags(&self) -> &'static str {
        match self {
            Self::Scenario(_) => "--scenario",
            Self::Request(_) => "--method, --header",
            Self::Body { .. } => "--body-file",
        }
    }
}

/// The error names the file that has the requests, if one does.
fn refused(arguments: &LoadHttpArguments, error: HttpLoadError) -> anyhow::Error {
    let scenario = arguments.scenario.as_ref().map(|path| ("--scenario", path));
    let targets = arguments.targets.targets.as_ref().map(|path| ("--targets", path));
    match (scenario.or(targets), error) {
        (Some((flag, path)), HttpLoadError::Protocol(error)) => wrong_file(flag, path, error),
        (_, error) => HttpLoad::refused(error),
    }
}

/// The scenario of the file, or the one that the flags describe. `--count` overrides the file's number.
fn scenario(arguments: &LoadHttpArguments) -> anyhow::Result<Scenario> {
    let mut scenario = match &arguments.scenario {
        Some(path) => read_with("--scenario", path, Scenario::parse)?,
        None => of_flags(arguments)?,
    };
    let named_by = if arguments.scenario.is_some() {
        "--scenario"
    } else {
        "--targets"
    };
    let files: BTreeSet<&PathBuf> = scenario.files().collect();
    files
        .into_iter()
        .try_for_each(|file| check_named(named_by, file))?;
    resolve(&mut scenario, arguments)?;
    scenario.requests = arguments.requests.or(scenario.requests);
    let duration_s = duration_s(arguments.duration, scenario.requests.is_some());
    if duration_s.is_some() && scenario.phase.is_empty() {
        scenario.phase.push(PlannedPhase::hold(Until {
            duration_s,
            ..Until::default()
        }));
    }
    Ok(scenario)
}

/// The scenario that flags describe; a usage error if TLS flags are given with an http URL.
fn of_flags(arguments: &LoadHttpArguments) -> anyhow::Result<Scenario> {
    let targets = &arguments.targets;
    let (url, entries, files) = targets.requests(arguments.url.as_ref(), entry(arguments))?;
    if let Some(flag) = arguments.trust.given().filter(|_| url.scheme == Scheme::Http) {
        return Err(usage(flag, "applies to TLS only: give an https:// URL"));
    }
    let client = ClientPool {
        name: "main".to_owned(),
        connections: arguments.connections,
        rate: arguments.rate,
        think: arguments.think.map(|think| think.as_secs_f64()),
        requests_a_connection: arguments.requests_a_connection,
        read_rate: arguments.read_rate,
        write_rate: arguments.write_rate,
        abort: Some(arguments.abort),
        sources: arguments.sources.sources.clone(),
        align: arguments.sources.align()?.unwrap_or_default(),
        align_by: arguments.sources.align_by.unwrap_or_default(),
        status: Some(statuses(&arguments.status)?),
        follow: Some(arguments.follow),
        strict: arguments.strict,
        insecure: arguments.trust.insecure.then_some(true),
        ca: arguments.trust.ca.clone(),
        certificate: arguments.trust.certificate.clone(),
        key: arguments.trust.private_key.clone(),
        resumption: (!arguments.trust.resumption).then_some(false),
        ..ClientPool::default()
    };
    let urls = UrlPool {
        name: client.urls.clone(),
        entry: entries,
        targets: files,
    };
    let mut scenario = Scenario {
        urls: vec![urls],
        ..Scenario::of_url(&url, client, UrlEntry::default())
    };
    scenario.server[0].addresses.extend(arguments.unix_socket.clone());
    Ok(scenario)
}

/// The request that flags describe; its path is that of the URL.
fn entry(arguments: &LoadHttpArguments) -> UrlEntry {
    UrlEntry {
        method: arguments.method.clone(),
        headers: arguments.headers.clone(),
        body: arguments.body.clone(),
        body_file: arguments.body_file.clone(),
        body_size: arguments.body_size,
        chunked: arguments.chunked,
        expect_continue: arguments.expect_continue,
        check: arguments.check,
        ..UrlEntry::default()
    }
}

/// Gives each server pool without addresses the address of its name, or all of them.
fn resolve(scenario: &mut Scenario, arguments: &LoadHttpArguments) -> Outcome {
    let unresolved = scenario.server.iter_mut();
    for server in unresolved.filter(|server| server.addresses.is_empty()) {
        let url = server.url().map_err(|error| refused(arguments, error.into()))?;
        let target = Target::of_url(&url).map_err(|error| match &arguments.scenario {
            Some(path) => wrong_file("--scenario", path, error),
            None => usage("URL", error),
        })?;
        let dry_run = arguments.foreground.result.dry_run;
        let addresses = arguments.addresses.of(&target, dry_run).into_iter();
        server.addresses = addresses.map(Remote::from).collect();
    }
    Ok(())
}

fn url(text: &str) -> Result<Url, String> {
    match text.strip_prefix("unix:") {
        Some(path) => Err(format!(
            "give --unix-socket {path} and the URL to request there: http://localhost/"
        )),
        None => text.parse().map_err(|error: UrlError| error.to_string()),
    }
}

fn unix_socket(path: &str) -> Result<Remote, NoRemote> {
    format!("unix:{}", path.strip_prefix("unix:").unwrap_or(path)).parse()
}

fn header(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) = text
        .split_once(':')
        .ok_or("there is no colon: write 'Name: value'")?;
    Ok((name.to_owned(), value.trim().to_owned()))
}

fn statuses(text: &str) -> anyhow::Result<Vec<StatusRange>> {
    let wrong = || format!("'{text}' is no list of statuses: write 200,204,3xx,400-404");
    StatusRange::parse_list(text).ok_or_else(|| usage("--expect-status", wrong()))
}
