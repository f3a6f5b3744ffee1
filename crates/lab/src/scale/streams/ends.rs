//! What server and clients of a trial counted, in a common form.

use super::document::{Connections, Segments, Trial};
use crate::child::SubjectReady;
use crate::document::as_json;
use crate::trial::{Trial as _, TrialHead};
use corelane_load::http::{Histograms, HttpLoadReport, StatusRange};
use corelane_load::sources::Ports;
use corelane_load::tcp::TcpLoadReport;
use corelane_load::{Failure, RunOutcome};
use corelane_measure::counters::Counters;
use corelane_measure::histogram::Histogram;
use corelane_measure::quantity;
use corelane_rss::{Steering, Tuple};
use corelane_serve::http::HttpServed;
use corelane_serve::tcp::TcpServed;
use corelane_worker::worker_memory::WorkerMemory;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Starts the names of failures for which connections were not opened.
pub(super) const NOT_OPENED: &str = "connect_";

/// The clients' counts.
pub(super) struct ClientCounts {
    /// The trial as counted by the clients. Its raw report omits the plan, which is large and follows from the
    /// experiment's, and the histograms, which the trial contains.
    pub(super) trial: Trial,
    /// Requests written to a connection; `None` if there are no requests.
    pub(super) requests_sent: Option<u64>,
    /// Why the generator alone missed its schedule.
    pub(super) behind_schedule: Option<String>,
    /// Why its run failed: nothing was achieved, or its server was lost.
    pub(super) failed_because: Option<String>,
    /// Counts per bucket of the server, if connections were planned for buckets; empty without byte counts.
    pub(super) per_bucket: BTreeMap<u16, ClientBucket>,
}

/// The clients of one bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ClientBucket {
    /// Connections whose source ports were planned for it.
    pub(super) connections: u64,
    /// Bytes sent and received, if the bucket's workers have no other bucket.
    pub(super) bytes: Option<(u64, u64)>,
}

impl ClientCounts {
    /// Whether bytes are counted per bucket.
    pub(super) fn by_bucket(&self) -> bool {
        !self.per_bucket.is_empty() && self.per_bucket.values().all(|bucket| bucket.bytes.is_some())
    }
}

pub(super) fn of_http(loaded: &HttpLoadReport) -> ClientCounts {
    let counts = &loaded.counts;
    let (requests, connections) = (&counts.requests, &counts.connections);
    let mut errors = requests.by_cause.named("");
    for (name, count) in [
        ("unfinished", requests.unfinished),
        ("unsent", requests.unsent),
        ("connections_reset", connections.reset_by_server),
        ("connections_unanswered", connections.open_unanswered),
    ] {
        if count > 0 {
            errors.insert(name.to_owned(), count);
        }
    }
    let refused = refused(loaded).filter(|_| loaded.outcome.lost.is_empty());
    let trial = Trial {
        requests_ok: requests.ok,
        requests_late: requests.ok_late,
        errors,
        received_bytes: counts.bytes.received,
        sent_bytes: counts.bytes.sent,
        latency: merged(loaded, |histograms| &histograms.latency),
        over_time: loaded.outcome.over_time.clone(),
        schedule_lag: merged(loaded, |histograms| &histograms.schedule_lag),
        connections: Connections {
            asked: connections.asked,
            opened: connections.opened_first(),
            held: connections.open_at_end,
            failed: connections.failed.named(NOT_OPENED),
            opening_s: Some(loaded.opening_s),
        },
        limited_by: refused.clone().or_else(|| loaded.outcome.obstacle()),
        raw: without(loaded, &["plan", "pools", "phases", "over_time"]),
        ..Trial::new(head(loaded.running_s, &loaded.outcome))
    };
    ClientCounts {
        trial,
        requests_sent: Some(requests.sent),
        behind_schedule: loaded.behind_schedule.clone(),
        failed_because: refused.or_else(|| loaded.outcome.failed_because.clone()),
        per_bucket: BTreeMap::new(),
    }
}

/// The most frequent status that is no success by the plan, and the path that was asked for; `None` if a request
/// succeeded, or none got a wrong status.
fn refused(loaded: &HttpLoadReport) -> Option<String> {
    let requests = &loaded.counts.requests;
    if requests.ok > 0 || requests.by_cause.of(Failure::WrongStatus) == 0 {
        return None;
    }
    let planned = &loaded.plan.pools.first()?.protocol;
    let path = &planned.requests.first()?.target;
    let accepts = |range: &StatusRange, status| (range.first..=range.last).contains(&status);
    let is_wrong = |status| !planned.statuses.iter().any(|range| accepts(range, status));
    let statuses = requests.own.statuses.iter();
    let wrong = statuses.filter(|(status, _)| is_wrong(**status));
    let (status, times) = wrong.max_by_key(|(_, times)| **times)?;
    Some(format!("{status} on {path} ({} times)", quantity::count(*times)))
}

/// `steering` is the table that the sources were planned with, if any.
pub(super) fn of_tcp(loaded: &TcpLoadReport, steering: Option<&Steering>) -> ClientCounts {
    let total = &loaded.total;
    let mut errors = total.broken.named("");
    if total.undrained > 0 {
        errors.insert("connections_not_ended".to_owned(), total.undrained);
    }
    let trial = Trial {
        errors,
        received_bytes: total.received_bytes,
        sent_bytes: total.sent_bytes,
        schedule_lag: loaded.schedule_lag_histogram.clone(),
        over_time: loaded.outcome.over_time.clone(),
        connections: Connections {
            asked: total.asked,
            opened: total.opened,
            held: total.open_at_end,
            failed: total.not_opened.named(NOT_OPENED),
            opening_s: Some(loaded.opening_s),
        },
        limited_by: loaded.outcome.obstacle(),
        segments: Some(Segments {
            sent_again: total.retransmitted,
            out_of_order: total.out_of_order,
            stalls: total.stalls,
        }),
        raw: without(
            loaded,
            &["plan", "connect_histogram", "schedule_lag_histogram", "over_time"],
        ),
        ..Trial::new(head(loaded.running_s, &loaded.outcome))
    };
    ClientCounts {
        trial,
        requests_sent: None,
        behind_schedule: loaded.behind_schedule.clone(),
        failed_because: loaded.outcome.failed_because.clone(),
        per_bucket: steering.map_or_else(BTreeMap::new, |steering| per_bucket(loaded, steering)),
    }
}

/// The head of a trial that went so for the clients, whose turn is not known yet.
fn head(running_s: f64, outcome: &RunOutcome) -> TrialHead {
    TrialHead {
        lost: outcome.lost.clone(),
        ..TrialHead::new(0, 0, running_s)
    }
}

/// What the workers did to each bucket: connections by the hash of their sources, all of a lease alike; bytes by the
/// worker.
fn per_bucket(loaded: &TcpLoadReport, steering: &Steering) -> BTreeMap<u16, ClientBucket> {
    let (steerer, target) = (steering.steerer(), loaded.plan.target.address());
    let mut buckets: BTreeMap<u16, ClientBucket> = BTreeMap::new();
    for lease in loaded.plan.workers.iter().flat_map(|worker| &worker.leases) {
        let port = match &lease.ports {
            Ports::Kernel | Ports::None => None,
            Ports::Range { first, .. } => Some(*first),
            Ports::Listed(ports) => ports.first().copied(),
        };
        let source = port.map(|port| SocketAddr::new(lease.address, port));
        if let Some(tuple) = source
            .zip(target)
            .and_then(|(source, target)| Tuple::new(source, target).ok())
        {
            let bucket = steerer.bucket_of(&tuple).index() as u16;
            buckets.entry(bucket).or_default().connections += lease.connections as u64;
        }
    }
    for worker in &loaded.workers {
        // A worker with several buckets does not count per bucket.
        let Some(own) = worker.bucket.and_then(|bucket| buckets.get_mut(&bucket)) else {
            continue;
        };
        let (sent, received) = own.bytes.unwrap_or_default();
        let counts = &worker.counts;
        own.bytes = Some((sent + counts.sent_bytes, received + counts.received_bytes));
    }
    buckets
}

fn merged(loaded: &HttpLoadReport, of: impl Fn(&Histograms) -> &Histogram) -> Option<Histogram> {
    Histogram::sum(loaded.pools.iter().map(|pool| of(&pool.tally.histograms))).if_any()
}

/// The server's own counts.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ServerCounts {
    /// Requests received; `None` if bytes are counted.
    pub(super) requests: Option<u64>,
    /// Connections accepted by each bucket, in bucket order; empty if the server does not report them.
    pub(super) accepted: Vec<u64>,
    /// Bytes that each bucket received and sent, in bucket order; empty where requests are counted, or nothing.
    pub(super) bytes: Vec<(u64, u64)>,
    /// Retransmissions, reordering and stalls of TCP, if they were polled.
    pub(super) segments: Option<Segments>,
    /// The last lines of a subject's output.
    pub(super) said: String,
    /// NUMA placement of its workers, if that was requested.
    pub(super) memory: Vec<WorkerMemory>,
    /// Its raw report.
    pub(super) raw: Value,
}

/// A subject does not count; its report shows that it still runs.
pub(super) fn served_by_subject(served: &SubjectReady) -> ServerCounts {
    ServerCounts {
        said: served.said.clone(),
        raw: as_json(served),
        ..ServerCounts::default()
    }
}

pub(super) fn served_http(served: &HttpServed) -> ServerCounts {
    ServerCounts {
        requests: Some(served.sum(|bucket| bucket.requests)),
        accepted: (served.buckets.iter())
            .map(|bucket| bucket.connections.accepted)
            .collect(),
        memory: served.memory.clone(),
        // The report has steering once for all trials, and memory in each.
        raw: without(served, &["steering", "memory"]),
        ..ServerCounts::default()
    }
}

pub(super) fn served_tcp(served: &TcpServed) -> ServerCounts {
    let buckets = || served.buckets.iter().map(|bucket| &bucket.connections);
    ServerCounts {
        requests: None,
        accepted: buckets().map(|bucket| bucket.accepted).collect(),
        bytes: buckets()
            .map(|bucket| (bucket.bytes_received, bucket.bytes_sent))
            .collect(),
        segments: Some(Segments {
            sent_again: served.sum(|bucket| bucket.retransmitted_segments),
            out_of_order: served.sum(|bucket| bucket.out_of_order_segments),
            stalls: served.sum(|bucket| bucket.stalls),
        }),
        memory: served.memory.clone(),
        raw: without(served, &["steering", "memory"]),
        ..ServerCounts::default()
    }
}

/// The document without some of its fields.
fn without(document: &impl Serialize, fields: &[&str]) -> Value {
    let mut document = as_json(document);
    if let Some(document) = document.as_object_mut() {
        document.retain(|name, _| !fields.contains(&name.as_str()));
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_redirects_every_request_is_named_with_its_status() {
        let document = include_str!("../../../../cli/tests/golden/documents/load-http-later.json");
        let mut loaded: HttpLoadReport = serde_json::from_str(document).unwrap();
        let (first, last) = (200, 299);
        loaded.plan.pools[0].protocol.statuses = vec![StatusRange { first, last }];
        let requests = &mut loaded.counts.requests;
        requests.ok = 0;
        requests.by_cause.count(Failure::WrongStatus);
        requests.own.statuses = [(301, 2_223), (404, 3)].into();
        assert_eq!(refused(&loaded).as_deref(), Some("301 on / (2,223 times)"));
    }
}
