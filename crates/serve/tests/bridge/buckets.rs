//! Workers hand frames over to the buckets of their hashes. Rings in memory; the time is passed in.

use super::frames::{arp, datagram, number_of};
use corelane_link::memory::{MemoryLink, pair};
use corelane_link::{FrameLayout, Link};
use corelane_packet::{Dissection, HashTypes};
use corelane_rss::{Bucket, IndirectionTable, Key};
use corelane_serve::bridge::{BucketsPlan, Forwarder, Mail, Queues, WorkerCounts};
use corelane_stage::dispatch::{Dispatch, DispatchPlan, Method, Protocol, Row, Spread, Workstreams};
use corelane_stage::{Batch, Stage, Work};
use corelane_worker::CachePadded;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

const BUCKETS: u16 = 4;

fn plan(dispatch: DispatchPlan) -> BucketsPlan {
    BucketsPlan {
        key: Key::VERIFICATION,
        hash_types: HashTypes::TWO_TUPLE,
        table: IndirectionTable::round_robin(128, BUCKETS.into()).unwrap(),
        buckets: BUCKETS,
        dispatch,
    }
}

/// Writes the bucket that handled a frame into its first byte.
struct Sign(Bucket);

impl Stage for Sign {
    fn run<B: Batch>(&mut self, work: &mut Work<'_, B>) {
        for place in (0..work.len())
            .filter(|place| work.goes_on(*place))
            .collect::<Vec<_>>()
        {
            work.frame_mut(place)[0] = self.0.index() as u8;
        }
    }
}

/// Two workers with two buckets each, between two links.
struct Workers {
    forwarders: Vec<Forwarder<MemoryLink, (Dispatch, Sign)>>,
    /// By worker, the other ends of its links.
    ends: Vec<[MemoryLink; 2]>,
    streams: Arc<Workstreams>,
    spread: Arc<Spread>,
}

impl Workers {
    fn new(dispatch: DispatchPlan) -> Workers {
        let plan = plan(dispatch);
        let mails = Mail::between(&plan, 2).unwrap();
        let streams = Arc::clone(mails[0].streams());
        let spread = Arc::new(Spread {
            toeplitz: corelane_rss::Toeplitz::new(&plan.key),
            hash_types: plan.hash_types,
            table: plan.table.clone(),
            buckets: plan.buckets,
        });
        let (mut forwarders, mut ends) = (Vec::new(), Vec::new());
        for mail in mails {
            let ring = || pair(FrameLayout::new(4096, 256, 0).unwrap()).unwrap();
            let [(first, from), (second, to)] = [ring(), ring()];
            let links = [first, second].map(|link| Queues::new(vec![link])).into();
            let counts = Arc::new(CachePadded::new(WorkerCounts::new(2)));
            let stages = |bucket| {
                let dispatch =
                    Dispatch::new(bucket, &plan.dispatch, Arc::clone(&spread), Arc::clone(&streams));
                (dispatch, Sign(bucket))
            };
            let lanes = mail.buckets().into_iter().map(|bucket| (bucket, stages(bucket)));
            let forwarder = Forwarder::new(links, lanes, 64, counts);
            forwarders.push(forwarder.with_mail(mail));
            ends.push([from, to]);
        }
        Workers {
            forwarders,
            ends,
            streams,
            spread,
        }
    }

    fn send(&mut self, worker: usize, frames: &[Vec<u8>]) {
        let sent = self.ends[worker][0]
            .send(frames.iter().map(Vec::as_slice))
            .unwrap();
        assert_eq!(sent.taken, frames.len());
    }

    /// Takes turns until nothing moves.
    fn run(&mut self) {
        let now = Instant::now();
        while self
            .forwarders
            .iter_mut()
            .map(|worker| worker.turn(now))
            .sum::<usize>()
            > 0
        {}
    }

    /// What both workers sent to the second link.
    fn sent(&mut self) -> Vec<Vec<u8>> {
        let take = |ends: &mut [MemoryLink; 2]| -> Vec<Vec<u8>> {
            ends[1]
                .receive(4096)
                .unwrap()
                .iter()
                .map(<[u8]>::to_vec)
                .collect()
        };
        self.ends.iter_mut().flat_map(take).collect()
    }

    fn bucket_of(&self, frame: &[u8]) -> u8 {
        let hash = self.spread.hash(&Dissection::of(frame).unwrap()).unwrap();
        self.spread.table.bucket(hash.value).index() as u8
    }

    fn rows(&self, protocol: Protocol) -> Vec<Row> {
        let rows = |bucket| self.streams.rows(Bucket::new(bucket))[protocol as usize].clone();
        (0..BUCKETS).map(rows).collect()
    }

    /// Asserts that nothing waits and what was handled is what was dispatched and queued, of every bucket and protocol.
    fn balances(&self) {
        for protocol in Protocol::ALL {
            for row in self.rows(protocol) {
                assert_eq!(row.length, 0, "{protocol}: {row:?}");
                assert_eq!(
                    row.handled,
                    row.dispatched + row.hybrid + row.queued,
                    "{protocol}: {row:?}"
                );
            }
        }
    }
}

/// Datagrams of flows, numbered from 0.
fn datagrams(count: u32, flows: u32) -> Vec<Vec<u8>> {
    let source = |number| std::net::Ipv4Addr::from(0x0a00_0000 + number % flows).into();
    (0..count)
        .map(|number| datagram(number, source(number), "192.0.2.1".parse().unwrap()))
        .collect()
}

#[test]
fn every_frame_is_handled_once_by_the_bucket_of_its_hash_in_the_order_of_its_flow() {
    for method in [Method::Deferred, Method::Hybrid] {
        let mut workers = Workers::new(DispatchPlan {
            default: method,
            limit: 4096,
            ..DispatchPlan::default()
        });
        let frames = datagrams(1000, 50);
        workers.send(0, &frames[..500]);
        workers.send(1, &frames[500..]);
        workers.run();
        let sent = workers.sent();
        let mut numbers: Vec<u32> = sent.iter().map(|frame| number_of(frame)).collect();
        let mut last = BTreeMap::new();
        for frame in &sent {
            let original = &frames[number_of(frame) as usize];
            assert_eq!(frame[0], workers.bucket_of(original), "{method}");
            assert_eq!(frame[1..], original[1..]);
            // Each half came to one worker, in order.
            let (flow, half) = (number_of(frame) % 50, number_of(frame) / 500);
            let before = last.insert((flow, half), number_of(frame));
            assert!(before.is_none_or(|before| before < number_of(frame)), "{method}");
        }
        numbers.sort_unstable();
        assert_eq!(numbers, (0..1000).collect::<Vec<u32>>(), "{method}");
        workers.balances();
        let rows = workers.rows(Protocol::Ip);
        let sum = |of: fn(&Row) -> u64| rows.iter().map(of).sum::<u64>();
        assert_eq!((sum(|row| row.handled), sum(|row| row.dropped)), (1000, 0));
        assert_eq!(sum(|row| row.hybrid) > 0, method == Method::Hybrid);
        assert!(sum(|row| row.queued) > 300, "most buckets are elsewhere");
    }
}

#[test]
fn direct_dispatch_hands_nothing_over() {
    let mut workers = Workers::new(DispatchPlan {
        default: Method::Direct,
        ..DispatchPlan::default()
    });
    workers.send(0, &datagrams(100, 10));
    workers.send(1, &[arp(0)]);
    workers.run();
    assert_eq!(workers.sent().len(), 101);
    workers.balances();
    let rows = workers.rows(Protocol::Ip);
    assert_eq!(
        rows.iter().map(|row| row.dispatched).collect::<Vec<_>>(),
        [100, 0, 0, 0]
    );
    assert_eq!(
        workers.rows(Protocol::Arp)[1].dispatched,
        1,
        "worker 1 begins with bucket 1"
    );
}

#[test]
fn a_bucket_whose_worker_stands_still_loses_what_does_not_fit_and_stalls_no_other() {
    let mut workers = Workers::new(DispatchPlan {
        limit: 64,
        ..DispatchPlan::default()
    });
    let frames = datagrams(2000, 200);
    let now = Instant::now();
    for some in frames.chunks(50) {
        workers.send(0, some);
        while workers.forwarders[0].turn(now) > 0 {}
    }
    let of = |bucket: u16| {
        frames
            .iter()
            .filter(|frame| u16::from(workers.bucket_of(frame)) == bucket)
            .count() as u64
    };
    let expected: Vec<u64> = (0..BUCKETS).map(of).collect();
    for (bucket, row) in workers.rows(Protocol::Ip).into_iter().enumerate() {
        match bucket % 2 {
            // Those of worker 0: it takes what it queued for itself in its next turn.
            0 => assert_eq!((row.handled, row.dropped), (expected[bucket], 0)),
            _ => {
                assert_eq!(
                    (row.length, row.watermark, row.queued, row.handled),
                    (64, 64, 64, 0)
                );
                assert_eq!(row.dropped, expected[bucket] - 64);
            }
        }
    }
    assert_eq!(workers.sent().len() as u64, expected[0] + expected[2]);
    workers.run();
    assert_eq!(workers.sent().len(), 128);
    workers.balances();
}

#[test]
fn frames_of_a_worker_that_died_are_counted_as_waiting_or_refused_and_the_others_go_on() {
    let mut workers = Workers::new(DispatchPlan {
        limit: 64,
        ..DispatchPlan::default()
    });
    let frames = datagrams(1000, 200);
    let now = Instant::now();
    let mut sent = 0;
    for (number, some) in frames.chunks(50).enumerate() {
        workers.send(0, some);
        while workers.forwarders[0].turn(now) > 0 {}
        if number == 4 {
            // With mail of its own, and of which it has taken none.
            drop(workers.forwarders.pop());
        }
        sent += workers.sent().len() as u64;
    }
    workers.forwarders[0].receives_no_more();
    workers.forwarders[0].end(now);
    assert!(!workers.forwarders[0].is_ended(), "frames wait");
    let rows = workers.rows(Protocol::Ip);
    for row in [&rows[1], &rows[3]] {
        assert_eq!((row.length, row.queued, row.handled), (64, 64, 0));
    }
    let gone: u64 = rows.iter().map(|row| row.length + row.dropped).sum();
    assert_eq!(sent + gone, 1000);
}
