//! Forwards bursts: runs the stages over the frames received on a link, and does with each frame what they say.

use super::arrived::{Arrived, Clock};
use super::counts::WorkerCounts;
use super::lane::Lane;
use super::loop_check::LoopCheck;
use super::mail::Mail;
use super::queues::{Back, Queues};
use crate::shared::lock;
use corelane_link::{Link, LinkError};
use corelane_rss::Bucket;
use corelane_stage::{Batch, Kinds, Stage, Work};
use corelane_worker::CachePadded;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest time that a bucket waits for its stages to be run, while frames come to others.
const LONGEST_WITHOUT_TIME: Duration = Duration::from_millis(20);

/// A link that failed.
#[derive(Debug)]
pub struct Failure {
    /// Index of the link in the plan.
    pub link: usize,
    /// The error.
    pub error: LinkError,
}

/// Forwards bursts between the links of one worker.
pub struct Forwarder<L, S> {
    links: Vec<Queues<L>>,
    /// By bucket; queue `q` of this worker has the lane `q` modulo lanes.
    lanes: Vec<Lane<S>>,
    mail: Option<Mail>,
    burst: usize,
    passing: Vec<u32>,
    back: Back,
    counts: Arc<CachePadded<WorkerCounts>>,
    failures: Vec<Failure>,
    loops: Option<LoopCheck>,
    /// When the stages of all buckets were last run without frames.
    timed: Option<Instant>,
    /// See [`Forwarder::timed_by`].
    clock: Option<Clock>,
}

impl<L: Link, S: Stage> Forwarder<L, S> {
    /// A forwarder between these links, with bursts of up to `burst` frames, for these buckets, each with stages of its own.
    #[must_use]
    pub fn new(
        links: Vec<Queues<L>>,
        buckets: impl IntoIterator<Item = (Bucket, S)>,
        burst: usize,
        counts: Arc<CachePadded<WorkerCounts>>,
    ) -> Forwarder<L, S> {
        Forwarder {
            links,
            lanes: buckets.into_iter().map(Lane::new).collect(),
            mail: None,
            burst: burst.max(1),
            passing: Vec::with_capacity(burst),
            back: Back::default(),
            counts,
            failures: Vec::new(),
            loops: None,
            timed: None,
            clock: None,
        }
    }

    /// Hands frames over by this mail, whose buckets are those of the forwarder.
    #[must_use]
    pub fn with_mail(mut self, mut mail: Mail) -> Forwarder<L, S> {
        for (lane, (_, inboxes)) in self.lanes.iter_mut().zip(mail.inboxes.drain(..)) {
            lane.inboxes = inboxes;
        }
        Forwarder {
            mail: Some(mail),
            ..self
        }
    }

    /// Has the time of the frames: for bridges that read from captures only.
    pub(super) fn timed_by(self, clock: Option<Clock>) -> Forwarder<L, S> {
        Forwarder { clock, ..self }
    }

    /// Sends frames that find loops, or only recognises them. A loop is a failure of the link from which a frame came back.
    pub(super) fn checking_loops(self, check: LoopCheck) -> Forwarder<L, S> {
        Forwarder {
            loops: Some(check),
            ..self
        }
    }

    /// Takes what was handed over, receives one burst from a queue of each link, and forwards all; returns the number of
    /// frames. Links that failed are added to [`failures`](Forwarder::failures), and their queues closed.
    #[inline]
    pub fn turn(&mut self, now: Instant) -> usize {
        let mut came = self.take_mail(now);
        if self.loops.as_mut().is_some_and(|loops| loops.is_due(now)) {
            self.send_loop_check();
        }
        for from in 0..self.links.len() {
            came += self.pass_on(from, now);
        }
        if came == 0 || self.timed.is_none_or(|timed| now >= timed + LONGEST_WITHOUT_TIME) {
            self.timed = Some(now);
            for lane in 0..self.lanes.len() {
                self.run(lane, Arrived::default(), None, now, Lane::run);
            }
        }
        if came == 0 && self.mail.is_some() && self.links_are_ended() {
            self.receives_no_more();
        }
        came
    }

    /// Takes what was handed over, and forwards it; returns the number of frames.
    #[inline]
    pub fn take_mail(&mut self, now: Instant) -> usize {
        let Some(mail) = &self.mail else { return 0 };
        let (streams, burst, mut came) = (Arc::clone(mail.streams()), self.burst, 0);
        for number in 0..self.lanes.len() {
            if self.lanes[number].has_mail() {
                self.run(number, Arrived::default(), None, now, |lane, work| {
                    came += lane.take(work, burst);
                    lane.run(work);
                });
                self.lanes[number].has_handled(&streams);
            }
        }
        came
    }

    /// Says to the other workers that this one receives no more frames from links.
    pub fn receives_no_more(&mut self) {
        if let Some(mail) = &mut self.mail {
            mail.receives_no_more();
        }
    }

    /// Runs other stages from the next batch on, one for each bucket. They take over what those before hold.
    pub fn replan(&mut self, mut stage: impl FnMut(Bucket) -> S) {
        for lane in &mut self.lanes {
            lane.replan(stage(lane.bucket));
        }
    }

    /// Sends what the stages still hold: no frame will come.
    pub fn end(&mut self, now: Instant) {
        for lane in 0..self.lanes.len() {
            self.run(lane, Arrived::default(), None, now, Lane::end);
        }
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
    pub fn queues(&self) -> impl Iterator<Item = &L> + Clone {
        self.links.iter().flat_map(|link| &link.queues)
    }

    /// Whether all links are up, and no more frames can arrive from them or from other workers.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.links_are_ended() && self.mail_is_over()
    }

    /// Whether no worker receives any more, and nothing is between them.
    pub(super) fn mail_is_over(&self) -> bool {
        self.mail.as_ref().is_none_or(Mail::is_over)
    }

    /// Waits for frames, for so long that a stop is seen in time; returns whether a link is in error. `receiving`: from
    /// links, too.
    pub(super) fn wait(&self, receiving: bool) -> bool {
        let open = || self.queues().filter(|queue| receiving && !queue.is_ended());
        let Some(mail) = &self.mail else {
            return corelane_link::wait(open(), None);
        };
        let has_mail = || self.lanes.iter().any(Lane::has_mail);
        let failed = mail.is_about_to_wait(has_mail) && corelane_link::wait(open(), Some(mail.bell()));
        mail.is_awake();
        failed
    }

    fn links_are_ended(&self) -> bool {
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
        let received = self.receive(&mut queues[next], next, from, now);
        self.links[from].queues = queues;
        let sent = received.and_then(|came| self.send_back(from).map(|()| came));
        sent.unwrap_or_else(|error| {
            self.fail(from, error);
            0
        })
    }

    #[inline(always)]
    fn receive(
        &mut self,
        queue: &mut L,
        number: usize,
        link: usize,
        now: Instant,
    ) -> Result<usize, LinkError> {
        let since = self.counts.batch_wait.as_ref().map(|_| Instant::now());
        let burst = queue.receive(self.burst)?;
        let (came, clock) = (burst.len(), self.clock.as_mut());
        if came > 0 {
            if let Some(loops) = &self.loops
                && let Some(proof) = loops.proof(burst.frame(0), link)
            {
                return Err(LinkError::Failed(proof));
            }
            let arrived = Arrived {
                epoch: clock.map(|clock| clock.went_on(link, &burst)),
                burst,
                link,
                since,
            };
            let lane = number % self.lanes.len();
            self.run(lane, arrived, Some(link), now, Lane::run);
            // Last: whoever sees a frame received sees where it went.
            self.counts.received.add(came as u64);
        } else if let Some(clock) = clock {
            clock.has_no_frames(link);
        }
        Ok(came)
    }

    /// Runs the stages of a lane over a batch, and sends the frames that go on.
    #[inline(always)]
    fn run<'link>(
        &mut self,
        lane: usize,
        mut arrived: Arrived<'link>,
        from: Option<usize>,
        now: Instant,
        stages: impl FnOnce(&mut Lane<S>, &mut Work<'_, Arrived<'link>>),
    ) {
        let mut desk = mem::take(&mut self.lanes[lane].desk);
        let (since, frames) = (arrived.since, arrived.frames() as u64);
        let now = self.clock.as_ref().map_or(now, Clock::now);
        let mut work = Work::new(&mut desk, &mut arrived, now);
        stages(&mut self.lanes[lane], &mut work);
        work.settle();
        if let Some((since, waits)) = since.zip(self.counts.batch_wait.as_ref()) {
            lock(waits).record_many(since.elapsed().as_nanos() as u64, frames);
        }
        self.deliver(&work, from);
        self.lanes[lane].desk = desk;
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
        passing.clear();
        let goes_on = |place: &u32| work.goes_on(*place as usize);
        let places = 0..work.len() as u32;
        match fates {
            None => passing.extend(places),
            Some(_) => passing.extend(places.filter(goes_on)),
        }
        counts.passed.add(passing.len() as u64);
        let is_one_list = from.is_some() && !work.has_added();
        let has_merged = work.kinds().has(Kinds::MERGED);
        for (to, link) in links.iter_mut().enumerate() {
            if !is_one_list {
                let goes = |place: &u32| goes_on(place) && work.link(*place as usize) != to;
                passing.clear();
                passing.extend((0..work.len() as u32).filter(goes));
            }
            let frame = |place: &u32| work.frame(*place as usize);
            let outgoing = |place: &u32| {
                let merged = work.merged(*place as usize);
                (frame(place), merged.map(|merged| merged.segment_bytes))
            };
            if from == Some(to) {
                if !is_one_list {
                    passing.iter().for_each(|place| back.add(outgoing(place)));
                }
                continue;
            }
            let counts = &counts.links[to];
            let sent = match (has_merged, work.lent()) {
                (true, _) => link.send_mixed(passing, outgoing, counts),
                (false, None) => link.send(passing.iter().map(frame), counts),
                (false, Some(lent)) => {
                    link.send(passing.iter().map(|place| lent.frame(*place as usize)), counts)
                }
            };
            if let Err(error) = sent {
                link.close();
                failures.push(Failure { link: to, error });
            }
        }
        if let (Some(mail), Some(fates)) = (&mut self.mail, fates) {
            mail.post(work, fates);
        }
    }

    fn send_back(&mut self, to: usize) -> Result<(), LinkError> {
        self.back.send(&mut self.links[to], &self.counts.links[to])
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
