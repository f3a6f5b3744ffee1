//! Tells Prometheus: counts enter, its text format leaves, over a Unix socket or a loopback port.
//!
//! One request at a time, each answered and closed; whatever is asked for, the counts are the answer.

use super::document::{Bridged, LinkBridged, TableBridged};
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// How long a client may take for its request: counting goes on meanwhile, only other clients wait.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where counts are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetricsAddress {
    /// A Unix socket.
    Unix(PathBuf),
    /// A port of a loopback address.
    Loopback(SocketAddr),
}

impl FromStr for MetricsAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<MetricsAddress, &'static str> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(MetricsAddress::Unix(path.into()));
        }
        match text.parse::<SocketAddr>() {
            Ok(address) if address.ip().is_loopback() => Ok(MetricsAddress::Loopback(address)),
            Ok(_) => Err("counts are told on a loopback address only: write 127.0.0.1:9100 or unix:PATH"),
            Err(_) => Err("write unix:PATH or a loopback address and port such as 127.0.0.1:9100"),
        }
    }
}

impl fmt::Display for MetricsAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MetricsAddress::Unix(path) => write!(formatter, "unix:{}", path.display()),
            MetricsAddress::Loopback(address) => address.fmt(formatter),
        }
    }
}

/// Answers requests for counts. Dropping it removes its socket.
#[derive(Debug)]
pub struct Metrics {
    listener: Listener,
}

#[derive(Debug)]
enum Listener {
    Unix(UnixListener, PathBuf),
    Loopback(TcpListener),
}

impl Metrics {
    /// Listens. A Unix socket that another process left behind is replaced; one that is answered is not.
    ///
    /// # Errors
    /// When the address is taken or cannot be had.
    pub fn listen(address: &MetricsAddress) -> io::Result<Metrics> {
        let listener = match address {
            MetricsAddress::Unix(path) => Listener::Unix(listen_unix(path)?, path.clone()),
            MetricsAddress::Loopback(address) => Listener::Loopback(TcpListener::bind(address)?),
        };
        match &listener {
            Listener::Unix(listener, _) => listener.set_nonblocking(true)?,
            Listener::Loopback(listener) => listener.set_nonblocking(true)?,
        }
        Ok(Metrics { listener })
    }

    /// Where it listens, with the port that the kernel chose for port 0.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn address(&self) -> io::Result<MetricsAddress> {
        Ok(match &self.listener {
            Listener::Unix(_, path) => MetricsAddress::Unix(path.clone()),
            Listener::Loopback(listener) => MetricsAddress::Loopback(listener.local_addr()?),
        })
    }

    /// Answers who has asked since the last call, and says how many. A client that goes away is no error.
    pub fn answer(&self, counts: impl Fn() -> Bridged) -> usize {
        let mut answered = 0;
        loop {
            let outcome = match &self.listener {
                Listener::Unix(listener, _) => listener.accept().map(|(stream, _)| {
                    stream
                        .set_nonblocking(false)
                        .and_then(|()| stream.set_read_timeout(Some(PATIENCE)))
                        .and_then(|()| reply(stream, &counts))
                }),
                Listener::Loopback(listener) => listener.accept().map(|(stream, _)| {
                    stream
                        .set_nonblocking(false)
                        .and_then(|()| stream.set_read_timeout(Some(PATIENCE)))
                        .and_then(|()| reply(stream, &counts))
                }),
            };
            match outcome {
                Ok(_) => answered += 1,
                Err(_) => return answered,
            }
        }
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = &self.listener {
            let _ = fs::remove_file(path);
        }
    }
}

fn listen_unix(path: &Path) -> io::Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && UnixStream::connect(path).is_err() => {
            fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        bound => bound,
    }
}

/// Reads a request to its blank line, and answers it (RFC 9112).
fn reply(mut stream: impl Read + Write, counts: &impl Fn() -> Bridged) -> io::Result<()> {
    /// Longer requests are answered without being read to their end.
    const LONGEST: usize = 8192;
    let mut request = Vec::new();
    let mut part = [0; 1024];
    while request.len() < LONGEST && !request.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut part)? {
            0 => break,
            bytes => request.extend_from_slice(&part[..bytes]),
        }
    }
    let body = exposition(&counts());
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

/// The counts in Prometheus's text format, version 0.0.4.
#[must_use]
pub fn exposition(bridged: &Bridged) -> String {
    let mut text = String::new();
    for (name, kind, help, samples) in links(bridged).into_iter().chain(tables(bridged)) {
        // Writing into a string does not fail.
        let _ = writeln!(
            text,
            "# HELP corelane_bridge_{name} {help}\n# TYPE corelane_bridge_{name} {kind}"
        );
        for (labels, value) in samples {
            let labels = labels
                .iter()
                .map(|(label, value)| format!("{label}=\"{}\"", escaped(value)));
            let labels: Vec<String> = labels.collect();
            let _ = writeln!(text, "corelane_bridge_{name}{{{}}} {value}", labels.join(","));
        }
    }
    text
}

/// Name, kind, help and samples of a metric; a sample is its labels and its value.
type Family = (&'static str, &'static str, &'static str, Vec<(Labels, u64)>);
type Labels = Vec<(&'static str, String)>;

fn links(bridged: &Bridged) -> Vec<Family> {
    let each = |of: fn(&LinkBridged) -> u64| -> Vec<(Labels, u64)> {
        let links = bridged.links.iter();
        links
            .map(|link| (vec![("link", link.link.clone())], of(link)))
            .collect()
    };
    let not_sent = by_name(bridged, "reason", |link| Some(&link.not_sent));
    let mut faults = by_name(bridged, "fault", |link| link.faults.as_ref());
    // No count of what happened, but what is held back now.
    faults.retain(|(labels, _)| labels.iter().all(|(_, name)| name != "held"));
    let dropped = bridged.dropped.iter();
    let dropped = dropped
        .map(|(reason, count)| (vec![("reason", reason.clone())], *count))
        .collect();
    vec![
        (
            "frames_received_total",
            "counter",
            "Frames received from a link.",
            each(|link| link.received),
        ),
        (
            "frames_sent_total",
            "counter",
            "Frames sent to a link.",
            each(|link| link.sent),
        ),
        (
            "frames_not_sent_total",
            "counter",
            "Frames that passed and were not sent to a link.",
            not_sent,
        ),
        (
            "frames_receive_dropped_total",
            "counter",
            "Frames that found a link's receive ring full.",
            each(|link| link.receive_dropped),
        ),
        (
            "frames_faulted_total",
            "counter",
            "Frames that a fault befell which a link was given.",
            faults,
        ),
        (
            "link_up",
            "gauge",
            "Whether a link is there.",
            each(|link| u64::from(link.up)),
        ),
        (
            "link_lost_total",
            "counter",
            "Times that a link was lost.",
            each(|link| link.lost),
        ),
        (
            "frames_dropped_total",
            "counter",
            "Frames that were not allowed to pass.",
            dropped,
        ),
    ]
}

/// Counts of each link that go by names, which `label` tells.
fn by_name(
    bridged: &Bridged,
    label: &'static str,
    of: fn(&LinkBridged) -> Option<&BTreeMap<String, u64>>,
) -> Vec<(Labels, u64)> {
    let sample = |link: &LinkBridged, name: &str, count: u64| {
        (vec![("link", link.link.clone()), (label, name.to_owned())], count)
    };
    let links = bridged.links.iter();
    links
        .flat_map(|link| {
            let counts = of(link).into_iter().flatten();
            counts.map(move |(name, count)| sample(link, name, *count))
        })
        .collect()
}

fn tables(bridged: &Bridged) -> Vec<Family> {
    let file = |table: &TableBridged| ("table", table.file.display().to_string());
    let entries = bridged
        .tables
        .iter()
        .map(|table| (vec![file(table)], table.entries));
    let loads = bridged.tables.iter().flat_map(|table| {
        [("taken", table.loads), ("refused", table.refused)]
            .map(|(outcome, count)| (vec![file(table), ("outcome", outcome.to_owned())], count))
    });
    let matched = bridged.tables.iter().flat_map(|table| {
        let rules = table.rules.iter();
        rules.map(move |(rule, count)| (vec![file(table), ("rule", rule.to_string())], *count))
    });
    vec![
        ("table_entries", "gauge", "Entries of a table.", entries.collect()),
        (
            "table_loads_total",
            "counter",
            "Times that a table's file was taken or refused.",
            loads.collect(),
        ),
        (
            "table_matched_total",
            "counter",
            "Frames that matched an entry of this value.",
            matched.collect(),
        ),
    ]
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
