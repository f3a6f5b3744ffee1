//! A bridge in one thread, on rings in memory: its workers take turns when the caller says so, at the times that the caller
//! names. In: a plan with buckets, and the frames that each worker receives. Out: the frames that each sends, and the
//! document. The same plan, seed, frames, turns and times give the same.

use super::counts::WorkerCounts;
use super::document::Bridged;
use super::error::BridgeError;
use super::forward::Forwarder;
use super::mail::Mail;
use super::plan::{BridgePlan, LONGEST_BURST};
use super::queues::Queues;
use super::server::mails;
use super::ways::Ways;
use corelane_link::memory::{MemoryLink, pair};
use corelane_link::{Burst, FrameLayout, Link};
use corelane_rss::Bucket;
use corelane_stage::dispatch::Workstreams;
use corelane_stage::{Stage, Way};
use corelane_worker::CachePadded;
use std::sync::Arc;
use std::time::Instant;

/// A bridge whose workers take turns.
pub struct Simulated<L, S> {
    planned: Bridged,
    workers: Vec<Worker<L, S>>,
    streams: Option<Arc<Workstreams>>,
}

struct Worker<L, S> {
    forwarder: Forwarder<L, S>,
    /// The other ends of its links: frames come from the first, and go to the second.
    ends: [MemoryLink; 2],
    counts: Arc<CachePadded<WorkerCounts>>,
    ways: Ways,
}

impl<L: Link, S: Stage> Simulated<L, S> {
    /// The bridge of a plan of two links and no tables, with as many workers as the plan says, on rings of this layout. `links`
    /// may wrap those of a worker, `stages` the stages of a bucket.
    ///
    /// # Errors
    /// If the plan has fewer buckets than workers, or the kernel refuses memory or a descriptor.
    pub fn new(
        plan: &BridgePlan,
        seed: u64,
        layout: FrameLayout,
        mut links: impl FnMut(usize, [MemoryLink; 2]) -> [L; 2],
        stages: impl Fn(Bucket, Way) -> S,
    ) -> Result<Simulated<L, S>, BridgeError> {
        let workers = plan.workers.unwrap_or(1);
        let mails = mails(plan.buckets.as_ref(), workers)?;
        let mut simulated = Simulated {
            planned: Bridged::planned(plan),
            workers: Vec::with_capacity(workers),
            streams: mails.first().map(|mail| Arc::clone(mail.streams())),
        };
        let mut mails = mails.into_iter();
        for worker in 0..workers {
            let [(near, from), (far, to)] = [pair(layout)?, pair(layout)?];
            let queues = links(worker, [near, far]).map(|link| Queues::new(vec![link]));
            let counts = Arc::new(CachePadded::new(WorkerCounts::new(queues.len())));
            let mail = mails.next();
            // Without mail a worker is one bucket.
            let alone = || vec![Bucket::new(worker as u16)];
            let buckets = mail.as_ref().map_or_else(alone, Mail::buckets);
            let streams = simulated.streams.clone();
            let ways = Ways::new(plan, &buckets, workers, Arc::clone(&counts), streams, seed);
            let mut way = ways.by(plan, Vec::new());
            let lanes = buckets
                .into_iter()
                .map(|bucket| (bucket, stages(bucket, way(bucket))));
            let forwarder = Forwarder::new(queues.into(), lanes, plan.burst, Arc::clone(&counts));
            simulated.workers.push(Worker {
                forwarder: match mail {
                    Some(mail) => forwarder.with_mail(mail),
                    None => forwarder,
                },
                ends: [from, to],
                counts,
                ways,
            });
        }
        Ok(simulated)
    }

    /// Lets a worker receive a frame at its next turn; returns whether its ring had room.
    ///
    /// # Errors
    /// If the frame is longer than the ring permits.
    pub fn receive(&mut self, worker: usize, frame: &[u8]) -> Result<bool, BridgeError> {
        let sent = self.workers[worker].ends[0].send(std::iter::once(frame))?;
        Ok(sent.taken == 1)
    }

    /// A turn of a worker: what was handed over to it, then a burst of what it received. Returns the number of frames.
    pub fn turn(&mut self, worker: usize, now: Instant) -> usize {
        self.workers[worker].forwarder.turn(now)
    }

    /// Up to 4,096 frames that a worker sent since the last call.
    ///
    /// # Errors
    /// None that is expected of memory.
    pub fn sent(&mut self, worker: usize) -> Result<Burst<'_>, BridgeError> {
        Ok(self.workers[worker].ends[1].receive(LONGEST_BURST)?)
    }

    /// Runs other stages from the next turn of each worker on, those of another plan with the same stages and buckets.
    pub fn replan(&mut self, plan: &BridgePlan, stages: impl Fn(Bucket, Way) -> S) {
        for worker in &mut self.workers {
            let mut way = worker.ways.by(plan, Vec::new());
            worker.forwarder.replan(|bucket| stages(bucket, way(bucket)));
        }
    }

    /// The links of all workers.
    pub fn queues(&self) -> impl Iterator<Item = &L> {
        self.workers.iter().flat_map(|worker| worker.forwarder.queues())
    }

    /// Lets the stages of all workers give up what they hold: no frame will come.
    pub fn end(&mut self, now: Instant) {
        for worker in &mut self.workers {
            worker.forwarder.end(now);
        }
    }

    /// The counters so far.
    #[must_use]
    pub fn bridged(&self) -> Bridged {
        let counts: Vec<_> = self
            .workers
            .iter()
            .map(|worker| Arc::clone(&worker.counts))
            .collect();
        let ways: Vec<_> = self
            .workers
            .iter()
            .flat_map(|worker| worker.ways.counts())
            .collect();
        let injected = self.planned.links.iter().map(|_| None);
        let planned = self.planned.clone();
        planned
            .with(&counts, injected, self.streams.as_deref())
            .with_stages(&ways)
    }
}
