//! Requests and answers in datagrams. All of one event are parsed first, so that index and items are loaded meanwhile.

use super::exchange::{Client, Exchange};
use super::order::Order;
use super::plan::MemcachedPlan;
use super::session::{Context, Session};
use super::stats;
use super::units;
use super::worker::Worker;
use crate::reflection::{UNANSWERED_PORTS, is_local};
use corelane_proto::memcached::request::{Data, Event, Parser, Request};
use corelane_proto::memcached::udp::{self, HEADER_BYTES};
use corelane_worker::engine::{self, Datagram, Id, Ops};

/// Requests that wait for other workers; one more is dropped.
const MOST_PENDING: usize = 4_096;

/// The datagrams of one worker.
pub(super) struct Datagrams {
    /// It receives on all addresses, and answers those of local networks only.
    is_wildcard: bool,
    ports: Vec<u16>,
    /// The hashes of the first keys of an event's datagrams.
    hashes: Vec<u64>,
    answer: Vec<u8>,
    pending: Vec<Pending>,
    /// Places in `pending` that are not in use.
    free: Vec<u32>,
}

/// A request that other workers have not answered.
struct Pending {
    /// How often the place was used before.
    used: u32,
    request: Option<(Asked, Session)>,
    /// The answer so far.
    answer: Vec<u8>,
}

/// Who asked.
#[derive(Clone, Copy)]
struct Asked {
    socket: Id,
    from: Datagram<'static>,
    number: u16,
}

impl Datagrams {
    pub(super) fn new(plan: &MemcachedPlan) -> Self {
        Self {
            is_wildcard: plan.needs_destinations(),
            ports: plan.udp.iter().map(|address| address.port()).collect(),
            hashes: Vec::new(),
            answer: Vec::new(),
            pending: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Executes the requests of an event.
    pub(super) fn receive(
        &mut self,
        ops: &mut Ops,
        socket: Id,
        datagrams: engine::Datagrams<'_>,
        worker: &mut Worker,
        exchange: &mut Exchange,
    ) {
        self.hashes.clear();
        for datagram in datagrams.clone() {
            if let Ok((_, text)) = udp::request(datagram.payload)
                && let Some(unit) = units::next(&mut Parser::new(), text, &mut 0, worker)
            {
                worker.prefetch(unit.hash);
                self.hashes.push(unit.hash);
            }
        }
        if self.hashes.len() > 1 {
            self.hashes.iter().for_each(|hash| worker.prefetch_item(*hash));
        }
        for datagram in datagrams {
            match udp::request(datagram.payload) {
                Ok((number, text)) if self.admits(&datagram) => {
                    let from = datagram.head();
                    let asked = Asked { socket, from, number };
                    self.serve(ops, asked, text, worker, exchange);
                }
                _ => worker.events.datagrams_refused += 1,
            }
        }
    }

    #[inline]
    fn admits(&self, datagram: &Datagram<'_>) -> bool {
        let port = datagram.peer.port();
        !datagram.broadcast
            && !datagram.truncated
            && !UNANSWERED_PORTS.contains(&port)
            && !self.ports.contains(&port)
            && (!self.is_wildcard || is_local(datagram.peer.ip()))
    }

    fn serve(
        &mut self,
        ops: &mut Ops,
        asked: Asked,
        text: &[u8],
        worker: &mut Worker,
        exchange: &mut Exchange,
    ) {
        worker.events.datagrams += 1;
        self.answer.clear();
        let place = self
            .free
            .last()
            .map_or(self.pending.len(), |place| *place as usize);
        let used = self.pending.get(place).map_or(0, |pending| pending.used);
        let mut context = Context {
            worker,
            exchange,
            client: Client::Datagram(place as u32, used),
        };
        let (mut parser, mut session, mut at) = (Parser::new(), Session::default(), 0);
        while !session.closing {
            let Some(unit) = units::next(&mut parser, text, &mut at, context.worker) else {
                break;
            };
            let is_cut =
                matches!(&unit.event, Event::Request(Request::Store(store)) if store.data == Data::Later);
            let bytes = &text[unit.start..unit.end];
            if is_cut
                || session
                    .execute(&unit, bytes, &mut context, &mut self.answer)
                    .is_err()
            {
                context.worker.events.datagrams_refused += 1;
                break;
            }
        }
        if session.is_answered() {
            send(ops, asked, &self.answer);
        } else {
            self.keep(place, asked, session);
        }
    }

    /// Keeps a request until other workers have answered.
    #[cold]
    fn keep(&mut self, place: usize, asked: Asked, session: Session) {
        if place == self.pending.len() {
            if place == MOST_PENDING {
                return;
            }
            self.pending.push(Pending {
                used: 0,
                request: None,
                answer: Vec::new(),
            });
        } else {
            self.free.pop();
        }
        let pending = &mut self.pending[place];
        std::mem::swap(&mut pending.answer, &mut self.answer);
        pending.request = Some((asked, session));
    }

    /// Takes a part of an answer of another worker, or its end; sends what is complete.
    pub(super) fn answered(
        &mut self,
        ops: &mut Ops,
        (place, used): (u32, u32),
        entry: u32,
        part: (&[u8], bool),
        worker: &Worker,
    ) {
        let pending = self.pending.get_mut(place as usize);
        let Some(pending) = pending.filter(|pending| pending.used == used) else {
            return;
        };
        let Some((asked, session)) = &mut pending.request else {
            return;
        };
        if let Some(order) = session.order() {
            Order::answered(order, entry, part, &mut pending.answer, |stats, out| {
                stats::put(stats, worker, out);
            });
        }
        if session.is_answered() {
            send(ops, *asked, &pending.answer);
            pending.request = None;
            pending.used = pending.used.wrapping_add(1);
            pending.answer.clear();
            self.free.push(place);
        }
    }
}

/// Sends an answer. What the engine has no room for is lost, as datagrams may be.
fn send(ops: &mut Ops, asked: Asked, answer: &[u8]) {
    let Asked { socket, from, number } = asked;
    for (header, part) in udp::datagrams(number, answer) {
        let length = HEADER_BYTES + part.len();
        let sent = ops.send_from(socket, from.destination, Some(from.peer), length, |room| {
            let (head, rest) = room.split_at_mut(HEADER_BYTES);
            head.copy_from_slice(&header.bytes());
            rest.copy_from_slice(part);
        });
        if sent.is_err() {
            return;
        }
    }
}
