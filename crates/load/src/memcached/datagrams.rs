//! Requests and answers in datagrams.
//!
//! A request is one datagram. Its number of 16 bits finds it among those that await an answer; the datagrams of its answer are
//! joined, in whatever order they arrive.

use super::counts::MemcachedCounts;
use super::judge::{Judge, Progress, Verdict};
use super::plan::Memcached;
use super::prepared::{Requests, Shared};
use super::reader::Reader;
use super::request::Request;
use crate::streams::Part;
use crate::udp::{Answer, DatagramProtocol, DatagramStart, Read, Received, UdpLoad, UdpLoadError, UdpPlan};
use corelane_proto::memcached::udp::{HEADER_BYTES, Header};
use corelane_worker::Time;
use std::collections::{BTreeMap, VecDeque};

/// Requests of a socket that await answers, at most. An answer to an older one is late: a sixteenth of the numbers, so that it is not
/// taken for the answer to another request.
const MOST_AWAITED: usize = 4_096;

/// How many numbers a request can have.
const NUMBERS: u32 = 1 << 16;

/// The requests of a worker.
#[derive(Debug)]
pub struct Sender {
    shared: Shared,
    random: fastrand::Rng,
    /// The next request, which is in the scratch of `shared`.
    next: Option<Request>,
}

/// The requests of a socket that await answers, oldest first.
#[derive(Debug, Default)]
pub struct Awaited {
    /// The number of the first.
    first: u32,
    /// `None` for one that was answered.
    requests: VecDeque<Option<Box<Sent>>>,
}

/// A request that was sent.
#[derive(Debug)]
struct Sent {
    request: Request,
    due: Time,
    progress: Progress,
    /// What has arrived of an answer of several datagrams, by their place.
    parts: BTreeMap<u16, Vec<u8>>,
}

impl Awaited {
    fn add(&mut self, number: u32, sent: Sent) {
        if self.requests.is_empty() {
            self.first = number;
        }
        if self.requests.len() == MOST_AWAITED {
            self.remove_first();
        }
        self.requests.push_back(Some(Box::new(sent)));
    }

    fn remove_first(&mut self) {
        self.requests.pop_front();
        self.first = self.first.wrapping_add(1);
    }

    /// The latest request with this number of 16 bits, of all that were sent; `None` if there is none.
    fn number(&self, id: u16) -> Option<u32> {
        let ahead = u32::from(id.wrapping_sub(self.first as u16));
        let number = self.first.wrapping_add(ahead);
        match (ahead as usize) < self.requests.len() {
            true => Some(number),
            false => number.checked_sub(NUMBERS),
        }
    }

    fn get(&mut self, number: u32) -> Option<&mut Box<Sent>> {
        let place = number.wrapping_sub(self.first) as usize;
        self.requests.get_mut(place)?.as_mut()
    }

    /// A request is answered.
    fn remove(&mut self, number: u32) {
        let place = number.wrapping_sub(self.first) as usize;
        self.requests[place] = None;
        while let Some(None) = self.requests.front() {
            self.remove_first();
        }
    }
}

impl Sent {
    /// The answer, if this part of it is the last that was missing.
    fn join(&mut self, header: Header, part: &[u8]) -> Option<Vec<u8>> {
        self.parts.entry(header.sequence).or_insert_with(|| part.to_vec());
        let is_whole = self.parts.len() >= usize::from(header.total);
        is_whole.then(|| std::mem::take(&mut self.parts).into_values().flatten().collect())
    }
}

impl DatagramStart for Memcached {
    #[inline(never)]
    fn start(plan: UdpPlan<Self>) -> Result<UdpLoad<Self>, UdpLoadError> {
        UdpLoad::of_plan(plan)
    }
}

impl DatagramProtocol for Memcached {
    const NAME: &'static str = "memcached_udp";
    const SCHEMA: &'static str = "corelane/loaded-memcached-udp/1";
    /// Workers hand requests over to the owners of their keys.
    const ANY_ORDER: bool = true;
    type Sent = Awaited;
    type Requests = Requests;
    type Shared = Sender;
    type Counts = MemcachedCounts;

    fn prepare(&self) -> Requests {
        Requests::prepare(self)
    }

    fn share(requests: &Requests, part: Part) -> Sender {
        Sender {
            shared: Shared::new(requests, part),
            random: fastrand::Rng::with_seed(part.place as u64),
            next: None,
        }
    }

    fn largest_bytes(&self) -> usize {
        HEADER_BYTES + self.request_bytes()
    }

    fn state_bytes(&self) -> u64 {
        self.known_bytes()
    }

    fn counts_bytes(&self) -> u64 {
        self.times_bytes()
    }

    fn next_bytes(&self, requests: &Requests, sender: &mut Sender) -> usize {
        let shared = &mut sender.shared;
        if sender.next.is_none() {
            let request = shared.choose(requests, &mut sender.random);
            let mut scratch = std::mem::take(&mut shared.scratch);
            scratch.clear();
            shared
                .writing(requests, request.verb, request.first.index)
                .write(&request, &mut scratch);
            shared.scratch = scratch;
            sender.next = Some(request);
        }
        HEADER_BYTES + shared.scratch.len()
    }

    fn write(&self, sender: &mut Sender, sent: &mut Awaited, out: &mut [u8], (number, due): (u32, Time)) {
        let header = Header {
            request: number as u16,
            sequence: 0,
            total: 1,
        };
        let (head, text) = out.split_at_mut(HEADER_BYTES);
        head.copy_from_slice(&header.bytes());
        text.copy_from_slice(&sender.shared.scratch);
        sender.shared.since.get_or_insert(due);
        if let Some(request) = sender.next.take() {
            let (progress, parts) = (Progress::default(), BTreeMap::new());
            sent.add(
                number,
                Sent {
                    request,
                    due,
                    progress,
                    parts,
                },
            );
        }
    }

    fn read(&self, received: Received<'_, Self>, datagram: &[u8]) -> Read {
        let own = &mut *received.own;
        let Some((header, data)) =
            Header::read(datagram).filter(|(header, _)| header.sequence < header.total)
        else {
            own.wrong.malformed += 1;
            return Read::Damaged;
        };
        let Some(number) = received.sent.number(header.request) else {
            own.wrong.unexpected += 1;
            return Read::Damaged;
        };
        let Some(sent) = received.sent.get(number) else {
            return Read::Unawaited(number);
        };
        let joined = match header.total {
            1 => None,
            _ => match sent.join(header, data) {
                Some(joined) => Some(joined),
                None => return Read::Part,
            },
        };
        let data = joined.as_deref().unwrap_or(data);
        let shared = &mut received.shared.shared;
        match judge((received.requests, shared, own), sent, data, received.now) {
            Some(Verdict::Done) => {}
            // memcached 1.6.45 numbers the datagrams of each of several values by themselves.
            Some(Verdict::More) if sent.request.count() > 1 => return Read::Part,
            Some(Verdict::More) => {
                own.wrong.no_end += 1;
                return Read::Damaged;
            }
            Some(Verdict::Broken) | None => return Read::Damaged,
        }
        let (due, wrong) = (sent.due, sent.progress.wrong);
        if wrong.is_none() {
            let took = received.now.since(due).as_nanos() as u64;
            own.operations.record(sent.request.verb.operation(), took);
        }
        received.sent.remove(number);
        Read::Answer(Answer {
            number,
            due,
            error: wrong.map(|failure| failure.name()),
        })
    }
}

/// Judges all lines of a message; `None` if it is malformed or ends within a line.
fn judge(
    (requests, shared, own): (&Requests, &mut Shared, &mut MemcachedCounts),
    sent: &mut Sent,
    mut data: &[u8],
    now: Time,
) -> Option<Verdict> {
    let (mut reader, mut verdict) = (Reader::default(), Verdict::More);
    while !data.is_empty() {
        // What follows the end of an answer belongs to no request.
        if verdict == Verdict::Done {
            own.wrong.unexpected += 1;
            return Some(Verdict::Done);
        }
        let Ok(Some(answer)) = reader.next(&mut data) else {
            own.wrong.malformed += 1;
            return None;
        };
        let mut judge = Judge {
            requests,
            shared,
            own,
            progress: &mut sent.progress,
            request: &sent.request,
            due: sent.due,
            now,
        };
        verdict = judge.take(answer);
        if verdict == Verdict::Broken {
            break;
        }
    }
    Some(verdict)
}
