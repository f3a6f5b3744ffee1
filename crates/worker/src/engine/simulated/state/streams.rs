//! TCP inside a simulated network: listeners, ends of connections, and what travels between them.
//!
//! A connection loses nothing and keeps its order. Its bytes arrive cut into segments of any length, drawn from the seed;
//! what an end has not read holds back what the other may send, as a receive window does.

use super::{Destination, Payload, State, Steer};
use crate::engine::id::Id;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::net::SocketAddr;

/// Bytes that an end may have sent and the other not have read: Linux's first receive window on Ethernet, nearly.
const WINDOW: usize = 65_536;

/// The longest segment: what a frame of 1,500 bytes carries.
const LONGEST_SEGMENT: usize = 1_448;

/// Listeners and ends of connections. Numbers are not reused, so that runs do not depend on when one is dropped.
#[derive(Debug, Default)]
pub(in crate::engine::simulated) struct Streams {
    ends: Vec<End>,
    listeners: BTreeMap<SocketAddr, Listeners>,
}

struct Listeners {
    members: Vec<usize>,
    steer: Steer,
}

impl fmt::Debug for Listeners {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.members.fmt(formatter)
    }
}

/// One end of a connection, or a listener.
#[derive(Debug)]
struct End {
    local: SocketAddr,
    peer: SocketAddr,
    other: Option<usize>,
    /// Not told yet.
    news: VecDeque<StreamEvent>,
    /// Sent and not read by the other end.
    outstanding: usize,
    /// Found no room to send.
    blocked: bool,
    /// Has ended its side, or was reset: nothing more can be sent.
    ended: bool,
    gone: bool,
    watcher: Option<(usize, Id)>,
    receiving: bool,
    listed: bool,
}

/// What happened to an end.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::engine::simulated) enum StreamEvent {
    /// It is open.
    Opened,
    /// Nobody listens there.
    Refused,
    /// A connection came to a listener: its end, and from where.
    Accepted(usize, SocketAddr),
    Bytes(Payload),
    /// The other end sends nothing more.
    Ended,
    Reset,
    /// There is room to send again.
    Room,
}

/// What travels to an end, or to a listener's address.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::engine::simulated) enum Segment {
    Open { from: usize },
    Opened { by: usize },
    Refused,
    Bytes(Payload),
    Ended,
    Reset,
    Read(usize),
}

impl State {
    /// Listeners that share an address, as sockets of a group do.
    pub(in crate::engine::simulated) fn listen(
        &mut self,
        mut address: SocketAddr,
        buckets: usize,
        steer: Steer,
    ) -> io::Result<Vec<usize>> {
        if address.port() == 0 {
            address.set_port(self.free_stream_port(address)?);
        }
        if self.streams.listeners.contains_key(&address) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let members: Vec<usize> = (0..buckets).map(|_| self.add_end(address, address)).collect();
        let listeners = Listeners {
            members: members.clone(),
            steer,
        };
        self.streams.listeners.insert(address, listeners);
        Ok(members)
    }

    fn free_stream_port(&mut self, mut address: SocketAddr) -> io::Result<u16> {
        for _ in 0..u16::MAX {
            let port = self.draw_port();
            address.set_port(port);
            let used = self
                .streams
                .ends
                .iter()
                .any(|end| !end.gone && end.local == address);
            if !used {
                return Ok(port);
            }
        }
        Err(io::ErrorKind::AddrInUse.into())
    }

    fn add_end(&mut self, local: SocketAddr, peer: SocketAddr) -> usize {
        self.streams.ends.push(End {
            local,
            peer,
            other: None,
            news: VecDeque::new(),
            outstanding: 0,
            blocked: false,
            ended: false,
            gone: false,
            watcher: None,
            receiving: true,
            listed: false,
        });
        self.streams.ends.len() - 1
    }

    pub(in crate::engine::simulated) fn local_of_end(&self, end: usize) -> SocketAddr {
        self.streams.ends[end].local
    }

    /// Begins to open a connection; an error is an error number.
    pub(in crate::engine::simulated) fn connect(
        &mut self,
        to: SocketAddr,
        local: Option<SocketAddr>,
    ) -> Result<usize, i32> {
        let mut local = local.unwrap_or_else(|| {
            let mut any = to;
            any.set_port(0);
            any
        });
        if local.port() == 0 {
            let port = self.free_stream_port(local).map_err(|_| libc::EADDRNOTAVAIL)?;
            local.set_port(port);
        }
        let ends = self.streams.ends.iter();
        let mut taken = ends.filter(|end| !end.gone && end.local == local);
        if taken.any(|end| end.peer == to || end.peer == end.local) {
            return Err(libc::EADDRINUSE);
        }
        let end = self.add_end(local, to);
        self.depart_segment(local, Destination::Listener(to, Segment::Open { from: end }));
        Ok(end)
    }

    /// Sends as much as there is room for; an error is an error number.
    pub(in crate::engine::simulated) fn send_stream(
        &mut self,
        end: usize,
        mut bytes: &[u8],
    ) -> Result<usize, i32> {
        let from = &mut self.streams.ends[end];
        if from.ended {
            return Err(libc::EPIPE);
        }
        let room = WINDOW - from.outstanding;
        bytes = &bytes[..bytes.len().min(room)];
        if bytes.is_empty() {
            from.blocked = true;
            return Err(libc::EAGAIN);
        }
        from.outstanding += bytes.len();
        let (local, other, sent) = (from.local, from.other, bytes.len());
        while let Some(other) = other
            && !bytes.is_empty()
        {
            let most = bytes.len().min(LONGEST_SEGMENT);
            let length = 1 + self.draw_below(most);
            let (segment, rest) = bytes.split_at(length);
            self.depart_segment(local, Destination::End(other, Segment::Bytes(segment.into())));
            bytes = rest;
        }
        Ok(sent)
    }

    /// Ends one side.
    pub(in crate::engine::simulated) fn end_stream(&mut self, end: usize) {
        let from = &mut self.streams.ends[end];
        if std::mem::replace(&mut from.ended, true) {
            return;
        }
        let (local, other) = (from.local, from.other);
        if let Some(other) = other {
            self.depart_segment(local, Destination::End(other, Segment::Ended));
        }
    }

    /// Closes an end; with a reset if that was asked, or if bytes are left unread.
    pub(in crate::engine::simulated) fn close_stream(&mut self, end: usize, reset: bool) {
        let from = &mut self.streams.ends[end];
        if from.gone {
            return;
        }
        let unread = from.news.iter().any(|news| matches!(news, StreamEvent::Bytes(_)));
        let waiting: Vec<usize> = (from.news.iter())
            .filter_map(|news| match news {
                StreamEvent::Accepted(end, _) => Some(*end),
                _ => None,
            })
            .collect();
        (from.gone, from.watcher) = (true, None);
        from.news.clear();
        let (local, other, listens) = (from.local, from.other, from.peer == from.local);
        waiting.into_iter().for_each(|end| self.close_stream(end, true));
        if listens && let Some(listeners) = self.streams.listeners.get_mut(&local) {
            // A number that is no listener's keeps the others' places, unlike Linux, where the last member moves.
            for member in listeners.members.iter_mut().filter(|member| **member == end) {
                *member = usize::MAX;
            }
            if listeners.members.iter().all(|member| *member == usize::MAX) {
                self.streams.listeners.remove(&local);
            }
        }
        match other {
            Some(other) if reset || unread => {
                self.depart_segment(local, Destination::End(other, Segment::Reset));
            }
            Some(_) => self.end_stream(end),
            None => {}
        }
    }

    fn depart_segment(&mut self, from: SocketAddr, to: Destination) {
        let delay = self.delay();
        self.depart(delay, from, to);
    }

    /// A segment arrives at an address that may be listened on.
    pub(in crate::engine::simulated) fn arrive_at_listener(
        &mut self,
        from: SocketAddr,
        to: SocketAddr,
        segment: Segment,
    ) {
        let Segment::Open { from: opener } = segment else {
            return;
        };
        let member = self.streams.listeners.get(&to).and_then(|listeners| {
            let member = *listeners.members.get((listeners.steer)(from, to))?;
            (member != usize::MAX).then_some(member)
        });
        let Some(listener) = member else {
            return self.depart_segment(to, Destination::End(opener, Segment::Refused));
        };
        let end = self.add_end(to, from);
        self.streams.ends[end].other = Some(opener);
        self.streams.ends[listener]
            .news
            .push_back(StreamEvent::Accepted(end, from));
        self.list_end(listener);
        self.depart_segment(to, Destination::End(opener, Segment::Opened { by: end }));
    }

    /// A segment arrives at an end.
    pub(in crate::engine::simulated) fn arrive_at_end(&mut self, end: usize, segment: Segment) {
        let to = &mut self.streams.ends[end];
        if to.gone {
            let (local, other) = (to.local, to.other);
            // Whoever still sends to an end that is gone is told so.
            match segment {
                Segment::Bytes(_) if other.is_some() => {
                    let other = other.unwrap_or_default();
                    self.depart_segment(local, Destination::End(other, Segment::Reset));
                }
                Segment::Opened { by } => self.depart_segment(local, Destination::End(by, Segment::Reset)),
                _ => {}
            }
            return;
        }
        match segment {
            Segment::Opened { by } => {
                to.other = Some(by);
                to.news.push_back(StreamEvent::Opened);
            }
            Segment::Refused => to.news.push_back(StreamEvent::Refused),
            Segment::Bytes(bytes) => to.news.push_back(StreamEvent::Bytes(bytes)),
            Segment::Ended => to.news.push_back(StreamEvent::Ended),
            Segment::Reset => {
                to.ended = true;
                to.news.push_back(StreamEvent::Reset);
            }
            Segment::Read(bytes) => {
                to.outstanding -= bytes;
                // Told for half a window at once: for every byte read, segments would become ever smaller (RFC 813).
                if to.blocked && WINDOW - to.outstanding >= WINDOW / 2 {
                    to.blocked = false;
                    to.news.push_front(StreamEvent::Room);
                }
            }
            Segment::Open { .. } => {}
        }
        self.list_end(end);
    }

    /// Has a seat told of an end's news from now on; of bytes and ends only as long as it receives.
    pub(in crate::engine::simulated) fn watch_end(
        &mut self,
        end: usize,
        watcher: (usize, Id),
        receiving: bool,
    ) {
        let watched = &mut self.streams.ends[end];
        (watched.watcher, watched.receiving) = (Some(watcher), receiving);
        self.list_end(end);
    }

    /// Puts an end with news into the list of the seat that watches it.
    fn list_end(&mut self, number: usize) {
        let end = &mut self.streams.ends[number];
        let wanted = end.next_stream_event().is_some();
        if let Some((place, _)) = end.watcher
            && wanted
            && !end.listed
        {
            end.listed = true;
            self.seat(place).ready_ends.push_back(number);
        }
    }

    /// The next news for a seat, and of which of its streams.
    pub(in crate::engine::simulated) fn next_stream_event(
        &mut self,
        place: usize,
        most_bytes: usize,
    ) -> Option<(Id, StreamEvent)> {
        while let Some(number) = self.seat(place).ready_ends.pop_front() {
            let end = &mut self.streams.ends[number];
            end.listed = false;
            let Some((_, id)) = end.watcher.filter(|(watched_by, _)| *watched_by == place) else {
                continue;
            };
            let Some(news) = end.take_news(most_bytes) else {
                continue;
            };
            if let (StreamEvent::Bytes(bytes), Some(other)) = (&news, end.other) {
                let (local, read) = (end.local, bytes.len());
                self.depart_segment(local, Destination::End(other, Segment::Read(read)));
            }
            self.list_end(number);
            return Some((id, news));
        }
        None
    }
}

impl End {
    /// Where the next news is that may be told.
    fn next_stream_event(&self) -> Option<usize> {
        let held = |news: &StreamEvent| {
            !self.receiving && matches!(news, StreamEvent::Bytes(_) | StreamEvent::Ended)
        };
        self.news.iter().position(|news| !held(news))
    }

    /// Takes the next news; of bytes as much as is asked for.
    fn take_news(&mut self, most_bytes: usize) -> Option<StreamEvent> {
        let news = self.news.remove(self.next_stream_event()?)?;
        Some(match news {
            StreamEvent::Bytes(bytes) if bytes.len() > most_bytes => {
                let (first, rest) = bytes.split_at(most_bytes);
                self.news.push_front(StreamEvent::Bytes(rest.into()));
                StreamEvent::Bytes(first.into())
            }
            news => news,
        })
    }
}
