//! The generator over UDP against the model of a server: datagrams are lost, overtaken, and answers also duplicated.

use super::server::{Lie, Server};
use super::{ALL, SECOND, plan};
use crate::memcached::datagrams::{Awaited, Sender};
use crate::memcached::prepared::Requests;
use crate::memcached::{Memcached, MemcachedCounts, WrongAnswers};
use crate::streams::Part;
use crate::udp::{DatagramProtocol, Read, Received};
use corelane_proto::memcached::udp;
use corelane_worker::Time;
use std::collections::BTreeMap;

/// What the network does.
#[derive(Clone, Copy)]
struct Faults {
    /// Of a hundred datagrams, the lost ones, and the answers that arrive twice.
    lost: u32,
    duplicated: u32,
    /// Whether each value is a datagram of its own that says that it is the only one, as of memcached 1.6.
    is_unnumbered: bool,
}

const NONE: Faults = Faults {
    lost: 0,
    duplicated: 0,
    is_unnumbered: false,
};

/// One socket, and the server behind a network.
struct Bench {
    plan: Memcached,
    requests: Requests,
    sender: Sender,
    awaited: Awaited,
    own: MemcachedCounts,
    server: Server,
    random: fastrand::Rng,
    faults: Faults,
    now: u64,
    sent: u32,
    answers: BTreeMap<u32, u32>,
    counts: [u64; 3],
    asked: Vec<Vec<u8>>,
    arriving: Vec<Vec<u8>>,
}

impl Bench {
    fn new(plan: Memcached, lie: Lie, seed: u64, faults: Faults) -> Self {
        let requests = plan.prepare();
        Self {
            sender: Memcached::share(
                &requests,
                Part {
                    place: 0,
                    of: 1,
                    bucket: None,
                },
            ),
            requests,
            plan,
            awaited: Awaited::default(),
            own: MemcachedCounts::default(),
            server: Server::new(lie),
            random: fastrand::Rng::with_seed(seed),
            faults,
            now: 0,
            sent: 0,
            answers: BTreeMap::new(),
            counts: [0; 3],
            asked: Vec::new(),
            arriving: Vec::new(),
        }
    }

    fn happens(&mut self, percent: u32) -> bool {
        self.random.u32(..100) < percent
    }

    fn send(&mut self) {
        let mut out = vec![0; self.plan.next_bytes(&self.requests, &mut self.sender)];
        let due = (self.sent, Time::from_nanoseconds(self.now));
        self.plan
            .write(&mut self.sender, &mut self.awaited, &mut out, due);
        self.sent += 1;
        if !self.happens(self.faults.lost) {
            self.asked.push(out);
        }
    }

    fn perform(&mut self) {
        if self.asked.is_empty() {
            return;
        }
        let place = self.random.usize(..self.asked.len());
        let request = self.asked.swap_remove(place);
        let (number, text) = udp::request(&request).unwrap();
        let answer = self.server.perform(text);
        let whole = |part: &[u8]| {
            let header = udp::Header {
                request: number,
                sequence: 0,
                total: 1,
            };
            [&header.bytes(), part].concat()
        };
        let mut datagrams: Vec<Vec<u8>> = match answer.strip_suffix(b"END\r\n") {
            // The end is in the order of the values; here, nothing overtakes.
            Some(values) if self.faults.is_unnumbered && !values.is_empty() => {
                vec![whole(values), whole(b"END\r\n")]
            }
            _ => udp::datagrams(number, &answer)
                .map(|(header, part)| [&header.bytes(), part].concat())
                .collect(),
        };
        if self.happens(self.faults.duplicated) {
            datagrams.extend(datagrams.clone());
        }
        self.arriving.extend(datagrams);
    }

    fn receive(&mut self) {
        if self.arriving.is_empty() {
            return;
        }
        let place = match self.faults.is_unnumbered {
            true => 0,
            false => self.random.usize(..self.arriving.len()),
        };
        let datagram = self.arriving.remove(place);
        if self.happens(self.faults.lost) {
            return;
        }
        let received = Received {
            requests: &self.requests,
            shared: &mut self.sender,
            sent: &mut self.awaited,
            own: &mut self.own,
            now: Time::from_nanoseconds(self.now),
        };
        match self.plan.read(received, &datagram) {
            Read::Answer(answer) => *self.answers.entry(answer.number).or_default() += 1,
            Read::Part => self.counts[0] += 1,
            Read::Unawaited(number) => {
                assert!(number < self.sent);
                self.counts[1] += 1;
            }
            Read::Damaged => self.counts[2] += 1,
        }
    }

    fn run(&mut self, steps: usize) -> WrongAnswers {
        for _ in 0..steps {
            match self.random.u32(..100) {
                0 => self.server.evict(&mut self.random),
                1 => {
                    self.now += SECOND;
                    self.server.now += 1;
                }
                2..30 if self.asked.len() + self.arriving.len() < 20 => self.send(),
                30..60 => self.perform(),
                _ => self.receive(),
            }
        }
        self.own.wrong
    }
}

#[test]
fn over_a_network_that_loses_reorders_and_duplicates_a_correct_server_is_never_accused() {
    for seed in 0..40 {
        let mut plan = plan(ALL);
        plan.value_size = "0-4000".parse().unwrap();
        plan.meta = seed % 2 == 1;
        let faults = Faults {
            lost: [0, 2, 20][seed as usize % 3],
            duplicated: [0, 10][seed as usize % 2],
            is_unnumbered: false,
        };
        let mut bench = Bench::new(plan, Lie::None, seed, faults);
        assert_eq!(bench.run(20_000), WrongAnswers::default(), "seed {seed}");
        let [parts, unawaited, damaged] = bench.counts;
        assert!(bench.answers.values().all(|answers| *answers == 1), "seed {seed}");
        assert_eq!(damaged, 0, "seed {seed}");
        assert_eq!(unawaited > 0, faults.duplicated > 0, "seed {seed}");
        assert!(parts > 100 && bench.answers.len() > 1_000, "seed {seed}: {parts}");
        assert!(bench.own.hits > 100 && bench.own.misses > 100, "seed {seed}");
    }
}

#[test]
fn values_that_come_in_datagrams_of_their_own_are_one_answer() {
    let faults = Faults {
        is_unnumbered: true,
        ..NONE
    };
    let mut bench = Bench::new(plan("get=1"), Lie::None, 1, faults);
    assert_eq!(bench.run(20_000), WrongAnswers::default());
    assert!(bench.counts[0] > 500, "{:?}", bench.counts);
    let waiting = (bench.asked.len() + bench.arriving.len()) as u32;
    assert!(bench.answers.len() as u32 + waiting >= bench.sent, "none is lost");
}

#[test]
fn lies_in_datagrams_are_found_and_others_than_answers_are_damaged() {
    let lies = |lie| {
        let mut plan = plan("get=1,set=1");
        (plan.value_size, plan.multi_get) = ("40".parse().unwrap(), 1);
        let mut bench = Bench::new(plan, lie, 3, NONE);
        let wrong = bench.run(20_000);
        (wrong, bench.counts[2])
    };
    assert!(lies(Lie::NoEnd).0.no_end > 0);
    assert!(lies(Lie::WrongByte).0.wrong_value > 0);
    assert!(lies(Lie::OthersKey).0.other_key > 0);
    assert!(lies(Lie::KeepsOld).0.old_version > 0);
    let (wrong, damaged) = lies(Lie::WrongAnnouncement);
    assert!(wrong.malformed > 0 && damaged >= wrong.malformed);
    let mut bench = Bench::new(plan("set=1"), Lie::None, 3, NONE);
    bench.send();
    let unsent = [&b"\0\x07\0\0\0\x01\0\0"[..], b"STORED\r\n"].concat();
    let place = [&b"\0\0\0\x02\0\x02\0\0"[..], b"STORED\r\n"].concat();
    bench.arriving.extend([unsent, place, b"STORED".to_vec()]);
    (0..3).for_each(|_| bench.receive());
    assert_eq!(bench.counts, [0, 0, 3]);
    assert_eq!((bench.own.wrong.unexpected, bench.own.wrong.malformed), (1, 2));
}

#[test]
fn an_answer_to_a_request_of_long_ago_is_not_taken_for_another() {
    let mut bench = Bench::new(plan("set=1"), Lie::None, 3, NONE);
    bench.send();
    bench.perform();
    let late = bench.arriving.pop().unwrap();
    for _ in 0..70_000 {
        bench.send();
        bench.asked.clear();
    }
    bench.arriving.push(late);
    bench.receive();
    assert_eq!(bench.counts, [0, 1, 0]);
    assert_eq!(bench.own.wrong, WrongAnswers::default());
}
