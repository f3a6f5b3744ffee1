//! The inside of a simulated network: what travels, what is queued, who waits for what, and when it is.

mod streams;

pub(super) use streams::StreamEvent;

use super::settings::{NetworkCounters, NetworkSettings};
use crate::engine::cause::Cause;
use crate::engine::id::Id;
use crate::engine::sends::MOST_BYTES;
use crate::engine::wake::Waker;
use crate::time::Time;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;
use streams::{Segment, Streams};

/// Where the clock starts: not at zero, so that subtracting from it is harmless.
const START: Time = Time::from_nanoseconds(1_000_000_000);

/// The first port given to those who ask for any: RFC 6335, section 6.
const FIRST_DYNAMIC_PORT: u16 = 49_152;

/// The bytes of one datagram.
pub(super) type Payload = Arc<[u8]>;

/// Names the member of a group that a datagram from a source to a destination goes to.
pub(super) type Steer = Box<dyn Fn(SocketAddr, SocketAddr) -> usize + Send>;

/// Everything of one network, behind one lock.
#[derive(Debug)]
pub(super) struct State {
    pub(super) now: Time,
    pub(super) counters: NetworkCounters,
    settings: NetworkSettings,
    random: Random,
    /// Sockets by number; those of dropped sockets are not reused, so that runs do not depend on when one is dropped.
    endpoints: Vec<Endpoint>,
    bound: BTreeMap<SocketAddr, Group>,
    pub(super) streams: Streams,
    next_port: u16,
    travelling: BinaryHeap<Reverse<Travel>>,
    /// Numbers travels, so that those due together arrive in the order in which they left.
    departures: u64,
    seats: Vec<Seat>,
    /// The seat that went on last.
    last: usize,
}

/// One socket.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) address: SocketAddr,
    pub(super) peer: Option<SocketAddr>,
    pub(super) queue: VecDeque<(SocketAddr, Payload)>,
    pub(super) complaints: Vec<Cause>,
    /// The seat to tell of arrivals, and the socket's name there.
    watcher: Option<(usize, Id)>,
    /// Whether it is in the list of its watcher's seat.
    listed: bool,
}

/// One engine, or the place of one to come.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) thread: Option<ThreadId>,
    pub(super) waker: Option<Waker>,
    pub(super) started: bool,
    /// Until when it waits; none while it goes on.
    pub(super) parked: Option<Time>,
    /// Endpoints with something for it, in the order in which it came.
    ready: VecDeque<usize>,
    /// Ends of connections with news for it, in the order in which they came.
    pub(super) ready_ends: VecDeque<usize>,
    gone: bool,
}

struct Group {
    members: Vec<usize>,
    steer: Steer,
}

impl fmt::Debug for Group {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.members.fmt(formatter)
    }
}

/// A datagram on its way, or the news that nobody listened.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Travel {
    due: Time,
    departure: u64,
    from: SocketAddr,
    to: Destination,
}

#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Destination {
    Address(SocketAddr, Payload),
    /// Back to the socket that sent it.
    Sender(usize),
    /// To whoever listens there.
    Listener(SocketAddr, Segment),
    /// To an end of a connection.
    End(usize, Segment),
}

impl State {
    pub(super) fn new(settings: NetworkSettings) -> Self {
        Self {
            now: START,
            counters: NetworkCounters::default(),
            random: Random(settings.seed),
            settings,
            endpoints: Vec::new(),
            bound: BTreeMap::new(),
            streams: Streams::default(),
            next_port: FIRST_DYNAMIC_PORT,
            travelling: BinaryHeap::new(),
            departures: 0,
            seats: Vec::new(),
            last: 0,
        }
    }

    pub(super) fn bind(
        &mut self,
        mut address: SocketAddr,
        buckets: usize,
        steer: Steer,
    ) -> io::Result<Vec<usize>> {
        if address.port() == 0 {
            address.set_port(self.free_port(address)?);
        }
        if self.bound.contains_key(&address) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let first = self.endpoints.len();
        let members: Vec<usize> = (first..first + buckets).collect();
        self.endpoints.extend(members.iter().map(|_| Endpoint {
            address,
            peer: None,
            queue: VecDeque::new(),
            complaints: Vec::new(),
            watcher: None,
            listed: false,
        }));
        let group = Group {
            members: members.clone(),
            steer,
        };
        self.bound.insert(address, group);
        Ok(members)
    }

    fn free_port(&mut self, mut address: SocketAddr) -> io::Result<u16> {
        for _ in FIRST_DYNAMIC_PORT..=u16::MAX {
            let port = self.next_port;
            self.next_port = port.checked_add(1).unwrap_or(FIRST_DYNAMIC_PORT);
            address.set_port(port);
            if !self.bound.contains_key(&address) {
                return Ok(port);
            }
        }
        Err(io::ErrorKind::AddrInUse.into())
    }

    /// Frees a socket's place in its group, and the address with the last of the group.
    pub(super) fn unbind(&mut self, endpoint: usize) {
        let address = self.endpoints[endpoint].address;
        self.endpoints[endpoint].watcher = None;
        self.endpoints[endpoint].queue.clear();
        if let Some(group) = self.bound.get_mut(&address) {
            // A number that is no socket's keeps the others' places, unlike Linux, where the last member moves.
            for member in group.members.iter_mut().filter(|member| **member == endpoint) {
                *member = usize::MAX;
            }
            if group.members.iter().all(|member| *member == usize::MAX) {
                self.bound.remove(&address);
            }
        }
    }

    pub(super) fn endpoint(&mut self, endpoint: usize) -> &mut Endpoint {
        &mut self.endpoints[endpoint]
    }

    pub(super) fn send(
        &mut self,
        endpoint: usize,
        peer: Option<SocketAddr>,
        payload: &[u8],
    ) -> Result<(), i32> {
        let from = self.endpoints[endpoint].address;
        let to = peer.or(self.endpoints[endpoint].peer).ok_or(libc::EDESTADDRREQ)?;
        if payload.len() > MOST_BYTES as usize {
            return Err(libc::EMSGSIZE);
        }
        self.counters.sent += 1;
        if self.random.happens(self.settings.loss) {
            self.counters.lost += 1;
            return Ok(());
        }
        let payload = Payload::from(payload);
        let copies = if self.random.happens(self.settings.duplication) {
            self.counters.duplicated += 1;
            2
        } else {
            1
        };
        for _ in 0..copies {
            let mut delay = self.settings.delay;
            if self.random.happens(self.settings.reordering) {
                self.counters.reordered += 1;
                delay += self.settings.jitter.mul_f64(self.random.part());
            }
            self.depart(delay, from, Destination::Address(to, Arc::clone(&payload)));
        }
        Ok(())
    }

    pub(super) fn depart(&mut self, delay: Duration, from: SocketAddr, to: Destination) {
        self.departures += 1;
        self.travelling.push(Reverse(Travel {
            due: self.now + delay,
            departure: self.departures,
            from,
            to,
        }));
    }

    /// How long a segment travels: reordering does not touch connections, whose order is TCP's to keep.
    pub(super) fn delay(&self) -> Duration {
        self.settings.delay
    }

    /// A number under `bound`, which is not 0.
    pub(super) fn draw_below(&mut self, bound: usize) -> usize {
        (self.random.next() % bound as u64) as usize
    }

    /// The next port for those who ask for any.
    pub(super) fn draw_port(&mut self) -> u16 {
        let port = self.next_port;
        self.next_port = port.checked_add(1).unwrap_or(FIRST_DYNAMIC_PORT);
        port
    }

    /// Lets everything that is due arrive.
    pub(super) fn settle(&mut self) {
        while self
            .travelling
            .peek()
            .is_some_and(|travel| travel.0.due <= self.now)
        {
            let Some(Reverse(travel)) = self.travelling.pop() else {
                return;
            };
            match travel.to {
                Destination::Address(to, payload) => self.arrive(travel.from, to, payload),
                Destination::Sender(endpoint) => {
                    self.endpoints[endpoint].complaints.push(Cause::Refused);
                    self.list(endpoint);
                }
                Destination::Listener(to, segment) => self.arrive_at_listener(travel.from, to, segment),
                Destination::End(end, segment) => self.arrive_at_end(end, segment),
            }
        }
    }

    fn arrive(&mut self, from: SocketAddr, to: SocketAddr, payload: Payload) {
        let member = self.bound.get(&to).and_then(|group| {
            let member = *group.members.get((group.steer)(from, to))?;
            let endpoint = self.endpoints.get(member)?;
            let admitted = endpoint.peer.is_none_or(|peer| peer == from);
            admitted.then_some(member)
        });
        let Some(member) = member else {
            self.counters.no_socket += 1;
            self.refuse(from, to);
            return;
        };
        let endpoint = &mut self.endpoints[member];
        if endpoint.queue.len() >= self.settings.socket_queue {
            self.counters.overflowed += 1;
            return;
        }
        self.counters.delivered += 1;
        endpoint.queue.push_back((from, payload));
        self.list(member);
    }

    /// Sends the news back, to a sender that is connected to the address and so would hear it.
    fn refuse(&mut self, from: SocketAddr, to: SocketAddr) {
        let senders = self.bound.get(&from).map(|group| group.members.clone());
        let connected = senders.into_iter().flatten().find(|member| {
            let sender = self.endpoints.get(*member);
            sender.is_some_and(|sender| sender.peer == Some(to))
        });
        if let Some(sender) = connected {
            self.depart(self.settings.delay, to, Destination::Sender(sender));
        }
    }

    /// Puts an endpoint into the list of the seat that watches it.
    fn list(&mut self, number: usize) {
        let endpoint = &mut self.endpoints[number];
        let something = !endpoint.queue.is_empty() || !endpoint.complaints.is_empty();
        if let Some((place, _)) = endpoint.watcher
            && something
            && !endpoint.listed
        {
            endpoint.listed = true;
            self.seats[place].ready.push_back(number);
        }
    }

    /// Has a seat told of an endpoint's arrivals from now on, or no longer.
    pub(super) fn watch(&mut self, endpoint: usize, watcher: Option<(usize, Id)>) {
        self.endpoints[endpoint].watcher = watcher;
        self.list(endpoint);
    }

    /// The next socket of a seat that has something.
    pub(super) fn next_ready(&mut self, place: usize) -> Option<Id> {
        while let Some(number) = self.seats[place].ready.pop_front() {
            let endpoint = &mut self.endpoints[number];
            endpoint.listed = false;
            if let Some((watched_by, id)) = endpoint.watcher
                && watched_by == place
            {
                return Some(id);
            }
        }
        None
    }

    /// Takes up to `most` datagrams off an endpoint's queue.
    pub(super) fn receive(&mut self, endpoint: usize, most: usize) -> Vec<(SocketAddr, Payload)> {
        let queue = &mut self.endpoints[endpoint].queue;
        let taken = queue.drain(..most.min(queue.len())).collect();
        self.list(endpoint);
        taken
    }

    pub(super) fn add_seat(&mut self) -> usize {
        self.seats.push(Seat {
            thread: None,
            waker: None,
            started: false,
            parked: None,
            ready: VecDeque::new(),
            ready_ends: VecDeque::new(),
            gone: false,
        });
        self.seats.len() - 1
    }

    pub(super) fn seat(&mut self, place: usize) -> &mut Seat {
        &mut self.seats[place]
    }

    pub(super) fn remove_seat(&mut self, place: usize) {
        let seat = &mut self.seats[place];
        seat.gone = true;
        seat.ready.clear();
        seat.ready_ends.clear();
    }

    /// Whether a seat has something to do before its deadline.
    pub(super) fn has_something(&self, place: usize) -> bool {
        let seat = &self.seats[place];
        !seat.ready.is_empty()
            || !seat.ready_ends.is_empty()
            || seat.waker.as_ref().is_some_and(Waker::is_woken)
    }

    pub(super) fn all_parked(&self) -> bool {
        self.present().all(|seat| seat.parked.is_some())
    }

    /// Whether an engine of a thread goes on.
    pub(super) fn runs_on(&self, thread: ThreadId) -> bool {
        self.present()
            .any(|seat| seat.thread == Some(thread) && seat.parked.is_none())
    }

    /// Lets one engine go on, all being parked: the next in turn that has something to do, after moving the clock to when
    /// one has. When nothing will ever happen, the seat that asks goes on, so that its owner can decide.
    pub(super) fn schedule(&mut self, asks: usize) {
        loop {
            self.settle();
            let due = |place: &usize| {
                let seat = &self.seats[*place];
                let deadline = seat.parked.is_some_and(|until| until <= self.now);
                !seat.gone && (deadline || self.has_something(*place))
            };
            let after = (self.last + 1..self.seats.len()).chain(0..=self.last);
            if let Some(place) = after.filter(|place| *place < self.seats.len()).find(due) {
                self.seats[place].parked = None;
                self.last = place;
                return;
            }
            let deadlines = self.present().filter_map(|seat| seat.parked);
            let arrivals = self.travelling.peek().map(|travel| travel.0.due);
            match deadlines.chain(arrivals).min() {
                Some(next) if next != Time::NEVER => self.now = next,
                _ => {
                    self.seats[asks].parked = None;
                    return;
                }
            }
        }
    }

    fn present(&self) -> impl Iterator<Item = &Seat> {
        self.seats.iter().filter(|seat| !seat.gone)
    }
}

/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014): small, and good enough to draw
/// losses.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Evenly from 0 up to 1: the 53 bits that a double holds.
    fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.part() < probability
    }
}
