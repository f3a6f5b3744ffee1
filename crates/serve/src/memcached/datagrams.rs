//! Requests and answers in datagrams. Those of one event are parsed in groups, so that index and items of one are loaded while the one
//! before is executed.
//!
//! A datagram is answered whole or not at all, and each that is not is counted by its cause.

use super::counters::Events;
use super::exchange::{Client, Exchange};
use super::frames::{Answer, most};
use super::plan::MemcachedPlan;
use super::session::{Context, Session};
use super::stats;
use super::trains::{Asked, Train, send};
use super::units::{self, Unit, has_key};
use super::worker::Worker;
use crate::reflection::{UNANSWERED_PORTS, is_local};
use corelane_proto::memcached::commands::Output;
use corelane_proto::memcached::request::{Data, Event, Parser, Request};
use corelane_proto::memcached::udp;
use corelane_worker::engine::{self, Datagram, Id, Ops};
use std::net::SocketAddr;

/// Requests that wait for other workers.
const MOST_PENDING: usize = 4_096;

/// Bytes of their answers so far, of all.
const MOST_HELD: usize = 16 << 20;

/// Datagrams whose parts of the index and whose items are loaded together.
const GROUP: usize = 16;

/// The datagrams of one worker.
pub(super) struct Datagrams {
    /// It receives on all addresses, and answers those of local networks only.
    is_wildcard: bool,
    /// The own ones.
    ports: Vec<u16>,
    train: Train,
    pending: Vec<Pending>,
    /// Places in `pending` that are not in use.
    free: Vec<u32>,
    /// Bytes of the answers that are pending.
    held: usize,
    /// How many of them are counted in the budget of the worker.
    accounted: usize,
}

/// A request that other workers have not answered.
#[derive(Default)]
struct Pending {
    /// How often the place was used before.
    used: u32,
    request: Option<(Asked, Session)>,
    /// The answer so far.
    answer: Answer,
}

/// A request whose first unit is parsed.
struct Begun<'a> {
    asked: Asked,
    /// Bytes of its answer, at most.
    most: usize,
    text: &'a [u8],
    /// Its next unit.
    next: Option<Unit<'a>>,
    /// The parser behind that, and where that is.
    parser: Parser,
    at: usize,
}

/// Requests that are loaded together.
struct Group<'a> {
    requests: [Option<Begun<'a>>; GROUP],
    count: usize,
}

/// Why a request is not answered.
#[derive(Debug, Clone, Copy)]
enum Unanswered {
    /// It is cut, or no request.
    Refused,
    /// There is no room for what other workers have to do, or for their answers.
    Overloaded,
    /// The answer has too many bytes.
    TooLarge,
}

impl Datagrams {
    /// Those received at these addresses, whose ports are never answered.
    pub(super) fn new(plan: &MemcachedPlan, addresses: &[SocketAddr]) -> Self {
        Self {
            is_wildcard: plan.needs_destinations(),
            ports: addresses.iter().map(SocketAddr::port).collect(),
            train: Train::default(),
            pending: Vec::new(),
            free: Vec::new(),
            held: 0,
            accounted: 0,
        }
    }

    /// Counts what is pending in the budget of the worker.
    #[inline]
    pub(super) fn account(&mut self, exchange: &mut Exchange) {
        if self.held != self.accounted {
            exchange.budget.hold(self.accounted as u64, self.held as u64);
            self.accounted = self.held;
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
        let (mut ahead, mut current) = (&mut Group::new(), &mut Group::new());
        let mut datagrams = datagrams;
        loop {
            std::mem::swap(&mut ahead, &mut current);
            current.load_items(worker);
            self.begin(ahead, socket, &mut datagrams, worker);
            if current.count == 0 && ahead.count == 0 {
                break;
            }
            for begun in current.requests[..current.count].iter_mut().flatten() {
                self.serve(ops, begun, worker, exchange);
            }
            current.count = 0;
        }
        self.train.send(ops);
    }

    /// Parses the next datagrams and begins to load their parts of the index.
    fn begin<'a>(
        &self,
        group: &mut Group<'a>,
        socket: Id,
        datagrams: &mut engine::Datagrams<'a>,
        worker: &mut Worker,
    ) {
        while group.count < GROUP
            && let Some(datagram) = datagrams.next()
        {
            match udp::request(datagram.payload) {
                Ok((number, text)) if is_request(text) && self.admits(&datagram) => {
                    let from = datagram.head();
                    let (mut parser, mut at) = (Parser::new(), 0);
                    group.add(Begun {
                        asked: Asked { socket, from, number },
                        most: most(from.peer.ip(), datagram.payload.len()),
                        text,
                        next: units::next(&mut parser, text, &mut at, worker),
                        parser,
                        at,
                    });
                }
                _ => worker.events.datagrams_refused += 1,
            }
        }
        group.load_index(worker);
    }

    #[inline]
    fn admits(&self, datagram: &Datagram<'_>) -> bool {
        let port = datagram.peer.port();
        !datagram.broadcast
            && !datagram.truncated
            && !UNANSWERED_PORTS.contains(&port)
            && !self.ports.contains(&port)
            && (!self.is_wildcard || is_local(datagram.peer.ip()) && datagram.destination.is_some())
    }

    /// Executes the requests of a datagram, and sends the answer or keeps it until other workers have answered.
    fn serve(&mut self, ops: &mut Ops, begun: &mut Begun<'_>, worker: &mut Worker, exchange: &mut Exchange) {
        let (asked, most) = (begun.asked, begun.most);
        worker.events.datagrams += 1;
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
        let mut session = Session::default();
        let answer = self.train.begin(ops, asked, most);
        let executed = begun.execute(&mut session, &mut context, answer, place < MOST_PENDING);
        if executed.is_ok() && session.is_answered() {
            return self.train.add(asked.number);
        }
        let kept = executed.and_then(|()| self.keep(place, (asked, session), most));
        self.train.withdraw();
        if let Err(unanswered) = kept {
            unanswered.count(asked, &mut context.worker.events);
            self.abandon(place);
        }
    }

    /// Keeps a request until other workers have answered.
    #[cold]
    fn keep(
        &mut self,
        place: usize,
        (asked, mut session): (Asked, Session),
        most: usize,
    ) -> Result<(), Unanswered> {
        let answer = self.train.answer().bytes();
        let held = self.held + answer.len() + session.order().map_or(0, |order| order.held());
        if held > MOST_HELD {
            return Err(Unanswered::Overloaded);
        }
        self.held = held;
        if place == self.pending.len() {
            self.pending.push(Pending::default());
        } else {
            self.free.pop();
        }
        let pending = &mut self.pending[place];
        pending.answer.begin(most);
        pending.answer.put(answer);
        pending.request = Some((asked, session));
        Ok(())
    }

    /// Does not keep a request in the next place: what others were asked for it is not taken for an answer to the next one there.
    #[cold]
    fn abandon(&mut self, place: usize) {
        if place == MOST_PENDING {
            return;
        }
        if place == self.pending.len() {
            self.pending.push(Pending::default());
            self.free.push(place as u32);
        }
        let used = &mut self.pending[place].used;
        *used = used.wrapping_add(1);
    }

    /// Takes a part of an answer of another worker, or its end; sends what is complete.
    pub(super) fn answered(
        &mut self,
        ops: &mut Ops,
        (place, used): (u32, u32),
        entry: u32,
        part: (&[u8], bool),
        worker: &mut Worker,
    ) {
        let pending = self.pending.get_mut(place as usize);
        let Some(pending) = pending.filter(|pending| pending.used == used) else {
            return;
        };
        let Some((asked, mut session)) = pending.request.take() else {
            return;
        };
        let Some(order) = session.order() else { return };
        self.held -= pending.answer.bytes().len() + order.held();
        let length = part.0.len();
        let mut taken = Ok(());
        if pending.answer.exceeds(order.waiting() + length) {
            taken = Err(Unanswered::TooLarge);
        } else if self.held + pending.answer.bytes().len() + order.held() + length > MOST_HELD {
            taken = Err(Unanswered::Overloaded);
        } else {
            order.answered(entry, part, &mut pending.answer, |stats, out| {
                stats::put(stats, worker, out);
            });
            if pending.answer.exceeds(order.waiting()) {
                taken = Err(Unanswered::TooLarge);
            }
        }
        match taken {
            Ok(()) if !order.is_empty() => {
                self.held += pending.answer.bytes().len() + order.held();
                pending.request = Some((asked, session));
                return;
            }
            Ok(()) => send(ops, asked, pending.answer.bytes()),
            Err(unanswered) => unanswered.count(asked, &mut worker.events),
        }
        pending.used = pending.used.wrapping_add(1);
        pending.answer.begin(0);
        self.free.push(place);
    }
}

impl Unanswered {
    fn count(self, asked: Asked, events: &mut Events) {
        let counted = match self {
            Self::Refused => &mut events.datagrams_refused,
            Self::Overloaded => &mut events.datagrams_overloaded,
            Self::TooLarge if is_local(asked.from.peer.ip()) => &mut events.datagrams_too_large,
            Self::TooLarge => &mut events.datagrams_withheld,
        };
        *counted += 1;
    }
}

/// Whether a text may be a request. Answers begin with a capital letter or a digit, requests do not: two servers would answer each
/// other for ever.
fn is_request(text: &[u8]) -> bool {
    (text.first()).is_some_and(|first| !first.is_ascii_uppercase() && !first.is_ascii_digit())
}

impl<'a> Group<'a> {
    const fn new() -> Self {
        Self {
            requests: [const { None }; GROUP],
            count: 0,
        }
    }

    fn add(&mut self, begun: Begun<'a>) {
        self.requests[self.count] = Some(begun);
        self.count += 1;
    }

    /// The hashes of its keys, if loads can overlap.
    fn hashes(&self) -> impl Iterator<Item = u64> {
        let alone = self.count == 1;
        let units = self.requests[..self.count].iter().flatten();
        let units = units.filter_map(move |begun| begun.next.as_ref().filter(|_| !alone));
        units.filter(|unit| has_key(&unit.event)).map(|unit| unit.hash)
    }

    /// Begins to load their parts of the index. Loads of different pages overlap only if little else is done between them.
    fn load_index(&self, worker: &Worker) {
        self.hashes().for_each(|hash| worker.prefetch(hash));
    }

    /// Begins to load their items.
    fn load_items(&self, worker: &Worker) {
        self.hashes().for_each(|hash| worker.prefetch_item(hash));
    }
}

impl Begun<'_> {
    /// Executes its units, or the first of them if it is not answered. If it has no place, other workers cannot be asked.
    fn execute(
        &mut self,
        session: &mut Session,
        context: &mut Context<'_>,
        answer: &mut Answer,
        has_place: bool,
    ) -> Result<(), Unanswered> {
        while let Some(unit) = &self.next {
            if matches!(&unit.event, Event::Request(Request::Store(store)) if store.data == Data::Later) {
                return Err(Unanswered::Refused);
            }
            if !has_room(unit, context, has_place) {
                return Err(Unanswered::Overloaded);
            }
            let bytes = &self.text[unit.start..unit.end];
            let executed = session.execute(unit, bytes, context, answer);
            executed.map_err(|_| Unanswered::Overloaded)?;
            if answer.exceeds(session.waiting()) {
                return Err(Unanswered::TooLarge);
            }
            if session.closing || self.at == self.text.len() {
                break;
            }
            self.next = units::next(&mut self.parser, self.text, &mut self.at, context.worker);
        }
        Ok(())
    }
}

/// Whether other workers can be asked, if the unit needs them. What all of them are asked is not refused by their mailboxes, so
/// that a flood of it would wait in memory.
#[inline]
fn has_room(unit: &Unit<'_>, context: &Context<'_>, has_place: bool) -> bool {
    match &unit.event {
        Event::Request(_) => has_place || context.worker.owner(unit.hash) == context.worker.index,
        Event::Control(_) => has_place && !context.exchange.waits(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::super::shared::Shared;
    use super::*;
    use std::sync::Arc;

    #[test]
    fn answers_that_are_pending_count_in_the_budget_of_the_worker() {
        let plan = MemcachedPlan::of_workers(1);
        let mut exchange = Exchange::all(&Arc::new(Shared::new(&plan))).remove(0);
        let mut datagrams = Datagrams::new(&plan, &[]);
        for held in [1 << 30, 0] {
            datagrams.held = held;
            datagrams.account(&mut exchange);
            assert_eq!(exchange.budget.is_spent(), held > 0);
        }
    }
}
