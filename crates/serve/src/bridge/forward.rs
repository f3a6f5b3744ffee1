//! Forwards bursts: runs the stages over the frames received on a link, and does with each frame what they say.

use super::arrived::{Arrived, TRAILER};
use super::counts::{LinkCounts, WorkerCounts};
use super::loop_check::LoopCheck;
use crate::shared::lock;
use corelane_link::{Link, LinkError, Tally};
use corelane_measure::counters::Counters;
use corelane_packet::stage::{Batch, Fate, Fates, LinkSet, Made, Stage};
use corelane_rss::Bucket;
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

    /// Sends these frames of a batch, copied into the link's memory.
    #[inline]
    fn send<B: Batch>(&mut self, batch: &B, passing: &[u32], counts: &LinkCounts) -> Result<(), LinkError> {
        if passing.is_empty() {
            return Ok(());
        }
        let frames = passing.iter().map(|number| batch.frame(*number as usize));
        let sent = self.queues.first_mut().map(|queue| queue.send(frames));
        match sent.transpose() {
            Ok(Some(sent)) => {
                counts.full.add(sent.full as u64);
                counts.oversized.add(sent.oversized as u64);
                Ok(())
            }
            lost => {
                counts.link_lost.add(passing.len() as u64);
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

/// Forwards bursts between the links of one worker.
#[derive(Debug)]
pub struct Forwarder<L, S> {
    links: Vec<Queues<L>>,
    /// By bucket, the ring shared with its worker; `None` for the own one.
    mailboxes: Vec<Option<L>>,
    stage: S,
    burst: usize,
    fates: Fates,
    passing: Vec<u32>,
    counts: Arc<CachePadded<WorkerCounts>>,
    failures: Vec<Failure>,
    loops: Option<LoopCheck>,
}

impl<L: Link, S: Stage> Forwarder<L, S> {
    /// A forwarder between these links, with bursts of up to `burst` frames. A mailbox is one end of a ring; the forwarder
    /// of the bucket has the other end. Without mailboxes no stage may hand frames over.
    #[must_use]
    pub fn new(
        links: Vec<Queues<L>>,
        mailboxes: Vec<Option<L>>,
        stage: S,
        burst: usize,
        counts: Arc<CachePadded<WorkerCounts>>,
    ) -> Forwarder<L, S> {
        Forwarder {
            links,
            mailboxes,
            stage,
            burst: burst.max(1),
            fates: Fates::default(),
            passing: Vec::with_capacity(burst),
            counts,
            failures: Vec::new(),
            loops: None,
        }
    }

    /// Sends frames that find loops, or only recognises them. A loop is a failure of the link from which a frame came back.
    pub(super) fn checking_loops(self, check: LoopCheck) -> Forwarder<L, S> {
        Forwarder {
            loops: Some(check),
            ..self
        }
    }

    /// Receives one burst from a queue of each link and from each mailbox, and forwards it; returns the number of frames
    /// received. Links that failed are added to [`failures`](Forwarder::failures), and their queues closed.
    #[inline]
    pub fn turn(&mut self, now: Instant) -> usize {
        let mut came = 0;
        if self.loops.as_mut().is_some_and(|loops| loops.is_due(now)) {
            self.send_loop_check();
        }
        for from in 0..self.links.len() {
            came += self.pass_on(from, now);
            self.send_made();
        }
        for bucket in 0..self.mailboxes.len() {
            came += self.take_over(bucket, now);
            self.send_made();
        }
        if came == 0 {
            self.run(&mut Made::default(), None, now);
            self.send_made();
        }
        came
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

    /// All open queues, and the mailboxes.
    pub fn queues(&self) -> impl Iterator<Item = &L> {
        let queues = self.links.iter().flat_map(|link| &link.queues);
        queues.chain(self.mailboxes.iter().flatten())
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
        let received = self.receive::<0>(&mut queues[next], from, Some(from), now);
        self.links[from].queues = queues;
        received.unwrap_or_else(|error| {
            self.fail(from, error);
            0
        })
    }

    /// Forwards what another worker handed over. A mailbox that fails is closed: its worker ended.
    fn take_over(&mut self, bucket: usize, now: Instant) -> usize {
        let Some(mut mailbox) = self.mailboxes[bucket].take() else {
            return 0;
        };
        let received = self.receive::<TRAILER>(&mut mailbox, 0, None, now);
        self.mailboxes[bucket] = received.is_ok().then_some(mailbox);
        received.unwrap_or(0)
    }

    #[inline(always)]
    fn receive<const TRAILER: usize>(
        &mut self,
        queue: &mut L,
        link: usize,
        from: Option<usize>,
        now: Instant,
    ) -> Result<usize, LinkError> {
        let burst = queue.receive(self.burst)?;
        let came = burst.len();
        if came > 0 {
            if let (Some(loops), Some(from)) = (&self.loops, from)
                && let Some(proof) = loops.proof(burst.frame(0), from)
            {
                return Err(LinkError::Failed(proof));
            }
            self.run(&mut Arrived::<TRAILER> { burst, link }, from, now);
        }
        Ok(came)
    }

    /// Runs the stages over a batch, and does what they say with its frames.
    #[inline]
    fn run<B: Batch>(&mut self, batch: &mut B, from: Option<usize>, now: Instant) {
        let mut fates = mem::take(&mut self.fates);
        fates.begin(batch.frames());
        self.stage.run(batch, now, &mut fates);
        let (of_batch, made) = fates.parts();
        self.deliver(batch, of_batch.unwrap_or_default(), from, made);
        self.fates = fates;
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

    /// Sends the frames that stages made.
    fn send_made(&mut self) {
        let (_, made) = self.fates.parts();
        if made.frames() > 0 {
            let mut made = mem::take(made);
            self.counts.made.add(made.frames() as u64);
            self.deliver(&made, made.fates(), None, &mut Made::default());
            made.clear();
            *self.fates.parts().1 = made;
        }
    }

    /// Sends, counts or hands over each frame; without fates, all are flooded. If all are from one link, `from`, that is
    /// not open, and frames to it are copied into `back`.
    #[inline]
    fn deliver<B: Batch>(&mut self, batch: &B, fates: &[Fate], from: Option<usize>, back: &mut Made) {
        let Self {
            links,
            passing,
            counts,
            failures,
            ..
        } = self;
        let (mut named, mut handed_over) = (false, 0);
        passing.clear();
        let flooded = if fates.is_empty() {
            batch.frames() as u32
        } else {
            0
        };
        passing.extend(0..flooded);
        for (number, fate) in (0..).zip(fates) {
            match *fate {
                Fate::Flood => passing.push(number),
                Fate::Forward(_) => named = true,
                Fate::Drop(cause) => counts.dropped[cause as usize].add(1),
                Fate::Held => counts.held.add(1),
                Fate::Replaced => counts.replaced.add(1),
                Fate::HandOver(_) => handed_over += 1,
            }
        }
        let is_one_list = from.is_some() && !named;
        for (to, link) in links.iter_mut().enumerate() {
            if !is_one_list {
                let goes = |number: &u32| match fates.get(*number as usize).copied().unwrap_or_default() {
                    Fate::Flood => batch.link(*number as usize) != to,
                    Fate::Forward(links) => links.contains(to),
                    _ => false,
                };
                passing.clear();
                passing.extend((0..batch.frames() as u32).filter(goes));
            }
            if from == Some(to) {
                if !is_one_list {
                    for frame in passing.iter().map(|number| batch.frame(*number as usize)) {
                        let fate = Fate::Forward(LinkSet::one(to));
                        back.make(to, fate, frame.len()).copy_from_slice(frame);
                    }
                }
            } else if let Err(error) = link.send(batch, passing, &counts.links[to]) {
                link.close();
                failures.push(Failure { link: to, error });
            }
        }
        if handed_over > 0 {
            self.hand_over(batch, fates, handed_over);
        }
    }

    /// Copies frames into the mailboxes of their buckets, each with the number of its link at the end.
    #[cold]
    fn hand_over<B: Batch>(&mut self, batch: &B, fates: &[Fate], mut left: u64) {
        for (bucket, mailbox) in (0..).zip(&mut self.mailboxes) {
            let Some(mailbox) = mailbox else { continue };
            let longest = mailbox.longest() - TRAILER;
            let goes = |number: &u32| {
                let (fate, frame) = (fates[*number as usize], batch.frame(*number as usize));
                fate == Fate::HandOver(Bucket::new(bucket)) && frame.len() <= longest
            };
            self.passing.clear();
            self.passing.extend((0..fates.len() as u32).filter(goes));
            let passing = &self.passing;
            // A mailbox whose other end failed is closed when it is read.
            let taken = mailbox.transmit(passing.len(), |place, buffer| {
                let number = passing[place] as usize;
                let (frame, link) = (batch.frame(number), batch.link(number) as u16);
                buffer[..frame.len()].copy_from_slice(frame);
                buffer[frame.len()..frame.len() + TRAILER].copy_from_slice(&link.to_ne_bytes());
                frame.len() + TRAILER
            });
            let taken = taken.unwrap_or(0) as u64;
            self.counts.handed_over.add(taken);
            left -= taken;
        }
        self.counts.mailbox_full.add(left);
    }
}
