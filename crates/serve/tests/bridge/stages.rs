//! The forwarder does with each frame what its stages say, and counts it. Rings in memory; the time is passed in.

use corelane_link::memory::{MemoryLink, pair};
use corelane_link::{FrameLayout, Link};
use corelane_rss::{Bucket, Key};
use corelane_serve::bridge::{Forwarder, Queues, WorkerCounts};
use corelane_stage::coalescing::{Coalescing, Plan};
use corelane_stage::{Batch, Stage, Work};
use corelane_worker::{CachePadded, Counter};
use etherparse::PacketBuilder;
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
    fn new(links: usize, stage: S) -> Worker<S> {
        let (near, ends): (Vec<_>, Vec<_>) = (0..links).map(|_| ring(64)).unzip();
        let counts = Arc::new(CachePadded::new(WorkerCounts::new(links)));
        let queues = near.into_iter().map(|link| Queues::new(vec![link])).collect();
        Worker {
            forwarder: Forwarder::new(queues, [(Bucket::new(0), stage)], 64, Arc::clone(&counts)),
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

    /// Frames received and passed.
    fn counted(&self) -> [u64; 2] {
        [&self.counts.received, &self.counts.passed].map(Counter::get)
    }
}

/// The places whose frames go on.
fn going<B: Batch>(work: &Work<'_, B>) -> Vec<usize> {
    (0..work.len()).filter(|place| work.goes_on(*place)).collect()
}

/// Reads headers, and merges segments.
struct Merging(Coalescing);

impl Stage for Merging {
    fn run<B: Batch>(&mut self, work: &mut Work<'_, B>) {
        work.read();
        self.0.run(work);
    }
}

/// Edits each frame in place.
struct Rewrite(u8);

impl Stage for Rewrite {
    fn run<B: Batch>(&mut self, work: &mut Work<'_, B>) {
        for place in going(work) {
            work.frame_mut(place)[0] = self.0;
        }
    }
}

/// Makes each frame two: its halves.
struct Split;

impl Stage for Split {
    fn run<B: Batch>(&mut self, work: &mut Work<'_, B>) {
        for place in going(work) {
            let half = work.frame(place).len() / 2;
            work.insert(place, half, |view, bytes| {
                bytes.copy_from_slice(&view.frame(place)[half..]);
            });
            work.trim(place, 0..half);
        }
    }
}

/// Merges the frames of a batch into the first.
struct Merge;

impl Stage for Merge {
    fn run<B: Batch>(&mut self, work: &mut Work<'_, B>) {
        let places = going(work);
        let length = places.iter().map(|place| work.frame(*place).len()).sum();
        let Some((first, others)) = places.split_first() else {
            return;
        };
        work.replace(*first, length, |view, bytes| {
            let merged: Vec<u8> = places
                .iter()
                .flat_map(|place| view.frame(*place).to_vec())
                .collect();
            bytes.copy_from_slice(&merged);
        });
        others.iter().for_each(|place| work.take(*place));
    }
}

/// Drops frames that begin with a byte.
struct DropOf(u8, Counter);

impl Stage for DropOf {
    fn run<B: Batch>(&mut self, work: &mut Work<'_, B>) {
        for place in going(work) {
            if work.frame(place)[0] == self.0 {
                work.drop(place, &self.1);
            }
        }
    }
}

/// Holds frames for a time.
struct Hold(Duration, Vec<(Instant, usize, Vec<u8>)>);

impl Hold {
    fn send<B: Batch>(&mut self, work: &mut Work<'_, B>, count: usize) {
        for (_, link, bytes) in self.1.drain(..count) {
            work.push(link, bytes.len(), |made| made.copy_from_slice(&bytes));
        }
    }
}

impl Stage for Hold {
    fn run<B: Batch>(&mut self, work: &mut Work<'_, B>) {
        let is_due = |(since, ..): &&(Instant, _, _)| work.now().duration_since(*since) >= self.0;
        let due = self.1.iter().take_while(is_due).count();
        self.send(work, due);
        for place in going(work) {
            self.1
                .push((work.now(), work.link(place), work.frame(place).to_vec()));
            work.take(place);
        }
    }

    fn end<B: Batch>(&mut self, work: &mut Work<'_, B>) {
        self.send(work, self.1.len());
    }

    fn take_over(&mut self, old: Hold) {
        self.1 = old.1;
    }
}

/// Puts a copy of each frame at the end, as if it had come from the other of two links.
struct Mirror;

impl Stage for Mirror {
    fn run<B: Batch>(&mut self, work: &mut Work<'_, B>) {
        for place in going(work) {
            let frame = work.frame(place).to_vec();
            work.push(1 - work.link(place), frame.len(), |bytes| {
                bytes.copy_from_slice(&frame);
            });
        }
    }
}

#[test]
fn frames_are_edited_in_place() {
    let mut worker = Worker::new(2, Rewrite(9));
    worker.send(0, &[&[1, 2], &[3, 4]]);
    assert_eq!(worker.forwarder.turn(Instant::now()), 2);
    assert_eq!(worker.sent(), [vec![], vec![vec![9, 2], vec![9, 4]]]);
    assert_eq!(worker.counted(), [2, 2]);
}

#[test]
fn a_frame_becomes_several_and_several_become_one_where_they_were() {
    let mut worker = Worker::new(3, Split);
    worker.send(1, &[&[1, 2], &[3, 4]]);
    worker.forwarder.turn(Instant::now());
    let halves: Vec<Vec<u8>> = [1, 2, 3, 4].map(|byte| vec![byte]).into();
    assert_eq!(worker.sent(), [halves.clone(), vec![], halves]);
    assert_eq!(worker.counted(), [2, 4]);

    let mut worker = Worker::new(2, Merge);
    worker.send(0, &[&[1], &[2], &[3]]);
    worker.forwarder.turn(Instant::now());
    assert_eq!(worker.sent(), [vec![], vec![vec![1, 2, 3]]]);
    assert_eq!(worker.counted(), [3, 1]);
}

#[test]
fn a_later_stage_sees_what_an_earlier_one_made_and_not_what_it_dropped() {
    let stages = (
        (DropOf(7, Counter::new()), Split),
        (DropOf(2, Counter::new()), Rewrite(9)),
    );
    let mut worker = Worker::new(2, stages);
    worker.send(0, &[&[7, 7], &[1, 2], &[3, 4]]);
    worker.forwarder.turn(Instant::now());
    assert_eq!(worker.sent(), [vec![], vec![vec![9]; 3]]);
    assert_eq!(worker.counted(), [3, 3], "dropped: one whole frame, one half");
}

#[test]
fn held_frames_are_sent_when_their_time_comes_or_the_end_without_any_other_frame() {
    let (mut worker, start) = (
        Worker::new(2, Hold(Duration::from_millis(5), Vec::new())),
        Instant::now(),
    );
    worker.send(0, &[&[1], &[2]]);
    worker.forwarder.turn(start);
    worker.forwarder.turn(start + Duration::from_millis(4));
    assert_eq!(worker.sent(), [Vec::<Vec<u8>>::new(), vec![]]);
    assert_eq!(worker.counted(), [2, 0]);
    assert_eq!(worker.forwarder.turn(start + Duration::from_millis(5)), 0);
    assert_eq!(worker.sent(), [vec![], vec![vec![1], vec![2]]]);
    assert_eq!(worker.counted(), [2, 2]);

    worker.send(1, &[&[3]]);
    worker.forwarder.turn(start);
    worker.forwarder.end(start);
    assert_eq!(worker.sent(), [vec![vec![3]], vec![]]);
    assert_eq!(worker.counted(), [3, 3]);
}

#[test]
fn every_bucket_gets_time_also_while_frames_come_to_another_without_a_pause() {
    let hold = |bucket| (Bucket::new(bucket), Hold(Duration::from_millis(5), Vec::new()));
    let [(first, _end), (second, mut to_second), (other, mut to_first)] = [ring(64), ring(64), ring(64)];
    let links = [vec![first, second], vec![other]].map(Queues::new).into();
    let counts = Arc::new(CachePadded::new(WorkerCounts::new(2)));
    let mut forwarder = Forwarder::new(links, [hold(0), hold(1)], 64, Arc::clone(&counts));
    let (start, frame) = (Instant::now(), std::iter::once(&[1, 2][..]));
    to_second.send(frame.clone()).unwrap();
    let mut left = None;
    for milliseconds in 0..40 {
        // Of the second link, whose queue is of the first bucket.
        to_first.send(frame.clone()).unwrap();
        assert!(forwarder.turn(start + Duration::from_millis(milliseconds)) > 0);
        if !to_first.receive(64).unwrap().is_empty() {
            left.get_or_insert(milliseconds);
        }
    }
    assert_eq!(left, Some(20));
}

#[test]
fn another_stage_takes_over_what_the_one_before_holds() {
    let hold = |seconds| Hold(Duration::from_secs(seconds), Vec::new());
    let (mut worker, start) = (Worker::new(2, hold(60)), Instant::now());
    worker.send(0, &[&[1], &[2]]);
    worker.forwarder.turn(start);
    worker.forwarder.replan(|_| hold(5));
    worker.send(0, &[&[3]]);
    worker.forwarder.turn(start + Duration::from_secs(4));
    assert_eq!(worker.sent(), [Vec::<Vec<u8>>::new(), vec![]]);
    worker.forwarder.turn(start + Duration::from_secs(5));
    assert_eq!(worker.sent(), [vec![], vec![vec![1], vec![2]]]);
    worker.forwarder.end(start);
    assert_eq!(worker.sent(), [vec![], vec![vec![3]]]);
    assert_eq!(worker.counted(), [3, 3]);
}

#[test]
fn a_held_frame_of_another_link_does_not_go_back_to_it() {
    let (mut worker, start) = (
        Worker::new(3, Hold(Duration::from_millis(5), Vec::new())),
        Instant::now(),
    );
    worker.send(0, &[&[1]]);
    worker.forwarder.turn(start);
    // Comes when the burst of link 2 is lent.
    worker.send(2, &[&[2]]);
    worker.forwarder.turn(start + Duration::from_millis(5));
    assert_eq!(worker.sent(), [vec![], vec![vec![1]], vec![vec![1]]]);
}

/// A frame of 20 bytes of a TCP stream, from this one on.
fn segment(at: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([2; 6], [3; 6])
        .ipv6([7; 16], [8; 16], 64)
        .tcp(1024, 80, at.into(), 100)
        .ack(1)
        .write(&mut frame, payload)
        .unwrap();
    frame
}

#[test]
fn merged_frames_are_sent_among_others_in_order_also_to_the_link_that_they_came_from() {
    let merging = Coalescing::new(Plan::default(), &Key::VERIFICATION, Arc::default());
    let mut worker = Worker::new(2, (Mirror, Merging(merging)));
    let (one, two) = (vec![3; 20], vec![3; 30]);
    let parts = [segment(0, &[5; 20]), segment(20, &[6; 20])];
    worker.send(0, &[&parts[0], &one, &parts[1], &two]);
    worker.forwarder.turn(Instant::now());
    let merged = segment(0, &[[5; 20], [6; 20]].concat());
    let expected = vec![merged, one, two];
    assert_eq!(worker.sent(), [expected.clone(), expected]);
    assert_eq!(worker.counted(), [4, 6]);
}
