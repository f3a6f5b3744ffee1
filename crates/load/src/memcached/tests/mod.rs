//! The generator against a model of a server, over connections whose requests are performed in any order.

mod datagrams;
mod server;

use super::judge::{Judge, Progress, Verdict};
use super::keys::Key;
use super::plan::{Memcached, OnMiss, PlannedOwners};
use super::prepared::{Requests, Shared};
use super::reader::Reader;
use super::request::Request;
use super::{MemcachedCounts, WrongAnswers};
use crate::needs::HISTOGRAM_BYTES;
use crate::streams::{OfBucket, Part};
use corelane_measure::counters::Counters;
use corelane_proto::memcached::client::Content as _;
use corelane_worker::Time;
use server::{Lie, Server};
use std::collections::{BTreeMap, VecDeque};

const SECOND: u64 = 1_000_000_000;

const CONNECTIONS: usize = 4;

/// Every operation, over few keys, so that many requests for one are in flight.
fn plan(mix: &str) -> Memcached {
    Memcached {
        keys: 10,
        prefix: "k:".to_owned(),
        key_size: "20".parse().unwrap(),
        value_size: "0-60".parse().unwrap(),
        popularity: "zipf:1".parse().unwrap(),
        mix: mix.parse().unwrap(),
        ttl_s: Some(5),
        pipeline: 4,
        multi_get: 3,
        meta: false,
        on_miss: OnMiss::Set,
        run: 9,
        prefill: false,
        owners: None,
    }
}

const ALL: &str =
    "get=20,gets=5,gat=5,set=20,add=5,replace=5,append=8,prepend=4,cas=10,delete=10,incr=10,decr=5,touch=5";

/// One connection: the requests in flight, the bytes of those that the server has not performed, and its answers.
#[derive(Default)]
struct Connection {
    flying: VecDeque<(Time, Request)>,
    unperformed: VecDeque<Vec<u8>>,
    answers: Vec<u8>,
    reader: Reader,
    progress: Progress,
}

struct Bench {
    requests: Requests,
    shared: Shared,
    own: MemcachedCounts,
    connections: [Connection; CONNECTIONS],
    server: Server,
    random: fastrand::Rng,
    now: u64,
    answered: u64,
    /// Requests of lost connections, which the server may perform at any time.
    lost: Vec<Vec<u8>>,
}

impl Bench {
    fn new(plan: &Memcached, lie: Lie, seed: u64) -> Self {
        let requests = Requests::prepare(plan);
        Self {
            shared: Shared::new(
                &requests,
                Part {
                    place: 1,
                    of: 2,
                    bucket: None,
                },
            ),
            requests,
            own: MemcachedCounts::default(),
            connections: Default::default(),
            server: Server::new(lie),
            random: fastrand::Rng::with_seed(seed),
            now: 0,
            answered: 0,
            lost: Vec::new(),
        }
    }

    fn now(&self) -> Time {
        Time::from_nanoseconds(self.now)
    }

    fn ask(&mut self, place: usize) {
        let now = self.now();
        let request = self.shared.choose(&self.requests, &mut self.random);
        self.shared.since.get_or_insert(now);
        let (verb, index, mut bytes) = (request.verb, request.first.index, Vec::new());
        self.shared
            .writing(&self.requests, verb, index)
            .write(&request, &mut bytes);
        let connection = &mut self.connections[place];
        connection.flying.push_back((now, request));
        connection.unperformed.push_back(bytes);
    }

    fn perform(&mut self, place: usize) {
        let connection = &mut self.connections[place];
        if let Some(bytes) = connection.unperformed.pop_front() {
            connection.answers.extend(self.server.perform(&bytes));
        }
    }

    /// Takes some of the bytes that the server has sent; returns whether all was as the protocol has it.
    fn receive(&mut self, place: usize) -> bool {
        let now = self.now();
        let connection = &mut self.connections[place];
        let taken = self.random.usize(0..=connection.answers.len());
        let bytes: Vec<u8> = connection.answers.drain(..taken).collect();
        let mut bytes = &bytes[..];
        while !bytes.is_empty() {
            let Ok(answer) = connection.reader.next(&mut bytes) else {
                return false;
            };
            let Some(answer) = answer else { continue };
            let Some((due, request)) = connection.flying.front() else {
                return false;
            };
            let mut judge = Judge {
                requests: &self.requests,
                shared: &mut self.shared,
                own: &mut self.own,
                progress: &mut connection.progress,
                request,
                due: *due,
                now,
            };
            match judge.take(answer) {
                Verdict::More => {}
                Verdict::Done => {
                    self.own.operations.record(request.verb.operation(), 1);
                    connection.flying.pop_front();
                    connection.progress = Progress::default();
                    self.answered += 1;
                }
                Verdict::Broken => return false,
            }
        }
        true
    }

    /// The connection is lost; what the server has not performed, it performs later or never.
    fn lose(&mut self, place: usize) {
        let lost = std::mem::take(&mut self.connections[place]);
        self.lost.extend(lost.unperformed);
    }

    /// So many steps; returns what was wrong. A connection that is no longer as the protocol has it is lost.
    fn run(&mut self, steps: usize, loses: bool) -> WrongAnswers {
        for _ in 0..steps {
            let place = self.random.usize(..CONNECTIONS);
            match self.random.u32(..100) {
                0 => self.server.evict(&mut self.random),
                1 if loses => self.lose(place),
                70 if !self.lost.is_empty() => {
                    let bytes = self.lost.swap_remove(self.random.usize(..self.lost.len()));
                    self.server.perform(&bytes);
                }
                2..5 => {
                    let seconds = self.random.u64(..3);
                    self.now += seconds * SECOND;
                    self.server.now += seconds;
                }
                5..40 if self.connections[place].flying.len() < 4 => self.ask(place),
                40..70 => self.perform(place),
                _ => {
                    if !self.receive(place) {
                        self.lose(place);
                    }
                }
            }
        }
        self.own.wrong
    }
}

#[test]
fn parts_of_a_bucket_use_keys_that_it_owns_and_none_twice() {
    let owners = PlannedOwners {
        seed: 7,
        partitions: 3,
    };
    // With two keys a part has none of its own, and gets another.
    for keys in [2, 1_000] {
        let plan = Memcached {
            keys,
            owners: Some(owners),
            multi_get: 5,
            ..plan("get=1")
        };
        let (requests, mut seen) = (Requests::prepare(&plan), BTreeMap::new());
        let mut random = fastrand::Rng::with_seed(1);
        for place in 0..6 {
            let bucket = OfBucket {
                bucket: place as u16 / 2,
                place: place % 2,
                of: 2,
            };
            let part = Part {
                place,
                of: 6,
                bucket: Some(bucket),
            };
            let mut shared = Shared::new(&requests, part);
            for _ in 0..2_000 {
                let request = shared.choose(&requests, &mut random);
                let writing = shared.writing(&requests, request.verb, request.first.index);
                for at in 0..request.count() {
                    let number = writing.number(request.at(at).index);
                    let mut key = Vec::new();
                    Key(&requests.keys, number).write(&mut key);
                    let owner = corelane_store::hash(&key, owners.seed).owner(owners.partitions);
                    assert!(number >= keys || owner == usize::from(bucket.bucket));
                    assert_eq!(*seen.entry(number).or_insert(place), place, "key {number}");
                }
            }
        }
        assert!(
            keys == 2 || seen.keys().copied().eq(0..keys),
            "{} keys",
            seen.len()
        );
    }
}

#[test]
fn a_correct_server_is_never_accused() {
    for seed in 0..60 {
        let mut plan = plan(ALL);
        plan.meta = seed % 2 == 1;
        plan.ttl_s = (seed % 3 > 0).then_some(5);
        plan.on_miss = if seed % 5 == 0 {
            OnMiss::Nothing
        } else {
            OnMiss::Set
        };
        let mut bench = Bench::new(&plan, Lie::None, seed);
        assert_eq!(
            bench.run(10_000, seed % 4 > 0),
            WrongAnswers::default(),
            "seed {seed}"
        );
        let MemcachedCounts {
            hits, misses, errors, ..
        } = bench.own;
        assert!(
            hits > 100 && misses > 100 && errors == 0,
            "seed {seed}: {hits} {misses}"
        );
        assert!(bench.answered > 1_000, "seed {seed}: {}", bench.answered);
    }
}

#[test]
fn a_run_takes_what_other_runs_and_a_prefill_left() {
    for (seed, size, other) in [(1, "0-12", "30"), (2, "40", "41"), (3, "16-100", "3")] {
        let mut plan = plan(ALL);
        (plan.value_size, plan.ttl_s) = (size.parse().unwrap(), None);
        let prefill = Memcached {
            prefill: true,
            ..plan.clone()
        };
        let mut bench = Bench::new(&prefill, Lie::None, seed);
        assert_eq!(bench.run(400, false), WrongAnswers::default());
        for run in 9..13 {
            plan.run = run;
            // The last one has values of other sizes.
            if run == 12 {
                plan.value_size = other.parse().unwrap();
            }
            let mut server = Server::new(Lie::None);
            std::mem::swap(&mut server, &mut bench.server);
            bench = Bench::new(&plan, Lie::None, seed);
            bench.server = server;
            assert_eq!(
                bench.run(5_000, false),
                WrongAnswers::default(),
                "{size}, run {run}"
            );
        }
        // Short values do not name their run.
        assert_eq!(bench.own.other_runs > 0, size != "0-12", "{size}");
    }
}

/// Values of 40 bytes with so many parts.
#[test]
fn a_value_of_another_run_may_have_the_length_of_this_one_with_its_parts() {
    for parts in 1..4 {
        let plan = |mix, bytes: usize, run| Memcached {
            value_size: bytes.to_string().parse().unwrap(),
            ttl_s: None,
            run,
            ..plan(mix)
        };
        let mut before = Bench::new(&plan("set=1,append=1,prepend=1", 40, 1), Lie::None, 1);
        before.run(5_000, false);
        let mut bench = Bench::new(&plan("get=1", 40 + 16 * parts, 2), Lie::None, 1);
        bench.server = before.server;
        assert_eq!(bench.run(5_000, false), WrongAnswers::default(), "{parts}");
        assert!(bench.own.other_runs > 0);
    }
}

/// What is wrong with a server that lies so.
fn lies(lie: Lie, mix: &str, meta: bool) -> WrongAnswers {
    let plan = Memcached {
        meta,
        value_size: "40".parse().unwrap(),
        ..plan(mix)
    };
    let mut bench = Bench::new(&plan, lie, 5);
    bench.run(20_000, false)
}

#[test]
fn each_lie_is_found_and_counted_as_what_it_is() {
    type Kind = fn(&WrongAnswers) -> u64;
    let lies_found: [(Lie, &str, Kind); 22] = [
        (Lie::KeepsOld, "get=1,set=1", |wrong| wrong.old_version),
        (Lie::KeepsDeleted, "get=1,delete=1", |wrong| wrong.old_version),
        (Lie::OthersValue, "get=1,set=1", |wrong| wrong.other_key),
        (Lie::OthersKey, "get=1,set=1", |wrong| wrong.other_key),
        (Lie::WrongByte, "get=1,set=1", |wrong| wrong.wrong_value),
        (Lie::Truncated, "get=1,set=1", |wrong| wrong.wrong_length),
        (Lie::NeverExpires, "get=1", |wrong| wrong.expired),
        (Lie::NoFlags, "get=1,set=1", |wrong| wrong.wrong_flags),
        (Lie::DropsParts, "get=2,append=1,set=1", |wrong| {
            wrong.missing_part
        }),
        (Lie::DropsParts, "get=2,prepend=1,set=1", |wrong| {
            wrong.missing_part
        }),
        (Lie::DropsLaterParts, "get=2,append=1,prepend=1", |wrong| {
            wrong.missing_part
        }),
        (Lie::AddsTwice, "get=2,append=1,set=1", |wrong| wrong.wrong_value),
        (Lie::AppendsAlways, "get=2,prepend=1,set=1", |wrong| {
            wrong.wrong_length
        }),
        (Lie::KeepsCas, "cas=2,append=1", |wrong| wrong.wrong_cas),
        (Lie::StuckCounter, "decr=1", |wrong| wrong.wrong_number),
        (Lie::FastCounter, "decr=1", |wrong| wrong.wrong_number),
        (Lie::StuckCounter, "incr=1", |wrong| wrong.wrong_number),
        (Lie::FastCounter, "incr=1", |wrong| wrong.wrong_number),
        (Lie::IgnoresCas, "cas=1,set=1", |wrong| wrong.wrong_cas),
        (Lie::OtherAnswer, "set=1", |wrong| wrong.unexpected),
        (Lie::WrongOpaque, "get=1,set=1", |wrong| wrong.out_of_order),
        (Lie::NoEnd, "get=1,set=1", |wrong| {
            wrong.unexpected + wrong.other_key
        }),
    ];
    for (lie, mix, kind) in lies_found {
        for meta in [false, true] {
            let is_of_one = matches!((lie, meta), (Lie::WrongOpaque, false) | (Lie::NoEnd, true));
            let wrong = lies(lie, mix, meta);
            assert_eq!(kind(&wrong) > 0, !is_of_one, "{lie:?}, meta {meta}: {wrong:?}");
        }
    }
}

#[test]
fn answers_that_are_none_and_errors_are_counted_apart() {
    let plan = plan("get=1,set=1");
    let mut bench = Bench::new(&plan, Lie::ServerError, 3);
    assert_eq!(bench.run(5_000, false), WrongAnswers::default());
    assert!(bench.own.server_errors > 100 && bench.own.hits == 0);
    let mut bench = Bench::new(&plan, Lie::WrongAnnouncement, 3);
    bench.run(5_000, false);
    assert!(
        bench.answered > 100,
        "the reader refuses the values, and the connection is lost"
    );
    assert_eq!(bench.own.hits, 0);
}

#[test]
fn memory_for_times_is_that_of_the_operations_that_occur() {
    for (mix, most) in [
        ("get=1", 2),
        ("cas=1,delete=1", 4),
        ("decr=1", 3),
        ("append=1", 2),
        (ALL, 13),
    ] {
        let mut bench = Bench::new(&plan(mix), Lie::None, 1);
        bench.run(20_000, false);
        let occurred = bench.own.operations.each().count() as u64;
        assert_eq!(bench.requests.plan.times_bytes(), most * HISTOGRAM_BYTES, "{mix}");
        assert!((most - 1..=most).contains(&occurred), "{mix}: {occurred}");
    }
}

#[test]
fn times_by_operation_are_read_as_they_are_written() {
    let mut own = MemcachedCounts::default();
    own.operations.record(super::Operation::Gat, 1_000);
    own.operations.record(super::Operation::Touch, 2_000);
    let twice = own.plus(&own);
    let text = serde_json::to_string(&twice).unwrap();
    let read: MemcachedCounts = serde_json::from_str(&text).unwrap();
    assert_eq!(read, twice);
    let counts = read
        .operations
        .each()
        .map(|(operation, times)| (operation, times.count()));
    let expected = [(super::Operation::Gat, 2), (super::Operation::Touch, 2)];
    assert_eq!(counts.collect::<Vec<_>>(), expected);
}
