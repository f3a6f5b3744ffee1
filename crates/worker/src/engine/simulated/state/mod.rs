//! The state of a simulated network: messages in transit, queued events, waiting engines, and the clock.
//!
//! Datagrams may be lost, duplicated and reordered. Connections are reliable and ordered. Their bytes arrive in
//! segments of random length (from the seed); unread bytes limit what the other end may send, like a receive window.

mod ends;
mod seats;

use super::settings::{NetworkCounters, NetworkSettings};
use crate::engine::id::Id;
use crate::engine::sends::{Ends, MOST_BYTES};
use crate::time::Time;
use ends::Payload;
pub(super) use ends::{End, EndEvent, InTransit, Kind};
use seats::Seat;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// The initial time: not zero, so that subtracting from it does not underflow.
const START: Time = Time::from_nanoseconds(1_000_000_000);

/// The first port assigned when port 0 is requested: RFC 6335, section 6.
const FIRST_DYNAMIC_PORT: u16 = 49_152;

/// Bytes that an end may send before the other end has read them: about Linux's initial receive window.
const WINDOW: usize = 65_536;

/// The longest segment: the payload of a 1,500-byte packet.
const LONGEST_SEGMENT: usize = 1_448;

/// Replaces a member that has left a group. The others keep their indices; on Linux the last member moves instead.
const GONE: usize = usize::MAX;

/// Maps source and destination to the index of the group member that gets the datagram or connection.
pub(super) type Steer = Box<dyn Fn(SocketAddr, SocketAddr) -> usize + Send>;

/// The state of one network, behind one lock.
pub(super) struct State {
    pub(super) now: Time,
    pub(super) counters: NetworkCounters,
    settings: NetworkSettings,
    random: fastrand::Rng,
    /// Indexed by number. Numbers are not reused, so that runs do not depend on when a socket is dropped.
    ends: Vec<End>,
    bound: BTreeMap<(Kind, SocketAddr), Group>,
    next_port: u16,
    /// Ordered by arrival time, then by departure.
    travelling: BTreeMap<(Time, u64), Travel>,
    departures: u64,
    seats: Vec<Seat>,
    /// The seat that continued last.
    last: usize,
}

/// A message in transit.
enum Travel {
    Datagram(InTransit),
    /// A connection attempt by `opener`.
    Open {
        opener: usize,
        from: SocketAddr,
        to: SocketAddr,
    },
    /// The reply to it: `by` is the new end at the listener.
    Opened {
        opener: usize,
        by: usize,
    },
    /// An event for an end.
    Event(usize, EndEvent),
    /// The other end has read that many bytes.
    Read(usize, usize),
}

struct Group {
    members: Vec<usize>,
    steer: Steer,
}

impl State {
    pub(super) fn new(settings: NetworkSettings) -> Self {
        Self {
            now: START,
            counters: NetworkCounters::default(),
            random: fastrand::Rng::with_seed(settings.seed),
            settings,
            ends: Vec::new(),
            bound: BTreeMap::new(),
            next_port: FIRST_DYNAMIC_PORT,
            travelling: BTreeMap::new(),
            departures: 0,
            seats: Vec::new(),
            last: 0,
        }
    }

    /// Binds a group of datagram sockets or listeners.
    pub(super) fn bind(
        &mut self,
        kind: Kind,
        mut address: SocketAddr,
        buckets: usize,
        steer: Steer,
    ) -> io::Result<Vec<usize>> {
        if address.port() == 0 {
            self.choose_port(kind, &mut address)
                .ok_or(io::ErrorKind::AddrInUse)?;
        }
        if self.bound.contains_key(&(kind, address)) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let members: Vec<usize> = (0..buckets).map(|_| self.add_end(kind, address, None)).collect();
        let group = Group {
            members: members.clone(),
            steer,
        };
        self.bound.insert((kind, address), group);
        Ok(members)
    }

    fn choose_port(&mut self, kind: Kind, address: &mut SocketAddr) -> Option<()> {
        let is_stream = kind != Kind::Datagrams;
        (FIRST_DYNAMIC_PORT..=u16::MAX).find_map(|_| {
            address.set_port(self.next_port);
            self.next_port = self.next_port.checked_add(1).unwrap_or(FIRST_DYNAMIC_PORT);
            let mut present = self.ends.iter().filter(|end| !end.gone);
            let taken =
                present.any(|end| (end.kind != Kind::Datagrams) == is_stream && end.local == *address);
            (!taken).then_some(())
        })
    }

    fn add_end(&mut self, kind: Kind, local: SocketAddr, peer: Option<SocketAddr>) -> usize {
        self.ends.push(End {
            kind,
            local,
            peer,
            other: None,
            events: VecDeque::new(),
            outstanding: 0,
            blocked: false,
            ended: false,
            gone: false,
            watcher: None,
            receiving: true,
            listed: false,
        });
        self.ends.len() - 1
    }

    pub(super) fn end(&mut self, number: usize) -> &mut End {
        &mut self.ends[number]
    }

    /// The group member that `steer` selects.
    fn member(&self, kind: Kind, from: SocketAddr, to: SocketAddr) -> Option<usize> {
        let any: IpAddr = match to {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let any = SocketAddr::new(any, to.port());
        let group = [to, any]
            .into_iter()
            .find_map(|local| self.bound.get(&(kind, local)))?;
        let member = *group.members.get((group.steer)(from, to))?;
        (member != GONE).then_some(member)
    }

    /// Sends a datagram; the error is an errno value.
    pub(super) fn send(&mut self, number: usize, ends: Ends, payload: &[u8]) -> Result<(), i32> {
        let End { local, peer, .. } = self.ends[number];
        let to = ends.peer.or(peer).ok_or(libc::EDESTADDRREQ)?;
        // Without a source, a wildcard socket sends from the peer's own address.
        let own = if local.ip().is_unspecified() { to } else { local };
        let from = SocketAddr::new(ends.source.unwrap_or(own).ip(), local.port());
        if payload.len() > MOST_BYTES as usize {
            return Err(libc::EMSGSIZE);
        }
        self.counters.sent += 1;
        if self.happens(self.settings.loss) {
            self.counters.lost += 1;
            return Ok(());
        }
        let payload = Payload::from(payload);
        let is_twice = self.happens(self.settings.duplication);
        self.counters.duplicated += u64::from(is_twice);
        for _ in 0..1 + u32::from(is_twice) {
            let mut delay = self.settings.delay;
            if self.happens(self.settings.reordering) {
                self.counters.reordered += 1;
                delay += self.settings.jitter.mul_f64(self.random.f64());
            }
            let payload = Arc::clone(&payload);
            self.depart_after(delay, Travel::Datagram(InTransit { from, to, payload }));
        }
        Ok(())
    }

    fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.random.f64() < probability
    }

    fn depart(&mut self, travel: Travel) {
        self.depart_after(self.settings.delay, travel);
    }

    fn depart_after(&mut self, delay: Duration, travel: Travel) {
        self.departures += 1;
        let key = (self.now + delay, self.departures);
        self.travelling.insert(key, travel);
    }

    /// Starts to open a connection; the error is an errno value.
    pub(super) fn connect(&mut self, to: SocketAddr, local: Option<SocketAddr>) -> Result<usize, i32> {
        let mut from = local.unwrap_or(SocketAddr::new(to.ip(), 0));
        if from.port() == 0 {
            self.choose_port(Kind::Connection, &mut from)
                .ok_or(libc::EADDRNOTAVAIL)?;
        }
        let mut present = self.ends.iter().filter(|end| !end.gone && end.local == from);
        if present
            .any(|end| end.kind == Kind::Listener || end.kind == Kind::Connection && end.peer == Some(to))
        {
            return Err(libc::EADDRINUSE);
        }
        let opener = self.add_end(Kind::Connection, from, Some(to));
        self.depart(Travel::Open { opener, from, to });
        Ok(opener)
    }

    /// Sends as much as the window has room for; the error is an errno value.
    pub(super) fn send_stream(&mut self, number: usize, mut bytes: &[u8]) -> Result<usize, i32> {
        let from = &mut self.ends[number];
        if from.ended {
            return Err(libc::EPIPE);
        }
        bytes = &bytes[..bytes.len().min(WINDOW - from.outstanding)];
        if bytes.is_empty() {
            from.blocked = true;
            return Err(libc::EAGAIN);
        }
        from.outstanding += bytes.len();
        let (other, sent) = (from.other, bytes.len());
        while let Some(other) = other
            && !bytes.is_empty()
        {
            let length = self.random.usize(1..=bytes.len().min(LONGEST_SEGMENT));
            let (segment, rest) = bytes.split_at(length);
            self.depart(Travel::Event(other, EndEvent::Bytes(segment.into())));
            bytes = rest;
        }
        Ok(sent)
    }

    /// Ends one side of a connection.
    pub(super) fn end_stream(&mut self, number: usize) {
        let from = &mut self.ends[number];
        if !std::mem::replace(&mut from.ended, true)
            && let Some(other) = from.other
        {
            self.depart(Travel::Event(other, EndEvent::Ended));
        }
    }

    /// Closes an end. A connection is reset if `reset` is set or bytes are unread. The address becomes free when the
    /// last member of a group is closed.
    pub(super) fn close(&mut self, number: usize, reset: bool) {
        let end = &mut self.ends[number];
        if end.gone {
            return;
        }
        (end.gone, end.watcher) = (true, None);
        let (key, other) = ((end.kind, end.local), end.other);
        let mut unread = false;
        for event in std::mem::take(&mut end.events) {
            match event {
                EndEvent::Accepted(waiting, _) => self.close(waiting, true),
                EndEvent::Bytes(_) => unread = true,
                _ => {}
            }
        }
        if let Some(group) = self.bound.get_mut(&key) {
            let members = group.members.iter_mut();
            members
                .filter(|member| **member == number)
                .for_each(|member| *member = GONE);
            if group.members.iter().all(|member| *member == GONE) {
                self.bound.remove(&key);
            }
        }
        match other {
            Some(other) if reset || unread => self.depart(Travel::Event(other, EndEvent::Reset)),
            Some(_) => self.end_stream(number),
            None => {}
        }
    }

    /// Delivers every message that is due.
    pub(super) fn settle(&mut self) {
        while let Some(next) = self.travelling.first_entry()
            && next.key().0 <= self.now
        {
            match next.remove() {
                Travel::Datagram(datagram) => self.arrive(datagram),
                Travel::Open { opener, from, to } => self.open(opener, from, to),
                Travel::Opened { opener, by } if self.ends[opener].gone => {
                    self.depart(Travel::Event(by, EndEvent::Reset));
                }
                Travel::Opened { opener, by } => {
                    self.ends[opener].other = Some(by);
                    self.add_event(opener, EndEvent::Opened);
                }
                Travel::Event(end, event) => self.arrive_at_end(end, event),
                Travel::Read(end, bytes) => {
                    let end_state = &mut self.ends[end];
                    end_state.outstanding -= bytes;
                    // Once per half window: for every byte read, segments would become ever smaller (RFC 813).
                    if end_state.blocked && WINDOW - end_state.outstanding >= WINDOW / 2 {
                        end_state.blocked = false;
                        end_state.events.push_front(EndEvent::Writable);
                        self.list(end);
                    }
                }
            }
        }
    }

    fn arrive(&mut self, datagram: InTransit) {
        let InTransit { from, to, .. } = datagram;
        let member = self.member(Kind::Datagrams, from, to);
        let admits = |member: &usize| self.ends[*member].peer.is_none_or(|peer| peer == from);
        let Some(member) = member.filter(admits) else {
            self.counters.no_socket += 1;
            // A sender connected to the address is notified.
            let senders = self.bound.get(&(Kind::Datagrams, from));
            let mut senders = senders.iter().flat_map(|group| &group.members);
            let connected = |sender: &&usize| self.ends.get(**sender).is_some_and(|end| end.peer == Some(to));
            if let Some(sender) = senders.find(connected).copied() {
                self.depart(Travel::Event(sender, EndEvent::PortClosed));
            }
            return;
        };
        if self.ends[member].events.len() >= self.settings.socket_queue {
            self.counters.overflowed += 1;
            return;
        }
        self.counters.delivered += 1;
        self.add_event(member, EndEvent::Datagram(datagram));
    }

    /// A connection attempt arrives at an address.
    fn open(&mut self, opener: usize, from: SocketAddr, to: SocketAddr) {
        let Some(listener) = self.member(Kind::Listener, from, to) else {
            return self.depart(Travel::Event(opener, EndEvent::Refused));
        };
        let by = self.add_end(Kind::Connection, to, Some(from));
        self.ends[by].other = Some(opener);
        self.add_event(listener, EndEvent::Accepted(by, from));
        self.depart(Travel::Opened { opener, by });
    }

    fn arrive_at_end(&mut self, number: usize, event: EndEvent) {
        let end = &mut self.ends[number];
        match (&event, end.other) {
            // The sender to a closed end is notified.
            (EndEvent::Bytes(_), Some(other)) if end.gone => {
                self.depart(Travel::Event(other, EndEvent::Reset));
            }
            _ if end.gone => {}
            _ => {
                end.ended |= matches!(event, EndEvent::Reset);
                self.add_event(number, event);
            }
        }
    }

    fn add_event(&mut self, number: usize, event: EndEvent) {
        self.ends[number].events.push_back(event);
        self.list(number);
    }

    /// Delivers an end's events to a seat from now on; received data only while `receiving` is set.
    pub(super) fn watch(&mut self, number: usize, watcher: (usize, Id), receiving: bool) {
        let watched = &mut self.ends[number];
        (watched.watcher, watched.receiving) = (Some(watcher), receiving);
        self.list(number);
    }

    /// Puts an end with events into the ready list of the seat that watches it.
    fn list(&mut self, number: usize) {
        let end = &mut self.ends[number];
        if let Some((place, id)) = end.watcher
            && end.next_event().is_some()
            && !std::mem::replace(&mut end.listed, true)
        {
            self.seats[place].ready[usize::from(id.is_stream())].push_back(number);
        }
    }

    /// Takes the next events of one of a seat's ends, at most `most`; of bytes at most `most_bytes`.
    pub(super) fn take(
        &mut self,
        place: usize,
        of_streams: bool,
        most: usize,
        most_bytes: usize,
    ) -> Option<(Id, Vec<EndEvent>)> {
        while let Some(number) = self.seats[place].ready[usize::from(of_streams)].pop_front() {
            let end = &mut self.ends[number];
            end.listed = false;
            let Some((_, id)) = end.watcher.filter(|(watched_by, _)| *watched_by == place) else {
                continue;
            };
            let events = std::iter::from_fn(|| end.take_event(most_bytes));
            let taken: Vec<EndEvent> = events.take(most).collect();
            if let ([EndEvent::Bytes(bytes)], Some(other)) = (&taken[..], end.other) {
                self.depart(Travel::Read(other, bytes.len()));
            }
            self.list(number);
            if !taken.is_empty() {
                return Some((id, taken));
            }
        }
        None
    }
}
