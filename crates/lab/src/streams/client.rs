//! The clients of a trial: a generator of requests or of bytes, and what either counted in one form.

use super::document::{Connections, Segments};
use super::run::StreamsError;
use crate::child::{ChildError, LoadProcess};
use crate::document::as_json;
use corelane_host::bed::Side;
use corelane_load::http::{Histograms, HttpLoad, HttpLoaded, HttpPlan};
use corelane_load::sources::Ports;
use corelane_load::tcp::{TcpLoad, TcpLoaded, TcpPlan};
use corelane_load::{Failure, Moment};
use corelane_measure::histogram::Histogram;
use corelane_rss::{Steering, Tuple};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// What the clients of a step are to do.
pub(super) enum ClientPlan {
    /// Make requests.
    Http(Box<HttpPlan>),
    /// Move bytes.
    Tcp(Box<TcpPlan>),
}

/// A generator that waits for its plan.
pub(super) enum ClientOfTrial {
    Http(LoadProcess<HttpLoad>, Box<HttpPlan>),
    Tcp(LoadProcess<TcpLoad>, Box<TcpPlan>),
}

/// What the clients counted.
pub(super) struct ClientCounts {
    /// Seconds that were measured.
    pub(super) running_s: f64,
    /// Requests written to a connection; `None` where there are no requests.
    pub(super) requests_sent: Option<u64>,
    /// Requests answered as they should be.
    pub(super) requests_ok: u64,
    /// What went wrong, by cause.
    pub(super) errors: BTreeMap<String, u64>,
    pub(super) received_bytes: u64,
    pub(super) sent_bytes: u64,
    pub(super) latency: Option<Histogram>,
    pub(super) schedule_lag: Option<Histogram>,
    pub(super) connections: Connections,
    /// CPU seconds while it was measured.
    pub(super) cpu_s: f64,
    pub(super) limited_by: Option<String>,
    /// Why a schedule was not kept though nothing but the generator was in its way.
    pub(super) behind_schedule: Option<String>,
    /// What TCP had to mend, where it was asked.
    pub(super) segments: Option<Segments>,
    /// What it did to each bucket of the server, where its connections were planned for one; empty where there are no bytes
    /// to count.
    pub(super) per_bucket: BTreeMap<u16, ClientBucket>,
    /// The generator's report, without its plan, whose ports are most of it and which follows from the experiment's, and
    /// without histograms, which are above.
    pub(super) raw: Value,
}

/// The clients of one bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ClientBucket {
    /// Connections whose source ports were planned for it.
    pub(super) connections: u64,
    /// Bytes sent and received, where the workers of the bucket have no other.
    pub(super) bytes: Option<(u64, u64)>,
}

impl ClientCounts {
    /// Whether it tells the bytes of each bucket apart.
    pub(super) fn by_bucket(&self) -> bool {
        !self.per_bucket.is_empty() && self.per_bucket.values().all(|bucket| bucket.bytes.is_some())
    }
}

impl ClientOfTrial {
    /// Starts the generator of `plan`.
    pub(super) fn start(plan: ClientPlan, program: &Path, side: &Side) -> Result<Self, ChildError> {
        Ok(match plan {
            ClientPlan::Http(plan) => Self::Http(LoadProcess::<HttpLoad>::start(program, side)?, plan),
            ClientPlan::Tcp(plan) => Self::Tcp(LoadProcess::<TcpLoad>::start(program, side)?, plan),
        })
    }

    /// Its process.
    pub(super) fn pid(&self) -> u32 {
        match self {
            Self::Http(process, _) => process.pid(),
            Self::Tcp(process, _) => process.pid(),
        }
    }

    /// Does as planned, see [`crate::child::LoadProcess::run`]. `steering` is what its sources were planned by, where they
    /// were.
    pub(super) fn run(
        self,
        steering: Option<&Steering>,
        interrupt: &AtomicBool,
        reached: impl FnMut(Moment),
    ) -> Result<ClientCounts, StreamsError> {
        Ok(match self {
            Self::Http(process, plan) => of_http(&process.run(&plan, interrupt, reached)?),
            Self::Tcp(process, plan) => of_tcp(&process.run(&plan, interrupt, reached)?, steering),
        })
    }
}

fn of_http(loaded: &HttpLoaded) -> ClientCounts {
    let counts = &loaded.counts;
    let (requests, connections) = (&counts.requests, &counts.connections);
    let mut errors = named(requests.by_cause.occurred(), "");
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
    ClientCounts {
        running_s: loaded.running_s,
        requests_sent: Some(requests.sent),
        requests_ok: requests.ok,
        errors,
        received_bytes: counts.bytes.received,
        sent_bytes: counts.bytes.sent,
        latency: merged(loaded, |histograms| &histograms.latency),
        schedule_lag: merged(loaded, |histograms| &histograms.schedule_lag),
        connections: Connections {
            asked: connections.asked,
            opened: connections.opened.saturating_sub(connections.opened_again),
            held: connections.open_at_end,
            failed: named(connections.failed.occurred(), "connect_"),
            opening_s: Some(loaded.opening_s),
        },
        cpu_s: loaded.client.cpu_s,
        limited_by: loaded.limited_by.clone(),
        behind_schedule: loaded.behind_schedule.clone(),
        segments: None,
        per_bucket: BTreeMap::new(),
        raw: super::without(as_json(loaded), &["plan", "pools", "phases"]),
    }
}

fn of_tcp(loaded: &TcpLoaded, steering: Option<&Steering>) -> ClientCounts {
    let total = &loaded.total;
    let mut errors = named(total.broken.occurred(), "");
    if total.undrained > 0 {
        errors.insert("connections_not_ended".to_owned(), total.undrained);
    }
    ClientCounts {
        running_s: loaded.running_s,
        requests_sent: None,
        requests_ok: 0,
        errors,
        received_bytes: total.received_bytes,
        sent_bytes: total.sent_bytes,
        latency: None,
        schedule_lag: loaded.schedule_lag_histogram.clone(),
        connections: Connections {
            asked: total.asked,
            opened: total.opened,
            held: total.open_at_end,
            failed: named(total.not_opened.occurred(), "connect_"),
            opening_s: Some(loaded.opening_s),
        },
        cpu_s: loaded.cpu_s,
        limited_by: loaded.limited_by.clone(),
        behind_schedule: loaded.behind_schedule.clone(),
        segments: Some(Segments {
            sent_again: total.retransmitted,
            out_of_order: total.out_of_order,
            stalls: total.stalls,
        }),
        per_bucket: steering.map_or_else(BTreeMap::new, |steering| per_bucket(loaded, steering)),
        raw: super::without(
            as_json(loaded),
            &["plan", "connect_histogram", "schedule_lag_histogram"],
        ),
    }
}

/// What the workers did to each bucket: connections by the hash of their sources, all of a lease alike; bytes by the worker.
fn per_bucket(loaded: &TcpLoaded, steering: &Steering) -> BTreeMap<u16, ClientBucket> {
    let (steerer, target) = (steering.steerer(), loaded.plan.target);
    let mut buckets: BTreeMap<u16, ClientBucket> = BTreeMap::new();
    for lease in loaded.plan.workers.iter().flat_map(|worker| &worker.leases) {
        let port = match &lease.ports {
            Ports::Kernel => None,
            Ports::Range { first, .. } => Some(*first),
            Ports::Listed(ports) => ports.first().copied(),
        };
        let source = port.map(|port| SocketAddr::new(lease.address, port));
        if let Some(tuple) = source.and_then(|source| Tuple::new(source, target).ok()) {
            let bucket = steerer.bucket_of(&tuple).index() as u16;
            buckets.entry(bucket).or_default().connections += lease.connections as u64;
        }
    }
    for worker in &loaded.workers {
        // A worker of several buckets does not tell them apart.
        let Some(own) = worker.bucket.and_then(|bucket| buckets.get_mut(&bucket)) else {
            continue;
        };
        let (sent, received) = own.bytes.unwrap_or_default();
        let counts = &worker.counts;
        own.bytes = Some((sent + counts.sent_bytes, received + counts.received_bytes));
    }
    buckets
}

fn named(occurred: impl Iterator<Item = (Failure, u64)>, prefix: &str) -> BTreeMap<String, u64> {
    occurred
        .map(|(failure, count)| (format!("{prefix}{}", failure.name()), count))
        .collect()
}

fn merged(loaded: &HttpLoaded, of: impl Fn(&Histograms) -> &Histogram) -> Option<Histogram> {
    let mut all = Histogram::new();
    let pools = loaded.pools.iter();
    pools.for_each(|pool| all.merge(of(&pool.tally.histograms)));
    (all.count() > 0).then_some(all)
}
