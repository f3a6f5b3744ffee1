//! The requests of a pool as bytes, ready to send, and the expected responses.

use super::body::Body;
use super::error::HttpError;
use super::plan::{Http, Order, PlannedRequest, StatusRange, Turns};
use crate::streams::Timeouts;
use std::time::Duration;

/// The prepared requests of a pool.
#[derive(Debug)]
pub struct Requests {
    all: Vec<Prepared>,
    /// If they are made in turn.
    turns: Option<Turns>,
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
    /// Whether its own fields end the connection (RFC 9112 9.6).
    pub(super) closes: bool,
    /// Cumulative weight up to this request, as a fraction of the total.
    cumulative: f64,
}

impl Requests {
    /// Reads bodies.
    pub(super) fn prepare(http: &Http, timeouts: &Timeouts) -> Result<Self, HttpError> {
        let targets = http.targets.as_ref();
        let requests = targets.map_or(&http.requests[..], |targets| &targets.all);
        if requests.is_empty() {
            return Err(HttpError::Scenario("there is no request".to_owned()));
        }
        let sum: f64 = requests.iter().map(|request| request.weight).sum();
        let mut weight = 0.0;
        let prepare = |request: &PlannedRequest| {
            weight += request.weight;
            let closes = |value: &str| {
                value
                    .split(',')
                    .any(|option| option.trim().eq_ignore_ascii_case("close"))
            };
            Ok(Prepared {
                planned: request.clone(),
                body: Body::load(&request.body, request.chunked)?,
                to_head: request.method == "HEAD",
                closes: (request.fields())
                    .any(|(name, value)| name.eq_ignore_ascii_case("connection") && closes(value)),
                cumulative: weight / sum,
            })
        };
        let all: Result<_, HttpError> = requests.iter().map(prepare).collect();
        let in_turn = targets.filter(|targets| targets.order == Order::InTurn);
        Ok(Self {
            all: all?,
            turns: in_turn.map(|targets| targets.turns.clone()),
            statuses: http.statuses.clone(),
            follow: http.follow,
            strict: http.strict,
            continue_timeout: Duration::from_secs_f64(timeouts.continue_s),
        })
    }

    /// Chooses the next request.
    pub(super) fn choose(&self, random: &mut fastrand::Rng) -> u32 {
        if let Some(turns) = &self.turns {
            return (turns.next() % self.all.len()) as u32;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::scenario::{ClientPool, Scenario, TargetFiles, UrlEntry};
    use crate::sources::{Steerings, WorkerRequest};

    #[test]
    fn requests_of_files_take_turns_over_the_pools_of_all_addresses() {
        let client = ClientPool {
            connections: 2,
            ..ClientPool::default()
        };
        let url = "http://127.0.0.1:80/".parse().unwrap();
        let mut scenario = Scenario::of_url(&url, client, UrlEntry::default());
        scenario.server[0].addresses = ["127.0.0.1:80", "127.0.0.2:80"]
            .map(|text| text.parse().unwrap())
            .to_vec();
        scenario.urls[0].entry = vec![UrlEntry::default(); 3];
        let (files, order) = (Vec::new(), Order::InTurn);
        scenario.urls[0].targets = Some(TargetFiles { files, order });
        let workers = WorkerRequest {
            steering: Steerings::default(),
            buckets: None,
            cpus: vec![0],
            descriptor_limit: 1_000,
        };
        let plan = scenario.plan(&workers, Timeouts::default()).unwrap();
        let pools = plan.pools.iter();
        let pools: Result<Vec<_>, _> = pools
            .map(|pool| Requests::prepare(&pool.protocol, &plan.timeouts))
            .collect();
        let (pools, mut random) = (pools.unwrap(), fastrand::Rng::new());
        let turns = (0..7).map(|turn| pools[turn % 2].choose(&mut random));
        assert_eq!(turns.collect::<Vec<_>>(), [0, 1, 2, 0, 1, 2, 0]);
    }
}
