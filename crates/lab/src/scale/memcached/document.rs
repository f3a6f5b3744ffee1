//! The document of `corelane lab scale memcached`. Changes only add, units stand in field names, raw trials are always kept, and what is
//! unknown is `null` with its reason beside it.

use super::metrics::{LOCAL, METRICS, RATE, Trial};
use crate::columns::words;
use crate::document::document;
use crate::placing::Placement;
use crate::scale::limit;
use crate::scale::plan;
use crate::scale::steps::{self, Kind, Report, active};
use corelane_measure::metric::Metric;
use corelane_report::reading::Reading;
use serde::{Deserialize, Serialize};

/// The schema that this version writes.
pub const SCHEMA: &str = "corelane/scale-memcached/1";

/// The whole document.
pub type MemcachedScaleReport = Report<Caches>;

/// One step. Its metrics are those of [`METRICS`].
pub type Step = steps::Step<Caches>;

/// Steps that differ in the number of active buckets alone.
pub(super) type Series<'a> = steps::Series<'a, Caches>;

document!(MemcachedScaleReport, [SCHEMA]);

corelane_measure::words!(Server, Transport);

/// Which server a step has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Server {
    /// Ours, whose buckets are steered exactly.
    Corelane,
    /// The other one.
    Subject,
}

/// What carries the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// A request per datagram.
    Udp,
    /// Connections.
    Tcp,
}

/// The fields specific to this document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Caches {
    /// What carries the requests.
    pub transport: Transport,
    /// The command of the other server, if there is one.
    #[serde(default)]
    pub subject: Option<String>,
    /// Planned steps that could not run, with reasons.
    #[serde(default)]
    pub left_out: Vec<String>,
}

/// What only datagrams have.
pub(super) const OF_DATAGRAMS: [&str; 3] = ["received_pps", "seen_pps", "answered_pps"];

impl Kind for Caches {
    type Selection = plan::Selection;
    type Shape = Shape;
    type Found = Found;
    type Trial = Trial;

    const OF_WORKERS_ALONE: bool = true;

    fn name(&self) -> &'static str {
        "memcached"
    }

    fn metrics(&self) -> &'static [&'static Metric<Trial>] {
        METRICS
    }

    fn columns() -> Vec<Reading<'static, Step>> {
        vec![
            words("server", |step: &Step| step.shape.server.to_string()),
            words("clients", |step: &Step| step.shape.placement.to_string()),
            active(),
        ]
    }

    fn fill(found: &mut Found, valid: &[&Trial]) {
        found.wrong_answers = valid.iter().map(|trial| trial.wrong).sum();
    }

    fn reason(&self, _: &Step, field: &str) -> Option<&'static str> {
        match self.transport {
            _ if field == LOCAL.name => Some("only corelane counts it"),
            _ if field.ends_with("_latency") => Some("no such operation was in the mix"),
            Transport::Tcp if OF_DATAGRAMS.contains(&field) => Some("a frame of TCP is not a request"),
            _ => None,
        }
    }

    fn law_rate(&self, step: &Step) -> Option<f64> {
        RATE.of(step)
    }

    fn left_out(&self) -> &[String] {
        &self.left_out
    }

    fn is_news(&self, field: &str) -> bool {
        !field.ends_with("_latency") && field != LOCAL.name
    }
}

/// What one step tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// The server.
    pub server: Server,
    /// Where clients run.
    pub placement: Placement,
    /// Buckets that the requests are aimed at; of the other server, CPUs that it may use.
    pub buckets_active: usize,
}

impl steps::Shape for Shape {
    fn active(&self) -> usize {
        self.buckets_active
    }

    fn grows_to(&self, other: &Self) -> bool {
        (self.server, self.placement) == (other.server, other.placement)
    }

    fn same_load(&self, _: &Self) -> bool {
        true
    }

    fn title(&self) -> String {
        format!("{} clients", self.who())
    }

    fn who(&self) -> String {
        format!("{}, {}", self.server, self.placement)
    }

    fn class(&self) -> String {
        let class = match self.server {
            Server::Corelane => "exact",
            Server::Subject => "reuseport",
        };
        format!("fill {class} {}", self.placement)
    }

    fn is_exact(&self) -> bool {
        (self.server, self.placement) == (Server::Corelane, Placement::Aligned)
    }

    fn is_crossed(&self) -> bool {
        self.placement == Placement::Crossed
    }

    fn places(&self, count: usize) -> &'static str {
        limit::buckets(count)
    }

    fn is_observed(&self) -> bool {
        true
    }

    fn weight(&self, _: &Self) -> u64 {
        0
    }
}

/// The fields specific to steps of caches.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Found {
    /// Answers that no correct server gives, over the valid trials.
    pub wrong_answers: u64,
}
