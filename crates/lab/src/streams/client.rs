//! The clients of a trial: a generator of requests or of bytes, and what either counted in one form.

use super::run::StreamsError;
use crate::child::{ChildError, HttpLoadProcess, Moment};
use corelane_host::bed::Side;
use corelane_load::http::{HttpLoaded, HttpPlan, PoolLoaded};
use corelane_report::histogram::Histogram;
use corelane_report::streams::Connections;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// What the clients of a step are to do.
pub(super) enum ClientPlan {
    /// Make requests.
    Http(Box<HttpPlan>),
}

/// A generator that waits for its plan.
pub(super) enum ClientOfTrial {
    Http(HttpLoadProcess, Box<HttpPlan>),
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
    /// The generator's report, without its plan, whose ports are most of it and which follows from the experiment's, and
    /// without histograms, which are above.
    pub(super) raw: Value,
}

impl ClientOfTrial {
    /// Starts the generator of `plan`.
    pub(super) fn start(plan: ClientPlan, program: &Path, side: &Side) -> Result<Self, ChildError> {
        Ok(match plan {
            ClientPlan::Http(plan) => Self::Http(HttpLoadProcess::start(program, side)?, plan),
        })
    }

    /// Its process.
    pub(super) fn pid(&self) -> u32 {
        match self {
            Self::Http(process, _) => process.pid(),
        }
    }

    /// Does as planned, see [`crate::child::LoadProcess::run`].
    pub(super) fn run(
        self,
        interrupt: &AtomicBool,
        reached: impl FnMut(Moment),
    ) -> Result<ClientCounts, StreamsError> {
        Ok(match self {
            Self::Http(process, plan) => of_http(&process.run(&plan, interrupt, reached)?),
        })
    }
}

fn of_http(loaded: &HttpLoaded) -> ClientCounts {
    let (requests, connections) = (&loaded.requests, &loaded.connections);
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
        received_bytes: loaded.bytes.received,
        sent_bytes: loaded.bytes.sent,
        latency: merged(loaded, |pool| &pool.latency_histogram),
        schedule_lag: merged(loaded, |pool| &pool.schedule_lag_histogram),
        connections: Connections {
            asked: connections.asked,
            opened: connections.opened.saturating_sub(connections.opened_again),
            held: connections.open_at_end,
            failed: named(connections.failed.occurred(), "connect_"),
            opening_s: Some(loaded.opening_s),
        },
        cpu_s: loaded.client.cpu_s,
        limited_by: loaded.limited_by.clone(),
        raw: without(super::as_json(loaded), &["plan", "pools", "phases"]),
    }
}

fn named(
    occurred: impl Iterator<Item = (corelane_load::http::Failure, u64)>,
    prefix: &str,
) -> BTreeMap<String, u64> {
    occurred
        .map(|(failure, count)| (format!("{prefix}{}", failure.name()), count))
        .collect()
}

fn merged(loaded: &HttpLoaded, of: impl Fn(&PoolLoaded) -> &Option<Histogram>) -> Option<Histogram> {
    let mut all: Option<Histogram> = None;
    for histogram in loaded.pools.iter().filter_map(|pool| of(pool).as_ref()) {
        match &mut all {
            Some(all) => all.merge(histogram),
            None => all = Some(histogram.clone()),
        }
    }
    all
}

fn without(mut document: Value, fields: &[&str]) -> Value {
    if let Some(document) = document.as_object_mut() {
        for field in fields {
            document.remove(*field);
        }
    }
    document
}
