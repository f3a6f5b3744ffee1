//! What the connections of one pool ask for and expect: the same for all workers, and the same throughout a run.

use super::body::Body;
use super::error::HttpLoadError;
use super::plan::{Behaviour, HttpPlan, Model, PlannedPool, PlannedRequest, Promise, StatusRange};
use super::tls::{self, TlsPool};
use rustls::RootCertStore;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// What one pool asks for and expects.
#[derive(Debug)]
pub(super) struct Terms {
    pub(super) target: SocketAddr,
    pub(super) model: Model,
    /// From an answer to the next request of a connection.
    pub(super) think: Duration,
    pub(super) requests_a_connection: u32,
    pub(super) behaviour: Behaviour,
    pub(super) connect_timeout: Duration,
    pub(super) continue_timeout: Duration,
    pub(super) first_byte_timeout: Duration,
    pub(super) request_timeout: Duration,
    /// How its connections are encrypted, where they are.
    pub(super) tls: Option<TlsPool>,
    statuses: Vec<StatusRange>,
    requests: Vec<Prepared>,
}

/// A request as it is sent.
#[derive(Debug)]
pub(super) struct Prepared {
    head: Vec<u8>,
    last_head: Vec<u8>,
    pub(super) body: Option<Body>,
    pub(super) promise: Promise,
    /// Whether the body waits until the server asks for it.
    pub(super) expect_continue: bool,
    /// Whether the answer has no body.
    pub(super) to_head: bool,
    /// The weights up to this one, as a part of all.
    cumulative: f64,
}

impl Prepared {
    /// The head, for the last request of a connection or for any other.
    pub(super) fn head(&self, last: bool) -> &[u8] {
        if last { &self.last_head } else { &self.head }
    }
}

impl Terms {
    /// The terms of each pool of a plan: reads bodies, certificates and the system's authorities (these once).
    pub(super) fn of_plan(plan: &HttpPlan) -> Result<Vec<Arc<Self>>, HttpLoadError> {
        let mut system = None;
        let pools = plan.pools.iter();
        pools
            .map(|pool| Self::new(plan, pool, &mut system).map(Arc::new))
            .collect()
    }

    fn new(
        plan: &HttpPlan,
        pool: &PlannedPool,
        system: &mut Option<Arc<RootCertStore>>,
    ) -> Result<Self, HttpLoadError> {
        let (seconds, timeouts) = (Duration::from_secs_f64, &plan.timeouts);
        Ok(Self {
            target: pool.target,
            model: pool.model,
            think: match pool.model {
                Model::Closed { think_s } => seconds(think_s),
                Model::Open { .. } => Duration::ZERO,
            },
            requests_a_connection: pool.requests_a_connection.unwrap_or(u32::MAX),
            behaviour: pool.behaviour,
            connect_timeout: seconds(timeouts.connect_s),
            continue_timeout: seconds(timeouts.continue_s),
            first_byte_timeout: seconds(timeouts.first_byte_s.min(timeouts.request_s)),
            request_timeout: seconds(timeouts.request_s),
            tls: tls::pool(pool, system)?,
            statuses: pool.statuses.clone(),
            requests: prepare(pool)?,
        })
    }

    pub(super) fn is_open_loop(&self) -> bool {
        matches!(self.model, Model::Open { .. })
    }

    /// Which request comes next.
    pub(super) fn choose(&self, random: &mut fastrand::Rng) -> u16 {
        if self.requests.len() == 1 {
            return 0;
        }
        let drawn = random.f64();
        let chosen = self
            .requests
            .partition_point(|request| request.cumulative <= drawn);
        chosen.min(self.requests.len() - 1) as u16
    }

    pub(super) fn request(&self, index: u16) -> &Prepared {
        &self.requests[usize::from(index)]
    }

    /// Whether a status is one that counts as success.
    pub(super) fn expects(&self, status: u16) -> bool {
        self.statuses
            .iter()
            .any(|range| (range.first..=range.last).contains(&status))
    }
}

fn prepare(pool: &PlannedPool) -> Result<Vec<Prepared>, HttpLoadError> {
    let all: f64 = pool.requests.iter().map(|request| request.weight).sum();
    let mut weight = 0.0;
    let prepare = |request: &PlannedRequest| {
        weight += request.weight;
        Ok(Prepared {
            head: request.head.clone().into_bytes(),
            last_head: request.last_head.clone().into_bytes(),
            body: Body::load(&request.body, request.chunked)?,
            promise: request.promise,
            expect_continue: request.expect_continue,
            to_head: request.method == "HEAD",
            cumulative: weight / all,
        })
    };
    pool.requests.iter().map(prepare).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::http::plan::{PlannedBody, Timeouts};

    /// The terms of one request for `/`, as a test changes the plan.
    pub(in crate::http) fn terms(change: impl FnOnce(&mut HttpPlan)) -> Terms {
        let head = "GET / HTTP/1.1\r\nHost: server\r\n";
        let mut plan = HttpPlan {
            pools: vec![PlannedPool {
                name: "main".to_owned(),
                target: "10.0.0.1:80".parse().unwrap(),
                tls: None,
                model: Model::Closed { think_s: 0.0 },
                connections: 1,
                requests_a_connection: None,
                behaviour: Behaviour::default(),
                requests: vec![PlannedRequest {
                    weight: 1.0,
                    method: "GET".to_owned(),
                    target: "/".to_owned(),
                    head: format!("{head}\r\n"),
                    last_head: format!("{head}Connection: close\r\n\r\n"),
                    body: PlannedBody::Nothing,
                    chunked: false,
                    expect_continue: false,
                    promise: Promise::Anything,
                }],
                statuses: vec![StatusRange {
                    first: 200,
                    last: 299,
                }],
            }],
            phases: Vec::new(),
            requests: None,
            timeouts: Timeouts {
                connect_s: 4.0,
                continue_s: 1.0,
                first_byte_s: 2.0,
                request_s: 3.0,
                drain_s: 1.0,
            },
            engine: None,
            memory: corelane_host::memory::MemoryPolicy::FirstTouch,
            gather_us: 0,
            workers: Vec::new(),
        };
        change(&mut plan);
        let terms = Terms::of_plan(&plan).unwrap().remove(0);
        Arc::into_inner(terms).unwrap()
    }
}
