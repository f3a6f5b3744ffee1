//! The forwarder does with each frame what its stages say, and counts it. Rings in memory; the time is passed in.

use corelane_link::memory::{MemoryLink, pair};
use corelane_link::{FrameLayout, Link};
use corelane_packet::stage::{Batch, Cause, Fate, Fates, LinkSet, Stage};
use corelane_rss::Bucket;
use corelane_serve::bridge::{Forwarder, Queues, WorkerCounts};
use corelane_worker::CachePadded;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A forwarder between rings, and the other ends of the rings.
struct Worker<S> {
    forwarder: Forwarder<MemoryLink, S>,
    ends: Vec<MemoryLink>,
    counts: Arc<CachePadded<WorkerCounts>>,
}

fn ring(frames: usize) -> (MemoryLink, MemoryLink) {
    pair(FrameLayout::new(frames, 256, 0).unwrap()).unwrap()
}

impl<S: Stage> Worker<S> {
    fn new(links: usize, mailboxes: Vec<Option<MemoryLink>>, stage: S) -> Worker<S> {
        let (near, ends): (Vec<_>, Vec<_>) = (0..links).map(|_| ring(64)).unzip();
        let counts = Arc::new(CachePadded::new(WorkerCounts::new(links, 0)));
        let queues = near.into_iter().map(|link| Queues::new(vec![link])).collect();
        Worker {
            forwarder: Forwarder::new(queues, mailboxes, stage, 64, Arc::clone(&counts)),
            ends,
            counts,
        }
    }

    /// Puts frames into a link.
    fn send(&mut self, link: usize, frames: &[&[u8]]) {
        let sent = self.ends[link].send(frames.iter().copied()).unwrap();
        assert_eq!(sent.taken, frames.len());
    }

    /// Takes out what each link sent.
    fn sent(&mut self) -> Vec<Vec<Vec<u8>>> {
        let take = |end: &mut MemoryLink| end.receive(64).unwrap().iter().map(<[u8]>::to_vec).collect();
        self.ends.iter_mut().map(take).collect()
    }

    fn dropped(&self, cause: Cause) -> u64 {
        self.counts.dropped[cause as usize].get()
    }
}

/// Edits each frame in place.
struct Rewrite(u8);

impl Stage for Rewrite {
    fn run<B: Batch>(&mut self, batch: &mut B, _now: Instant, fates: &mut Fates) {
        for number in (0..batch.frames()).filter(|number| fates.goes_on(*number)) {
            batch.frame_mut(number)[0] = self.0;
        }
    }
}

/// Makes each frame two: its halves.
struct Split;

impl Stage for Split {
    fn run<B: Batch>(&mut self, batch: &mut B, _now: Instant, fates: &mut Fates) {
        for number in 0..batch.frames() {
            if !fates.goes_on(number) {
                continue;
            }
            let (link, frame) = (batch.link(number), batch.frame(number));
            for half in frame.chunks(frame.len() / 2) {
                fates.make(link, Fate::Flood, half.len()).copy_from_slice(half);
            }
            fates.set(number, Fate::Replaced);
        }
    }
}

/// Merges the frames of a batch into one.
struct Merge;

impl Stage for Merge {
    fn run<B: Batch>(&mut self, batch: &mut B, _now: Instant, fates: &mut Fates) {
        let merged: Vec<u8> = (0..batch.frames())
            .flat_map(|number| batch.frame(number).to_vec())
            .collect();
        (0..batch.frames()).for_each(|number| fates.set(number, Fate::Replaced));
        if batch.frames() > 0 {
            fates
                .make(batch.link(0), Fate::Flood, merged.len())
                .copy_from_slice(&merged);
        }
    }
}

/// Drops frames that begin with a byte.
struct DropOf(u8);

impl Stage for DropOf {
    fn run<B: Batch>(&mut self, batch: &mut B, _now: Instant, fates: &mut Fates) {
        for number in 0..batch.frames() {
            if fates.goes_on(number) && batch.frame(number)[0] == self.0 {
                fates.set(number, Fate::Drop(Cause::Otherwise));
            }
        }
    }
}

/// Holds frames for a time.
struct Hold(Duration, Vec<(Instant, usize, Vec<u8>)>);

impl Stage for Hold {
    fn run<B: Batch>(&mut self, batch: &mut B, now: Instant, fates: &mut Fates) {
        let due = self
            .1
            .iter()
            .take_while(|(since, ..)| now.duration_since(*since) >= self.0);
        let due = due.count();
        for (_, link, bytes) in self.1.drain(..due) {
            fates.make(link, Fate::Flood, bytes.len()).copy_from_slice(&bytes);
        }
        for number in 0..batch.frames() {
            self.1
                .push((now, batch.link(number), batch.frame(number).to_vec()));
            fates.set(number, Fate::Held);
        }
    }
}

/// Sends each frame to the links that the bits of its first byte name.
struct Address;

impl Stage for Address {
    fn run<B: Batch>(&mut self, batch: &mut B, _now: Instant, fates: &mut Fates) {
        for number in 0..batch.frames() {
            let named = batch.frame(number)[0];
            let links = (0..8).filter(|link| named >> link & 1 == 1).map(LinkSet::one);
            let links = links.fold(LinkSet::default(), |set, link| set | link);
            fates.set(number, Fate::Forward(links));
        }
    }
}

/// Hands frames to the bucket in their first byte, and keeps those of its own.
struct Dispatch(u16);

impl Stage for Dispatch {
    fn run<B: Batch>(&mut self, batch: &mut B, _now: Instant, fates: &mut Fates) {
        for number in 0..batch.frames() {
            let bucket = batch.frame(number)[0].into();
            if bucket != self.0 {
                fates.set(number, Fate::HandOver(Bucket::new(bucket)));
            }
        }
    }
}

#[test]
fn frames_are_edited_in_place() {
    let mut worker = Worker::new(2, Vec::new(), Rewrite(9));
    worker.send(0, &[&[1, 2], &[3, 4]]);
    assert_eq!(worker.forwarder.turn(Instant::now()), 2);
    assert_eq!(worker.sent(), [vec![], vec![vec![9, 2], vec![9, 4]]]);
}

#[test]
fn a_frame_is_replaced_by_several_and_several_by_one() {
    let mut worker = Worker::new(3, Vec::new(), Split);
    worker.send(1, &[&[1, 2], &[3, 4]]);
    worker.forwarder.turn(Instant::now());
    let halves: Vec<Vec<u8>> = [1, 2, 3, 4].map(|byte| vec![byte]).into();
    assert_eq!(worker.sent(), [halves.clone(), vec![], halves]);
    assert_eq!((worker.counts.replaced.get(), worker.counts.made.get()), (2, 4));

    let mut worker = Worker::new(2, Vec::new(), Merge);
    worker.send(0, &[&[1], &[2], &[3]]);
    worker.forwarder.turn(Instant::now());
    assert_eq!(worker.sent(), [vec![], vec![vec![1, 2, 3]]]);
    assert_eq!((worker.counts.replaced.get(), worker.counts.made.get()), (3, 1));
}

#[test]
fn a_later_stage_sees_what_an_earlier_one_made_and_not_what_it_dropped() {
    let mut worker = Worker::new(2, Vec::new(), ((DropOf(7), Split), (DropOf(2), Rewrite(9))));
    worker.send(0, &[&[7, 7], &[1, 2], &[3, 4]]);
    worker.forwarder.turn(Instant::now());
    assert_eq!(worker.sent(), [vec![], vec![vec![9]; 3]]);
    assert_eq!(worker.dropped(Cause::Otherwise), 2, "one whole frame, one half");
    assert_eq!((worker.counts.replaced.get(), worker.counts.made.get()), (2, 4));
}

#[test]
fn held_frames_are_sent_when_their_time_comes_without_any_other_frame() {
    let (mut worker, start) = (
        Worker::new(2, Vec::new(), Hold(Duration::from_millis(5), Vec::new())),
        Instant::now(),
    );
    worker.send(0, &[&[1], &[2]]);
    worker.forwarder.turn(start);
    worker.forwarder.turn(start + Duration::from_millis(4));
    assert_eq!(worker.sent(), [Vec::<Vec<u8>>::new(), vec![]]);
    assert_eq!(worker.counts.held.get(), 2);
    assert_eq!(worker.forwarder.turn(start + Duration::from_millis(5)), 0);
    assert_eq!(worker.sent(), [vec![], vec![vec![1], vec![2]]]);
    assert_eq!(worker.counts.made.get(), 2);
}

#[test]
fn frames_go_to_the_links_that_are_named_also_back_and_in_order() {
    let mut worker = Worker::new(3, Vec::new(), Address);
    worker.send(0, &[&[0b010, 1], &[0b100, 2], &[0b110, 3], &[0b001, 4], &[0, 5]]);
    worker.forwarder.turn(Instant::now());
    let expected: [&[[u8; 2]]; 3] = [
        &[[0b001, 4]],
        &[[0b010, 1], [0b110, 3]],
        &[[0b100, 2], [0b110, 3]],
    ];
    assert_eq!(worker.sent(), expected);
}

#[test]
fn frames_of_another_bucket_go_through_its_worker_and_not_back_to_their_link() {
    let (near, far) = ring(4);
    let mut first = Worker::new(3, vec![None, Some(near)], Dispatch(0));
    let mut second = Worker::new(3, vec![Some(far), None], (Dispatch(1), Rewrite(9)));
    first.send(2, &[&[0, 1], &[1, 2], &[1, 3], &[5, 4]]);
    let now = Instant::now();
    assert_eq!((first.forwarder.turn(now), second.forwarder.turn(now)), (4, 2));
    assert_eq!(first.sent(), [vec![vec![0, 1]], vec![vec![0, 1]], vec![]]);
    let handed_over: Vec<Vec<u8>> = vec![vec![9, 2], vec![9, 3]];
    assert_eq!(second.sent(), [handed_over.clone(), handed_over, vec![]]);
    // No worker has bucket 5.
    let counts = |worker: &WorkerCounts| (worker.handed_over.get(), worker.mailbox_full.get());
    assert_eq!(counts(&first.counts), (2, 1));

    first.send(2, &[[1, 0].as_slice(); 6]);
    first.forwarder.turn(now);
    let (handed_over, full) = counts(&first.counts);
    assert_eq!(handed_over + full, 2 + 1 + 6);
    assert!(full > 1, "the ring has no room for six frames");
}
