//! What a pool's requests are made of, and the state of each worker: its keys, what it knows about them, and what must follow.

use super::keys::{Key, Keys};
use super::ledger::{Counter, Direction, Known};
use super::mix::{Operation, Operations};
use super::mixing::mix;
use super::parts::{Added, Side};
use super::plan::{Memcached, OnMiss, PlannedOwners};
use super::popularity::Draw;
use super::request::{Asked, Request, Verb, Writing};
use super::sizes::{LARGEST_VALUE, Sizer};
use crate::streams::{OfBucket, Part};
use corelane_proto::memcached::client::Content;
use corelane_table::prefetch;
use corelane_worker::Time;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the requests of a pool are made of.
#[derive(Debug)]
pub struct Requests {
    pub(super) plan: Memcached,
    pub(super) keys: Keys,
    /// Keys of counters by direction, which no value has.
    counters: [Keys; 2],
    pub(super) values: Sizer,
    /// The run of values that were stored ahead of a run, with version 0: the same for all that have the same sizes.
    pub(super) ahead: u32,
    operations: Operations,
    /// By bucket of the server, the numbers of the keys that it owns; empty if that does not matter.
    owned: Vec<Vec<u32>>,
    /// The number of the next key to be stored ahead of a run.
    next: AtomicU64,
}

impl Requests {
    pub(super) fn prepare(plan: &Memcached) -> Self {
        let keys = Keys::new(&plan.prefix, plan.key_size);
        Self {
            owned: plan
                .owners
                .map_or_else(Vec::new, |owners| owned(plan, owners, &keys)),
            keys,
            counters: ["n", "d"].map(|name| Keys::new(&format!("{}{name}", plan.prefix), plan.key_size)),
            values: Sizer::new(plan.value_size, 0, LARGEST_VALUE),
            ahead: ahead(plan),
            operations: Operations::new(&plan.mix),
            plan: plan.clone(),
            next: AtomicU64::new(0),
        }
    }
}

/// The numbers of the keys that each bucket owns.
fn owned(plan: &Memcached, owners: PlannedOwners, keys: &Keys) -> Vec<Vec<u32>> {
    let mut owned = vec![Vec::new(); owners.partitions];
    let mut text = Vec::new();
    for number in 0..plan.keys {
        text.clear();
        Key(keys, number).write(&mut text);
        let owner = corelane_store::hash(&text, owners.seed).owner(owners.partitions);
        owned[owner].push(number as u32);
    }
    owned
}

/// A number of 31 bits that depends on the sizes of values; the highest bit keeps it apart from those of small runs.
fn ahead(plan: &Memcached) -> u32 {
    let sizes = plan.value_size.to_string();
    let sum = sizes
        .bytes()
        .fold(0, |sum, byte| mix(sum ^ u64::from(byte)).wrapping_add(1));
    sum as u32 | 1 << 31
}

/// What is to be done with a key after an answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct FollowUp {
    pub(super) verb: Verb,
    pub(super) index: u32,
}

/// The state of one worker: of its part of the keys, which no other worker uses.
#[derive(Debug)]
pub struct Shared {
    /// The first number of the keys, and the distance to the next.
    pub(super) numbers: (u64, u64),
    /// The bucket whose keys these numbers count, if only those are used.
    bucket: Option<u16>,
    draw: Draw,
    /// The keys of the next requests: what is known about them is loaded meanwhile.
    upcoming: VecDeque<u32>,
    pub(super) known: Box<[Known]>,
    /// What was added to the values; empty if nothing is.
    pub(super) added: Box<[Added]>,
    /// Counters by direction; empty if none is used.
    pub(super) counters: [Box<[Counter]>; 2],
    pub(super) follow: VecDeque<FollowUp>,
    /// When the first request began: expirations are counted from here.
    pub(super) since: Option<Time>,
    opaque: u32,
    /// Where requests are written.
    pub(super) scratch: Vec<u8>,
}

/// Keys that are drawn ahead of their requests: of so many, the loads overlap.
const UPCOMING: usize = 16;

/// Seconds begin at 1, because 0 is no expiration.
const FIRST_SECOND: u64 = 1;

impl Shared {
    /// The keys of a part: every so-many-th one, so that all parts have popular ones.
    pub(super) fn new(requests: &Requests, part: Part) -> Self {
        let plan = &requests.plan;
        let owned = |part: &OfBucket| {
            let owned = requests.owned.get(usize::from(part.bucket));
            owned.map_or(0, Vec::len)
        };
        let of_bucket = part.bucket.filter(|part| owned(part) > part.place);
        let (place, of, all) = match of_bucket {
            Some(part) => (part.place as u64, part.of as u64, owned(&part) as u64),
            None if plan.owners.is_some() => (plan.keys + part.place as u64, 1, 0),
            None => (part.place as u64, part.of as u64, plan.keys),
        };
        // A part without a key of its own gets one that exceeds their number.
        let keys = all.saturating_sub(place).div_ceil(of).max(1);
        let table = if plan.prefill { 0 } else { keys as usize };
        let counters = |operation| vec![Counter::default(); if plan.mix.has(operation) { table } else { 0 }];
        let added = if plan.mix.extends() { table } else { 0 };
        Self {
            numbers: (place, of),
            bucket: of_bucket.map(|part| part.bucket),
            draw: Draw::new(plan.popularity, keys),
            upcoming: VecDeque::new(),
            known: vec![Known::default(); table].into(),
            added: vec![Added::default(); added].into(),
            counters: [Operation::Incr, Operation::Decr].map(|operation| counters(operation).into()),
            follow: VecDeque::new(),
            since: None,
            opaque: 0,
            scratch: Vec::new(),
        }
    }

    /// The second of a time.
    pub(super) fn second(&self, time: Time) -> u32 {
        let since = self.since.unwrap_or(time);
        (time.since(since).as_secs() + FIRST_SECOND) as u32
    }

    /// What a request for this key is written with.
    pub(super) fn writing<'a>(&self, requests: &'a Requests, verb: Verb, index: u32) -> Writing<'a> {
        let keys = match verb {
            Verb::Count(direction) | Verb::Start(direction) => &requests.counters[direction as usize],
            _ => &requests.keys,
        };
        let (numbers, run) = match verb {
            Verb::Prefill => ((0, 1), requests.ahead),
            _ => (self.numbers, requests.plan.run),
        };
        let bucket = self.bucket.filter(|_| verb != Verb::Prefill).map(usize::from);
        let mut writing = Writing {
            owned: bucket.map(|bucket| &requests.owned[bucket][..]),
            keys,
            plan: &requests.plan,
            numbers,
            length: 0,
            run,
        };
        writing.length = requests.values.of(mix(writing.number(index)));
        writing
    }

    /// The next request.
    pub(super) fn choose(&mut self, requests: &Requests, random: &mut fastrand::Rng) -> Request {
        self.opaque = self.opaque.wrapping_add(1);
        if requests.plan.prefill {
            let number = requests.next.fetch_add(1, Ordering::Relaxed) % requests.plan.keys;
            return self.request(Verb::Prefill, number as u32);
        }
        if let Some(next) = self.follow.pop_front() {
            return self.request(next.verb, next.index);
        }
        let operation = requests.operations.draw(random);
        let verb = match operation {
            Operation::Get => Verb::Get,
            Operation::Gets => Verb::Gets,
            Operation::Gat => Verb::Gat,
            Operation::Set => Verb::Set,
            Operation::Add => Verb::Add,
            Operation::Replace => Verb::Replace,
            Operation::Append => Verb::Extend(Side::Back),
            Operation::Prepend => Verb::Extend(Side::Front),
            Operation::Cas => Verb::ReadForCas,
            Operation::Delete => Verb::Delete,
            Operation::Incr => Verb::Count(Direction::Up),
            Operation::Decr => Verb::Count(Direction::Down),
            Operation::Touch => Verb::Touch,
        };
        let index = self.next_key(random);
        let verb = match verb {
            Verb::Extend(_) if !self.added[index as usize].has_room() => Verb::Set,
            verb => verb,
        };
        let mut request = self.request(verb, index);
        if operation.reads() && requests.plan.multi_get > 1 {
            request.others.reserve_exact(requests.plan.multi_get - 1);
            for _ in 1..requests.plan.multi_get {
                let index = self.next_key(random);
                request.others.push(self.asked(verb, index));
            }
        }
        request
    }

    /// Draws the key of the next request.
    fn next_key(&mut self, random: &mut fastrand::Rng) -> u32 {
        loop {
            let later = self.draw.next(random) as u32;
            prefetch(&self.known[later as usize]);
            self.upcoming.push_back(later);
            if self.upcoming.len() > UPCOMING {
                return self.upcoming.pop_front().unwrap_or(later);
            }
        }
    }

    /// A request for one key, which begins.
    fn request(&mut self, verb: Verb, index: u32) -> Request {
        Request {
            verb,
            opaque: self.opaque,
            first: self.asked(verb, index),
            others: Vec::new(),
        }
    }

    /// What is known about a key now; a write gets its version.
    fn asked(&mut self, verb: Verb, index: u32) -> Asked {
        let mut asked = Asked {
            index,
            version: 0,
            oldest: 0,
        };
        match verb {
            Verb::Prefill => {}
            Verb::Start(direction) => self.counters[direction as usize][index as usize].start(),
            Verb::Count(direction) => {
                let counter = &mut self.counters[direction as usize][index as usize];
                (asked.version, asked.oldest) = (counter.increment(), counter.least);
            }
            _ => {
                let known = &mut self.known[index as usize];
                asked.oldest = known.oldest.into();
                if verb.writes() {
                    asked.version = known.write();
                } else if verb.prolongs() {
                    known.change();
                }
                if let Some(added) = self.added.get_mut(index as usize) {
                    match verb {
                        Verb::Set => added.reset(),
                        Verb::Extend(_) => added.begin(),
                        Verb::Cas { .. } => asked.oldest = asked.oldest.max(added.last.into()),
                        verb if verb.reads() => asked.version = added.last,
                        _ => {}
                    }
                }
            }
        }
        asked
    }

    /// A key was not found by this request.
    pub(super) fn missed(&mut self, requests: &Requests, verb: Verb, index: u32) {
        let verb = match verb {
            Verb::Count(direction) => Verb::Start(direction),
            Verb::Get | Verb::Gets | Verb::Gat | Verb::ReadForCas => Verb::Set,
            _ => return,
        };
        if requests.plan.on_miss == OnMiss::Set {
            self.follow.push_back(FollowUp { verb, index });
        }
    }
}
