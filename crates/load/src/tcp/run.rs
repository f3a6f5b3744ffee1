//! The running TCP generator, and the sum of its workers' results.

use super::document::{Rates, TcpCounts, TcpLoadReport, TcpWorkerCounts, longest};
use super::plan::TcpPlan;
use super::transfer::{Bytes, Stall, Transfers};
use crate::account::{late, merge};
use crate::live::{LiveWorkers, Snapshot};
use crate::lost::{HowLost, Lost};
use crate::streams::{LiveStreams, Outcome, PlannedPool, StreamLoad, StreamLoadError, StreamPlan, Timeouts};
use crate::{Generator, Moment, Needs};
use corelane_measure::counters::Counters;
use corelane_measure::histogram::Histogram;
use corelane_measure::metric::Metric;
use corelane_worker::engine::Remote;
use std::time::Duration;

/// A running TCP generator. Dropping it stops it.
pub struct TcpLoad {
    /// The plan of the run.
    pub plan: TcpPlan,
    /// The transfers. Live times are those to open connections.
    pub streams: StreamLoad<Bytes>,
}

impl Generator for TcpLoad {
    type Plan = TcpPlan;
    type Report = TcpLoadReport;
    type Error = StreamLoadError;
    type Counts = LiveStreams;
    const KIND: &'static str = StreamLoad::<Bytes>::KIND;
    const COUNTED: &'static [Metric<LiveStreams>] = StreamLoad::<Bytes>::COUNTED;
    const TIMED: Option<&'static Metric<Histogram>> = StreamLoad::<Bytes>::TIMED;
    const FAILED: &'static [Metric<u64>] = StreamLoad::<Bytes>::FAILED;

    fn needs(plan: &TcpPlan) -> Needs {
        StreamLoad::<Bytes>::needs(&plan.streams())
    }

    fn start(plan: Self::Plan) -> Result<Self, StreamLoadError> {
        Ok(Self {
            streams: StreamLoad::start(plan.streams())?,
            plan,
        })
    }

    fn wait(&mut self, timeout: Duration) -> bool {
        self.streams.wait(timeout)
    }

    fn reached(&self) -> Option<Moment> {
        self.streams.reached()
    }

    fn live_workers(&self) -> &LiveWorkers<LiveStreams> {
        self.streams.live_workers()
    }

    fn snapshot(&mut self) -> Snapshot {
        self.streams.snapshot()
    }

    fn stop(&self) {
        self.streams.stop();
    }

    fn finish(mut self) -> Result<TcpLoadReport, StreamLoadError> {
        let outcomes = self.streams.outcomes()?;
        Ok(self.add_up(&outcomes))
    }
}

impl TcpLoad {
    /// The time left for transfers; `None` before they start.
    #[must_use]
    pub fn left(&self) -> Option<Duration> {
        match self.streams.phase() {
            Some((_, left)) => left,
            None => (!self.streams.is_opening()).then_some(Duration::ZERO),
        }
    }

    fn add_up(self, outcomes: &[Outcome<Bytes>]) -> TcpLoadReport {
        let streams = self.streams.add_up(outcomes);
        let groups = || outcomes.iter().flat_map(|outcome| &outcome.groups);
        let transfers = || groups().map(|group| &group.shared);
        let until_last_byte = transfers().map(Transfers::running).max().unwrap_or_default();
        let running_s = streams.running_s.max(until_last_byte.as_secs_f64());
        let per_second = |count: u64| count as f64 / running_s.max(f64::MIN_POSITIVE);
        let gbit = |bytes: u64| per_second(bytes) * 8.0 / 1e9;
        let (schedule_lag_histogram, schedule_lag) = merge(transfers().map(|shared| &shared.lag));
        let stalled = longest(transfers().flat_map(|shared| stalls(shared, running_s)));
        let moved = transfers().flat_map(|shared| &shared.moved);
        let rates = moved.map(|bytes| per_second(*bytes)).collect();
        let (mut total, mut workers) = (TcpCounts::default(), Vec::new());
        for (worker, outcome) in streams.workers.into_iter().zip(outcomes) {
            let counts = TcpCounts::of(outcome, self.plan.transfer.drain_s.is_some());
            total.add(&counts);
            workers.push(TcpWorkerCounts {
                cpu: worker.cpu,
                bucket: worker.bucket,
                counts,
                cpu_s: worker.cpu_s,
                stood_still_s: worker.stood_still_s,
                memory: worker.memory,
                gbit_per_second: gbit(counts.sent_bytes + counts.received_bytes),
            });
        }
        let late = || late("writes", schedule_lag, workers.iter().map(|worker| worker.cpu));
        let behind_schedule = streams.behind_schedule.or_else(late);
        let mut outcome = streams.outcome;
        let lost = self.plan.targets().map(|server| stood_still(server, transfers()));
        outcome.lost.extend(lost.filter(|_| total.stood_still()));
        outcome.limited_by = outcome.limited_by.or_else(|| behind_schedule.clone());
        let failed = || total.failed_because(&self.plan.server());
        outcome.failed_because = outcome.failed_because.or_else(failed);
        TcpLoadReport {
            schema: streams.schema,
            engine: streams.engine,
            engine_reason: streams.engine_reason,
            opening_s: streams.opening_s,
            running_s,
            sent_gbit_per_second: gbit(total.sent_bytes),
            received_gbit_per_second: gbit(total.received_bytes),
            gbit_per_cpu_second: total.gbit_per_cpu_second(streams.client.cpu_s),
            cpu_s: streams.client.cpu_s,
            connect: streams.counts.connect,
            handshake: streams.counts.handshake,
            tls: streams.counts.tls,
            alignment: streams.counts.alignment,
            connect_histogram: Histogram::sum(groups().map(|group| &group.tally.histograms.connect)).if_any(),
            schedule_lag,
            outcome,
            behind_schedule,
            schedule_lag_histogram,
            total,
            rates: spread(rates),
            stalled,
            workers,
            plan: self.plan,
        }
    }
}

impl TcpPlan {
    /// The plan as a stream plan: one pool per address, and one phase.
    fn streams(&self) -> StreamPlan<Bytes> {
        let pool = |target, connections| PlannedPool {
            tls: self.tls.clone(),
            ..PlannedPool::new(target, self.transfer.clone(), connections)
        };
        StreamPlan {
            timeouts: Timeouts {
                connect_s: self.connect_timeout_s,
                drain_s: self.transfer.drain_s.unwrap_or(0.0),
                ..Timeouts::default()
            },
            engine: self.engine,
            memory: self.memory,
            buffer_memory: self.buffer_memory,
            steering: self.steering.clone(),
            ..StreamPlan::new(
                PlannedPool::of_targets(self.targets(), &self.workers, pool),
                self.duration_s,
                &self.workers,
            )
        }
    }
}

impl TcpCounts {
    /// The counters of one worker; `drained`: draining was requested.
    fn of(outcome: &Outcome<Bytes>, drained: bool) -> Self {
        let counts = outcome.groups.iter().map(|group| {
            let (tally, shared) = (&group.tally.counts, &group.shared);
            Self {
                asked: tally.connections.asked,
                opened: tally.connections.opened,
                open_at_end: shared.moved.len() as u64,
                undrained: if drained { tally.requests.unfinished } else { 0 },
                not_opened: tally.connections.failed,
                broken: tally.requests.by_cause,
                sent_bytes: tally.bytes.sent,
                received_bytes: tally.bytes.received,
                stalls: shared.stall_count,
                stalled_at_end: shared.stalled,
                retransmitted: shared.retransmitted,
                out_of_order: shared.out_of_order,
            }
        });
        Self::sum(counts)
    }
}

/// Bytes sent per opened connection that do not prove that the server read any: the buffers of both ends may hold them.
/// A send buffer grows to 4 MiB by default (`tcp_wmem`), and a receive buffer grows only while it is read.
const BUFFERED_BYTES: u64 = 16 << 20;

/// The silence of a server whose connections all stood still at the end: since the last of them did.
fn stood_still<'a>(server: Remote, workers: impl Iterator<Item = &'a Transfers>) -> Lost {
    let lasting = workers.flat_map(|shared| shared.stalls.iter().filter(|stall| !stall.ended));
    Lost {
        server,
        how: HowLost::Silent,
        cause: None,
        since_s: lasting.map(|stall| stall.since_s).fold(0.0, f64::max),
        until_s: None,
    }
}

impl TcpCounts {
    /// Whether every open connection stood still at the end.
    fn stood_still(&self) -> bool {
        self.open_at_end > 0 && self.stalled_at_end == self.open_at_end
    }

    /// Why nothing was achieved although connections were opened, if so.
    fn failed_because(&self, server: &str) -> Option<String> {
        let (open, broken) = (self.open_at_end, self.broken.total());
        let buffered = self.opened.saturating_mul(BUFFERED_BYTES);
        if open == 0 && broken > 0 && self.received_bytes == 0 && self.sent_bytes <= buffered {
            return Some(format!(
                "{server} ended every connection: {}",
                self.broken.causes()
            ));
        }
        if self.stood_still() {
            return Some(format!(
                "every open connection to {server} stood still at the end"
            ));
        }
        (self.sent_bytes + self.received_bytes == 0).then(|| "no byte was moved".to_owned())
    }
}

/// The stalls of a worker; unfinished ones lasted until the end of the run.
fn stalls(shared: &Transfers, running_s: f64) -> impl Iterator<Item = Stall> {
    shared.stalls.iter().map(move |stall| Stall {
        for_s: if stall.ended {
            stall.for_s
        } else {
            running_s - stall.since_s
        },
        ..stall.clone()
    })
}

/// Distribution of rates over connections; `None` without connections.
fn spread(mut rates: Vec<f64>) -> Option<Rates> {
    rates.sort_by(f64::total_cmp);
    let at = |share: f64| {
        rates
            .get(((rates.len() as f64 - 1.0) * share).round() as usize)
            .copied()
    };
    Some(Rates {
        connections: rates.len() as u64,
        min: at(0.0)?,
        p10: at(0.1)?,
        median: at(0.5)?,
        p90: at(0.9)?,
        max: at(1.0)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_of_rates_names_both_ends_and_the_middle() {
        let rates = spread((0..=100).rev().map(f64::from).collect()).unwrap();
        assert_eq!(
            (
                rates.connections,
                rates.min,
                rates.p10,
                rates.median,
                rates.p90,
                rates.max
            ),
            (101, 0.0, 10.0, 50.0, 90.0, 100.0)
        );
        assert_eq!(spread(Vec::new()), None);
    }
}
