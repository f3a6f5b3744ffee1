//! Runs a packet receiver: one worker per queue, each with separate accounting, merged at the end.

use super::account::Account;
use super::plan::ReceivePlan;
use super::received::{QueueReceived, Received, StreamReceived};
use crate::server::Server;
use corelane_link::{
    AnyLink, BareLink, FrameDirection, Injected, Link, LinkError, LinkSpec, Opener, QueueLoop, SpecError,
    share_out,
};
use corelane_measure::counters::Counters;
use corelane_measure::histogram::Histogram;
use corelane_worker::crew::{Crew, CrewError};
use corelane_worker::{CachePadded, Counter, Time, WorkerSettings};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Why packets cannot be received.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// Invalid link specification.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// Send faults on a link that does not send.
    #[error("nothing is sent here, so faults=sent has no effect: remove it")]
    NothingSent,
    /// The link cannot be opened, or was lost.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A worker could not start or continue.
    #[error(transparent)]
    Crew(CrewError),
}

impl From<CrewError> for ReceiveError {
    fn from(error: CrewError) -> Self {
        error.downcast().map_or_else(Self::Crew, Self::Link)
    }
}

/// A running packet receiver. Dropping it stops it.
pub struct Receiver {
    plan: ReceivePlan,
    link: Opener,
    /// One per queue, in order.
    queues: Vec<Arc<CachePadded<QueueCounters>>>,
    crew: Crew<Account>,
}

/// The counts of one queue: written by its worker, readable by any thread.
#[derive(Default)]
struct QueueCounters {
    received: Counter,
    dropped: Counter,
}

impl Server for Receiver {
    type Plan = ReceivePlan;
    type Served = Received;
    type Error = ReceiveError;
    const NAME: &'static str = "packets";

    /// Opens the link in the calling thread's network namespace.
    fn start(plan: Self::Plan) -> Result<Self, ReceiveError> {
        let spec: LinkSpec = plan.link.parse()?;
        if spec
            .faults
            .is_some_and(|faults| faults.direction == FrameDirection::Sent)
        {
            return Err(ReceiveError::NothingSent);
        }
        let link = Opener::new(spec);
        let queues = link.open()?;
        let workers = plan.cpus.len().clamp(1, queues.len());
        let mut receiver = Receiver {
            queues: queues.iter().map(|_| Arc::default()).collect(),
            crew: Crew::new(),
            link,
            plan,
        };
        let counted = queues.into_iter().zip(receiver.queues.iter().cloned()).collect();
        for (number, share) in share_out(counted, workers).into_iter().enumerate() {
            let stop = receiver.crew.stop_flag();
            let (queues, counters): (Vec<_>, Vec<_>) = share.into_iter().unzip();
            let is_capture = matches!(queues.first().map(AnyLink::inner), Some(BareLink::Capture(_)));
            let worker = ReceiveWorker {
                queues,
                counters,
                burst: receiver.plan.burst,
                account: Account {
                    is_capture,
                    ..Account::default()
                },
            };
            let cpu = receiver.plan.cpus.get(number).copied().unwrap_or(0);
            let settings = WorkerSettings::new(format!("receiver {number}"), cpu);
            let body = move || worker.receive(&stop).map_err(io::Error::other);
            receiver.crew.spawn(settings, body)?;
        }
        Ok(receiver)
    }

    /// Only the number of frames received; the rest is computed at the stop.
    fn served(&mut self) -> Received {
        Received {
            received: self.queues.iter().map(|queue| queue.received.get()).sum(),
            queues: self.by_queue(),
            ..received(&self.plan, &[], None)
        }
    }

    /// A capture file was read to the end, or the link was lost or failed.
    fn is_finished(&self) -> bool {
        self.crew.is_finished()
    }

    fn stop(mut self) -> Result<Received, ReceiveError> {
        self.crew.stop();
        let counted = self.crew.finish()?;
        Ok(Received {
            queues: self.by_queue(),
            ..received(&self.plan, &counted, self.link.injected())
        })
    }
}

impl Receiver {
    fn by_queue(&self) -> Vec<QueueReceived> {
        let counted = |(queue, counters): (usize, &Arc<CachePadded<QueueCounters>>)| QueueReceived {
            queue,
            received: counters.received.get(),
            receive_dropped: counters.dropped.get(),
        };
        self.queues.iter().enumerate().map(counted).collect()
    }
}

/// The queues of a worker, and what it accounts for.
struct ReceiveWorker {
    queues: Vec<AnyLink>,
    counters: Vec<Arc<CachePadded<QueueCounters>>>,
    burst: usize,
    account: Account,
}

impl ReceiveWorker {
    /// Runs until stopped, then drains.
    fn receive(mut self, stop: &AtomicBool) -> Result<Account, LinkError> {
        let ended = self.run(stop);
        // A write error of a capture is also reported; the end of the link is irrelevant then.
        let ended = ended.and_then(|()| {
            let checked = self.queues.iter_mut().map(Link::check);
            checked
                .filter(|result| result.as_ref().is_err_and(|error| !error.is_lost()))
                .collect()
        });
        self.account.lost = match ended {
            Ok(()) => None,
            // Frames received before the loss are still reported.
            Err(error) if error.is_lost() => Some(error.to_string()),
            Err(error) => return Err(error),
        };
        self.publish_drops();
        let invalid = self.queues.iter().map(|queue| queue.tally().receive_invalid);
        self.account.receive_invalid = invalid.sum();
        self.account.receive_dropped = self.counters.iter().map(|queue| queue.dropped.get()).sum();
        Ok(self.account)
    }

    fn publish_drops(&self) {
        for (queue, counters) in self.queues.iter().zip(&self.counters) {
            counters.dropped.set(queue.tally().receive_dropped);
        }
    }
}

impl QueueLoop for ReceiveWorker {
    const DRAIN: Duration = Duration::from_secs(1);

    fn turn(&mut self, _now: Instant) -> Result<usize, LinkError> {
        let (mut came, account) = (0, &mut self.account);
        for (queue, counters) in self.queues.iter_mut().zip(&self.counters) {
            let burst = queue.receive(self.burst)?;
            if burst.is_empty() {
                continue;
            }
            let now = Time::now();
            came += burst.len();
            counters.received.add(burst.len() as u64);
            for number in 0..burst.len() {
                burst.prefetch(number + 8);
                // For a capture, use the capture time instead of the time of reading.
                let captured = burst.time(number).filter(|_| account.is_capture);
                account.take(burst.frame(number), captured.map_or(now, Time::from_nanoseconds));
            }
        }
        Ok(came)
    }

    fn rest(&mut self) -> Result<(), LinkError> {
        self.publish_drops();
        self.queues.iter_mut().try_for_each(|queue| {
            // The peer of a ring may close it between the wait and this check.
            queue
                .check()
                .or_else(|error| if queue.is_ended() { Ok(()) } else { Err(error) })
        })
    }

    fn is_over(&self, stopping: bool) -> bool {
        stopping && !self.queues.iter().any(|queue| queue.held() > 0)
            || self.queues.iter().all(Link::is_ended)
    }

    fn wait(&mut self) -> Result<bool, LinkError> {
        Ok(corelane_link::wait(self.queues.iter(), None))
    }
}

fn received(plan: &ReceivePlan, counted: &[Account], injected: Option<Injected>) -> Received {
    let sum = |of: fn(&Account) -> u64| -> u64 { counted.iter().map(of).sum() };
    let first = counted.iter().filter_map(|one| one.first).min();
    let last = counted.iter().filter_map(|one| one.last).max();
    let receiving_s = first
        .zip(last)
        .map_or(0.0, |(first, last)| last.since(first).as_secs_f64());
    let latency = Histogram::sum(counted.iter().map(|one| &one.latency));
    let streams = streams(counted);
    let mut total = StreamReceived::default();
    streams.iter().for_each(|stream| total.add(stream));
    let (marked, other_clock) = (sum(|account| account.marked), sum(|account| account.other_clock));
    let latency_unknown = match (marked, other_clock) {
        (0, _) => Some("no marked frame came".to_owned()),
        (_, 0) => None,
        _ if counted.iter().any(|one| one.is_capture) => {
            Some("a capture's times are of another clock than the generator's".to_owned())
        }
        _ => Some("sender and receiver have clocks of different machines".to_owned()),
    };
    let known = latency_unknown.is_none();
    Received {
        link: plan.link.clone(),
        receiving_s,
        received: sum(|account| account.received),
        received_bytes: sum(|account| account.bytes),
        frames_per_s: (receiving_s > 0.0).then(|| marked as f64 / receiving_s),
        marked,
        changed_or_foreign: sum(|account| account.changed_or_foreign),
        not_udp: sum(|account| account.not_udp),
        receive_dropped: sum(|account| account.receive_dropped),
        receive_invalid: sum(|account| account.receive_invalid),
        queues: Vec::new(),
        faults: injected.map(|injected| injected.by_name()),
        total,
        streams,
        latency: known.then(|| latency.summary()).flatten(),
        latency_histogram: known.then_some(latency),
        latency_unknown,
        ended_because: counted.iter().find_map(|one| one.lost.clone()),
    }
}

/// The streams, each merged over all workers that received it.
fn streams(counted: &[Account]) -> Vec<StreamReceived> {
    let mut together: BTreeMap<u16, (StreamReceived, u64)> = BTreeMap::new();
    for one in counted {
        for (number, stream) in &one.streams {
            let (counts, newest) = together.entry(*number).or_default();
            counts.add(&stream.counts);
            *newest = stream.newest.max(*newest);
        }
    }
    let put = |(number, (counts, newest)): (u16, (StreamReceived, u64))| StreamReceived {
        stream: Some(number),
        // Frames too late to be distinguished from duplicates are most likely not duplicates.
        lost: newest.saturating_sub(counts.received + counts.too_late),
        ..counts
    };
    together.into_iter().map(put).collect()
}
