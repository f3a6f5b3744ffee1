//! Requests of memcached's protocols: the time to parse one, and to parse and answer it, without a store: one item is always
//! there. Beside it, what no server can do without: the line end is found, and an answer of the same length is copied.
//!
//! `cargo bench -p corelane-proto --bench memcached`. Keys of 32 bytes, values of 100 bytes. Rounds alternate; figures are the
//! medians of the rounds, in nanoseconds per key.

use corelane_proto::memcached::commands::{Commands, Counts};
use corelane_proto::memcached::items::{Attributes, Item, Items, Key, NoRoom, Side, Value};
use corelane_proto::memcached::request::{Event, Parser};
use corelane_proto::memcached::time::Clock;
use std::hint::black_box;
use std::time::Instant;

const KEY: usize = 32;
const VALUE: [u8; 100] = [b'v'; 100];
const REQUESTS: usize = 64;
const ROUNDS: usize = 101;
const TURNS: usize = 50;
const CLOCK: Clock = Clock {
    now: 100,
    epoch: 1_700_000_000,
};

fn main() {
    // `cargo test --benches` only checks that the benchmark runs.
    let quick = std::env::args().any(|argument| argument == "--test");
    let (rounds, turns) = if quick { (1, 1) } else { (ROUNDS, TURNS) };
    println!("requests      ns: parse  parse, answer  find and copy");
    let key = |number: usize| format!("{number:0KEY$}");
    let value = String::from_utf8_lossy(&VALUE);
    let each =
        |request: &dyn Fn(String) -> String| -> String { (0..REQUESTS).map(|n| request(key(n))).collect() };
    let keys: Vec<String> = (0..REQUESTS).map(key).collect();
    let kinds = [
        ("get", each(&|key| format!("get {key}\r\n"))),
        ("get, 64 keys", format!("get {}\r\n", keys.join(" "))),
        ("mg v", each(&|key| format!("mg {key} v\r\n"))),
        ("mg f k q s v", each(&|key| format!("mg {key} f k q s v\r\n"))),
        ("set", each(&|key| format!("set {key} 0 0 100\r\n{value}\r\n"))),
        ("ms", each(&|key| format!("ms {key} 100\r\n{value}\r\n"))),
        ("incr", each(&|key| format!("incr {key} 1\r\n"))),
        ("delete", each(&|key| format!("delete {key}\r\n"))),
    ];
    for (name, requests) in kinds {
        let found = measured(requests.as_bytes(), rounds, turns);
        let [parse, answer, copy] = found.map(|mut rounds| {
            rounds.sort_by(f64::total_cmp);
            rounds[rounds.len() / 2]
        });
        println!("{name:13} {parse:9.1}  {answer:13.1}  {copy:13.1}");
    }
}

fn measured(requests: &[u8], rounds: usize, turns: usize) -> [Vec<f64>; 3] {
    let mut answers = Vec::with_capacity(1 << 16);
    answer(requests, &mut answers);
    let lengths = answers.len() / REQUESTS;
    let mut found: [Vec<f64>; 3] = Default::default();
    for _ in 0..rounds {
        let mut timed = |place: usize, run: &mut dyn FnMut(&mut Vec<u8>)| {
            let start = Instant::now();
            for _ in 0..turns {
                answers.clear();
                run(&mut answers);
                black_box(&answers);
            }
            found[place].push(start.elapsed().as_nanos() as f64 / (turns * REQUESTS) as f64);
        };
        timed(0, &mut |_| parse(black_box(requests)));
        timed(1, &mut |answers| answer(black_box(requests), answers));
        timed(2, &mut |answers| {
            find_and_copy(black_box(requests), lengths, answers);
        });
    }
    found
}

fn parse(mut requests: &[u8]) {
    let mut parser = Parser::new();
    loop {
        let step = parser.next(requests);
        if step.used == 0 {
            break;
        }
        black_box(&step.event);
        requests = &requests[step.used..];
    }
}

fn answer(mut requests: &[u8], out: &mut Vec<u8>) {
    let (mut parser, mut items, mut counts) = (Parser::new(), One::default(), Counts::default());
    let mut commands = Commands {
        items: &mut items,
        clock: CLOCK,
        counts: &mut counts,
        largest_item: 1 << 20,
    };
    loop {
        let step = parser.next(requests);
        match step.event {
            Event::Request(request) => {
                let mut buffer = [0; 250];
                let key = Key {
                    bytes: request.key(&mut buffer),
                    hash: 0,
                };
                commands.answer(&request, key, out);
            }
            _ => return assert!(requests.is_empty()),
        }
        requests = &requests[step.used..];
    }
}

fn find_and_copy(mut requests: &[u8], length: usize, out: &mut Vec<u8>) {
    let answer = [b'a'; 256];
    let per_request = requests.len() / REQUESTS;
    for _ in 0..REQUESTS {
        let line = requests.iter().take(per_request).position(|byte| *byte == b'\n');
        black_box(line);
        requests = &requests[per_request..];
        out.extend_from_slice(black_box(&answer[..length]));
    }
}

/// One item, which every key has.
struct One(Attributes);

impl Default for One {
    fn default() -> Self {
        let mut attributes = Attributes::default();
        attributes.used(0);
        attributes.used(0);
        Self(attributes)
    }
}

impl Item for &mut One {
    fn attributes(&self) -> Attributes {
        self.0
    }

    fn set_attributes(&mut self, attributes: &Attributes) {
        black_box(attributes);
    }

    fn length(&self) -> usize {
        VALUE.len()
    }

    fn parts(&self) -> (&[u8], impl Iterator<Item = &[u8]>) {
        (&VALUE, std::iter::empty())
    }

    fn overwrite(&mut self, _: &[u8], _: &Attributes) {}
}

impl Items for One {
    type Item<'a> = &'a mut Self;
    type Reservation = ();

    fn read(&mut self, _: Key<'_>, _: u32) -> Option<&mut Self> {
        Some(self)
    }

    fn find(&mut self, _: Key<'_>, _: u32) -> Option<&mut Self> {
        Some(self)
    }

    fn set(&mut self, key: Key<'_>, _: Value<'_, ()>, attributes: &Attributes) -> Result<(), NoRoom> {
        black_box((key, attributes));
        Ok(())
    }

    fn join(&mut self, _: Key<'_>, _: Value<'_, ()>, _: Side, _: &Attributes) -> Result<(), NoRoom> {
        Ok(())
    }

    fn remove(&mut self, _: Key<'_>, _: u32) -> bool {
        true
    }

    fn reserve(&mut self, _: Key<'_>, _: usize, _: u32) -> Result<(), NoRoom> {
        Ok(())
    }

    fn fill(&mut self, (): &mut (), _: &[u8]) -> Result<(), NoRoom> {
        Ok(())
    }

    fn cancel(&mut self, (): ()) {}

    fn next_cas(&mut self) -> u64 {
        self.0.cas += 1;
        self.0.cas
    }
}
