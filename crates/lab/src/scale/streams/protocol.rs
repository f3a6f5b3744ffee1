//! What differs between the experiments over connections, as data of each protocol.

use super::metrics::{self, CLIENT_PER_KIB, CLIENT_PER_REQUEST, SERVER_PER_KIB, SERVER_PER_REQUEST, Trial};
use corelane_measure::metric::Metric;
use corelane_measure::quantity::{self, or_missing};
use serde::{Deserialize, Serialize};

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// Requests answered.
    Http,
    /// Bytes carried.
    Tcp,
}

impl Protocol {
    /// What is particular to it.
    #[must_use]
    pub const fn facts(self) -> &'static Facts {
        match self {
            Self::Http => &HTTP,
            Self::Tcp => &TCP,
        }
    }
}

/// What is particular to a protocol.
#[derive(Debug)]
pub struct Facts {
    /// The schema of its document.
    pub schema: &'static str,
    /// Its name for people.
    pub(crate) name: &'static str,
    /// Every metric of its document, in the order of columns; steps are judged by the first.
    pub metrics: &'static [&'static Metric<Trial>],
    /// The unit of its rate: in tables, and on an axis.
    pub(super) unit: [&'static str; 2],
    /// Its rate on an axis, of what a trial recorded over time.
    pub(super) per_recorded: f64,
    /// Its rate as events per second.
    pub(super) events: f64,
    /// What has a size.
    pub(super) sized: &'static str,
    /// What was done at a rate.
    pub(super) did: fn(Option<f64>) -> String,
    /// What each connection waits for.
    pub(super) awaited: &'static str,
    /// Why a trial without any is no result.
    pub(super) nothing: fn(&Trial) -> Option<&'static str>,
    /// The CPU time of one event, of either side.
    pub(super) costs: [(&'static str, &'static Metric<Trial>); 2],
}

pub(super) const HTTP: Facts = Facts {
    schema: "corelane/scale-http/1",
    name: "HTTP",
    metrics: metrics::HTTP,
    unit: ["requests/s", "requests per second"],
    per_recorded: 1.0,
    events: 1.0,
    sized: "object",
    did: |rate| format!("answered {}", or_missing(rate, quantity::rate)),
    awaited: "its answer",
    nothing: |trial| match (trial.requests_ok, trial.in_time()) {
        (0, _) => Some("no request was answered"),
        (_, 0) => Some("no request was answered within the measured time"),
        _ => None,
    },
    costs: [
        ("server CPU per request", &SERVER_PER_REQUEST),
        ("client CPU per request", &CLIENT_PER_REQUEST),
    ],
};

pub(super) const TCP: Facts = Facts {
    schema: "corelane/scale-tcp/1",
    name: "TCP",
    metrics: metrics::TCP,
    unit: ["Gb/s", "Gb/s"],
    per_recorded: 8.0 / 1e9,
    events: 1e9,
    sized: "write",
    did: |rate| {
        format!(
            "carried {} Gb/s",
            or_missing(rate, |rate| quantity::fixed(rate, 2))
        )
    },
    awaited: "its peer to take more",
    nothing: |trial| (trial.received_bytes + trial.sent_bytes == 0).then_some("no byte was carried"),
    costs: [
        ("server CPU per KiB", &SERVER_PER_KIB),
        ("client CPU per KiB", &CLIENT_PER_KIB),
    ],
};
