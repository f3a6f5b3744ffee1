//! Forwards bursts: runs the stages over the frames received on a link, and does with each frame what they say.

use super::arrived::Arrived;
use super::counts::{LinkCounts, WorkerCounts};
use super::loop_check::LoopCheck;
use crate::shared::lock;
use corelane_link::{Link, LinkError, Tally};
use corelane_measure::counters::Counters;
use corelane_stage::{Batch, Desk, Fate, Stage, Work};
use corelane_worker::CachePadded;
use std::mem;
use std::sync::Arc;
use std::time::Instant;

/// One worker's queues of one link; empty while the link is lost.
#[derive(Debug)]
pub struct Queues<L> {
    queues: Vec<L>,
    /// Counters of queues that were lost.
    before: Tally,
    next: usize,
    /// Frames sent to find loops, and their bytes; they are in no count.
    checks: (u64, u64),
}

impl<L: Link> Queues<L> {
    /// The queues.
    #[must_use]
    pub fn new(queues: Vec<L>) -> Queues<L> {
        Queues {
            queues,
            before: Tally::default(),
            next: 0,
            checks: (0, 0),
        }
    }

    /// The counters of open and lost queues, without the frames that find loops.
    fn tally(&self) -> Tally {
        let mut tally = self.sum();
        tally.sent = tally.sent.saturating_sub(self.checks.0);
        tally.sent_bytes = tally.sent_bytes.saturating_sub(self.checks.1);
        tally
    }

    fn sum(&self) -> Tally {
        self.before
            .plus(&Counters::sum(self.queues.iter().map(Link::tally)))
    }

    /// Closes the queues, and keeps their counters.
    fn close(&mut self) {
        self.before = self.sum();
        self.queues.clear();
    }

    /// Sends copies of these frames.
    #[inline]
    fn send<'frame>(
        &mut self,
        frames: impl ExactSizeIterator<Item = &'frame [u8]> + Clone,
        counts: &LinkCounts,
    ) -> Result<(), LinkError> {
        let count = frames.len();
        if count == 0 {
            return Ok(());
        }
        let sent = self.queues.first_mut().map(|queue| queue.send(frames));
        match sent.transpose() {
            Ok(Some(sent)) => {
                counts.full.add(sent.full as u64);
                counts.oversized.add(sent.oversized as u64);
                Ok(())
            }
            lost => {
                counts.link_lost.add(count as u64);
                lost.map(|_| ())
            }
        }
    }
}

/// A link that failed.
#[derive(Debug)]
pub struct Failure {
    /// Index of the link in the plan.
    pub link: usize,
    /// The error.
    pub error: LinkError,
}

/// Copies of frames that go back to the link whose burst is lent: they are sent once it is returned.
#[derive(Debug, Default)]
struct Back {
    bytes: Vec<u8>,
    /// Where each ends in `bytes`.
    ends: Vec<usize>,
}

impl Back {
    fn add(&mut self, frame: &[u8]) {
        self.bytes.extend(frame);
        self.ends.push(self.bytes.len());
    }

    fn frames(&self) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        (0..self.ends.len()).map(|number| {
            let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
            &self.bytes[start..self.ends[number]]
        })
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

/// Forwards bursts between the links of one worker.
#[derive(Debug)]
pub struct Forwarder<L, S> {
    links: Vec<Queues<L>>,
    stage: S,
    burst: usize,
    desk: Desk,
    passing: Vec<u32>,
    back: Back,
    counts: Arc<CachePadded<WorkerCounts>>,
    failures: Vec<Failure>,
    loops: Option<LoopCheck>,
    /// See [`Forwarder::timed_by`].
    epoch: Option<Instant>,
}

impl<L: Link, S: Stage> Forwarder<L, S> {
    /// A forwarder between these links, with bursts of up to `burst` frames.
    #[must_use]
    pub fn new(
        links: Vec<Queues<L>>,
        stage: S,
        burst: usize,
        counts: Arc<CachePadded<WorkerCounts>>,
    ) -> Forwarder<L, S> {
        Forwarder {
            links,
            stage,
            burst: burst.max(1),
            desk: Desk::default(),
            passing: Vec::with_capacity(burst),
            back: Back::default(),
            counts,
            failures: Vec::new(),
            loops: None,
            epoch: None,
        }
    }

    /// Gives frames the times of their captures, which count from this epoch: for bridges that read from captures only.
    pub(super) fn timed_by(self, epoch: Option<Instant>) -> Forwarder<L, S> {
        Forwarder { epoch, ..self }
    }

    /// Sends frames that find loops, or only recognises them. A loop is a failure of the link from which a frame came back.
    pub(super) fn checking_loops(self, check: LoopCheck) -> Forwarder<L, S> {
        Forwarder {
            loops: Some(check),
            ..self
        }
    }

    /// Receives one burst from a queue of each link, and forwards it; returns the number of frames received. Links that
    /// failed are added to [`failures`](Forwarder::failures), and their queues closed.
    #[inline]
    pub fn turn(&mut self, now: Instant) -> usize {
        let mut came = 0;
        if self.loops.as_mut().is_some_and(|loops| loops.is_due(now)) {
            self.send_loop_check();
        }
        for from in 0..self.links.len() {
            came += self.pass_on(from, now);
        }
        if came == 0 {
            self.run(Arrived::default(), None, now, S::run);
        }
        came
    }

    /// Sends what the stages still hold: no frame will come.
    pub fn end(&mut self, now: Instant) {
        self.run(Arrived::default(), None, now, S::end);
    }

    /// The links that failed since the last call.
    pub fn failures(&mut self) -> std::vec::Drain<'_, Failure> {
        self.failures.drain(..)
    }

    /// Called when idle: flushes pending frames, checks the links, and publishes their counters.
    pub fn rest(&mut self) {
        for link in 0..self.links.len() {
            let checked = self.links[link].queues.iter_mut().try_for_each(Link::check);
            if let Err(error) = checked {
                self.fail(link, error);
            }
        }
        for (link, counts) in self.links.iter().zip(&self.counts.links) {
            *lock(&counts.tally) = link.tally();
        }
    }

    /// Installs the queues of a restored link.
    pub fn restore(&mut self, link: usize, queues: Vec<L>) {
        self.links[link].queues = queues;
        self.links[link].next = 0;
    }

    /// Closes the queues of a link, and keeps their counters.
    pub fn close(&mut self, link: usize) {
        self.links[link].close();
    }

    /// All open queues.
    pub fn queues(&self) -> impl Iterator<Item = &L> {
        self.links.iter().flat_map(|link| &link.queues)
    }

    /// Whether all links are up and no more frames can arrive.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.links
            .iter()
            .all(|link| !link.queues.is_empty() && link.queues.iter().all(Link::is_ended))
    }

    /// Closes the queues of a failed link, and keeps their counters.
    fn fail(&mut self, link: usize, error: LinkError) {
        self.close(link);
        self.failures.push(Failure { link, error });
    }

    /// Forwards a burst of a link.
    #[inline]
    fn pass_on(&mut self, from: usize, now: Instant) -> usize {
        let source = &mut self.links[from];
        if source.queues.is_empty() {
            return 0;
        }
        source.next = (source.next + 1) % source.queues.len();
        let next = source.next;
        // Taken out while its burst is lent: all other links are free to send.
        let mut queues = mem::take(&mut source.queues);
        let received = self.receive(&mut queues[next], from, now);
        self.links[from].queues = queues;
        let sent = received.and_then(|came| self.send_back(from).map(|()| came));
        sent.unwrap_or_else(|error| {
            self.fail(from, error);
            0
        })
    }

    #[inline(always)]
    fn receive(&mut self, queue: &mut L, link: usize, now: Instant) -> Result<usize, LinkError> {
        let burst = queue.receive(self.burst)?;
        let came = burst.len();
        if came > 0 {
            if let Some(loops) = &self.loops
                && let Some(proof) = loops.proof(burst.frame(0), link)
            {
                return Err(LinkError::Failed(proof));
            }
            let arrived = Arrived {
                burst,
                link,
                epoch: self.epoch,
            };
            self.run(arrived, Some(link), now, S::run);
            // Last: whoever sees a frame received sees where it went.
            self.counts.received.add(came as u64);
        }
        Ok(came)
    }

    /// Runs the stages over a batch, and sends the frames that go on.
    #[inline(always)]
    fn run<'link>(
        &mut self,
        mut arrived: Arrived<'link>,
        from: Option<usize>,
        now: Instant,
        stages: impl FnOnce(&mut S, &mut Work<'_, Arrived<'link>>),
    ) {
        let mut desk = mem::take(&mut self.desk);
        let mut work = Work::new(&mut desk, &mut arrived, now);
        stages(&mut self.stage, &mut work);
        work.settle();
        self.deliver(&work, from);
        self.desk = desk;
    }

    /// Sends the frames that go on to their links. If `from`, the link whose burst this is, is one of them, copies are sent
    /// later.
    #[inline]
    fn deliver<B: Batch>(&mut self, work: &Work<'_, B>, from: Option<usize>) {
        let Self {
            links,
            passing,
            back,
            counts,
            failures,
            ..
        } = self;
        let fates = work.fates();
        let (used, added) = work.used_and_added();
        passing.clear();
        let goes_on = |place: &u32| work.goes_on(*place as usize);
        passing.extend((0..work.len() as u32).filter(goes_on));
        counts.passed.add(passing.len() as u64);
        counts.used.add(used);
        counts.added.add(added);
        let named = fates.is_some_and(|fates| fates.iter().any(|fate| matches!(fate, Fate::Forward(_))));
        let is_one_list = from.is_some() && !named && added == 0;
        for (to, link) in links.iter_mut().enumerate() {
            if !is_one_list {
                let goes = |place: &u32| match fates.map_or(Fate::Flood, |fates| fates[*place as usize]) {
                    Fate::Flood => work.link(*place as usize) != to,
                    Fate::Forward(links) => links.contains(to),
                    Fate::Gone => false,
                };
                passing.clear();
                passing.extend((0..work.len() as u32).filter(goes));
            }
            let frames = passing.iter().map(|place| work.frame(*place as usize));
            if from == Some(to) {
                if !is_one_list {
                    frames.for_each(|frame| back.add(frame));
                }
            } else if let Err(error) = link.send(frames, &counts.links[to]) {
                link.close();
                failures.push(Failure { link: to, error });
            }
        }
    }

    fn send_back(&mut self, to: usize) -> Result<(), LinkError> {
        let sent = self.links[to].send(self.back.frames(), &self.counts.links[to]);
        self.back.clear();
        sent
    }

    #[cold]
    fn send_loop_check(&mut self) {
        let Some(loops) = &self.loops else { return };
        for (number, link) in self.links.iter_mut().enumerate() {
            let Some((frame, queue)) = loops.frame_to(number).zip(link.queues.first_mut()) else {
                continue;
            };
            match queue.send(std::iter::once(&frame[..])) {
                Ok(sent) => {
                    link.checks.0 += sent.taken as u64;
                    link.checks.1 += (sent.taken * frame.len()) as u64;
                }
                Err(error) => {
                    link.close();
                    self.failures.push(Failure { link: number, error });
                }
            }
        }
    }
}
