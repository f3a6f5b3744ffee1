//! Merges the outcomes of all workers into the document, and determines what limited the generator.

use super::counts::{ConnectionCounts, Counts, OwnCounts, RequestCounts, Tally};
use super::document::{ClientCost, PoolCounts, StreamLoadReport, WorkerCounts};
use super::generator::Outcome;
use super::plan::PlannedPool;
use super::protocol::{StreamProtocol, Traffic};
use super::run::{StreamLoad, StreamStart};
use super::tls::{AUTHORITY, TlsCounts};
use crate::Failure;
use crate::account::late;
use crate::document::RunOutcome;
use crate::lost::Lost;
use crate::report::BY_GENERATOR;
use crate::standstill;
use corelane_host::usage::Usage;
use corelane_measure::counters::Counters;
use corelane_measure::histogram::Summary;
use corelane_measure::quantity;
use corelane_worker::engine::Remote;
use corelane_worker::memory::PageLocations;
use std::collections::BTreeSet;
use std::time::Duration;

/// Share of scheduled requests that the generator did not send, although a connection was free, above which it is reported as
/// the limit.
const MOST_UNSENT: f64 = 0.001;

/// Share of requests waiting for a connection above which the number of connections is reported as the limit.
const MOST_WAITING: f64 = 0.01;

impl<P: StreamStart> StreamLoad<P> {
    /// The document of these outcomes, in the order of the plan's workers.
    pub(crate) fn add_up(&self, outcomes: &[Outcome<P>]) -> StreamLoadReport<P> {
        let of_pool = |pool: usize| Tally::sum(outcomes.iter().map(|outcome| &outcome.groups[pool].tally));
        let plan = self.plan();
        let pools = plan.pools.iter().enumerate();
        let pools: Vec<PoolCounts<_>> = pools
            .map(|(place, pool)| PoolCounts {
                name: pool.name.clone(),
                target: pool.target.clone(),
                model: pool.model.name().to_owned(),
                tally: of_pool(place),
            })
            .collect();
        let Tally { counts, histograms } = Tally::sum(pools.iter().map(|pool| &pool.tally));
        let running = outcomes.iter().map(|outcome| outcome.running).max();
        let running_s = running.unwrap_or_default().as_secs_f64();
        let mut models: Vec<&str> = pools.iter().map(|pool| pool.model.as_str()).collect();
        models.dedup();
        let late = self.late(counts.schedule_lag, outcomes);
        let standstill = standstill::limit(
            (plan.workers.iter().zip(outcomes))
                .map(|(planned, outcome)| (planned.cpu, outcome.stood_still, outcome.running)),
        );
        let behind = |most_unsent| behind(&counts.requests, late.as_ref(), most_unsent);
        let targets: BTreeSet<&Remote> = plan.pools.iter().map(|pool| &pool.target).collect();
        let gathering = outcomes.iter().map(|outcome| outcome.gathering).max();
        let gathering = gathering.filter(|gathering| !gathering.is_zero());
        StreamLoadReport {
            schema: P::SCHEMA.to_owned(),
            model: if models.len() == 1 { models[0] } else { "mixed" }.to_owned(),
            engine: self.engine.kind.to_string(),
            engine_reason: self.engine.reason.clone(),
            opening_s: self.opening().as_secs_f64(),
            running_s,
            requests_per_second: if running_s > 0.0 {
                counts.requests.ok.saturating_sub(counts.requests.ok_late) as f64 / running_s
            } else {
                0.0
            },
            outcome: RunOutcome {
                over_time: self.team.over_time.ended(running_s, &histograms.latency),
                limited_by: limited_by(&counts, standstill.as_ref(), behind(0.0)),
                failed_because: failed_because::<P>(&counts, &targets),
                notes: (gathering.map(gathered).into_iter())
                    .chain(counts.requests.own.note())
                    .collect(),
                ..RunOutcome::default()
            }
            // A server that took bytes and ended every connection may have what it wanted.
            .with_lost(self.lost(outcomes), !P::Traffic::LASTS),
            behind_schedule: standstill.or_else(|| behind(MOST_UNSENT)),
            gather_us: gathering.map(|gathering| gathering.as_secs_f64() * 1e6),
            client: self.cost(outcomes, counts.requests.ok, counts.connections.opened),
            workers: self.by_worker(outcomes),
            counts,
            plan: plan.clone(),
            phases: self.phases.clone(),
            pools,
        }
    }

    /// How late requests left, if contention for the workers' CPUs does not explain it.
    fn late(&self, lag: Option<Summary>, outcomes: &[Outcome<P>]) -> Option<String> {
        let cpus = self.plan().workers.iter().map(|worker| worker.cpu);
        let late = late("requests", lag, cpus)?;
        let waited: Duration = outcomes.iter().map(|outcome| outcome.waited).sum();
        let shown = quantity::duration(waited.as_nanos() as f64);
        Some(match waited.is_zero() {
            true => late,
            false => format!("{late}; workers waited {shown} for busy CPUs"),
        })
    }

    /// When the server of each pool was lost to all workers that have connections to it.
    fn lost(&self, outcomes: &[Outcome<P>]) -> Vec<Lost> {
        let start = outcomes.first().map(|outcome| outcome.start).unwrap_or_default();
        let of_pool = |(place, pool): (usize, &PlannedPool<P>)| {
            let groups = outcomes.iter().map(|outcome| (outcome, &outcome.groups[place]));
            let groups = groups.filter(|(_, group)| !group.members.is_empty());
            let spans = groups.map(|(outcome, group)| {
                let ended = start + outcome.running;
                (group.contact.lost(start, ended), ended)
            });
            Lost::common(&pool.target, start, spans)
        };
        self.plan().pools.iter().enumerate().flat_map(of_pool).collect()
    }

    fn by_worker(&self, outcomes: &[Outcome<P>]) -> Vec<WorkerCounts> {
        let (plan, pages) = (self.plan(), PageLocations::read());
        let memory = (plan.memory, plan.buffer_memory);
        let planned = plan.workers.iter().zip(outcomes).enumerate();
        planned
            .map(|(place, (planned, outcome))| WorkerCounts {
                cpu: planned.cpu,
                bucket: planned.bucket,
                connections: planned.connections() as u64,
                ok: (outcome.groups.iter())
                    .map(|group| group.tally.counts.requests.ok)
                    .sum(),
                cpu_s: outcome.usage.total_s(),
                waited_for_cpu_s: outcome.waited.as_secs_f64(),
                stood_still_s: outcome.stood_still.as_secs_f64(),
                memory: self.team.memory(place, memory, &pages),
            })
            .collect()
    }

    fn cost(&self, outcomes: &[Outcome<P>], ok: u64, opened: u64) -> ClientCost {
        let usage = Usage::sum(outcomes.iter().map(|outcome| &outcome.usage));
        let (cpu_s, before) = (usage.total_s(), self.resident_before);
        let grown = self.resident_open.zip(before);
        let grown = grown.map(|(open, before)| open.saturating_sub(before) as f64);
        ClientCost {
            cpu_s,
            user_s: usage.user_s,
            system_s: usage.system_s,
            requests_per_cpu_second: (cpu_s > 0.0).then(|| ok as f64 / cpu_s),
            resident_before_bytes: before,
            resident_open_bytes: self.resident_open,
            bytes_a_connection: grown.filter(|_| opened > 0).map(|grown| grown / opened as f64),
        }
    }
}

/// The note on latencies that include batching.
fn gathered(gathering: Duration) -> String {
    format!(
        "answers gathered for up to {} before they were taken, which latencies include (--gather)",
        quantity::duration(gathering.as_nanos() as f64)
    )
}

fn limited_by<C>(
    counts: &Counts<C>,
    standstill: Option<&String>,
    behind_schedule: Option<String>,
) -> Option<String> {
    let limit = counts.connections.failed.limit();
    let limit = limit.or_else(|| standstill.cloned());
    limit.or_else(|| waited(&counts.requests)).or(behind_schedule)
}

/// Why nothing was achieved, if so.
fn failed_because<P: StreamProtocol>(
    counts: &Counts<P::Counts>,
    targets: &BTreeSet<&Remote>,
) -> Option<String> {
    let (connections, requests) = (&counts.connections, &counts.requests);
    if connections.opened == 0 && connections.asked > 0 {
        let none = connections.failed.none_opened(targets);
        return Some(match certificate_remedy(connections, counts.tls.as_ref()) {
            Some(remedy) => format!("{none}; {remedy}"),
            None => none,
        });
    }
    if requests.ok + requests.aborted > 0 || P::Traffic::LASTS {
        return None;
    }
    let causes = requests.by_cause.causes();
    Some(match causes.is_empty() {
        true => "no request was answered".to_owned(),
        false => format!("no request succeeded: {causes}"),
    })
}

/// What to do if the server's certificate was refused.
fn certificate_remedy(connections: &ConnectionCounts, tls: Option<&TlsCounts>) -> Option<&'static str> {
    let refused = connections.failed.of(Failure::CertificateRefused) > 0;
    let is_authority = tls.is_some_and(|tls| tls.errors.contains_key(AUTHORITY));
    refused.then_some(match is_authority {
        true => AUTHORITY,
        false => "give the authority's certificate by --ca, or verify nothing with --insecure",
    })
}

/// What introduces the limit of a run with these requests in its report: busy connections are no fault of the generator.
pub(super) fn introduced<C>(limit: Option<&str>, requests: &RequestCounts<C>) -> &'static str {
    match limit.is_some() && limit == waited(requests).as_deref() {
        true => "limited by the number of connections: ",
        false => BY_GENERATOR,
    }
}

/// Whether a count exceeds a share of all requests of the schedule.
fn exceeds<C>(count: u64, requests: &RequestCounts<C>, most: f64) -> bool {
    count as f64 > (requests.begun + requests.unsent) as f64 * most
}

/// Reports the number of requests for which no connection was free, if they are more than [`MOST_WAITING`].
fn waited<C>(requests: &RequestCounts<C>) -> Option<String> {
    let unsent = requests.unsent_waiting;
    let all = requests.waited_for_connection + unsent;
    exceeds(all, requests, MOST_WAITING).then(|| {
        let until_the_end = match unsent {
            0 => String::new(),
            _ => format!(", {} of them until the end", quantity::count(unsent)),
        };
        format!(
            "{} requests on the schedule waited because every connection was busy{until_the_end}: use more --connections, or a \
             lower --rate",
            quantity::count(all)
        )
    })
}

/// Why the schedule was missed although connections were free: more requests than a share were not sent, or what was sent was
/// late. What waited for a connection is late, too.
fn behind<C>(requests: &RequestCounts<C>, late: Option<&String>, most_unsent: f64) -> Option<String> {
    let late = || late.filter(|_| waited(requests).is_none()).cloned();
    unsent(requests, most_unsent).or_else(late)
}

/// Reports the number of requests that the generator did not send although a connection was free, if it exceeds a share.
fn unsent<C>(requests: &RequestCounts<C>, most: f64) -> Option<String> {
    exceeds(requests.unsent_late, requests, most).then(|| {
        format!(
            "{} requests on the schedule were not sent in time although a connection was free",
            quantity::count(requests.unsent_late)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waited_for_a_connection_is_no_fault_of_the_generator() {
        let late = "requests left late".to_owned();
        let slow_server = RequestCounts::<()> {
            begun: 60,
            unsent: 240,
            unsent_waiting: 240,
            waited_for_connection: 59,
            ..RequestCounts::default()
        };
        assert_eq!(behind(&slow_server, Some(&late), 0.0), None);
        let counts = Counts {
            requests: slow_server,
            ..Counts::default()
        };
        let words = limited_by(&counts, None, None).unwrap();
        assert_eq!(
            introduced(Some(&words), &counts.requests),
            "limited by the number of connections: "
        );
        assert_eq!(
            introduced(Some("descriptors ran out"), &counts.requests),
            BY_GENERATOR
        );
        assert_eq!(introduced(None, &RequestCounts::<()>::default()), BY_GENERATOR);
        assert_eq!(
            words,
            "299 requests on the schedule waited because every connection was busy, 240 of them until the end: use more \
             --connections, or a lower --rate"
        );
    }

    #[test]
    fn what_a_generator_did_not_send_in_time_is_its_own_and_the_last_instant_is_none() {
        let late = "requests left late".to_owned();
        let mut requests = RequestCounts::<()> {
            begun: 9_990,
            unsent: 10,
            unsent_at_end: 10,
            ..RequestCounts::default()
        };
        assert_eq!(behind(&requests, None, 0.0), None);
        assert_eq!(behind(&requests, Some(&late), 0.0), Some(late.clone()));
        (requests.unsent_late, requests.unsent_at_end) = (10, 0);
        assert_eq!(behind(&requests, None, MOST_UNSENT), None);
        requests.unsent_late = 11;
        // Also if others waited for a connection.
        requests.waited_for_connection = 5_000;
        let words = behind(&requests, Some(&late), MOST_UNSENT).unwrap();
        assert!(
            words.starts_with("11 requests on the schedule were not sent in time"),
            "{words}"
        );
        requests.unsent_late = 0;
        assert_eq!(behind(&requests, Some(&late), 0.0), None);
    }
}
