//! The requests of a pool as bytes, ready to send, and the expected responses.

use super::body::Body;
use super::error::HttpError;
use super::plan::{Http, Order, PlannedRequest, StatusRange};
use crate::streams::Timeouts;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The prepared requests of a pool.
#[derive(Debug)]
pub struct Requests {
    all: Vec<Prepared>,
    /// The number of the next request, if they are made in turn; all workers count it up.
    next: Option<AtomicUsize>,
    statuses: Vec<StatusRange>,
    /// How many redirects of a request are followed.
    pub(super) follow: u8,
    pub(super) strict: bool,
    /// From the head of a request to sending its body without 100 Continue.
    pub(super) continue_timeout: Duration,
}

/// A prepared request.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) planned: PlannedRequest,
    pub(super) body: Option<Body>,
    /// Whether the response has no body.
    pub(super) to_head: bool,
    /// Cumulative weight up to this request, as a fraction of the total.
    cumulative: f64,
}

impl Requests {
    /// Reads bodies.
    pub(super) fn prepare(http: &Http, timeouts: &Timeouts) -> Result<Self, HttpError> {
        let requests = http
            .targets
            .as_ref()
            .map_or(&http.requests[..], |targets| &targets.all);
        let in_turn = http
            .targets
            .as_ref()
            .is_some_and(|targets| targets.order == Order::InTurn);
        if requests.is_empty() {
            return Err(HttpError::Scenario("there is no request".to_owned()));
        }
        let sum: f64 = requests.iter().map(|request| request.weight).sum();
        let mut weight = 0.0;
        let prepare = |request: &PlannedRequest| {
            weight += request.weight;
            Ok(Prepared {
                planned: request.clone(),
                body: Body::load(&request.body, request.chunked)?,
                to_head: request.method == "HEAD",
                cumulative: weight / sum,
            })
        };
        let all: Result<_, HttpError> = requests.iter().map(prepare).collect();
        Ok(Self {
            all: all?,
            next: in_turn.then(AtomicUsize::default),
            statuses: http.statuses.clone(),
            follow: http.follow,
            strict: http.strict,
            continue_timeout: Duration::from_secs_f64(timeouts.continue_s),
        })
    }

    /// Chooses the next request.
    pub(super) fn choose(&self, random: &mut fastrand::Rng) -> u32 {
        if let Some(next) = &self.next {
            return (next.fetch_add(1, Ordering::Relaxed) % self.all.len()) as u32;
        }
        if self.all.len() == 1 {
            return 0;
        }
        let drawn = random.f64();
        let chosen = self.all.partition_point(|request| request.cumulative <= drawn);
        chosen.min(self.all.len() - 1) as u32
    }

    pub(super) fn request(&self, index: u32) -> &Prepared {
        &self.all[index as usize]
    }

    /// Whether a status counts as success.
    pub(super) fn expects(&self, status: u16) -> bool {
        let holds = |range: &StatusRange| (range.first..=range.last).contains(&status);
        self.statuses.iter().any(holds)
    }
}
