//! Metrics for Prometheus: takes a document, serves its text format over a Unix socket or a loopback port.
//!
//! Serves one request per connection, one at a time, and ignores the path: the response is always the metrics.

use super::document::{Bridged, LinkBridged, TableBridged};
use corelane_measure::metric::{Metric, Sample, Show};
use corelane_proto::http::answer;
use corelane_proto::http::request::{self, Limits, Version};
use corelane_report::exposition::{Labels, expose};
use socket2::{Domain, SockAddr, Socket, Type};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, Read as _, Write};
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Time limit for a client to send its request; meanwhile other clients wait, but counting continues.
const PATIENCE: Duration = Duration::from_secs(1);

/// Listen backlog.
const BACKLOG: i32 = 128;

/// Where metrics are served.
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
            Ok(_) => Err("metrics are served on a loopback address only: write 127.0.0.1:9100 or unix:PATH"),
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

/// Serves metrics. Dropping it removes its socket.
#[derive(Debug)]
pub struct Metrics {
    listener: Socket,
    address: MetricsAddress,
}

impl Metrics {
    /// Listens. The Unix socket of a process that was killed is replaced; one with a listener, or a file of another
    /// kind, is not.
    ///
    /// # Errors
    /// If the address is in use or unavailable.
    pub fn listen(address: &MetricsAddress) -> io::Result<Metrics> {
        let (domain, name) = match address {
            MetricsAddress::Unix(path) => (Domain::UNIX, SockAddr::unix(path)?),
            MetricsAddress::Loopback(address) => (Domain::for_address(*address), (*address).into()),
        };
        let listener = Socket::new(domain, Type::STREAM, None)?;
        listener.set_reuse_address(true)?;
        match (listener.bind(&name), address) {
            (Err(error), MetricsAddress::Unix(path))
                if error.kind() == io::ErrorKind::AddrInUse && is_left_over(path) =>
            {
                fs::remove_file(path)?;
                listener.bind(&name)?;
            }
            (bound, _) => bound?,
        }
        listener.listen(BACKLOG)?;
        listener.set_nonblocking(true)?;
        let bound = listener.local_addr()?.as_socket();
        Ok(Metrics {
            listener,
            address: bound.map_or_else(|| address.clone(), MetricsAddress::Loopback),
        })
    }

    /// The listen address, with the port chosen by the kernel for port 0.
    #[must_use]
    pub fn address(&self) -> &MetricsAddress {
        &self.address
    }

    /// Serves clients that connected since the last call, and returns their number. A client that disconnects is not an
    /// error.
    pub fn answer(&self, counts: impl Fn() -> Bridged) -> usize {
        let mut answered = 0;
        while let Ok((stream, _)) = self.listener.accept() {
            let _ = reply(stream, || exposition(&counts()));
            answered += 1;
        }
        answered
    }
}

/// Whether this is a socket without a listener.
fn is_left_over(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|there| there.file_type().is_socket());
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    is_socket && UnixStream::connect(path).is_err_and(refused)
}

impl Drop for Metrics {
    fn drop(&mut self) {
        if let MetricsAddress::Unix(path) = &self.address {
            let _ = fs::remove_file(path);
        }
    }
}

/// Reads a request, valid or not, and sends the response.
fn reply(mut stream: Socket, body: impl FnOnce() -> String) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let (mut request, mut part) = (Vec::new(), [0; 1024]);
    while let Ok(None) = request::read(&request, &Limits::default()) {
        match stream.read(&mut part)? {
            0 => break,
            bytes => request.extend_from_slice(&part[..bytes]),
        }
    }
    let (body, mut head) = (body(), Vec::new());
    answer::begin(&mut head, 200);
    answer::field(&mut head, "Content-Type", b"text/plain; version=0.0.4");
    answer::number(&mut head, "Content-Length", body.len() as u64);
    answer::connection(&mut head, Version::Http11, false);
    answer::end(&mut head);
    stream.write_all(&head)?;
    stream.write_all(body.as_bytes())
}

/// Samples of one metric: labels, and the number.
type Samples = Vec<(Labels, u64)>;

/// A metric of each link: name, description, and how to read it.
type LinkMetric = (&'static str, &'static str, fn(&LinkBridged) -> u64);

const OF_LINKS: [LinkMetric; 5] = [
    ("frames_received_total", "Frames received from a link.", |link| {
        link.tally.received
    }),
    ("frames_sent_total", "Frames sent to a link.", |link| {
        link.tally.sent
    }),
    (
        "frames_receive_dropped_total",
        "Frames that found a link's receive ring full.",
        |link| link.tally.receive_dropped,
    ),
    ("link_up", "Whether a link is up.", |link| u64::from(link.up)),
    ("link_lost_total", "Number of times a link was lost.", |link| {
        link.lost
    }),
];

/// The metrics in Prometheus's text format, version 0.0.4.
#[must_use]
pub fn exposition(bridged: &Bridged) -> String {
    let mut text = String::new();
    let mut add = |name, about, samples: Samples| {
        let read = |number: &u64| Some(Sample::Number(*number as f64));
        let metric = Metric::explaining(name, name, Show::Count)
            .about(about)
            .read(read);
        let samples = samples.iter().map(|(labels, number)| (labels.clone(), number));
        expose(&mut text, "corelane_bridge", &metric, samples);
    };
    let links = || bridged.links.iter();
    let link = |link: &LinkBridged| ("link", link.link.clone());
    for (name, about, read) in OF_LINKS {
        let samples = links().map(|of| (vec![link(of)], read(of)));
        add(name, about, samples.collect());
    }
    let not_sent = links().flat_map(|of| by_name(link(of), "reason", &of.not_sent));
    let about = "Frames that passed and were not sent to a link.";
    add("frames_not_sent_total", about, not_sent.collect());
    let faults = links().flat_map(|of| {
        of.faults
            .iter()
            .flat_map(|faults| by_name(link(of), "fault", faults))
    });
    // Not a counter: the number of frames currently held back.
    let faults = faults.filter(|(labels, _)| labels.iter().all(|(_, name)| name != "held"));
    let about = "Frames affected by a fault configured on a link.";
    add("frames_faulted_total", about, faults.collect());
    let dropped = bridged.dropped.iter();
    let dropped = dropped.map(|(reason, count)| (vec![("reason", reason.clone())], *count));
    add("frames_dropped_total", "Frames dropped.", dropped.collect());

    let tables = || bridged.tables.iter();
    let file = |table: &TableBridged| ("table", table.file.display().to_string());
    let entries = tables().map(|table| (vec![file(table)], table.entries));
    add("table_entries", "Entries of a table.", entries.collect());
    let loads = tables().flat_map(|table| {
        [("taken", table.loads), ("refused", table.refused)]
            .map(|(outcome, count)| (vec![file(table), ("outcome", outcome.to_owned())], count))
    });
    let about = "Number of times a table's file was loaded or rejected.";
    add("table_loads_total", about, loads.collect());
    let matched = tables().flat_map(|table| by_name(file(table), "rule", &table.rules));
    let about = "Frames that matched an entry of this value.";
    add("table_matched_total", about, matched.collect());
    text
}

/// Counters of one metric by name, with the name as a second label.
fn by_name<N: fmt::Display>(
    of: (&'static str, String),
    label: &'static str,
    counts: &BTreeMap<N, u64>,
) -> impl Iterator<Item = (Labels, u64)> {
    let labels = move |name: &N| vec![of.clone(), (label, name.to_string())];
    counts.iter().map(move |(name, count)| (labels(name), *count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn only_the_socket_of_an_ended_process_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics");
        let address = MetricsAddress::Unix(path.clone());
        // A killed process leaves its socket: closing a listener does not remove it either.
        drop(UnixListener::bind(&path).unwrap());
        let metrics = Metrics::listen(&address).unwrap();
        assert!(Metrics::listen(&address).is_err(), "a listener was replaced");
        drop(metrics);
        assert!(!path.exists());
        fs::write(&path, "a file").unwrap();
        assert!(Metrics::listen(&address).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "a file");
    }
}
